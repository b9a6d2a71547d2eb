"""The kernel's state and its driver: pools that grow, paths written out, memory given back."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from situ.core.time import END
from situ.kernel.arrays import (
    COUNTERS,
    EARLIEST,
    FIRED,
    FIRED_USED,
    FREE,
    GROUP,
    I64,
    LIVE,
    NODE,
    NODES_USED,
    RUN,
    RUNS_USED,
    SHARD,
    SHARDS,
    SILENCE,
    SILENCES,
    SILENCES_USED,
    Code,
    Events,
    Fired,
    Groups,
    Machine,
    NewEvents,
    Nodes,
    Paths,
    Pools,
    Runs,
    Silences,
)
from situ.kernel.matching.machine import host_address
from situ.kernel.matching.match import match, pass_time
from situ.kernel.matching.partial_matches import DONE, FIRED_FULL, NODES_FULL, RUNS_FULL, SILENCES_FULL
from situ.kernel.matching.paths import move_nodes, number_nodes, oldest_start, path_lengths, write_paths
from situ.kernel.matching.sequences import Completed, is_sequence, match_sequences
from situ.kernel.matching.silences import begin_all, pass_silences
from situ.kernel.program.conditions import STACK_DEPTH
from situ.kernel.program.program import Program

#: Partial matches that a matcher has room for at first; small enough to stay in the processor's cache.
POOL = 4096
#: Events for which a thread is worth starting.
WORTH_A_THREAD = 50_000


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
        """The matches with these numbers, in the order asked for."""
        if len(self) == 0:
            return self
        columns = [column[rows] for column in self.columns]
        length = len(self.path_event) // len(self)
        if (np.diff(self.offsets) == length).all():  # nearly always: no loops
            paths = (path.reshape(-1, length)[rows].reshape(-1) for path in (self.path_event, self.path_variable))
            return Matches(*[*columns, np.arange(len(rows) + 1) * length, *paths])
        lengths = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        flat = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][rows] - offsets[:-1], lengths)
        return Matches(*[*columns, offsets, self.path_event[flat], self.path_variable[flat]])

    @property
    def paths(self) -> Paths:
        """The events of the matches, as kernels take them."""
        return Paths(self.offsets, self.path_event, self.path_variable)

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """The columns with one value per match."""
        return self.time, self.completing, self.group, self.first_position, self.selection, self.timed_out


NO_MATCHES = Matches(
    time=np.zeros(0, np.int64),
    completing=np.zeros(0, np.int64),
    group=np.zeros(0, np.int64),
    first_position=np.zeros(0, np.int64),
    selection=np.zeros(0, np.int64),
    timed_out=np.zeros(0, np.uint8),
    offsets=np.zeros(1, np.int64),
    path_event=np.zeros(0, np.int64),
    path_variable=np.zeros(0, np.int16),
)


def concat_matches(parts: list[Matches]) -> Matches:
    """The matches of all parts, one after the other."""
    parts = [part for part in parts if len(part)] or [NO_MATCHES]
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    columns = [np.concatenate(pieces) for pieces in zip(*(part.columns for part in parts), strict=True)]
    events = np.concatenate([part.path_event for part in parts])
    return Matches(*[*columns, offsets, events, np.concatenate([part.path_variable for part in parts])])


#: Asks whether so many bytes more may be used; raises MemoryExceeded if not.
Reserve = Callable[[int], None]

#: Evaluates a host condition (its number, the event under test, the last node of the path, the nodes): 1 if it holds.
Host = Callable[[int, int, int, Nodes], int]


def _records(dtype: np.dtype[Any], size: int) -> Any:
    """Kernels name the fields of records. Without the compiler only NumPy's record arrays let them, which are slow to
    hand over to compiled ones."""
    records = np.empty(size, dtype)
    return records.view(np.recarray) if numba.config.DISABLE_JIT else records  # type: ignore[attr-defined]


_NONE_FIRED = _records(FIRED, 0)


def _grown(records: Any, size: int, used: int) -> Any:
    """Records with room for `size` of them; those in use are kept."""
    larger = _records(records.dtype, size)
    larger[:used] = records[:used]
    return larger


@dataclass(slots=True)
class Shard:
    """Partial matches of some of the groups: shard s of n, a power of two, has the groups g with g % n == s."""

    runs: Runs
    nodes: Nodes
    silences: Silences
    counters: I64
    reserve: Reserve
    machine: Machine

    @classmethod
    def empty(cls, reserve: Reserve, number: int = 0, shards: int = 1) -> Shard:
        """A shard without partial matches: one of so many."""
        counters = np.zeros(COUNTERS, np.int64)
        counters[FREE], counters[EARLIEST], counters[SHARD], counters[SHARDS] = -1, END, number, shards
        machine = Machine(
            np.zeros(STACK_DEPTH, np.int64), np.zeros(STACK_DEPTH), np.zeros(STACK_DEPTH, np.uint8), host=0
        )
        return cls(_records(RUN, POOL), _records(NODE, 4 * POOL), _records(SILENCE, 1), counters, reserve, machine)

    def run(self, new: NewEvents, code: Code, events: Events, groups: Groups, host: int) -> Matches:
        """Offer the new events of its groups. Returns the matches that they complete or whose deadline they pass."""
        expected = len(new.row) // (2 * new.shards)
        fired = _records(FIRED, max(4096, expected))
        if len(self.nodes) < 2 * expected:  # less often full, so that fewer pieces are joined
            self._grow_nodes(2 * expected)
        if len(self.runs) < expected // 4:
            self._grow_runs(expected // 4)
        machine = self.machine._replace(host=host)
        pieces: list[Matches] = []
        at, status = 0, -1
        while status != DONE:
            pools = Pools(groups, self.runs, self.nodes, fired, self.silences, self.counters)
            status, at = match(at, new, code, events, pools, machine)
            room = _room_for(code, groups, int(new.group[at])) if status != DONE else 0
            fired = self._make_room(status, room, fired, code, pieces)
        pieces.append(self.written(fired, code))
        return concat_matches(pieces)

    def run_sequences(self, new: NewEvents, code: Code, events: Events, groups: Groups, host: int) -> Matches:
        """The same for a program that is a sequence."""
        steps, nothing, machine = len(code.state_test), _NONE_FIRED, self.machine._replace(host=host)
        expected = max(64, len(new.row) // (2 * new.shards))
        if len(self.runs) < expected:  # less often full
            self._grow_runs(expected)
        if len(self.nodes) < 2 * expected:
            self._grow_nodes(2 * expected)
        completed = Completed.room_for(expected, steps)
        pieces: list[Matches] = []
        at, status = 0, -1
        while status != DONE:
            pools = Pools(groups, self.runs, self.nodes, nothing, self.silences, self.counters)
            status, at = match_sequences(at, new, code, events, pools, completed, machine)
            if status in (DONE, FIRED_FULL):
                pieces.append(self._completed(completed, code))
            if status == FIRED_FULL:
                room = max(expected, 2 * int(groups["live"][new.group[at]]))
                self.reserve(8 * (5 + steps) * room)
                completed = Completed.room_for(room, steps)
            elif status == RUNS_FULL:
                self._grow_runs(1)
            elif status == NODES_FULL:
                self._make_room_for_nodes(int(groups["live"][new.group[at]]) + 1)
        return concat_matches(pieces)

    def _completed(self, completed: Completed, code: Code) -> Matches:
        """The matches that were found since the last time."""
        count, steps = int(self.counters[FIRED_USED]), len(code.state_test)
        self.counters[FIRED_USED] = 0
        if count == 0:
            return NO_MATCHES
        return Matches(
            time=completed.time[:count],
            completing=completed.event[:count],
            group=completed.group[:count],
            first_position=completed.first_position[:count],
            selection=completed.selection[:count],
            timed_out=np.zeros(count, np.uint8),
            offsets=np.arange(0, steps * count + 1, steps),
            path_event=completed.path[: steps * count],
            path_variable=np.tile(code.state_variable.astype(np.int16), count),
        )

    def _make_room(self, status: int, room: int, fired: Fired, code: Code, pieces: list[Matches]) -> Fired:
        """Enlarge what a kernel has found too small; what it has fired so far may be written into `pieces`."""
        if status == RUNS_FULL:
            self._grow_runs(room)
        elif status == NODES_FULL:
            pieces.append(self.written(fired, code))
            self._make_room_for_nodes(room)
        elif status == FIRED_FULL:
            pieces.append(self.written(fired, code))
            if len(fired) < 2 * room:
                self.reserve(4 * room * FIRED.itemsize)
                return _records(FIRED, 4 * room)
        elif status == SILENCES_FULL:
            size = 2 * len(self.silences) + POOL
            self.reserve(size * SILENCE.itemsize)
            self.silences = _grown(self.silences, size, int(self.counters[SILENCES_USED]))
        return fired

    def pass_time(self, before: int, code: Code, groups: Groups) -> Matches:
        """What fires or times out because no event before `before` will come any more."""
        live = int(self.counters[LIVE])
        if live == 0 or (before <= self.counters[EARLIEST] and before != END):
            return NO_MATCHES
        fired = _records(FIRED, live)
        pieces: list[Matches] = []
        status = DONE if code.window[SILENCES] == 0 else -1
        while status != DONE:
            pools = Pools(groups, self.runs, self.nodes, fired, self.silences, self.counters)
            status = pass_silences(before, code, pools)
            fired = self._make_room(status, _most_edges(code), fired, code, pieces)
        pieces.append(self.written(fired, code))
        if len(fired) < self.counters[LIVE]:
            fired = _records(FIRED, int(self.counters[LIVE]))
        pass_time(before, code, Pools(groups, self.runs, self.nodes, fired, self.silences, self.counters))
        pieces.append(self.written(fired, code))
        return concat_matches(pieces)

    def take_silences(self) -> Silences:
        """The silences that were over since the last time."""
        count = int(self.counters[SILENCES_USED])
        self.counters[SILENCES_USED] = 0
        return self.silences[:count]

    def written(self, fired: Fired, code: Code) -> Matches:
        """The matches that the kernel has fired so far, with their paths. Asked for before nodes are given back."""
        count = int(self.counters[FIRED_USED])
        self.counters[FIRED_USED] = 0
        if count == 0:
            return NO_MATCHES
        offsets = np.zeros(count + 1, np.int64)
        path_lengths(fired, self.nodes, count, offsets[1:])
        np.cumsum(offsets, out=offsets)
        self.reserve(10 * int(offsets[-1]) + count * FIRED.itemsize)
        path_event, path_variable = np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int16)
        write_paths(fired, self.nodes, code, count, Paths(offsets, path_event, path_variable))
        names = ("time", "event", "group", "first_position", "selection", "timed_out")
        return Matches(*[*(fired[name][:count].copy() for name in names), offsets, path_event, path_variable])

    def compact_nodes(self) -> I64:
        """Give back nodes that no partial match needs; the events of those that remain."""
        numbers = np.empty(self.counters[NODES_USED], np.int64)
        kept = number_nodes(self.runs, self.nodes, self.counters, numbers)
        moved = _records(NODE, kept)
        move_nodes(self.runs, self.nodes, self.counters, numbers, kept, moved)
        self.nodes[:kept] = moved
        return self.nodes["event"][:kept]

    def make_room(self, runs: int, nodes: int) -> None:
        """Let so many runs and nodes follow those that are in use, and as many more may come."""
        if self.counters[RUNS_USED] + runs > len(self.runs):
            self._grow_runs(2 * runs)
        if self.counters[NODES_USED] + nodes > len(self.nodes):
            self._grow_nodes(2 * len(self.nodes) + 2 * nodes)

    def remove_groups(self, gone: np.ndarray, groups: Groups) -> None:
        """Remove the runs of groups that are marked by number. The others move together, so that none are free."""
        used = int(self.counters[RUNS_USED])
        runs = self.runs[:used]
        stays = runs["state"] >= 0
        stays[stays] = ~gone[runs["group"][stays]]
        number = np.where(stays, np.cumsum(stays) - 1, -1)  # by run, the number that it gets; -1 stands for none
        kept = runs[stays]
        kept["next"] = np.where(kept["next"] >= 0, number[kept["next"]], -1)
        mine = np.unique(kept["group"])
        groups["head"][mine] = number[groups["head"][mine]]
        self.runs[: len(kept)] = kept
        self.runs["state"][len(kept) : used] = -1
        self.counters[FREE] = -1
        self.counters[RUNS_USED] = self.counters[LIVE] = len(kept)

    def _grow_runs(self, room: int) -> None:
        before = len(self.runs)
        self.reserve((2 * before + room) * RUN.itemsize)
        self.runs = _grown(self.runs, 2 * before + room, int(self.counters[RUNS_USED]))

    def _make_room_for_nodes(self, room: int) -> None:
        self.compact_nodes()
        if self.counters[NODES_USED] + room > len(self.nodes) // 4:  # or they would soon be full again
            self._grow_nodes(2 * len(self.nodes) + room)

    def _grow_nodes(self, size: int) -> None:
        self.reserve(size * NODE.itemsize)
        self.nodes = _grown(self.nodes, size, int(self.counters[NODES_USED]))


@dataclass(frozen=True, slots=True)
class Silent:
    """Silences that were over in a step. They get the rows of a store from `first` on, those of a shard together; their
    numbers until then are from -2 downwards, shard by shard in turn."""

    silences: Silences
    first: int
    lengths: I64  # by shard

    def rows(self, events: I64) -> I64:
        """The numbers of events, and of silences as rows."""
        rows, silent = events.copy(), np.flatnonzero(events < 0)
        number, begin = -2 - events[silent], self.first + np.cumsum(self.lengths) - self.lengths
        rows[silent] = begin[number % len(begin)] + number // len(begin)
        return rows


def _most_edges(code: Code) -> int:
    return max(1, int(np.diff(code.edge_offset).max(initial=0)))


def _room_for(code: Code, groups: Groups, group: int) -> int:
    return int(groups["live"][group]) * (_most_edges(code) + 1) + len(code.starts) + len(code.begins)


@dataclass
class Matcher:
    """Finds the matches of one program, batch after batch."""

    program: Program
    is_sequence: bool
    shards: list[Shard]
    groups: Groups

    @classmethod
    def empty(cls, program: Program, shards: int, reserve: Reserve) -> Matcher:
        parts = [Shard.empty(reserve, number, shards) for number in range(shards)]
        return cls(program, is_sequence(program.code), parts, _records(GROUP, 0))

    @property
    def live(self) -> int:
        """How many partial matches there are."""
        return sum(int(shard.counters[LIVE]) for shard in self.shards)

    @property
    def earliest(self) -> int:
        """No partial match has an earlier deadline. At the end of input (END) all of them are over."""
        return min(int(shard.counters[EARLIEST]) if shard.counters[LIVE] else END for shard in self.shards)

    def add_groups(self, count: int) -> None:
        """Make room for `count` groups in all."""
        before = len(self.groups)
        if count > before:
            self.groups = _grown(self.groups, count, before)
            for name in GROUP.names or ():
                self.groups[name][before:] = -1 if name in ("head", "living") else 0

    def run(self, new: NewEvents, events: Events, host: Host | None) -> Matches:
        """Offer new events, the shards side by side."""
        count = len(self.shards)
        if count == 1 or len(new.row) < WORTH_A_THREAD:
            return concat_matches([self._run_shard(s, new, events, host) for s in range(count)])
        with ThreadPoolExecutor(count - 1) as pool:
            others = [pool.submit(self._run_shard, s, new, events, host) for s in range(1, count)]
            first = self._run_shard(0, new, events, host)
            return concat_matches([first, *(other.result() for other in others)])

    def _run_shard(self, number: int, new: NewEvents, events: Events, host: Host | None) -> Matches:
        shard = self.shards[number]
        bound = (lambda condition, event, node: host(condition, event, node, shard.nodes)) if host else None
        entry, address = host_address(bound) if bound is not None else (None, 0)
        mine = new._replace(shard=number, shards=len(self.shards))
        is_plain = self.is_sequence and len(events.opened) == len(events.chosen_offset) == 0
        run = shard.run_sequences if is_plain else shard.run
        matches = run(mine, self.program.code, events, self.groups, address)
        del entry  # kept until here: C calls it
        return matches

    def pass_time(self, before: int) -> Matches:
        """What fires or times out because no event before `before` will come any more."""
        return concat_matches([shard.pass_time(before, self.program.code, self.groups) for shard in self.shards])

    def begin(self, time: int) -> None:
        """Let silences that come first begin at a time, before any event. There is one group."""
        if self.groups["begun"][0] == 0:
            shard, nothing = self.shards[0], _NONE_FIRED
            begin_all(0, time, self.program.code,
                      Pools(self.groups, shard.runs, shard.nodes, nothing, shard.silences, shard.counters))  # fmt: skip

    def number_silences(self, first: int) -> Silent:
        """The silences that were over since the last time, which are events from number `first` on from now."""
        parts = [shard.take_silences() for shard in self.shards]
        silent = Silent(np.concatenate(parts), first, np.array(list(map(len, parts))))
        if len(silent.silences):
            for shard in self.shards:
                events = shard.nodes["event"][: shard.counters[NODES_USED]]
                unnumbered = np.flatnonzero(events < 0)
                events[unnumbered] = silent.rows(events[unnumbered])
        return silent

    def oldest_start(self) -> I64:
        """Per group, the first position of its earliest partial match (END if there is none)."""
        oldest = np.full(len(self.groups), END)
        for shard in self.shards:
            oldest_start(shard.runs, shard.counters, oldest)
        return oldest

    def mark_held(self, held: np.ndarray) -> None:
        """Give back nodes that no partial match needs, and mark the events of those that remain."""
        for shard in self.shards:
            held[shard.compact_nodes()] = True

    def remove_groups(self, gone: np.ndarray) -> None:
        """Remove the partial matches of groups that are marked by number."""
        for shard in self.shards:
            shard.remove_groups(gone, self.groups)
        self.groups["head"][gone] = -1
        self.groups["live"][gone] = 0

    def renumber_events(self, number: I64) -> None:
        """Events are numbered anew: event i becomes number[i]."""
        for shard in self.shards:
            used = shard.counters[NODES_USED]
            shard.nodes["event"][:used] = number[shard.nodes["event"][:used]]
