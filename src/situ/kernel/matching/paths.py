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
