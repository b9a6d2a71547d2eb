"""The matching kernel: candidates in, partial matches on, matches out. Works on arrays only.

Every event is offered to the partial matches of its group, oldest knowledge first: deadlines that have passed, then
watches (`not`, `greedy`, `until`), then the edges. docs/language.md, chapter "Matches".
"""

from __future__ import annotations

from pathlib import Path

import numba
import numpy as np

from situ.kernel.arrays import (
    EARLIEST,
    FIRED_USED,
    FREE,
    I32,
    I64,
    LIVE,
    NO_DEADLINE,
    NODES_USED,
    RUNS_USED,
    Code,
    Events,
    Fired,
    Groups,
    Nodes,
    Runs,
    Stack,
)
from situ.kernel.matching.machine import holds, inlined, jit

DONE, RUNS_FULL, NODES_FULL, FIRED_FULL = range(4)
THEN, EACH, IMMEDIATELY = range(3)
FROM_FIRST, FROM_PREVIOUS, FROM_ALIAS = 1, 2, 3
ONE = np.uint64(1)
NONE = np.uint64(0)


@jit
def match(begin: int, order: I64, kept: int, shard: int, shards: int, code: Code, events: Events, groups: Groups,
          runs: Runs, nodes: Nodes, fired: Fired, counters: I64, stack: Stack,
          host: int) -> tuple[int, int]:  # fmt: skip
    """Offer the new events order[begin:] of a shard's groups to its partial matches; new event i is row kept + i.

    Returns how it stopped, and where to go on.

    It stops before an event for which the pools might not suffice, so that the caller can enlarge them.
    """
    most_edges = 1
    for state in range(len(code.state_test)):
        most_edges = max(most_edges, code.edge_offset[state + 1] - code.edge_offset[state])
    starts = len(code.starts)
    for at in range(begin, len(order)):
        new = order[at]
        event = new + kept
        group = events.group[event]
        if group & (shards - 1) != shard:
            continue
        time, accepted = events.time[event], events.accepted[new]
        made = groups[group].live * most_edges + starts  # partial matches that this event can make at the most
        if counters[LIVE] + made > len(runs):
            return RUNS_FULL, at
        if counters[NODES_USED] + made > len(nodes):
            return NODES_FULL, at
        if counters[FIRED_USED] + made + groups[group].live > len(fired):
            return FIRED_FULL, at
        old, fired_before = groups[group].head, counters[FIRED_USED]
        groups[group].head = -1
        old = offer(event, group, time, accepted, old, code, events, groups, runs, nodes, fired, counters, stack, host)
        start(event, group, time, accepted, code, events, groups, runs, nodes, fired, counters, stack, host)
        if code.window[2] != 0:
            mark_continued(groups[group].head, fired_before, code.state_conjunction, code.state_variable, runs,
                           nodes, fired, counters)  # fmt: skip
        # New partial matches stand at groups.head; the old ones follow them.
        if groups[group].head < 0:
            groups[group].head = old
        elif old >= 0:
            last = groups[group].head
            while runs[last].next >= 0:
                last = runs[last].next
            runs[last].next = old
    return DONE, len(order)


def is_compiled() -> bool:
    """Whether the kernel's machine code is on disk already, or not needed."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return True
    directory = Path(match.stats.cache_path)  # type: ignore[attr-defined]
    return any(directory.glob("match.match-*.nbi"))


@inlined
def offer(event: int, group: int, time: int, accepted: np.uint64, first: int, code: Code, events: Events,
          groups: Groups, runs: Runs, nodes: Nodes, fired: Fired, counters: I64, stack: Stack,
          host: int) -> int:  # fmt: skip
    """One event to the chain of partial matches that begins at `first`; the chain of those that remain."""
    remaining, previous, run = first, -1, first
    while run >= 0:
        following = runs[run].next
        state = runs[run].state
        keep = True
        if time > runs[run].deadline:
            expire(run, code, runs, nodes, fired, counters)
            keep = False
        elif (accepted & code.state_interest[state]) != NONE or code.state_impatient[state] != 0:
            is_next = False
            if code.state_impatient[state] != 0:
                is_next = events.position[event] == events.position[nodes[runs[run].node].event] + 1
            look(run, event, is_next, accepted, code, events, runs, nodes, stack, host)
            advance(run, event, group, is_next, accepted, time, code, events, groups, runs, nodes, fired, counters,
                    stack, host)  # fmt: skip
            waits = code.state_accept[state] == 2 and (runs[run].seen & code.state_final[state]) == NONE
            keep = runs[run].alive != NONE or waits
        if keep:
            previous = run
        else:
            if previous < 0:
                remaining = following
            else:
                runs[previous].next = following
            release(run, groups, runs, counters)
        run = following
    return remaining


@inlined
def refuses(refusals: I32, number: int, event: int, node: int, accepted: np.uint64, code: Code, events: Events,
            nodes: Nodes, stack: Stack, host: int) -> bool:  # fmt: skip
    """Whether an event is one that ends the loop: by the test (-1: there is none) and the code of a refusal."""
    result = False
    if refusals[number, 0] >= 0 and ((accepted >> np.uint64(refusals[number, 0])) & ONE) != NONE:
        result = holds(refusals[number, 1], refusals[number, 2], event, node, code, events, nodes, stack, host)
    return result


@inlined
def look(run: int, event: int, is_next: bool, accepted: np.uint64, code: Code, events: Events, runs: Runs,
         nodes: Nodes, stack: Stack, host: int) -> None:  # fmt: skip
    """Let the watches of a waiting partial match see an event, and close what they forbid."""
    state = runs[run].state
    seen = runs[run].seen
    for at in range(code.watch_offset[state], code.watch_offset[state + 1]):
        watch = code.watch_number[at]
        bit = ONE << np.uint64(watch)
        if (seen & bit) != NONE or (seen & code.watch_unless[watch]) != NONE:
            continue
        if ((accepted >> np.uint64(code.watch_test[watch])) & ONE) == NONE:
            continue
        if code.watch_immediately[watch] != 0 and not is_next:
            continue
        begin, end = code.watch_code[watch, 0], code.watch_code[watch, 1]
        if begin < end and not holds(begin, end, event, runs[run].node, code, events, nodes, stack, host):
            continue
        refused = refuses(code.watch_refuse, watch, event, runs[run].node, accepted, code, events, nodes, stack, host)
        if refused == (code.watch_refused[watch] != 0):
            seen |= bit
    if seen != runs[run].seen:
        runs[run].seen = seen
        first = code.edge_offset[state]
        for edge in range(first, code.edge_offset[state + 1]):
            if (code.edge_forbid[edge] & seen) != NONE:
                runs[run].alive &= ~(ONE << np.uint64(edge - first))


@inlined
def advance(run: int, event: int, group: int, is_next: bool, accepted: np.uint64, time: int, code: Code, events: Events,
            groups: Groups, runs: Runs, nodes: Nodes, fired: Fired, counters: I64, stack: Stack,
            host: int) -> None:  # fmt: skip
    """Take an event along every open edge that accepts it."""
    state, node = runs[run].state, runs[run].node
    first = code.edge_offset[state]
    for edge in range(first, code.edge_offset[state + 1]):
        bit = ONE << np.uint64(edge - first)
        if (runs[run].alive & bit) == NONE:
            continue
        contiguity = code.edge_contiguity[edge]
        target = code.edge_target[edge]
        if contiguity == IMMEDIATELY:
            runs[run].alive &= ~bit
            if not is_next:
                continue
        if ((accepted >> np.uint64(code.state_test[target])) & ONE) == NONE:
            continue
        begin, end = code.state_code[target, 0], code.state_code[target, 1]
        if begin < end and not holds(begin, end, event, node, code, events, nodes, stack, host):
            continue
        if contiguity == THEN:
            runs[run].alive &= ~bit
        if refuses(code.edge_refuse, edge, event, node, accepted, code, events, nodes, stack, host):
            continue
        runs[run].extended = 1
        take(event, group, target, node, runs[run].seen & code.edge_keep[edge], runs[run].first_time,
             runs[run].first_position, runs[run].anchored, runs[run].deadline, runs[run].selection, time, code,
             events, groups, runs, nodes, fired, counters)  # fmt: skip


@inlined
def start(event: int, group: int, time: int, accepted: np.uint64, code: Code, events: Events, groups: Groups,
          runs: Runs, nodes: Nodes, fired: Fired, counters: I64, stack: Stack, host: int) -> None:  # fmt: skip
    """Open a selection with an event that a first slot accepts."""
    selection = -1
    for at in range(len(code.starts)):
        state = code.starts[at]
        if ((accepted >> np.uint64(code.state_test[state])) & ONE) == NONE:
            continue
        begin, end = code.state_code[state, 0], code.state_code[state, 1]
        if begin < end and not holds(begin, end, event, -1, code, events, nodes, stack, host):
            continue
        if refuses(code.start_refuse, at, event, -1, accepted, code, events, nodes, stack, host):
            continue
        if selection < 0:
            selection = groups[group].selections
            groups[group].selections += 1
            if len(events.opened) > 0:
                events.opened[event] = selection
        if len(events.chosen_offset) > 0 and not is_chosen(group, selection, events.chosen_offset, events.chosen):
            continue
        take(event, group, state, -1, NONE, time, events.position[event], 0, NO_DEADLINE, selection, time, code, events,
             groups, runs, nodes, fired, counters)  # fmt: skip


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
def take(event: int, group: int, state: int, parent: int, seen: np.uint64, first_time: int, first_position: int,
         anchored: int, deadline: int, selection: int, time: int, code: Code, events: Events, groups: Groups,
         runs: Runs, nodes: Nodes, fired: Fired, counters: I64) -> None:  # fmt: skip
    """The partial match that ends in `parent`, longer by one event; it fires, waits on, or both."""
    kind, length = code.window[0], code.window[1]
    if kind == FROM_FIRST:
        deadline = first_time + length
    elif kind == FROM_PREVIOUS:
        deadline = time + length
    elif kind == FROM_ALIAS and anchored == 0:
        # All events lie in [anchor, anchor + T]: until the anchor comes, only events of one time are possible.
        deadline = first_time
        if code.state_anchor[state] != 0:
            anchored, deadline = 1, time + length
    accept = code.state_accept[state]
    if accept == 1 and (kind != FROM_ALIAS or anchored != 0):
        fire(parent, event, state, time, group, first_position, selection, 0, fired, counters)
    alive = (ONE << np.uint64(code.edge_offset[state + 1] - code.edge_offset[state])) - ONE
    if seen != NONE:
        first = code.edge_offset[state]
        for edge in range(first, code.edge_offset[state + 1]):
            if (code.edge_forbid[edge] & seen) != NONE:
                alive &= ~(ONE << np.uint64(edge - first))
    waits = accept == 2 and (seen & code.state_final[state]) == NONE and (kind != FROM_ALIAS or anchored != 0)
    dead = alive == NONE and not waits
    # For timed-out output, an `and` that can go no further still shows that what it continued was continued.
    if dead and (code.window[2] == 0 or code.state_conjunction[state] == 0):
        return
    node = counters[NODES_USED]
    counters[NODES_USED] += 1
    nodes[node].parent, nodes[node].event, nodes[node].state = parent, event, state
    run = counters[FREE]
    if run >= 0:
        counters[FREE] = runs[run].next
    else:
        run = counters[RUNS_USED]
        counters[RUNS_USED] += 1
    runs[run].state, runs[run].node, runs[run].alive, runs[run].seen = state, node, alive, seen
    runs[run].deadline, runs[run].first_time, runs[run].first_position = deadline, first_time, first_position
    runs[run].anchored, runs[run].extended, runs[run].selection, runs[run].group = anchored, dead, selection, group
    runs[run].next = groups[group].head
    groups[group].head = run
    groups[group].live += 1
    counters[LIVE] += 1
    counters[EARLIEST] = min(counters[EARLIEST], deadline)


@inlined
def fire(node: int, event: int, state: int, time: int, group: int, first_position: int, selection: int,
         timed_out: int, fired: Fired, counters: I64) -> None:  # fmt: skip
    at = counters[FIRED_USED]
    counters[FIRED_USED] += 1
    fired[at].node, fired[at].event, fired[at].state, fired[at].time = node, event, state, time
    fired[at].group, fired[at].first_position = group, first_position
    fired[at].selection, fired[at].timed_out = selection, timed_out


@inlined
def expire(run: int, code: Code, runs: Runs, nodes: Nodes, fired: Fired, counters: I64) -> None:
    """The window of a partial match has passed: an awaited absence is fulfilled, anything else is given up."""
    state, node = runs[run].state, runs[run].node
    if code.window[0] == FROM_ALIAS and runs[run].anchored == 0:
        return
    if code.state_accept[state] == 2 and (runs[run].seen & code.state_final[state]) == NONE:
        fire(nodes[node].parent, nodes[node].event, state, runs[run].deadline, runs[run].group,
             runs[run].first_position, runs[run].selection, 0, fired, counters)  # fmt: skip
    elif code.window[2] != 0 and runs[run].extended == 0 and code.state_accept[state] != 1:
        fire(nodes[node].parent, nodes[node].event, state, runs[run].deadline, runs[run].group,
             runs[run].first_position, runs[run].selection, 1, fired, counters)  # fmt: skip


@inlined
def release(run: int, groups: Groups, runs: Runs, counters: I64) -> None:
    groups[runs[run].group].live -= 1
    counters[LIVE] -= 1
    runs[run].state = -1
    runs[run].next = counters[FREE]
    counters[FREE] = run


@jit
def mark_continued(first: int, fired_before: int, conjunction: I32, variable: I32, runs: Runs, nodes: Nodes,
                   fired: Fired, counters: I64) -> None:  # fmt: skip
    """For timed-out output: of the partial matches that one event has made, an `and` that lacks one event of another
    one is continued by it, although that event came earlier."""
    run = first
    while run >= 0:
        if conjunction[runs[run].state] != 0:
            other = first
            while other >= 0 and runs[run].extended == 0:
                before, state = nodes[runs[other].node].parent, runs[other].state
                if lacks_one(runs[run].node, before, state, conjunction, variable, nodes):
                    runs[run].extended = 1
                other = runs[other].next
            for at in range(fired_before, counters[FIRED_USED]):
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
def pass_time(before: int, code: Code, groups: Groups, runs: Runs, nodes: Nodes, fired: Fired, counters: I64) -> None:
    """Time has passed: give up partial matches whose deadline lies before `before` (NO_DEADLINE: the end of input, so
    all of them). `fired` has room for all."""
    counters[EARLIEST] = NO_DEADLINE
    for each in range(counters[RUNS_USED]):
        if runs[each].state < 0:
            continue
        if runs[each].deadline >= before and before != NO_DEADLINE:
            counters[EARLIEST] = min(counters[EARLIEST], runs[each].deadline)
            continue
        # One of the group has passed: go through its chain.
        group = runs[each].group
        previous, run = -1, groups[group].head
        while run >= 0:
            following = runs[run].next
            if runs[run].deadline < before or before == NO_DEADLINE:
                expire(run, code, runs, nodes, fired, counters)
                if previous < 0:
                    groups[group].head = following
                else:
                    runs[previous].next = following
                release(run, groups, runs, counters)
            else:
                previous = run
            run = following


@jit
def path_lengths(fired: Fired, nodes: Nodes, count: int, lengths: I64) -> None:
    """How many events each match has."""
    for at in range(count):
        length, node = 1, fired[at].node
        while node >= 0:
            length += 1
            node = nodes[node].parent
        lengths[at] = length


@jit
def write_paths(
    fired: Fired, nodes: Nodes, code: Code, count: int, offsets: I64, path_event: I64, path_variable: I64
) -> None:
    """The events and variables of each match, in order of position."""
    for at in range(count):
        to = offsets[at + 1] - 1
        path_event[to], path_variable[to] = fired[at].event, code.state_variable[fired[at].state]
        node = fired[at].node
        while node >= 0:
            to -= 1
            path_event[to], path_variable[to] = nodes[node].event, code.state_variable[nodes[node].state]
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
            runs[run].node = renumbered[runs[run].node]
    counters[NODES_USED] = kept


@jit
def oldest_start(runs: Runs, counters: I64, oldest: I64) -> None:
    """Lower `oldest`, by group, to the first position of the earliest partial match."""
    for run in range(counters[RUNS_USED]):
        if runs[run].state >= 0:
            group = runs[run].group
            oldest[group] = min(oldest[group], runs[run].first_position)
