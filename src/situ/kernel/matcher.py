"""The kernel's state and its driver: pools that grow, paths written out, memory given back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from situ.kernel.arrays import (
    COUNTERS,
    EARLIEST,
    FIRED_USED,
    FREE,
    LIVE,
    NO_DEADLINE,
    NODES_USED,
    RUNS_USED,
    Events,
    Fired,
    Groups,
    I64,
    Nodes,
    Runs,
    Stack,
)
from situ.kernel.machine import DEPTH, host_address
from situ.kernel.match import (
    DONE,
    FIRED_FULL,
    NODES_FULL,
    RUNS_FULL,
    compact_nodes,
    match,
    oldest_start,
    pass_time,
    path_lengths,
    write_paths,
)
from situ.kernel.program import Program

_RUN_TYPES = (np.int32, np.int32, np.uint64, np.uint64, np.int64, np.int64, np.int64, np.uint8, np.uint8, np.int64,
              np.int64, np.int32)  # fmt: skip
_NODE_TYPES = (np.int32, np.int64, np.int32)
_FIRED_TYPES = (np.int32, np.int64, np.int32, np.int64, np.int64, np.int64, np.int64, np.uint8)
_GROUP_TYPES = (np.int32, np.int32, np.int64, np.int64)


@dataclass(frozen=True, slots=True)
class Matches:
    """Matches in columns. Match m has the events path_event[offsets[m]:offsets[m + 1]], in order of position."""

    time: I64
    completing: I64  # the event that completed it
    group: I64
    first_position: I64
    selection: I64
    timed_out: np.ndarray
    offsets: I64
    path_event: I64
    path_variable: I64

    def __len__(self) -> int:
        return len(self.time)

    def take(self, rows: I64) -> Matches:
        """Some of the matches, in the order asked for."""
        lengths = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        flat = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][rows] - offsets[:-1], lengths)
        columns = (column[rows] for column in self.columns)
        return Matches(*columns, offsets, self.path_event[flat], self.path_variable[flat])

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """The columns with one value per match."""
        return self.time, self.completing, self.group, self.first_position, self.selection, self.timed_out


NO_MATCHES = Matches(*(np.zeros(0, np.int64) for _ in range(5)), np.zeros(0, np.uint8), np.zeros(1, np.int64),
                     np.zeros(0, np.int64), np.zeros(0, np.int64))  # fmt: skip


def concat_matches(parts: list[Matches]) -> Matches:
    parts = [part for part in parts if len(part)] or [NO_MATCHES]
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    columns = [np.concatenate(pieces) for pieces in zip(*(part.columns for part in parts), strict=True)]
    events = np.concatenate([part.path_event for part in parts])
    return Matches(*columns, offsets, events, np.concatenate([part.path_variable for part in parts]))


Pool = TypeVar("Pool", Runs, Nodes, Fired, Groups)


def _pool(kind: type[Pool], types: tuple[type, ...], size: int) -> Pool:
    return kind(*(np.empty(size, dtype) for dtype in types))


def _grown(pool: Pool, size: int) -> Pool:
    def grow(column: np.ndarray) -> np.ndarray:
        larger = np.empty(size, column.dtype)
        larger[: len(column)] = column
        return larger

    return type(pool)(*(grow(column) for column in pool))


@dataclass
class Matcher:
    """Finds the matches of one program, batch after batch."""

    program: Program
    runs: Runs
    nodes: Nodes
    groups: Groups
    counters: I64

    @classmethod
    def empty(cls, program: Program) -> Matcher:
        counters = np.zeros(COUNTERS, np.int64)
        counters[FREE], counters[EARLIEST] = -1, NO_DEADLINE
        runs = _pool(Runs, _RUN_TYPES, 256)
        runs.state[:] = -1
        return cls(program, runs, _pool(Nodes, _NODE_TYPES, 256), _pool(Groups, _GROUP_TYPES, 0), counters)

    @property
    def live(self) -> int:
        """How many partial matches there are."""
        return int(self.counters[LIVE])

    def add_groups(self, count: int) -> None:
        """Make room for `count` groups in all."""
        before = len(self.groups.head)
        if count > before:
            self.groups = _grown(self.groups, count)
            self.groups.head[before:] = -1
            for column in self.groups[1:]:
                column[before:] = 0

    def run(self, events: Events, host: Callable[[int, int, int], int] | None) -> Matches:
        """Offer the new events in order; the matches they complete or whose deadline they pass."""
        code = self.program.code
        fired = _pool(Fired, _FIRED_TYPES, max(1024, len(events.order) // 4))
        stack = Stack(np.zeros(DEPTH, np.int64), np.zeros(DEPTH, np.float64), np.zeros(DEPTH, np.uint8))
        entry, address = host_address(host) if host is not None else (None, 0)
        found: list[Matches] = []
        at, status = 0, -1
        while status != DONE:
            status, at = match(at, code, events, self.groups, self.runs, self.nodes, fired, self.counters, stack, address)
            room = int(self._room_for(events, at)) if status != DONE else 0
            if status == RUNS_FULL:
                self._grow_runs(room)
            elif status == NODES_FULL:
                found.append(self._written(fired, events))
                self._compact_nodes(room)
            elif status == FIRED_FULL:
                found.append(self._written(fired, events))
                if len(fired.node) < 2 * room:
                    fired = _grown(fired, 4 * room)
        found.append(self._written(fired, events))
        del entry
        return concat_matches(found)

    def pass_time(self, before: int, events: Events) -> Matches:
        """What fires or times out because no event before `before` will come any more."""
        if self.live == 0 or (before <= self.counters[EARLIEST] and before != NO_DEADLINE):
            return NO_MATCHES
        fired = _pool(Fired, _FIRED_TYPES, self.live)
        pass_time(before, self.program.code, self.groups, self.runs, self.nodes, fired, self.counters)
        return self._written(fired, events)

    def oldest_start(self) -> I64:
        """Per group, the first position of its earliest partial match."""
        oldest = np.empty(len(self.groups.head), np.int64)
        oldest_start(self.groups, self.runs, self.counters, oldest)
        return oldest

    def retain(self) -> I64:
        """Give back nodes that no partial match needs; the events that remain, sorted."""
        compact_nodes(self.runs, self.nodes, self.counters, np.empty(self.counters[NODES_USED], np.int64))
        return np.unique(self.nodes.event[: self.counters[NODES_USED]])

    def renumber_events(self, kept: I64) -> None:
        """Events are numbered anew: event kept[i] becomes i."""
        used = self.counters[NODES_USED]
        self.nodes.event[:used] = np.searchsorted(kept, self.nodes.event[:used])

    def keep_groups(self, kept: I64) -> None:
        """Groups are numbered anew: group kept[i] becomes i; the others have no partial matches."""
        used = self.counters[RUNS_USED]
        live = self.runs.state[:used] >= 0
        self.runs.group[:used][live] = np.searchsorted(kept, self.runs.group[:used][live])
        self.groups = Groups(*(column[kept] for column in self.groups))

    def _room_for(self, events: Events, at: int) -> int:
        group = events.group[events.order[at]]
        most_edges = max(1, int(np.diff(self.program.code.edge_offset).max(initial=0)))
        return int(self.groups.live[group]) * (most_edges + 1) + len(self.program.code.starts)

    def _grow_runs(self, room: int) -> None:
        before = len(self.runs.state)
        self.runs = _grown(self.runs, 2 * before + room)
        self.runs.state[before:] = -1

    def _compact_nodes(self, room: int) -> None:
        compact_nodes(self.runs, self.nodes, self.counters, np.empty(self.counters[NODES_USED], np.int64))
        if self.counters[NODES_USED] + room > len(self.nodes.event) // 2:
            self.nodes = _grown(self.nodes, 2 * len(self.nodes.event) + room)

    def _written(self, fired: Fired, events: Events) -> Matches:
        """The matches found so far with their paths, before nodes are given back."""
        count = int(self.counters[FIRED_USED])
        self.counters[FIRED_USED] = 0
        if count == 0:
            return NO_MATCHES
        offsets = np.zeros(count + 1, np.int64)
        path_lengths(fired, self.nodes, count, offsets[1:])
        np.cumsum(offsets, out=offsets)
        path_event, path_variable = np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int64)
        write_paths(fired, self.nodes, self.program.code, count, offsets, path_event, path_variable)
        columns = (fired.time, fired.event, fired.group, fired.first_position, fired.selection, fired.timed_out)
        return Matches(*(column[:count].copy() for column in columns), offsets, path_event, path_variable)
