"""Silences of partial matches: how they begin, are over in order of time, and are taken like an event."""

from __future__ import annotations

import numpy as np

from situ.core.time import BEGINNING, END
from situ.kernel.arrays import (
    EARLIEST,
    FIRED_USED,
    LIVE,
    NODES_USED,
    ONCE,
    RUNS_USED,
    SHARD,
    SHARDS,
    SILENCES_USED,
    Code,
    Events,
    Machine,
    OfferedEvent,
    Pools,
)
from situ.kernel.matching.machine import holds, inlined, jit
from situ.kernel.matching.partial_matches import (
    DONE,
    FIRED_FULL,
    NODES_FULL,
    NONE,
    ONE,
    RUNS_FULL,
    SILENCE,
    SILENCES_FULL,
    continued_by,
    keep_living,
    new_run,
    open_silences,
    release,
    take,
    unlink,
)


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
