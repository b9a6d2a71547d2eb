"""The events of matches and of partial matches: written out, counted, and forgotten."""

from __future__ import annotations

from situ.kernel.arrays import I64, NODES_USED, RUNS_USED, Code, Fired, Nodes, Paths, Runs
from situ.kernel.matching.machine import jit


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
def number_nodes(runs: Runs, nodes: Nodes, counters: I64, numbers: I64) -> int:
    """Number the nodes on the path of a live partial match, parents first; the others get -1. Returns how many they
    are."""
    used = counters[NODES_USED]
    for node in range(used):
        numbers[node] = -1
    for run in range(counters[RUNS_USED]):
        if runs[run].state >= 0:
            node = runs[run].node
            while node >= 0 and numbers[node] == -1:
                numbers[node] = -2  # it gets one
                node = nodes[node].parent
    kept = 0
    for each in range(used):
        depth, node = 0, each
        while node >= 0 and numbers[node] == -2:
            depth += 1
            node = nodes[node].parent
        node = each
        for above in range(depth):
            numbers[node] = kept + depth - 1 - above
            node = nodes[node].parent
        kept += depth
    return kept


@jit
def move_nodes(runs: Runs, nodes: Nodes, counters: I64, numbers: I64, kept: int, moved: Nodes) -> None:
    """Write the nodes that have a number to their places in `moved`, and let partial matches know."""
    for node in range(counters[NODES_USED]):
        to = numbers[node]
        if to >= 0:
            parent = nodes[node].parent
            moved[to].parent = numbers[parent] if parent >= 0 else -1
            moved[to].event, moved[to].state = nodes[node].event, nodes[node].state
    for run in range(counters[RUNS_USED]):
        if runs[run].state >= 0:
            runs[run].node = numbers[runs[run].node] if runs[run].node >= 0 else -1
    counters[NODES_USED] = kept


@jit
def oldest_start(runs: Runs, counters: I64, oldest: I64) -> None:
    """Lower `oldest`, by group, to the first position of the earliest partial match."""
    for run in range(counters[RUNS_USED]):
        if runs[run].state >= 0:
            group = runs[run].group
            oldest[group] = min(oldest[group], runs[run].first_position)
