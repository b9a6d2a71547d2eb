"""Windows: which events they hold, until when, and what is kept for those that are open (docs/language.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from situ.core.errors import StateError
from situ.core.memory import MemoryBudget
from situ.core.time import BEGINNING, END
from situ.graph.query import Window
from situ.kernel.arrays import I64
from situ.kernel.batch import ORIGINS, Batch, Calls, one_chunk
from situ.kernel.matching.order import counting_order, number_positions
from situ.kernel.matching.selections import key_columns
from situ.kernel.operator import SLICE, Chosen
from situ.kernel.program.window_program import WINDOW_TABLES, WindowSteps
from situ.kernel.state.checks import (
    FARTHEST,
    numbers,
    require,
    require_between,
    require_columns,
    require_event_times,
    require_times,
    require_whole,
)
from situ.kernel.state.groups import GroupIndex, is_among
from situ.kernel.state.sections import key_columns_of
from situ.kernel.state.store import Store, concat_stores, empty_store, gather, order_parts

#: So many pairs of a window and an event are looked at together, and the memory that one of them takes meanwhile.
PAIRS_AT_ONCE, BYTES_PER_PAIR = 1 << 22, 64


@dataclass(frozen=True, slots=True)
class Members:
    """Which event is in which window: pairs, sorted by window end, group and the order of events.

    `record` numbers the distinct (window, group); per record: its window's number, its time and its group.
    """

    event: I64
    record: I64
    window: I64
    time: I64
    group: I64

    def __len__(self) -> int:
        return len(self.time)


class WindowContent:
    """Events that open windows still need, of all inputs of one operator."""

    def __init__(self, steps: WindowSteps, calls: Calls, memory: MemoryBudget, chosen: Chosen | None) -> None:
        self.steps, self.context, self.window = steps, steps.context, steps.window
        self.calls, self.memory, self.chosen = calls, memory, chosen
        # For windows of events, by group: positions so far, and windows closed.
        self.counted = GroupIndex()
        self.counts, self.closed = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.retained = empty_store(self.context, steps.stored)
        marks = {f"_in {alias}": pa.array([], pa.bool_()) for alias in steps.conditions}
        self.retained = replace(self.retained, columns={**self.retained.columns, **marks})
        self.closed_before = BEGINNING

    def add(self, inputs: Mapping[str, Batch]) -> tuple[Store, GroupIndex]:
        """All events at hand, in order of group and position."""
        parts = []
        for name in self.context.inputs:
            if name in inputs and len(inputs[name]):
                parts.append((name, self._read(name, inputs[name])))
        parts = [(name, batch) for name, batch in parts if len(batch)]
        if not parts:
            return self._grouped(self.retained)
        return self._grouped(concat_stores(self.retained, self._store(parts)))

    def _read(self, name: str, batch: Batch) -> Batch:
        """Rows that some step accepts; all of them where windows count events. Marks which steps accept them."""
        masks = {}
        for alias, conditions in self.steps.conditions.items():
            if self.steps.types[alias] == name:
                mask = batch.mask(conditions, self.calls)
                masks[f"_in {alias}"] = np.ones(len(batch), np.bool_) if mask is None else mask
        wanted = np.logical_or.reduce(list(masks.values()))
        rows = np.arange(len(batch)) if self.window.unit == "events" or wanted.all() else np.flatnonzero(wanted)
        chosen = batch.take(rows) if len(rows) < len(batch) else batch.take(np.arange(len(batch)))
        for alias in self.steps.conditions:
            mask = masks.get(f"_in {alias}")
            inside = mask[rows] if mask is not None else np.zeros(len(rows), np.bool_)
            chosen.columns[f"_in {alias}"] = pa.array(inside)
        return chosen

    def _store(self, parts: list[tuple[str, Batch]]) -> Store:
        """New events with their positions."""
        columns = gather(self.context, self.steps.stored, parts)
        for alias in self.steps.conditions:
            columns[f"_in {alias}"] = pa.concat_arrays([batch.columns[f"_in {alias}"] for _, batch in parts])
        lengths = [len(batch) for _, batch in parts]
        ranks = np.repeat(np.array([self.context.inputs[name].rank for name, _ in parts], np.int8), lengths)
        time = np.concatenate([batch.times for _, batch in parts])
        index = self.counted if self.window.unit == "events" else GroupIndex()
        group = index.numbers([columns[f"group.{key}"] for key in self.context.group_by], len(time))
        order = order_parts(self.context, parts, ranks, group, len(index), time)
        position = np.zeros(len(time), np.int64)
        if self.window.unit == "events":
            self.counts, self.closed = (_grown(numbers, len(index)) for numbers in (self.counts, self.closed))
            number_positions(order, group, position, self.counts)
        store = Store(ranks, time, group, position, np.zeros(len(time), np.uint8), columns)
        return store.take(order)

    def _grouped(self, store: Store) -> tuple[Store, GroupIndex]:
        index = GroupIndex()
        keys = [store.columns[f"group.{key}"] for key in self.context.group_by]
        store.group = index.numbers(keys, len(store))
        return store.take(counting_order(store.group, len(index))), index

    def idle(self, before: int) -> bool:
        """Whether no window ends without further events; then time has passed up to `before`."""
        if self.window.unit == "time":
            if len(self.retained):
                return False
            self.closed_before = max(self.closed_before, before)
        return True

    def members(self, store: Store, index: GroupIndex, before: int) -> Iterator[Members]:
        """The content of the windows that close now, some windows at a time."""
        first, last = self._closing(store, index, before)
        for low, high in pieces_of_windows(first, last, PAIRS_AT_ONCE):
            self.memory.require(
                BYTES_PER_PAIR * PAIRS_AT_ONCE,
                self.context.operator.name,
                f"an event lies in up to {-(-self.window.over // self.window.every):,} windows",
                "Let windows begin less often, or be shorter.",
            )
            yield self._members(store, np.maximum(first, low), np.minimum(last, high))

    def _closing(self, store: Store, index: GroupIndex, before: int) -> tuple[I64, I64]:
        """By event, the numbers of the first and of the last window that close now and hold it; none, if the last comes
        before the first."""
        every = self.window.every
        first, last = windows_holding(self.window, self._places(store))
        if self.window.unit == "time":
            latest = last if before == END else np.minimum(last, before // every)
            return np.maximum(first, self.closed_before // every + 1), latest
        counted = self._counted(index)[store.group]
        return np.maximum(first, self.closed[counted]), np.minimum(last, self.counts[counted] // every - 1)

    def _places(self, store: Store) -> I64:
        """What decides which windows hold an event: its time, or its position in its group."""
        return store.time if self.window.unit == "time" else store.position

    def _members(self, store: Store, first: I64, last: I64) -> Members:
        counts = np.maximum(last - first + 1, 0)
        event = np.repeat(np.arange(len(store)), counts)
        begin = np.cumsum(counts) - counts
        number = first[event] + np.arange(len(event)) - begin[event]
        if self.context.slice_us is not None and self.window.unit == "time":
            slices = store.columns[f"group.{SLICE}"].take(pa.array(event))
            begins = number * self.window.every - self.window.over
            mine = self.context.begins_in_slice(begins, slices)
            event, number = event[mine], number[mine]
        if self.context.own_us is not None:
            mine = self.context.begins_in_span(number * self.window.every - self.window.over)
            event, number = event[mine], number[mine]
        if self.chosen is not None:
            mine = self._chosen(store, event, number)
            event, number = event[mine], number[mine]
        return self._sorted(event, number, store)

    def _counted(self, index: GroupIndex) -> I64:
        """The numbers under which groups are counted."""
        return self.counted.numbers(index.keys(np.arange(len(index)), self._key_types), len(index))

    def _chosen(self, store: Store, event: I64, number: I64) -> np.ndarray:
        """Whether the window of this number of the event's group is to be processed."""
        chosen = [(*key, n) for key, numbers in (self.chosen or {}).items() for n in numbers]
        wanted = GroupIndex()
        wanted.numbers(key_columns(chosen, [*self._key_types, pa.int64()]), len(chosen))
        count = len(wanted)
        keys = [store.columns[f"group.{key}"].take(pa.array(event)) for key in self.context.group_by]
        return wanted.numbers([*keys, pa.array(number)], len(event)) < count

    def _sorted(self, event: I64, number: I64, store: Store) -> Members:
        order = np.lexsort((event, store.group[event], number))
        event, number = event[order], number[order]
        group = store.group[event]
        fresh = np.ones(len(event), np.bool_)
        fresh[1:] = (number[1:] != number[:-1]) | (group[1:] != group[:-1])
        record = np.cumsum(fresh) - 1
        heads = np.flatnonzero(fresh)
        if self.window.unit == "time":
            time = number[heads] * self.window.every
        else:
            time = np.maximum.reduceat(store.time[event], heads) if len(heads) else np.zeros(0, np.int64)
        return Members(event, record, number[heads], time, group[heads])

    def retain(self, store: Store, index: GroupIndex, before: int) -> None:
        """Keep what windows that are still open need."""
        _, last = windows_holding(self.window, self._places(store))
        if self.window.unit == "time":
            kept = last * self.window.every > before
            self.closed_before = max(self.closed_before, before)
        else:
            counted = self._counted(index)
            self.closed[counted] = self.counts[counted] // self.window.every
            kept = last >= self.closed[counted][store.group]
        self.retained = store.take(np.flatnonzero(kept))

    @property
    def _key_types(self) -> list[pa.DataType]:
        return [self.context.key_type(key) for key in self.context.group_by]

    # --- snapshots

    def snapshot(self) -> dict[str, pa.Table]:
        """The events of open windows, and for windows of events what has been counted."""
        return self._tables(self.retained, np.arange(len(self.counted)))

    def take(self, keys: Sequence[pa.Array]) -> dict[str, pa.Table]:
        """Remove the groups whose first keys are among `keys`; their state."""
        of_events = [self.retained.columns[f"group.{key}"] for key in self.context.group_by]
        gone_events = is_among(of_events[: len(keys)], keys)
        used = np.flatnonzero(self.counted.used)
        gone = np.zeros(len(self.counted), np.bool_)
        gone[used] = is_among(self.counted.keys(used, self._key_types)[: len(keys)], keys)
        tables = self._tables(self.retained.take(np.flatnonzero(gone_events)), np.flatnonzero(gone))
        self.retained = self.retained.take(np.flatnonzero(~gone_events))
        self.counted.release(gone)
        self.counts[gone] = self.closed[gone] = 0
        return tables

    def _tables(self, events: Store, groups: I64) -> dict[str, pa.Table]:
        numbers = {"type_rank": events.type_rank, "time": events.time, "position": events.position}
        waiting = pa.table({name: pa.array(values) for name, values in numbers.items()} | dict(events.columns))
        counted = {f"key {i}": key for i, key in enumerate(self.counted.keys(groups, self._key_types))}
        counted |= {"count": pa.array(self.counts[groups]), "closed": pa.array(self.closed[groups])}
        until = pa.table({"closed_before": pa.array([self.closed_before], pa.int64())})
        return {"events": waiting, "counts": pa.table(counted), "until": until}

    def put(self, tables: Mapping[str, pa.Table]) -> None:
        """Add the state of groups that are not here, for which time has passed as far."""
        closed_before = self._closed_before(tables["until"])
        if self.closed_before not in (BEGINNING, closed_before):
            raise StateError(
                f"{self.context.operator.name} has closed windows up to {self.closed_before} us, and the state that "
                f"it is given up to {closed_before} us",
                remedy="Let time pass as far in both before state is put in.",
            )
        added = self._events_of(tables["events"])
        self._put_counts(tables["counts"], added)
        self.retained = concat_stores(self.retained, added)
        self.closed_before = closed_before

    def _closed_before(self, until: pa.Table) -> int:
        closed_before = numbers(until.column("closed_before"), np.int64, "times of windows")
        require(len(closed_before) == 1, "windows have passed several times")
        require_times(closed_before, "times of windows")
        return int(closed_before[0])

    def _events_of(self, events: pa.Table) -> Store:
        columns = {name: one_chunk(events.column(name)) for name in self.retained.columns}
        require_columns(columns, {name: column.type for name, column in self.retained.columns.items()})
        for name in columns:
            if name == ORIGINS or name.startswith("_in "):
                require_whole(columns[name], name)
        rank = numbers(events.column("type_rank"), np.int8, "types of events")
        time, position = (numbers(events.column(name), np.int64, f"{name}s of events") for name in ("time", "position"))
        require_between(rank, 0, len(self.context.inputs), "types of events")
        require_event_times(time)
        require_between(position, 0, FARTHEST, "positions of events")
        zeros = np.zeros(len(time), np.int64)
        return Store(rank, time, zeros, position, zeros.astype(np.uint8), columns)

    def _put_counts(self, table: pa.Table, added: Store) -> None:
        """For windows of events, by group: positions so far, and windows closed. All that is held is counted there."""
        before = self.counted.used.copy()
        groups = self.counted.numbers(key_columns_of(table, self._key_types), table.num_rows)
        count = len(self.counted)
        require(len(np.unique(groups)) == table.num_rows, "two counts have one group key")
        require(not before[groups[groups < len(before)]].any(), "a group is counted already")
        counts, closed = (numbers(table.column(name), np.int64, "counts of events") for name in ("count", "closed"))
        require_between(counts, 0, FARTHEST, "counts of events")
        require_between(closed, 0, counts // self.window.every + 1, "counts of windows")
        if self.window.unit == "events":
            self.counted.numbers([added.columns[f"group.{key}"] for key in self.context.group_by], len(added))
            require(len(self.counted) == count, "events are not counted")
        self.counts, self.closed = (_grown(values, count) for values in (self.counts, self.closed))
        self.counts[groups], self.closed[groups] = counts, closed


def _grown(values: I64, size: int) -> I64:
    return np.concatenate([values, np.zeros(size - len(values), np.int64)])


def windows_holding(window: Window, places: I64) -> tuple[I64, I64]:
    """By event, the numbers of the first and of the last window that hold it. `places` are the times of events, or
    their positions where windows count events.

    A window of time that ends at k * every holds an event at t if t < k * every <= t + over; its number is k. Windows
    of events are numbered from 0.

    >>> windows_holding(Window(every=10, over=20), np.array([0, 9, 10]))
    (array([1, 1, 2]), array([2, 2, 3]))
    >>> windows_holding(Window(every=2, over=2, unit="events"), np.array([0, 1, 2]))
    (array([0, 0, 1]), array([0, 0, 1]))
    """
    first, last = places // window.every + 1, (places + window.over) // window.every
    return (first, last) if window.unit == "time" else (first - 1, last - 1)


def pieces_of_windows(first: I64, last: I64, most: int) -> list[tuple[int, int]]:
    """Windows by number, cut into ranges of which each has about `most` pairs of a window and an event, at most.

    `first` and `last` are those of every event. A range has at least one window, however many events that holds.

    >>> pieces_of_windows(np.array([0, 8]), np.array([9, 9]), 5)
    [(0, 4), (5, 8), (9, 9)]
    """
    held = last >= first
    if not held.any():
        return []
    starts, ends = np.sort(first[held]), np.sort(last[held]) + 1
    edges = np.union1d(starts, ends)
    # Between two edges, all windows hold equally many events.
    events = np.searchsorted(starts, edges[:-1], "right") - np.searchsorted(ends, edges[:-1], "right")
    pairs_before = np.concatenate([[0], np.cumsum(events * np.diff(edges))])
    cuts = np.arange(most, pairs_before[-1], most)
    stretch = np.searchsorted(pairs_before, cuts, "right") - 1
    into = (cuts - pairs_before[stretch]) // np.maximum(events[stretch], 1)
    begins = np.unique(np.concatenate([edges[:1], edges[stretch] + into]))
    return [(int(low), int(high) - 1) for low, high in pairwise([*begins, edges[-1]]) if high > low]


def tables_of_cases(cases: Sequence[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
    """The state of a rule over windows: the tables of its cases."""
    return {f"case {number} {name}": table for number, case in enumerate(cases) for name, table in case.items()}


def put_into(tables: Mapping[str, pa.Table], contents: Sequence[WindowContent]) -> None:
    for number, content in enumerate(contents):
        content.put({name: tables[f"case {number} {name}"] for name in WINDOW_TABLES})
