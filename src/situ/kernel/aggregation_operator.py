"""Window aggregation, `aggr every T`, at work (docs/language.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from situ.core.memory import MemoryBudget
from situ.graph.patterns import steps_of
from situ.graph.query import Case
from situ.kernel.arrays import I64
from situ.kernel.batch import ORIGINS, Batch, Calls, as_timestamps
from situ.kernel.columns.evaluate import Rows, evaluate
from situ.kernel.operator import (
    Chosen,
    Context,
    Produced,
    complex_events,
    joined_extents,
    joined_origins,
    no_events,
)
from situ.kernel.program.window_program import AggregationProgram
from situ.kernel.state.groups import GroupIndex
from situ.kernel.state.store import Store, StoreRows
from situ.kernel.windows import Members, WindowContent, put_into, tables_of_cases


class RecordRows:
    """Windows as rows for expressions: every alias has the events of its window that its step accepts."""

    def __init__(self, context: Context, members: Members, store: Store, types: Mapping[str, str]) -> None:
        self.context, self.members, self.store, self.types = context, members, store, types
        self.firsts = members.event[np.searchsorted(members.record, np.arange(len(members)))]

    @property
    def length(self) -> int:
        return len(self.members)

    def attribute(self, alias: str, name: str) -> pa.Array:
        raise TypeError(f"{alias}.{name}: an alias of an aggregation is read through aggregates")

    def time(self, alias: str) -> pa.Array:
        raise TypeError(f"time({alias}): an alias of an aggregation is read through aggregates")

    def event(self, alias: str) -> pa.Array:
        raise TypeError(f"{alias}: an alias of an aggregation is read through aggregates")

    def group(self, name: str) -> pa.Array:
        return self.store.columns[f"group.{name}"].take(pa.array(self.firsts))

    def inside(self, alias: str) -> np.ndarray:
        """Which members the step of an alias accepts."""
        return self.store.columns[f"_in {alias}"].to_numpy(zero_copy_only=False)[self.members.event]

    def counts(self, alias: str) -> I64:
        return np.bincount(self.members.record[self.inside(alias)], minlength=len(self.members))

    def repeated(self, alias: str) -> tuple[I64, Rows]:
        event = self.members.event[self.inside(alias)]
        offsets = np.concatenate([[0], np.cumsum(self.counts(alias))]).astype(np.int64)
        names = self.context.schemas[self.types[alias]].names
        return offsets, StoreRows(self.store, self.types[alias], names, event)


@dataclass(frozen=True, slots=True)
class PreRows:
    """The records of `<pre>` as the rows of `<post>`: each result aggregates over some of them."""

    offsets: I64
    records: Mapping[str, pa.Array]
    keys: Mapping[str, pa.Array]

    @property
    def length(self) -> int:
        return len(self.offsets) - 1

    def attribute(self, alias: str, name: str) -> pa.Array:
        return self.records[name]

    def time(self, alias: str) -> pa.Array:
        raise TypeError("records have no time")

    def event(self, alias: str) -> pa.Array:
        raise TypeError("records are no events")

    def group(self, name: str) -> pa.Array:
        return self.keys[name].take(pa.array(self.offsets[:-1]))

    def repeated(self, alias: str) -> tuple[I64, Rows]:
        count = int(self.offsets[-1])
        return self.offsets, PreRows(np.arange(count + 1), self.records, self.keys)


class AggregationOperator:
    """`aggr every T`."""

    def __init__(self, program: AggregationProgram, calls: Calls, memory: MemoryBudget, chosen: Chosen | None) -> None:
        self.context, self.kind, self.calls = program.context, program.kind, calls
        self.cases = program.context.operator.rule.cases
        self.contents = [WindowContent(steps, calls, memory, chosen) for steps in program.cases]

    def process(self, inputs: Mapping[str, Batch], before: int) -> Produced:
        records = [
            self._records(case, content, inputs, before)
            for case, content in zip(self.cases, self.contents, strict=True)
        ]
        joined = _concat_records([r for r in records if len(r.time)])
        if joined is None:
            return Produced(no_events(self.context), no_events(self.context), before)
        if self.kind.post:
            joined = self._post(joined)
        columns = dict(joined.columns)
        if self.context.selections:
            columns["_selection"] = pa.array(joined.window)
        order = np.argsort(joined.time, kind="stable")
        events = complex_events(self.context, joined.time, columns).take(order)
        return Produced(events, no_events(self.context), before, self._selections(events))

    def _selections(self, events: Batch) -> pa.Table | None:
        """A window's selection is its content."""
        if not self.context.selections:
            return None
        names = ("_selection", ORIGINS)
        return pa.table({"_time": as_timestamps(events.times)} | {name: events.columns[name] for name in names})

    def idle(self, before: int) -> bool:
        idle = [content.idle(before) for content in self.contents]  # of all: time passes for each
        return all(idle)

    def snapshot(self) -> dict[str, pa.Table]:
        return tables_of_cases([content.snapshot() for content in self.contents])

    def take(self, keys: Sequence[pa.Array]) -> dict[str, pa.Table]:
        return tables_of_cases([content.take(keys) for content in self.contents])

    def put(self, tables: Mapping[str, pa.Table]) -> None:
        put_into(tables, self.contents)

    def _records(self, case: Case, content: WindowContent, inputs: Mapping[str, Batch], before: int) -> _Records:
        store, index = content.add(inputs)
        pieces = [self._records_of(case, content, members, store) for members in content.members(store, index, before)]
        content.retain(store, index, before)
        joined = _concat_records([records for records in pieces if len(records.time)])
        return _Records(np.zeros(0, np.int64), np.zeros(0, np.int64), {}, {}) if joined is None else joined

    def _records_of(self, case: Case, content: WindowContent, members: Members, store: Store) -> _Records:
        rows = RecordRows(self.context, members, store, content.steps.types)
        complete = np.ones(len(members), np.bool_)
        any_ = np.zeros(len(members), np.bool_)
        for step in steps_of(case.detect):
            there = rows.counts(step.alias) > 0 if len(members) else np.zeros(0, np.bool_)
            any_ |= there
            if not step.outer:
                complete &= there
        chosen = np.flatnonzero(complete & any_)
        columns: dict[str, pa.Array] = {}
        indices = pa.array(chosen)
        if len(chosen):
            for item in case.assign:
                columns[item.name] = evaluate(item.expression, rows, **self.calls).take(indices)
            columns |= {k: v.take(indices) for k, v in self._carried(members, store, rows, case).items()}
        keys = {name: rows.group(name).take(indices) for name in self.context.group_by} if len(chosen) else {}
        return _Records(members.window[chosen], members.time[chosen], columns, keys)

    def _carried(self, members: Members, store: Store, rows: RecordRows, case: Case) -> dict[str, pa.Array]:
        """Extent and origins of the content of each window."""
        inside = np.logical_or.reduce([rows.inside(step.alias) for step in steps_of(case.detect)])
        counts = np.bincount(members.record[inside], minlength=len(members))
        nonempty = np.flatnonzero(counts)
        offsets = np.concatenate([[0], np.cumsum(counts[nonempty])]).astype(np.int64)
        place = np.full(len(members), -1)
        place[nonempty] = np.arange(len(nonempty))
        back = pa.array(place, mask=place < 0)
        carried: dict[str, pa.Array] = {}
        if self.context.located:
            carried |= joined_extents(store.columns, members.event[inside], offsets)
        if self.context.provenance:
            carried[ORIGINS] = joined_origins(store.columns[ORIGINS], members.event[inside], offsets)
        return {name: column.take(back) for name, column in carried.items()}

    def _post(self, records: _Records) -> _Records:
        """Aggregate the records of one window and group."""
        codes = GroupIndex().numbers([pa.array(records.window), *records.keys.values()], len(records.time))
        order = np.lexsort((codes, records.time))
        ordered = records.take(order)
        codes = codes[order]
        heads = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
        offsets = np.append(heads, len(codes))
        rows = PreRows(offsets, ordered.columns, ordered.keys)
        columns = {item.name: evaluate(item.expression, rows, **self.calls) for item in self.kind.post}
        every = np.arange(len(codes))
        if self.context.located:
            columns |= joined_extents(ordered.columns, every, offsets)
        if self.context.provenance:
            columns[ORIGINS] = joined_origins(ordered.columns[ORIGINS], every, offsets)
        first = ordered.take(heads)
        return _Records(first.window, first.time, columns, first.keys)


@dataclass(frozen=True, slots=True)
class _Records:
    """What `<pre>` made: one row per case, window and group."""

    window: I64
    time: I64
    columns: Mapping[str, pa.Array]
    keys: Mapping[str, pa.Array]

    def take(self, rows: I64) -> _Records:
        indices = pa.array(rows)
        return _Records(
            self.window[rows],
            self.time[rows],
            {name: column.take(indices) for name, column in self.columns.items()},
            {name: column.take(indices) for name, column in self.keys.items()},
        )


def _concat_records(records: list[_Records]) -> _Records | None:
    if len(records) < 2:
        return records[0] if records else None

    def joined(columns: list[Mapping[str, pa.Array]]) -> dict[str, pa.Array]:
        return {n: pa.chunked_array([_widest(c[n], columns, n) for c in columns]).combine_chunks() for n in columns[0]}

    return _Records(
        np.concatenate([r.window for r in records]),
        np.concatenate([r.time for r in records]),
        joined([r.columns for r in records]),
        joined([r.keys for r in records]),
    )


def _widest(column: pa.Array, columns: list[Mapping[str, pa.Array]], name: str) -> pa.Array:
    """Cases may assign an int here and a double there: the schema has the type of both."""
    types = {c[name].type for c in columns if not pa.types.is_null(c[name].type)}
    if len(types) == 1:
        return column.cast(types.pop())
    return column.cast(pa.float64()) if pa.float64() in types else column
