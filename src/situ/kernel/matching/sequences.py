"""The matching kernel for steps in a row, each by `then`: what most rules are.

A partial match of such a pattern goes on with the first event that fits, or ends: it is never copied, and nothing but
the next step concerns it. So its record is moved on in place, the events that it took are its own, and are given back
with it, and a match is written out where it is found. The records are those of `match`, in the same order, so that all
else (snapshots, policies) is the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from situ.core.time import END
from situ.kernel.arrays import (
    EARLIEST,
    FIRED_USED,
    I64,
    KIND,
    LENGTH,
    LIVE,
    NODES_USED,
    ONCE,
    REPORTS_TIMED_OUT,
    SILENCES,
    Code,
    Events,
    Machine,
    NewEvents,
    OfferedEvent,
    Pools,
)
from situ.kernel.matching.machine import holds, inlined, jit
from situ.kernel.matching.partial_matches import (
    DONE,
    FEW,
    FIRED_FULL,
    FROM_ALIAS,
    FROM_PREVIOUS,
    NODES_FULL,
    NONE,
    ONE,
    RUNS_FULL,
    THEN,
    new_node,
    new_run,
    release,
)


class Completed(NamedTuple):
    """Room for matches; `path` has the events of each, one match after the other."""

    time: I64
    event: I64
    group: I64
    first_position: I64
    selection: I64
    path: I64

    @classmethod
    def room_for(cls, matches: int, steps: int) -> Completed:
        return cls._make([*(np.empty(matches, np.int64) for _ in range(5)), np.empty(matches * steps, np.int64)])


def is_sequence(code: Code) -> bool:
    """Whether a program is steps in a row, each by `then`, and nothing is to be seen of partial matches."""
    steps = len(code.state_test)
    window = code.window
    return bool(
        steps > 1
        and code.edge_target.tolist() == list(range(1, steps))
        and code.edge_offset.tolist() == [*range(steps), steps - 1]
        and (code.edge_contiguity == THEN).all()
        and (code.edge_refuse[:, 0] < 0).all()
        and (code.edge_stays == 0).all()
        and (code.state_conjunction == 0).all()
        and code.state_accept.tolist() == [0] * (steps - 1) + [1]
        and len(code.watch_test) == len(code.begins) == 0
        and code.starts.tolist() == [0]
        and code.start_refuse[0, 0] < 0
        and window[KIND] != FROM_ALIAS
        and window[REPORTS_TIMED_OUT] == window[ONCE] == window[SILENCES] == 0
    )


@jit
def match_sequences(begin: int, new: NewEvents, code: Code, events: Events, pools: Pools, completed: Completed,
                    machine: Machine) -> tuple[int, int]:  # fmt: skip
    """What `match` does, for a program that is a sequence; all selections are processed, and none is told of."""
    groups, runs, nodes, counters = pools.groups, pools.runs, pools.nodes, pools.counters
    opens = ONE << np.uint64(code.state_test[0])
    # Nodes that were given back, chained by their parents; those that are left over go when nodes are numbered anew.
    free = -1
    for at in range(begin, len(new.row)):
        group = new.group[at]
        if group & (new.shards - 1) != new.shard:
            continue
        live = groups[group].live
        if counters[LIVE] + 1 > len(runs):
            return RUNS_FULL, at
        if counters[NODES_USED] + live + 1 > len(nodes):
            return NODES_FULL, at
        if counters[FIRED_USED] + live > len(completed.time):
            return FIRED_FULL, at
        event = OfferedEvent(new.row[at], group, new.time[at], new.accepted[at])
        starts = (event.accepted & opens) != NONE
        # Most events concern no partial match of their group. Those that are over are then left where they are, until
        # there are twice as many.
        is_due = starts and live >= FEW and live & (live - 1) == 0
        if is_due or (event.accepted & groups[group].awaited) != NONE:
            free = _move_on(event, free, code, events, pools, completed, machine)
        if starts and code.state_code[0, 0] < code.state_code[0, 1]:
            starts = holds(code.state_code[0, 0], code.state_code[0, 1], event.row, -1, code, events, nodes, machine)
        if starts:
            free = _start(event, events.position[event.row], free, code, pools)
    return DONE, len(new.row)


@inlined
def _move_on(event: OfferedEvent, free: int, code: Code, events: Events, pools: Pools, completed: Completed,
             machine: Machine) -> int:  # fmt: skip
    """Offer an event to the partial matches of its group. Those that take it stand first then, and those that are over
    are gone. Returns the first free node."""
    groups, runs, nodes = pools.groups, pools.runs, pools.nodes
    last, awaited = len(code.state_test) - 1, NONE
    run, moved, first_moved, remaining, previous = groups[event.group].head, -1, -1, -1, -1
    while run >= 0:
        following, state = runs[run].next, runs[run].state + 1
        waits_for = ONE << np.uint64(code.state_test[state])
        stays = event.time <= runs[run].deadline
        takes = stays and (event.accepted & waits_for) != NONE
        if takes and code.state_code[state, 0] < code.state_code[state, 1]:
            takes = holds(code.state_code[state, 0], code.state_code[state, 1], event.row, runs[run].node, code, events,
                          nodes, machine)  # fmt: skip
        if takes and state < last:
            free = _take(event, run, state, free, code, pools)
            awaited |= ONE << np.uint64(code.state_test[state + 1])
            if moved < 0:
                first_moved = run
            runs[run].next, moved = moved, run
        elif takes:
            free = _complete(event, run, last + 1, free, pools, completed)
            release(run, pools)
        elif stays:
            awaited |= waits_for
            if previous < 0:
                remaining = run
            else:
                runs[previous].next = run
            previous = run
        else:
            release(run, pools)
        run = following
    if previous >= 0:
        runs[previous].next = -1
    if moved >= 0:
        runs[first_moved].next = remaining
    groups[event.group].head, groups[event.group].awaited = (moved if moved >= 0 else remaining), awaited
    return free


@inlined
def _take(event: OfferedEvent, run: int, state: int, free: int, code: Code, pools: Pools) -> int:
    """Let a partial match go on in place, with an event that a state takes. Returns the first free node."""
    runs, nodes, counters = pools.runs, pools.nodes, pools.counters
    node = free
    if node >= 0:
        free = nodes[node].parent
    else:
        node = new_node(counters)
    nodes[node].parent, nodes[node].event, nodes[node].state = runs[run].node, event.row, state
    runs[run].node, runs[run].state, runs[run].since = node, state, event.time
    if code.window[KIND] == FROM_PREVIOUS:
        runs[run].deadline = event.time + code.window[LENGTH]
        counters[EARLIEST] = min(counters[EARLIEST], runs[run].deadline)
    return free


@inlined
def _complete(event: OfferedEvent, run: int, steps: int, free: int, pools: Pools, completed: Completed) -> int:
    """Write down the match that an event completes; its nodes are given back. Returns the first free node."""
    runs, nodes, counters = pools.runs, pools.nodes, pools.counters
    to = counters[FIRED_USED]
    counters[FIRED_USED] = to + 1
    completed.time[to], completed.event[to], completed.group[to] = event.time, event.row, event.group
    completed.first_position[to], completed.selection[to] = runs[run].first_position, runs[run].selection
    place, node = (to + 1) * steps - 1, runs[run].node
    completed.path[place] = event.row
    while node >= 0:
        place -= 1
        completed.path[place] = nodes[node].event
        before = nodes[node].parent
        nodes[node].parent, free = free, node
        node = before
    return free


@inlined
def _start(event: OfferedEvent, position: int, free: int, code: Code, pools: Pools) -> int:
    """Let a match begin with an event. Returns the first free node."""
    groups, runs, nodes, counters = pools.groups, pools.runs, pools.nodes, pools.counters
    node = free
    if node >= 0:
        free = nodes[node].parent
    else:
        node = new_node(counters)
    run = new_run(event.group, pools)
    nodes[node].parent, nodes[node].event, nodes[node].state = -1, event.row, 0
    deadline = END if code.window[KIND] == 0 else event.time + code.window[LENGTH]
    runs[run].deadline, runs[run].wakes, runs[run].since = deadline, END, event.time
    runs[run].alive, runs[run].seen, runs[run].first_time = ONE, NONE, event.time
    runs[run].first_position, runs[run].selection = position, groups[event.group].selections
    runs[run].group, runs[run].state, runs[run].node = event.group, 0, node
    runs[run].anchored, runs[run].extended = 0, 0
    groups[event.group].selections += 1
    groups[event.group].awaited |= ONE << np.uint64(code.state_test[1])
    counters[EARLIEST] = min(counters[EARLIEST], deadline)
    return free
