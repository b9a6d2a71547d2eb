"""Partial matches: how they are made, continued, fired and given up."""

from __future__ import annotations

import numpy as np

from situ.core.time import END
from situ.kernel.arrays import (
    EARLIEST,
    FIRED_USED,
    FREE,
    I64,
    KIND,
    LENGTH,
    LIVE,
    NODES_USED,
    ONCE,
    REPORTS_TIMED_OUT,
    RUNS_USED,
    SHARDS,
    SILENCES,
    Code,
    CompletedMatch,
    Events,
    Fired,
    NewEvents,
    OfferedEvent,
    PartialMatch,
    Pools,
)
from situ.kernel.matching.machine import inlined, jit
from situ.kernel.prefetch import AHEAD, NEXT_AHEAD, prefetch

DONE, RUNS_FULL, NODES_FULL, FIRED_FULL, SILENCES_FULL = range(5)
THEN, EACH, IMMEDIATELY, SILENCE = range(4)
FROM_FIRST, FROM_PREVIOUS, FROM_ALIAS = 1, 2, 3
ONE = np.uint64(1)
NONE = np.uint64(0)
#: So few partial matches of a group are not looked through for those that are over.
FEW = 16


@inlined
def ask_ahead(at: int, new: NewEvents, pools: Pools) -> None:
    """Ask for what later events of a shard will need: the records of their groups, and the first partial matches."""
    if at + AHEAD < len(new.group):
        later, soon = new.group[at + AHEAD], new.group[at + NEXT_AHEAD]
        if later & (new.shards - 1) == new.shard:
            prefetch(pools.groups, later)
        if soon & (new.shards - 1) == new.shard and pools.groups[soon].head >= 0:
            prefetch(pools.runs, pools.groups[soon].head)


@inlined
def take(event: OfferedEvent, state: int, continued: PartialMatch, code: Code, pools: Pools) -> None:
    """Make a partial match longer by one event, which a state takes; it fires, waits on, or both."""
    kind, length = code.window[KIND], code.window[LENGTH]
    anchored, deadline, seen = continued.anchored, continued.deadline, continued.seen
    if kind == FROM_FIRST:
        deadline = continued.first_time + length
    elif kind == FROM_PREVIOUS:
        deadline = event.time + length
    elif kind == FROM_ALIAS and anchored == 0:
        # All events lie in [anchor, anchor + T]: until the anchor comes, only events of one time are possible.
        deadline = continued.first_time
        if code.state_anchor[state] != 0:
            anchored, deadline = 1, event.time + length
    if code.window[ONCE] != 0 and code.state_past[state] != 0:
        living = pools.groups[event.group].living
        if living < 0 or continued.first_position < living:
            pools.groups[event.group].living = continued.first_position
    accept = code.state_accept[state]
    if accept == 1 and (kind != FROM_ALIAS or anchored != 0):
        fire(CompletedMatch(continued.node, event.row, state, event.time, event.group, continued.first_position,
                            continued.selection, 0), pools.fired, pools.counters)  # fmt: skip
    alive = (ONE << np.uint64(code.edge_offset[state + 1] - code.edge_offset[state])) - ONE
    if seen != NONE:
        first = code.edge_offset[state]
        for edge in range(first, code.edge_offset[state + 1]):
            if (code.edge_forbid[edge] & seen) != NONE:
                alive &= ~(ONE << np.uint64(edge - first))
    wakes = END
    if code.window[SILENCES] != 0:
        alive, wakes = open_silences(alive, state, continued.since, event.time, deadline, code)
    waits = accept == 2 and (seen & code.state_final[state]) == NONE and (kind != FROM_ALIAS or anchored != 0)
    dead = alive == NONE and not waits
    # For timed-out output, an `and` that can go no further still shows that what it continued was continued.
    if dead and (code.window[REPORTS_TIMED_OUT] == 0 or code.state_conjunction[state] == 0):
        return
    nodes, runs = pools.nodes, pools.runs
    node, run = new_node(pools.counters), new_run(event.group, pools)
    nodes[node].parent, nodes[node].event, nodes[node].state = continued.node, event.row, state
    runs[run].state, runs[run].node, runs[run].alive, runs[run].seen = state, node, alive, seen
    runs[run].deadline, runs[run].anchored, runs[run].extended = deadline, anchored, dead
    runs[run].first_time, runs[run].first_position = continued.first_time, continued.first_position
    runs[run].selection, runs[run].group = continued.selection, event.group
    runs[run].since, runs[run].wakes = continued.since, wakes
    pools.counters[EARLIEST] = min(pools.counters[EARLIEST], deadline, wakes)


@inlined
def continued_by(run: int, edge: int, event: OfferedEvent, position: int, code: Code, pools: Pools) -> PartialMatch:
    """What an event, or a silence, finds on its way along an edge."""
    runs = pools.runs
    first_time, first_position = runs[run].first_time, runs[run].first_position
    if runs[run].node < 0:  # it waited for a silence that comes first
        first_time, first_position = event.time, position
    since = runs[run].since if code.edge_stays[edge] != 0 else event.time
    return PartialMatch(runs[run].node, runs[run].seen & code.edge_keep[edge], first_time, first_position,
                        runs[run].anchored, runs[run].deadline, runs[run].selection, since)  # fmt: skip


@inlined
def open_silences(alive: np.uint64, state: int, since: int, now: int, deadline: int,
                  code: Code) -> tuple[np.uint64, int]:  # fmt: skip
    """The open edges of a state but for the silences that are over before `now`, or would be after the deadline; and
    when the first of those that remain is over (END: there is none)."""
    wakes = END
    first = code.edge_offset[state]
    for edge in range(first, code.edge_offset[state + 1]):
        bit = ONE << np.uint64(edge - first)
        if code.edge_contiguity[edge] == SILENCE and (alive & bit) != NONE:
            over = since + code.edge_length[edge]
            if over < now or over > deadline:
                alive &= ~bit
            else:
                wakes = min(wakes, over)
    return alive, wakes


@inlined
def new_node(counters: I64) -> int:
    """Make room for one more event taken."""
    node = counters[NODES_USED]
    counters[NODES_USED] += 1
    return node


@inlined
def new_run(group: int, pools: Pools) -> int:
    """Make room for one more partial match, which stands first in its group's chain."""
    groups, runs, counters = pools.groups, pools.runs, pools.counters
    run = counters[FREE]
    if run >= 0:
        counters[FREE] = runs[run].next
    else:
        run = counters[RUNS_USED]
        counters[RUNS_USED] += 1
    runs[run].next = groups[group].head
    groups[group].head = run
    groups[group].live += 1
    counters[LIVE] += 1
    return run


@inlined
def fire(match: CompletedMatch, fired: Fired, counters: I64) -> None:
    """Write a match down."""
    at = counters[FIRED_USED]
    counters[FIRED_USED] += 1
    fired[at].node, fired[at].event, fired[at].state, fired[at].time = match.node, match.event, match.state, match.time
    fired[at].group, fired[at].first_position = match.group, match.first_position
    fired[at].selection, fired[at].timed_out = match.selection, match.timed_out


@inlined
def expire(run: int, code: Code, pools: Pools) -> None:
    """End a partial match whose window has passed: an awaited absence is fulfilled, anything else is given up."""
    runs, nodes = pools.runs, pools.nodes
    state, node = runs[run].state, runs[run].node
    if node < 0 or (code.window[KIND] == FROM_ALIAS and runs[run].anchored == 0):
        return  # it has no event yet, or its window has not begun
    is_fulfilled = code.state_accept[state] == 2 and (runs[run].seen & code.state_final[state]) == NONE
    is_reported = code.window[REPORTS_TIMED_OUT] != 0 and runs[run].extended == 0 and code.state_accept[state] != 1
    if is_fulfilled or is_reported:
        fire(CompletedMatch(nodes[node].parent, nodes[node].event, state, runs[run].deadline, runs[run].group,
                            runs[run].first_position, runs[run].selection, 0 if is_fulfilled else 1),
             pools.fired, pools.counters)  # fmt: skip


@inlined
def release(run: int, pools: Pools) -> None:
    """Give back the record of a partial match, which is in no chain any more."""
    runs, counters = pools.runs, pools.counters
    pools.groups[runs[run].group].live -= 1
    counters[LIVE] -= 1
    runs[run].state = -1
    runs[run].next = counters[FREE]
    counters[FREE] = run


@jit
def unlink(run: int, pools: Pools) -> None:
    """Take a partial match out of its group's chain."""
    groups, runs = pools.groups, pools.runs
    group = runs[run].group
    if groups[group].head == run:
        groups[group].head = runs[run].next
        return
    before = groups[group].head
    while runs[before].next != run:
        before = runs[before].next
    runs[before].next = runs[run].next


@jit
def keep_living(group: int, fired_before: int, ends_with_match: bool, pools: Pools) -> None:
    """With `once`, give up the partial matches of all starts but the one that lives; of this one too, once it has
    fired, where its first match is the one that stays."""
    groups, runs, fired = pools.groups, pools.runs, pools.fired
    living = groups[group].living
    is_over = False
    if ends_with_match:
        for at in range(fired_before, pools.counters[FIRED_USED]):
            is_over = is_over or fired[at].first_position == living
    previous, run = -1, groups[group].head
    while run >= 0:
        following = runs[run].next
        if runs[run].first_position == living and not is_over:
            previous = run
        else:
            if previous < 0:
                groups[group].head = following
            else:
                runs[previous].next = following
            release(run, pools)
        run = following


@inlined
def position_of(event: int, events: Events, pools: Pools) -> int:
    """The position of an event, or of the last event before a silence was over."""
    return events.position[event] if event >= 0 else pools.silences[(-2 - event) // pools.counters[SHARDS]].position
