"""Window aggregation (`aggr`) and window join (`join`) at work (docs/language.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from situ.core.errors import QueryError
from situ.core.time import format_duration
from situ.core.types import to_arrow
from situ.graph.expressions import (
    Aggregate,
    Attribute,
    Expression,
    WholeEvent,
    aliases_of,
    conjuncts,
    rename_alias,
    walk,
)
from situ.graph.patterns import Step, steps_of
from situ.graph.query import Aggregation, Case, Join, Window
from situ.graph.typing import THIS
from situ.kernel.arrays import I64, NO_DEADLINE
from situ.kernel.batch import ORIGINS, Batch, as_timestamps, one_chunk
from situ.kernel.columns import RECORDS, Rows, evaluate, evaluate_condition
from situ.kernel.operator import (
    Context,
    Produced,
    complex_events,
    joined_extents,
    joined_origins,
    no_events,
)
from situ.kernel.order import GroupIndex, number_positions
from situ.kernel.snapshot import with_digest
from situ.kernel.store import Store, StoreRows, concat_stores, empty_store, gather, order_parts
from situ.lang.unparse import unparse_expression

_BEGINNING = np.iinfo(np.int64).min


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

    def __init__(
        self, context: Context, window: Window, stored: Mapping[str, tuple[str, ...]], steps: Iterable[Step]
    ) -> None:
        self.context, self.window, self.stored = context, window, stored
        self.conditions = {step.alias: _own_conditions(step) for step in steps}
        self.types = {step.alias: step.test.event_type for step in steps}
        # For windows of events, by group: positions so far, and windows closed.
        self.counts: dict[tuple[object, ...], int] = {}
        self.closed: dict[tuple[object, ...], int] = {}
        self.retained = empty_store(context, stored)
        self.retained.columns |= {f"_in {alias}": pa.array([], pa.bool_()) for alias in self.conditions}
        self.closed_before = _BEGINNING

    def describe(self) -> list[str]:
        """Its steps, as a person reads them."""
        lines = []
        for alias, conditions in self.conditions.items():
            text = " and ".join(map(unparse_expression, conditions))
            lines.append(f"  {alias}: {self.types[alias]}" + (f"({text})" if text else ""))
        if self.window.unit == "events":
            lines.append("  positions: of all events")
        return lines

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
        for alias, conditions in self.conditions.items():
            if self.types[alias] == name:
                mask = batch.mask(conditions, self.context.calls)
                masks[f"_in {alias}"] = np.ones(len(batch), np.bool_) if mask is None else mask
        wanted = np.logical_or.reduce(list(masks.values()))
        rows = np.arange(len(batch)) if self.window.unit == "events" or wanted.all() else np.flatnonzero(wanted)
        chosen = batch.take(rows) if len(rows) < len(batch) else batch.take(np.arange(len(batch)))
        for alias in self.conditions:
            mask = masks.get(f"_in {alias}")
            inside = mask[rows] if mask is not None else np.zeros(len(rows), np.bool_)
            chosen.columns[f"_in {alias}"] = pa.array(inside)
        return chosen

    def _store(self, parts: list[tuple[str, Batch]]) -> Store:
        """New events with their positions."""
        columns = gather(self.context, self.stored, parts)
        for alias in self.conditions:
            columns[f"_in {alias}"] = pa.concat_arrays([batch.columns[f"_in {alias}"] for _, batch in parts])
        lengths = [len(batch) for _, batch in parts]
        ranks = np.repeat(np.array([self.context.inputs[name].rank for name, _ in parts], np.int64), lengths)
        time = np.concatenate([batch.times for _, batch in parts])
        index = GroupIndex()
        group = index.numbers([columns[f"group.{key}"] for key in self.context.operator.rule.group_by], len(time))
        order = order_parts(self.context, parts, ranks, group, len(index), time)
        position = np.zeros(len(time), np.int64)
        following = np.array([self.counts.get(key, 0) for key in index.known], np.int64)
        number_positions(order, group, position, following)
        if self.window.unit == "events":
            self.counts.update(zip(index.known, following.tolist(), strict=True))
        store = Store(ranks, time, group, position, np.zeros(len(time), np.uint8), columns)
        return store.take(order)

    def _grouped(self, store: Store) -> tuple[Store, GroupIndex]:
        index = GroupIndex()
        keys = [store.columns[f"group.{key}"] for key in self.context.operator.rule.group_by]
        store.group = index.numbers(keys, len(store))
        order = np.lexsort((np.arange(len(store)), store.group))
        return store.take(order), index

    def members(self, store: Store, index: GroupIndex, before: int) -> Members:
        """The content of the windows that close now."""
        every, over = self.window.every, self.window.over
        if self.window.unit == "time":
            # A window that ends at k * every holds an event at t if t < k * every <= t + over.
            first, last = store.time // every + 1, (store.time + over) // every
        else:
            first, last = store.position // every, (store.position + over) // every - 1
        counts = np.maximum(last - first + 1, 0)
        event = np.repeat(np.arange(len(store)), counts)
        begin = np.cumsum(counts) - counts
        number = first[event] + np.arange(len(event)) - begin[event]
        if self.window.unit == "time":
            ends = number * every
            closed = (ends > self.closed_before) & ((ends <= before) | (before == NO_DEADLINE))
        else:
            group = store.group[event]
            closed = (number >= self._closed_windows(index)[group]) & (number < self._full_windows(index)[group])
        if self.context.chosen is not None:
            chosen = [frozenset(self.context.chosen.get(key, ())) for key in index.known]
            pairs = zip(store.group[event].tolist(), number.tolist(), strict=True)
            closed &= np.fromiter((n in chosen[g] for g, n in pairs), np.bool_, len(number))
        return self._sorted(event[closed], number[closed], store)

    def _closed_windows(self, index: GroupIndex) -> I64:
        """Per group, how many windows of events had closed before this step."""
        return np.array([self.closed.get(key, 0) for key in index.known], np.int64)

    def _full_windows(self, index: GroupIndex) -> I64:
        """Per group, how many windows of events are complete: j is, once (j + 1) * every events are there."""
        return np.array([self.counts.get(key, 0) for key in index.known], np.int64) // self.window.every

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
        if self.window.unit == "time":
            kept = (store.time + self.window.over) // self.window.every * self.window.every > before
            self.closed_before = max(self.closed_before, before)
        else:
            full = self._full_windows(index)
            self.closed.update(zip(index.known, full.tolist(), strict=True))
            kept = (store.position + self.window.over) // self.window.every - 1 >= full[store.group]
        self.retained = store.take(np.flatnonzero(kept))

    # --- snapshots

    def snapshot(self, digest: str) -> dict[str, pa.Table]:
        """The events of open windows, and for windows of events what has been counted."""
        numbers = {"type_rank": self.retained.type_rank, "time": self.retained.time, "position": self.retained.position}
        events = pa.table({name: pa.array(values) for name, values in numbers.items()} | self.retained.columns)
        keys = list(self.counts)
        key_types = [self._key_type(name) for name in self.context.operator.rule.group_by]
        counted = {f"key {i}": pa.array([key[i] for key in keys], type_) for i, type_ in enumerate(key_types)}
        counted["count"] = pa.array([self.counts[key] for key in keys], pa.int64())
        counted["closed"] = pa.array([self.closed.get(key, 0) for key in keys], pa.int64())
        until = pa.table({"closed_before": pa.array([self.closed_before], pa.int64())})
        tables = {"events": events, "counts": pa.table(counted), "until": until}
        return {name: with_digest(table, digest) for name, table in tables.items()}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        events = tables["events"].combine_chunks()
        columns = {name: one_chunk(events.column(name)) for name in self.retained.columns}
        rank, time, position = (events.column(name).to_numpy() for name in ("type_rank", "time", "position"))
        zeros = np.zeros(len(time), np.int64)
        self.retained = Store(rank, time, zeros, position, zeros.astype(np.uint8), columns)
        counts = tables["counts"]
        width = len(self.context.operator.rule.group_by)
        keys = list(zip(*(counts.column(f"key {i}").to_pylist() for i in range(width)), strict=True))
        keys = keys if width else [()] * counts.num_rows
        self.counts = dict(zip(keys, counts.column("count").to_pylist(), strict=True))
        self.closed = dict(zip(keys, counts.column("closed").to_pylist(), strict=True))
        self.closed_before = tables["until"].column("closed_before")[0].as_py()

    def _key_type(self, name: str) -> pa.DataType:
        return to_arrow(self.context.schemas[next(iter(self.context.inputs))].type_of(name))


def describe_window(window: Window) -> str:
    """`every 1 min over 10 min`, `every 10 events`."""
    lengths = [format_duration(n) if window.unit == "time" else f"{n} events" for n in (window.every, window.over)]
    return f"every {lengths[0]}" + (f" over {lengths[1]}" if window.over != window.every else "")


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
        return offsets, StoreRows(self.store.take(event), self.types[alias], names)


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

    def __init__(self, context: Context) -> None:
        kind = context.operator.rule.kind
        assert isinstance(kind, Aggregation)
        self.context, self.kind = context, kind
        self.cases = context.operator.rule.cases
        if kind.window.unit == "events" and kind.post and len(self.cases) > 1:
            raise QueryError(
                f"{context.operator.name} has windows of events, several cases and a <post> part",
                place=self.cases[0].place,
                remedy="Each case counts its own events, so their windows do not end together: use windows of time.",
            )
        self.contents = [
            WindowContent(context, kind.window, _stored(context, case), tuple(steps_of(case.detect)))
            for case in self.cases
        ]

    def __str__(self) -> str:
        lines = [f"aggregation {self.context.operator.name} {describe_window(self.kind.window)}"]
        for content in self.contents:
            lines += content.describe()
        return "\n".join(lines)

    def columns_read(self) -> dict[str, frozenset[str]]:
        return _columns_read(self.context, self.cases)

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
        if self.context.provenance:
            columns["_selection"] = pa.array(joined.window)
        order = np.argsort(joined.time, kind="stable")
        events = complex_events(self.context, joined.time, columns).take(order)
        return Produced(events, no_events(self.context), before, self._selections(events))

    def _selections(self, events: Batch) -> pa.Table | None:
        """A window's selection is its content."""
        if not self.context.provenance:
            return None
        names = ("_selection", ORIGINS)
        return pa.table({"_time": as_timestamps(events.times)} | {name: events.columns[name] for name in names})

    def digests(self) -> dict[str, str]:
        return _digests(self, len(self.contents))

    def snapshot(self) -> dict[str, pa.Table]:
        return _snapshot(self, self.contents)

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        _restore(tables, self.contents)

    def _records(self, case: Case, content: WindowContent, inputs: Mapping[str, Batch], before: int) -> _Records:
        store, index = content.add(inputs)
        members = content.members(store, index, before)
        types = content.types
        rows = RecordRows(self.context, members, store, types)
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
                columns[item.name] = evaluate(item.expression, rows, **self.context.calls).take(indices)
            columns |= {k: v.take(indices) for k, v in self._carried(members, store, rows, case).items()}
        keys = (
            {name: rows.group(name).take(indices) for name in self.context.operator.rule.group_by}
            if len(chosen)
            else {}
        )
        group_keys = [index.known[g] for g in members.group[chosen].tolist()]
        content.retain(store, index, before)
        return _Records(members.window[chosen], members.time[chosen], group_keys, columns, keys)

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
        index = GroupIndex()
        codes = index.numbers([pa.array(records.window), *records.keys.values()], len(records.time))
        order = np.lexsort((codes, records.time))
        ordered = records.take(order)
        codes = codes[order]
        heads = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
        offsets = np.append(heads, len(codes))
        rows = PreRows(offsets, ordered.columns, ordered.keys)
        columns = {item.name: evaluate(item.expression, rows, **self.context.calls) for item in self.kind.post}
        every = np.arange(len(codes))
        if self.context.located:
            columns |= joined_extents(ordered.columns, every, offsets)
        if self.context.provenance:
            columns[ORIGINS] = joined_origins(ordered.columns[ORIGINS], every, offsets)
        first = ordered.take(heads)
        return _Records(first.window, first.time, first.group_keys, columns, first.keys)


@dataclass(frozen=True, slots=True)
class _Records:
    """What `<pre>` made: one row per case, window and group."""

    window: I64
    time: I64
    group_keys: list[tuple[object, ...]]
    columns: Mapping[str, pa.Array]
    keys: Mapping[str, pa.Array]

    def take(self, rows: I64) -> _Records:
        indices = pa.array(rows)
        return _Records(
            self.window[rows],
            self.time[rows],
            [self.group_keys[row] for row in rows.tolist()],
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
        [key for r in records for key in r.group_keys],
        joined([r.columns for r in records]),
        joined([r.keys for r in records]),
    )


def _widest(column: pa.Array, columns: list[Mapping[str, pa.Array]], name: str) -> pa.Array:
    """Cases may assign an int here and a double there: the schema has the type of both."""
    types = {c[name].type for c in columns if not pa.types.is_null(c[name].type)}
    if len(types) == 1:
        return column.cast(types.pop())
    return column.cast(pa.float64()) if pa.float64() in types else column


class JoinOperator:
    """`join every T on k`: combinations of events of one window that agree in k."""

    def __init__(self, context: Context) -> None:
        kind = context.operator.rule.kind
        assert isinstance(kind, Join)
        self.context, self.kind = context, kind
        (self.case,) = context.operator.rule.cases
        self.steps = tuple(steps_of(self.case.detect))
        stored = _stored(context, self.case)
        stored = {name: tuple(sorted({*columns, *kind.on})) for name, columns in stored.items()}
        self.content = WindowContent(context, kind.window, stored, self.steps)

    def __str__(self) -> str:
        head = f"join {self.context.operator.name} {describe_window(self.kind.window)} on {', '.join(self.kind.on)}"
        joining = [unparse_expression(c) for step in self.steps for c in conjuncts(step.test.condition)
                   if not aliases_of(c) <= {step.alias}]  # fmt: skip
        return "\n".join([head, *self.content.describe(), *(f"  joined where {text}" for text in joining)])

    def columns_read(self) -> dict[str, frozenset[str]]:
        read = _columns_read(self.context, (self.case,))
        return {name: columns | frozenset(self.kind.on) for name, columns in read.items()}

    def process(self, inputs: Mapping[str, Batch], before: int) -> Produced:
        store, index = self.content.add(inputs)
        members = self.content.members(store, index, before)
        combined = self._combinations(members, store)
        self.content.retain(store, index, before)
        if len(combined.record) == 0:
            return Produced(no_events(self.context), no_events(self.context), before)
        rows = CombinationRows(self.context, store, combined, self.content.types)
        columns = {item.name: evaluate(item.expression, rows, **self.context.calls) for item in self.case.assign}
        events = np.stack([combined.rows[step.alias] for step in self.steps], axis=1).reshape(-1)
        offsets = np.arange(0, len(events) + 1, len(self.steps))
        if self.context.located:
            columns |= joined_extents(store.columns, events, offsets)
        if self.context.provenance:
            columns["_selection"] = pa.array(members.window[combined.record])
            columns[ORIGINS] = joined_origins(store.columns[ORIGINS], events, offsets)
        batch = complex_events(self.context, members.time[combined.record], columns)
        return Produced(batch.take(np.argsort(batch.times, kind="stable")), no_events(self.context), before)

    def digests(self) -> dict[str, str]:
        return _digests(self, 1)

    def snapshot(self) -> dict[str, pa.Table]:
        return _snapshot(self, [self.content])

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        _restore(tables, [self.content])

    def _combinations(self, members: Members, store: Store) -> _Combinations:
        keys = self._keys(store)
        result: _Combinations | None = None
        bound: set[str] = set()
        for step in self.steps:
            inside = store.columns[f"_in {step.alias}"].to_numpy(zero_copy_only=False)[members.event]
            inside &= keys[members.event] >= 0
            event, record = members.event[inside], members.record[inside]
            code = record * (keys.max(initial=0) + 1) + keys[event]
            if result is None:
                result = _Combinations(record, code, {step.alias: event})
            else:
                result = result.joined(step.alias, event, code)
            bound.add(step.alias)
            for conjunct in self._decidable(step, bound):
                rows = CombinationRows(self.context, store, result, self.content.types)
                result = result.take(np.flatnonzero(evaluate_condition(conjunct, rows, **self.context.calls)))
        assert result is not None
        return result

    def _decidable(self, last: Step, bound: set[str]) -> list[Expression]:
        """The joining conditions that can be judged now that `last` is bound."""
        found = []
        for step in self.steps:
            for conjunct in conjuncts(step.test.condition):
                needed = aliases_of(conjunct) | {step.alias}
                if len(needed) > 1 and last.alias in needed and needed <= bound:
                    found.append(conjunct)
        return found

    def _keys(self, store: Store) -> I64:
        """A number for the values of `on`, the same for all types; -1 where one is null."""
        if len(store) == 0:
            return np.zeros(0, np.int64)
        columns = []
        null = np.zeros(len(store), np.bool_)
        for name in self.kind.on:
            merged = pa.nulls(len(store), store.columns[f"{next(iter(self.context.inputs))}.{name}"].type)
            for input_ in self.context.inputs.values():
                of_type = pa.array(store.type_rank == input_.rank)
                column = store.columns[f"{input_.name}.{name}"]
                merged = pa.compute.if_else(of_type, column.cast(merged.type), merged)
            columns.append(merged)
            null |= merged.is_null().to_numpy(zero_copy_only=False)
        return np.where(null, -1, GroupIndex().numbers(columns, len(store)))


@dataclass(frozen=True, slots=True)
class _Combinations:
    """Events chosen for the aliases bound so far; `code` tells window, group and key."""

    record: I64
    code: I64
    rows: Mapping[str, I64]

    def take(self, rows: I64) -> _Combinations:
        return _Combinations(self.record[rows], self.code[rows], {a: events[rows] for a, events in self.rows.items()})

    def joined(self, alias: str, event: I64, code: I64) -> _Combinations:
        """Every combination with every event of the same code."""
        order = np.argsort(code, kind="stable")
        code, event = code[order], event[order]
        low, high = np.searchsorted(code, self.code, "left"), np.searchsorted(code, self.code, "right")
        counts = high - low
        longer = self.take(np.repeat(np.arange(len(self.code)), counts))
        begin = np.cumsum(counts) - counts
        at = np.arange(len(longer.code)) - np.repeat(begin - low, counts)
        return _Combinations(longer.record, longer.code, {**longer.rows, alias: event[at]})


@dataclass(frozen=True, slots=True)
class CombinationRows:
    """Combinations as rows for expressions: every alias has one event."""

    context: Context
    store: Store
    combined: _Combinations
    types: Mapping[str, str]

    @property
    def length(self) -> int:
        return len(self.combined.record)

    def attribute(self, alias: str, name: str) -> pa.Array:
        return self.store.columns[f"{self.types[alias]}.{name}"].take(pa.array(self.combined.rows[alias]))

    def time(self, alias: str) -> pa.Array:
        return as_timestamps(self.store.time[self.combined.rows[alias]])

    def group(self, name: str) -> pa.Array:
        return self.store.columns[f"group.{name}"].take(pa.array(next(iter(self.combined.rows.values()))))

    def event(self, alias: str) -> pa.Array:
        names = self.context.schemas[self.types[alias]].names
        return pa.StructArray.from_arrays([self.attribute(alias, name) for name in names], names)

    def repeated(self, alias: str) -> tuple[I64, Rows]:
        return np.arange(self.length + 1), self


def _own_conditions(step: Step) -> tuple[Expression, ...]:
    """The conditions of a step on its own event, with the alias `this`."""
    own = [c for c in conjuncts(step.test.condition) if aliases_of(c) <= {step.alias}]
    return tuple(rename_alias(c, step.alias, THIS) for c in own)


def _read_by(expressions: Iterable[Expression], context: Context, types: Mapping[str, str]) -> dict[str, set[str]]:
    needed: dict[str, set[str]] = {name: set() for name in context.inputs}
    for expression in expressions:
        for node in walk(expression):
            if isinstance(node, Attribute) and node.alias not in (None, RECORDS):
                needed[types[node.alias]].add(node.name)
            elif isinstance(node, WholeEvent) and not isinstance(expression, Aggregate):
                needed[types[node.alias]].update(context.schemas[types[node.alias]].names)
    return needed


def _stored(context: Context, case: Case) -> dict[str, tuple[str, ...]]:
    types = {step.alias: step.test.event_type for step in steps_of(case.detect)}
    joining = [
        c for step in steps_of(case.detect) for c in conjuncts(step.test.condition) if not aliases_of(c) <= {step.alias}
    ]
    needed = _read_by([*(item.expression for item in case.assign), *joining], context, types)
    return {name: tuple(sorted(columns)) for name, columns in needed.items()}


def _columns_read(context: Context, cases: Iterable[Case]) -> dict[str, frozenset[str]]:
    read: dict[str, set[str]] = {name: set() for name in context.inputs}
    for case in cases:
        types = {step.alias: step.test.event_type for step in steps_of(case.detect)}
        conditions = [c for step in steps_of(case.detect) for c in conjuncts(step.test.condition)]
        for name, columns in _read_by([*(i.expression for i in case.assign), *conditions], context, types).items():
            read[name] |= columns
    always = {*context.operator.rule.group_by, *context.carried}
    return {name: frozenset(columns | always) for name, columns in read.items()}


def _digests(operator: object, contents: int) -> dict[str, str]:
    """All tables of a window operator fit the operator as it prints itself."""
    digest = hashlib.sha256(str(operator).encode()).hexdigest()[:16]
    return {f"case {n} {name}": digest for n in range(contents) for name in ("events", "counts", "until")}


def _snapshot(operator: object, contents: list[WindowContent]) -> dict[str, pa.Table]:
    digest = next(iter(_digests(operator, 1).values()))
    return {f"case {n} {name}": t for n, c in enumerate(contents) for name, t in c.snapshot(digest).items()}


def _restore(tables: Mapping[str, pa.Table], contents: list[WindowContent]) -> None:
    for n, content in enumerate(contents):
        content.restore({name: tables[f"case {n} {name}"] for name in ("events", "counts", "until")})
