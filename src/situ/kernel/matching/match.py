"""The matching kernel: candidates in, partial matches on, matches out. Works on arrays only.

Every event is offered to the partial matches of its group, oldest knowledge first: deadlines that have passed, then
watches (`not`, `greedy`, `until`), then the edges. docs/language.md, chapter "Matches".
"""

from __future__ import annotations

from pathlib import Path

import numba
import numpy as np

from situ.core.time import BEGINNING, END
from situ.kernel.arrays import (
    EARLIEST,
    FIRED_USED,
    FREE,
    I32,
    I64,
    KIND,
    LENGTH,
    LIVE,
    NODES_USED,
    ONCE,
    REPORTS_TIMED_OUT,
    RUNS_USED,
    SHARD,
    SHARDS,
    SILENCES,
    SILENCES_USED,
    Code,
    CompletedMatch,
    Events,
    Fired,
    Machine,
    NewEvents,
    Nodes,
    OfferedEvent,
    PartialMatch,
    Paths,
    Pools,
    Runs,
)
from situ.kernel.matching.machine import holds, inlined, jit

DONE, RUNS_FULL, NODES_FULL, FIRED_FULL, SILENCES_FULL = range(5)
THEN, EACH, IMMEDIATELY, SILENCE = range(4)
FROM_FIRST, FROM_PREVIOUS, FROM_ALIAS = 1, 2, 3
ONE = np.uint64(1)
NONE = np.uint64(0)


@jit
def match(begin: int, new: NewEvents, code: Code, events: Events, pools: Pools, machine: Machine) -> tuple[int, int]:
    """Offer the new events from `begin` on to the partial matches of a shard.

    Returns how it stopped, and where to go on. It stops before an event for which the pools might not suffice, so that
    the caller can enlarge them.
    """
    groups, runs, counters = pools.groups, pools.runs, pools.counters
    most_edges = 1
    for state in range(len(code.state_test)):
        most_edges = max(most_edges, code.edge_offset[state + 1] - code.edge_offset[state])
    for at in range(begin, len(new.row)):
        group = new.group[at]
        if group & (new.shards - 1) != new.shard:
            continue
        if code.window[SILENCES] != 0 and first_to_wake(group, new.time[at], pools) >= 0:
            status = wake(new.time[at], group, new.position[at] - 1, code, pools)
            if status != DONE:
                return status, at
        # Partial matches that this event can make.
        most_made = groups[group].live * most_edges + len(code.starts) + len(code.begins)
        if counters[LIVE] + most_made > len(runs):
            return RUNS_FULL, at
        if counters[NODES_USED] + most_made > len(pools.nodes):
            return NODES_FULL, at
        if counters[FIRED_USED] + most_made + groups[group].live > len(pools.fired):
            return FIRED_FULL, at
        event = OfferedEvent(new.row[at], group, new.time[at], new.accepted[at])
        older, fired_before = groups[group].head, counters[FIRED_USED]
        groups[group].head = -1
        older = offer(event, older, code, events, pools, machine)
        start(event, code, events, pools, machine)
        if len(code.begins) > 0:
            begin_silences(event, code, events, pools, machine)
        if code.window[REPORTS_TIMED_OUT] != 0:
            mark_continued(groups[group].head, fired_before, code.state_conjunction, code.state_variable, pools)
        # New partial matches stand at groups.head; the older ones follow them.
        if groups[group].head < 0:
            groups[group].head = older
        elif older >= 0:
            last = groups[group].head
            while runs[last].next >= 0:
                last = runs[last].next
            runs[last].next = older
        if code.window[ONCE] != 0 and groups[group].living >= 0:
            keep_living(group, fired_before, code.window[ONCE] == 1, pools)
    return DONE, len(new.row)


def is_compiled() -> bool:
    """Whether the kernel's machine code is on disk already, or not needed."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return True
    directory = Path(match.stats.cache_path)  # type: ignore[attr-defined]
    return any(directory.glob("match.match-*.nbi"))


@inlined
def offer(event: OfferedEvent, first: int, code: Code, events: Events, pools: Pools, machine: Machine) -> int:
    """Offer an event to the chain of partial matches that begins at `first`. Returns the chain of those that remain."""
    runs, nodes = pools.runs, pools.nodes
    remaining, previous, run = first, -1, first
    while run >= 0:
        following = runs[run].next
        state = runs[run].state
        keep = True
        if event.time > runs[run].deadline:
            expire(run, code, pools)
            keep = False
        elif (event.accepted & code.state_interest[state]) != NONE or code.state_impatient[state] != 0:
            is_next = False
            if code.state_impatient[state] != 0:
                is_next = events.position[event.row] == position_of(nodes[runs[run].node].event, events, pools) + 1
            look(run, event, is_next, code, events, pools, machine)
            advance(run, event, is_next, code, events, pools, machine)
            waits = code.state_accept[state] == 2 and (runs[run].seen & code.state_final[state]) == NONE
            keep = runs[run].alive != NONE or waits
        if keep:
            previous = run
        else:
            if previous < 0:
                remaining = following
            else:
                runs[previous].next = following
            release(run, pools)
        run = following
    return remaining


@inlined
def refuses(refusals: I32, number: int, event: OfferedEvent, node: int, code: Code, events: Events, nodes: Nodes,
            machine: Machine) -> bool:  # fmt: skip
    """Whether an event is one that ends the loop: by the test (-1: there is none) and the code of a refusal."""
    result = False
    if refusals[number, 0] >= 0 and ((event.accepted >> np.uint64(refusals[number, 0])) & ONE) != NONE:
        result = holds(refusals[number, 1], refusals[number, 2], event.row, node, code, events, nodes, machine)
    return result


@inlined
def look(run: int, event: OfferedEvent, is_next: bool, code: Code, events: Events, pools: Pools,
         machine: Machine) -> None:  # fmt: skip
    """Let the watches of a waiting partial match see an event, and close what they forbid."""
    runs, nodes = pools.runs, pools.nodes
    state = runs[run].state
    seen = runs[run].seen
    for at in range(code.watch_offset[state], code.watch_offset[state + 1]):
        watch = code.watch_number[at]
        bit = ONE << np.uint64(watch)
        if (seen & bit) != NONE or (seen & code.watch_unless[watch]) != NONE:
            continue
        test = code.watch_test[watch]
        if test >= 0 and ((event.accepted >> np.uint64(test)) & ONE) == NONE:
            continue
        if code.watch_immediately[watch] != 0 and not is_next:
            continue
        begin, end = code.watch_code[watch, 0], code.watch_code[watch, 1]
        if begin < end and not holds(begin, end, event.row, runs[run].node, code, events, nodes, machine):
            continue
        refused = refuses(code.watch_refuse, watch, event, runs[run].node, code, events, nodes, machine)
        if refused == (code.watch_refused[watch] != 0):
            seen |= bit
    if seen != runs[run].seen:
        runs[run].seen = seen
        first = code.edge_offset[state]
        for edge in range(first, code.edge_offset[state + 1]):
            if (code.edge_forbid[edge] & seen) != NONE:
                runs[run].alive &= ~(ONE << np.uint64(edge - first))


@inlined
def advance(run: int, event: OfferedEvent, is_next: bool, code: Code, events: Events, pools: Pools,
            machine: Machine) -> None:  # fmt: skip
    """Take an event along every open edge that accepts it."""
    runs, nodes = pools.runs, pools.nodes
    state, node = runs[run].state, runs[run].node
    first = code.edge_offset[state]
    for edge in range(first, code.edge_offset[state + 1]):
        bit = ONE << np.uint64(edge - first)
        if (runs[run].alive & bit) == NONE:
            continue
        contiguity = code.edge_contiguity[edge]
        if contiguity == SILENCE:
            continue
        target = code.edge_target[edge]
        if contiguity == IMMEDIATELY:
            runs[run].alive &= ~bit
            if not is_next:
                continue
        if ((event.accepted >> np.uint64(code.state_test[target])) & ONE) == NONE:
            continue
        begin, end = code.state_code[target, 0], code.state_code[target, 1]
        if begin < end and not holds(begin, end, event.row, node, code, events, nodes, machine):
            continue
        if contiguity == THEN:
            runs[run].alive &= ~bit
        if refuses(code.edge_refuse, edge, event, node, code, events, nodes, machine):
            continue
        runs[run].extended = 1
        take(event, target, continued_by(run, edge, event, events.position[event.row], code, pools), code, pools)


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
def position_of(event: int, events: Events, pools: Pools) -> int:
    """The position of an event, or of the last event before a silence was over."""
    return events.position[event] if event >= 0 else pools.silences[(-2 - event) // pools.counters[SHARDS]].position


@inlined
def start(event: OfferedEvent, code: Code, events: Events, pools: Pools, machine: Machine) -> None:
    """Open a selection with an event that a first slot accepts."""
    groups = pools.groups
    selection = -1
    for at in range(len(code.starts)):
        state = code.starts[at]
        if ((event.accepted >> np.uint64(code.state_test[state])) & ONE) == NONE:
            continue
        begin, end = code.state_code[state, 0], code.state_code[state, 1]
        if begin < end and not holds(begin, end, event.row, -1, code, events, pools.nodes, machine):
            continue
        if refuses(code.start_refuse, at, event, -1, code, events, pools.nodes, machine):
            continue
        if selection < 0:
            selection = groups[event.group].selections
            groups[event.group].selections += 1
            if len(events.opened) > 0:
                events.opened[event.row] = selection
        if len(events.chosen_offset) > 0 and not is_chosen(event.group, selection, events.chosen_offset, events.chosen):
            continue
        nothing = PartialMatch(-1, NONE, event.time, events.position[event.row], 0, END, selection, event.time)
        take(event, state, nothing, code, pools)


@jit
def begin_silences(event: OfferedEvent, code: Code, events: Events, pools: Pools, machine: Machine) -> None:
    """Let the silences begin that come first: with the first event of a group, and anew with every one that breaks
    them."""
    groups = pools.groups
    is_first = groups[event.group].begun == 0
    groups[event.group].begun = 1
    for at in range(len(code.begins)):
        state = code.begins[at]
        anew = is_first
        for number in range(code.watch_offset[state], code.watch_offset[state + 1]):
            watch = code.watch_number[number]
            if not anew and ((event.accepted >> np.uint64(code.watch_test[watch])) & ONE) != NONE:
                first, end = code.watch_code[watch, 0], code.watch_code[watch, 1]
                anew = first == end or holds(first, end, event.row, -1, code, events, pools.nodes, machine)
        if anew:
            wait_for_silence(state, event.group, event.time, events.position[event.row], code, pools)


@jit
def begin_all(group: int, time: int, code: Code, pools: Pools) -> None:
    """Let all silences of a group begin that come first, before any event. There is room for them.

    They may be over before any event, and so stand before its position.
    """
    pools.groups[group].begun, pools.groups[group].positions = 1, 1
    for at in range(len(code.begins)):
        wait_for_silence(code.begins[at], group, time, 0, code, pools)


@inlined
def wait_for_silence(state: int, group: int, time: int, position: int, code: Code, pools: Pools) -> None:
    """A partial match without events, which waits for silences that count from `time`."""
    runs, run = pools.runs, new_run(group, pools)
    runs[run].state, runs[run].node, runs[run].seen = state, -1, NONE
    runs[run].alive = (ONE << np.uint64(code.edge_offset[state + 1] - code.edge_offset[state])) - ONE
    runs[run].deadline, runs[run].anchored, runs[run].extended = END, 0, 0
    runs[run].first_time, runs[run].first_position = time, position
    runs[run].selection, runs[run].group, runs[run].since = -1, group, time
    runs[run].alive, runs[run].wakes = open_silences(runs[run].alive, state, time, time, END, code)
    pools.counters[EARLIEST] = min(pools.counters[EARLIEST], runs[run].wakes)


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


@jit
def wake(until: int, group: int, position: int, code: Code, pools: Pools) -> int:
    """Let the silences of a group be over that end before `until`, one after the other. Returns how it stopped.

    `position` is that of the group's last event before `until`.
    """
    groups, runs, counters = pools.groups, pools.runs, pools.counters
    while True:
        run = first_to_wake(group, until, pools)
        if run < 0:
            return DONE
        state, fired_before = runs[run].state, counters[FIRED_USED]
        edges = code.edge_offset[state + 1] - code.edge_offset[state]
        if counters[LIVE] + edges > len(runs):
            return RUNS_FULL
        if counters[NODES_USED] + edges > len(pools.nodes):
            return NODES_FULL
        if counters[FIRED_USED] + edges > len(pools.fired):
            return FIRED_FULL
        if counters[SILENCES_USED] == len(pools.silences):
            return SILENCES_FULL
        take_silence(run, position, code, pools)
        _, runs[run].wakes = open_silences(runs[run].alive, state, runs[run].since, BEGINNING, END, code)
        waits = code.state_accept[state] == 2 and (runs[run].seen & code.state_final[state]) == NONE
        if runs[run].alive == NONE and not waits:
            unlink(run, pools)
            release(run, pools)
        if code.window[ONCE] != 0 and groups[group].living >= 0:
            keep_living(group, fired_before, code.window[ONCE] == 1, pools)


@inlined
def first_to_wake(group: int, until: int, pools: Pools) -> int:
    """The partial match of a group whose silence is over first, and before `until`; -1 if there is none."""
    runs = pools.runs
    first, run = -1, pools.groups[group].head
    while run >= 0:
        if runs[run].wakes < until and (first < 0 or runs[run].wakes < runs[first].wakes):
            first = run
        run = runs[run].next
    return first


@inlined
def silence_at(time: int, group: int, position: int, pools: Pools) -> int:
    """The number of a silence that is over; all of a group that are over at one time are one."""
    silences, counters = pools.silences, pools.counters
    used = counters[SILENCES_USED]
    if used == 0 or silences[used - 1].time != time or silences[used - 1].group != group:
        silences[used].time, silences[used].group, silences[used].position = time, group, position
        used += 1
        counters[SILENCES_USED] = used
    return -2 - (used - 1) * counters[SHARDS] - counters[SHARD]


@inlined
def take_silence(run: int, position: int, code: Code, pools: Pools) -> None:
    """Take the silence for which a partial match wakes, along every open edge that waits for it.

    In an `and`, what would still lack it comes too late.
    """
    runs = pools.runs
    state, time, group = runs[run].state, runs[run].wakes, runs[run].group
    first = code.edge_offset[state]
    for edge in range(first, code.edge_offset[state + 1]):
        bit = ONE << np.uint64(edge - first)
        target = code.edge_target[edge]
        if (runs[run].alive & bit) == NONE:
            continue
        if code.edge_contiguity[edge] == SILENCE:
            if runs[run].since + code.edge_length[edge] == time:
                runs[run].alive &= ~bit
                runs[run].extended = 1
                silence = OfferedEvent(silence_at(time, group, position, pools), group, time, NONE)
                take(silence, target, continued_by(run, edge, silence, position, code, pools), code, pools)
        elif code.edge_stays[edge] != 0:
            _, lacking = open_silences(~NONE, target, runs[run].since, BEGINNING, END, code)
            if lacking <= time:
                runs[run].alive &= ~bit


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
def pass_silences(before: int, code: Code, pools: Pools) -> int:
    """Let all silences be over that end before `before`. Returns how it stopped, so that pools can be enlarged."""
    runs, groups = pools.runs, pools.groups
    for each in range(pools.counters[RUNS_USED]):
        if runs[each].state >= 0 and runs[each].wakes < before:
            group = runs[each].group
            status = wake(before, group, groups[group].positions - 1, code, pools)
            if status != DONE:
                return status
    return DONE


@jit
def is_chosen(group: int, selection: int, offsets: I64, numbers: I64) -> bool:
    """Whether a selection is one of those to be processed."""
    low, high = offsets[group], offsets[group + 1]
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < selection:
            low = middle + 1
        else:
            high = middle
    return low < offsets[group + 1] and numbers[low] == selection


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
def mark_continued(first: int, fired_before: int, conjunction: I32, variable: I32, pools: Pools) -> None:
    """For timed-out output, mark which of the partial matches that one event has made are continued by another one.

    An `and` that lacks one event of another one is continued by it, although that event came earlier.
    """
    runs, nodes, fired = pools.runs, pools.nodes, pools.fired
    run = first
    while run >= 0:
        if conjunction[runs[run].state] != 0:
            other = first
            while other >= 0 and runs[run].extended == 0:
                before, state = nodes[runs[other].node].parent, runs[other].state
                if lacks_one(runs[run].node, before, state, conjunction, variable, nodes):
                    runs[run].extended = 1
                other = runs[other].next
            for at in range(fired_before, pools.counters[FIRED_USED]):
                before, state = fired[at].node, fired[at].state
                if fired[at].timed_out == 0 and lacks_one(runs[run].node, before, state, conjunction, variable, nodes):
                    runs[run].extended = 1
        run = runs[run].next


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


@jit
def lacks_one(node: int, before: int, state: int, conjunction: I32, variable: I32, nodes: Nodes) -> bool:
    """Whether the path that ends in `node` is another one, but for one event of the `and` that both end in.

    The other path is the one that ends in `before`, and then the same last event, in `state`.
    """
    block = conjunction[nodes[node].state]
    if conjunction[state] != block or variable[state] != variable[nodes[node].state]:
        return False
    node, lacking = nodes[node].parent, 0
    while before >= 0 and conjunction[nodes[before].state] == block:
        mine = node >= 0 and nodes[node].event == nodes[before].event
        if mine and variable[nodes[node].state] == variable[nodes[before].state]:
            node = nodes[node].parent
        else:
            lacking += 1
        before = nodes[before].parent
    return lacking == 1 and node == before


@jit
def pass_time(before: int, code: Code, pools: Pools) -> None:
    """Give up the partial matches whose deadline lies before `before` (END: the end of input, so all of them).

    `pools.fired` has room for all of them.
    """
    groups, runs, counters = pools.groups, pools.runs, pools.counters
    counters[EARLIEST] = END
    for each in range(counters[RUNS_USED]):
        if runs[each].state < 0:
            continue
        if runs[each].deadline >= before and before != END:
            counters[EARLIEST] = min(counters[EARLIEST], runs[each].deadline, runs[each].wakes)
            continue
        # One of the group has passed: go through its chain.
        group = runs[each].group
        previous, run = -1, groups[group].head
        while run >= 0:
            following = runs[run].next
            if runs[run].deadline < before or before == END:
                expire(run, code, pools)
                if previous < 0:
                    groups[group].head = following
                else:
                    runs[previous].next = following
                release(run, pools)
            else:
                previous = run
            run = following


@jit
def path_lengths(fired: Fired, nodes: Nodes, count: int, lengths: I64) -> None:
    """Write how many events each match has."""
    for at in range(count):
        length, node = 1, fired[at].node
        while node >= 0:
            length += 1
            node = nodes[node].parent
        lengths[at] = length


@jit
def write_paths(fired: Fired, nodes: Nodes, code: Code, count: int, paths: Paths) -> None:
    """Write the events and variables of each match, in order of position."""
    for at in range(count):
        to = paths.offsets[at + 1] - 1
        paths.event[to], paths.variable[to] = fired[at].event, code.state_variable[fired[at].state]
        node = fired[at].node
        while node >= 0:
            to -= 1
            paths.event[to], paths.variable[to] = nodes[node].event, code.state_variable[nodes[node].state]
            node = nodes[node].parent


@jit
def compact_nodes(runs: Runs, nodes: Nodes, counters: I64, renumbered: I64) -> None:
    """Keep only nodes on the path of a live partial match, in place and in order (parents come first)."""
    used = counters[NODES_USED]
    for node in range(used):
        renumbered[node] = -1
    for run in range(counters[RUNS_USED]):
        if runs[run].state >= 0:
            node = runs[run].node
            while node >= 0 and renumbered[node] < 0:
                renumbered[node] = 0
                node = nodes[node].parent
    kept = 0
    for node in range(used):
        if renumbered[node] == 0:
            parent = nodes[node].parent
            nodes[kept].parent = renumbered[parent] if parent >= 0 else -1
            nodes[kept].event, nodes[kept].state = nodes[node].event, nodes[node].state
            renumbered[node] = kept
            kept += 1
    for run in range(counters[RUNS_USED]):
        if runs[run].state >= 0:
            runs[run].node = renumbered[runs[run].node] if runs[run].node >= 0 else -1
    counters[NODES_USED] = kept


@jit
def oldest_start(runs: Runs, counters: I64, oldest: I64) -> None:
    """Lower `oldest`, by group, to the first position of the earliest partial match."""
    for run in range(counters[RUNS_USED]):
        if runs[run].state >= 0:
            group = runs[run].group
            oldest[group] = min(oldest[group], runs[run].first_position)
