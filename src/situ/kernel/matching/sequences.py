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
    Pools,
)
from situ.kernel.matching.machine import holds, jit
from situ.kernel.matching.partial_matches import (
    DONE,
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
    kind, length, last = code.window[KIND], code.window[LENGTH], len(code.state_test) - 1
    opens, earliest = ONE << np.uint64(code.state_test[0]), counters[EARLIEST]
    # Nodes that were given back, chained by their parents; those that are left over go when nodes are numbered anew.
    free = -1
    for at in range(begin, len(new.row)):
        group = new.group[at]
        if group & (new.shards - 1) != new.shard:
            continue
        live = groups[group].live
        if counters[LIVE] + 1 > len(runs) or counters[NODES_USED] + live + 1 > len(nodes):
            counters[EARLIEST] = earliest
            return (RUNS_FULL if counters[LIVE] + 1 > len(runs) else NODES_FULL), at
        if counters[FIRED_USED] + live > len(completed.time):
            counters[EARLIEST] = earliest
            return FIRED_FULL, at
        row, time, accepted = new.row[at], new.time[at], new.accepted[at]
        run, moved, remaining, previous = groups[group].head, -1, -1, -1
        while run >= 0:
            following, state = runs[run].next, runs[run].state + 1
            stays = time <= runs[run].deadline
            takes = stays and ((accepted >> np.uint64(code.state_test[state])) & ONE) != NONE
            if takes and code.state_code[state, 0] < code.state_code[state, 1]:
                takes = holds(code.state_code[state, 0], code.state_code[state, 1], row, runs[run].node, code, events,
                              nodes, machine)  # fmt: skip
            if takes and state < last:
                node = free
                if node >= 0:
                    free = nodes[node].parent
                else:
                    node = new_node(counters)
                nodes[node].parent, nodes[node].event, nodes[node].state = runs[run].node, row, state
                runs[run].node, runs[run].state, runs[run].since = node, state, time
                if kind == FROM_PREVIOUS:
                    runs[run].deadline = time + length
                    earliest = min(earliest, time + length)
                runs[run].next, moved = moved, run
            elif takes:
                to = counters[FIRED_USED]
                counters[FIRED_USED] = to + 1
                completed.time[to], completed.event[to], completed.group[to] = time, row, group
                completed.first_position[to] = runs[run].first_position
                completed.selection[to] = runs[run].selection
                place, node = (to + 1) * (last + 1) - 1, runs[run].node
                completed.path[place] = row
                while node >= 0:
                    place -= 1
                    completed.path[place] = nodes[node].event
                    before = nodes[node].parent
                    nodes[node].parent, free = free, node
                    node = before
                release(run, pools)
            elif stays:
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
        groups[group].head = moved
        starts = (accepted & opens) != NONE
        if starts and code.state_code[0, 0] < code.state_code[0, 1]:
            starts = holds(code.state_code[0, 0], code.state_code[0, 1], row, -1, code, events, nodes, machine)
        if starts:
            node = free
            if node >= 0:
                free = nodes[node].parent
            else:
                node = new_node(counters)
            run = new_run(group, pools)
            nodes[node].parent, nodes[node].event, nodes[node].state = -1, row, 0
            deadline = END if kind == 0 else time + length
            runs[run].deadline, runs[run].wakes, runs[run].since = deadline, END, time
            runs[run].alive, runs[run].seen, runs[run].first_time = ONE, NONE, time
            runs[run].first_position, runs[run].selection = events.position[row], groups[group].selections
            runs[run].group, runs[run].state, runs[run].node = group, 0, node
            runs[run].anchored, runs[run].extended = 0, 0
            groups[group].selections += 1
            earliest = min(earliest, deadline)
        if groups[group].head < 0:
            groups[group].head = remaining
        elif remaining >= 0:
            end = groups[group].head
            while runs[end].next >= 0:
                end = runs[end].next
            runs[end].next = remaining
    counters[EARLIEST] = earliest
    return DONE, len(new.row)
