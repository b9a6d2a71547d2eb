"""The matching kernel: candidates in, partial matches on, matches out. Works on arrays only.

Every event is offered to the partial matches of its group, oldest knowledge first: deadlines that have passed, then
watches (`not`, `greedy`, `until`), then the edges. docs/language.md, chapter "Matches".
"""

from __future__ import annotations

from pathlib import Path

import numba
import numpy as np

from situ.core.time import END
from situ.kernel.arrays import (
    EARLIEST,
    FIRED_USED,
    I32,
    I64,
    LIVE,
    NODES_USED,
    ONCE,
    REPORTS_TIMED_OUT,
    RUNS_USED,
    SILENCES,
    Code,
    Events,
    Groups,
    Machine,
    NewEvents,
    Nodes,
    OfferedEvent,
    PartialMatch,
    Pools,
)
from situ.kernel.matching.machine import holds, inlined, jit
from situ.kernel.matching.partial_matches import (
    DONE,
    FEW,
    FIRED_FULL,
    IMMEDIATELY,
    NODES_FULL,
    NONE,
    ONE,
    RUNS_FULL,
    SILENCE,
    THEN,
    ask_ahead,
    continued_by,
    expire,
    keep_living,
    position_of,
    release,
    take,
)
from situ.kernel.matching.silences import begin_silences, first_to_wake, wake


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
    passes_over = may_pass_over(code)
    for at in range(begin, len(new.row)):
        ask_ahead(at, new, pools)
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
        if not passes_over or is_due(event, code, groups):
            older = offer(event, older, code, events, pools, machine)
        start(event, code, events, pools, machine)
        if len(code.begins) > 0:
            begin_silences(event, code, events, pools, machine)
        if code.window[REPORTS_TIMED_OUT] != 0:
            mark_continued(groups[group].head, fired_before, code.state_conjunction, code.state_variable, pools)
        # New partial matches stand at groups.head; the older ones follow them.
        last, run = -1, groups[group].head
        while run >= 0:
            groups[group].awaited |= code.state_interest[runs[run].state]
            last, run = run, runs[run].next
        if last < 0:
            groups[group].head = older
        else:
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
def may_pass_over(code: Code) -> bool:
    """Whether an event that no partial match of its group waits for may leave them all as they are: nothing is told of
    those that are over, none looks at every event, and an event begins one of them at most."""
    result = len(code.starts) == 1 and len(code.begins) == 0
    if code.window[REPORTS_TIMED_OUT] != 0 or code.window[ONCE] != 0 or code.window[SILENCES] != 0:
        result = False
    for state in range(len(code.state_test)):
        if code.state_accept[state] == 2 or code.state_impatient[state] != 0:
            result = False
    return result


@inlined
def is_due(event: OfferedEvent, code: Code, groups: Groups) -> bool:
    """Whether an event may concern a partial match of its group; or begins one where there are twice as many as when
    those that are over were last given up."""
    live = groups[event.group].live
    begins = (event.accepted & (ONE << np.uint64(code.state_test[code.starts[0]]))) != NONE
    is_long = begins and live >= FEW and live & (live - 1) == 0
    return is_long or (event.accepted & groups[event.group].awaited) != NONE


@inlined
def offer(event: OfferedEvent, first: int, code: Code, events: Events, pools: Pools, machine: Machine) -> int:
    """Offer an event to the chain of partial matches that begins at `first`. Returns the chain of those that remain,
    and notes for which tests they wait."""
    runs, nodes = pools.runs, pools.nodes
    remaining, previous, run, awaited = first, -1, first, NONE
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
            awaited |= code.state_interest[state]
            previous = run
        else:
            if previous < 0:
                remaining = following
            else:
                runs[previous].next = following
            release(run, pools)
        run = following
    pools.groups[event.group].awaited = awaited
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
