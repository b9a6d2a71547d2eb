"""Windows: which events they hold, until when, and what is kept for those that are open (docs/language.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from situ.core.time import format_duration
from situ.graph.expressions import (
    Expression,
    aliases_of,
    conjuncts,
    rename_alias,
)
from situ.graph.patterns import Step, steps_of
from situ.graph.query import Case, Window
from situ.graph.typing import THIS
from situ.kernel.arrays import I64, NO_DEADLINE
from situ.kernel.batch import Batch, one_chunk
from situ.kernel.groups import GroupIndex
from situ.kernel.operator import (
    SLICE,
    Conditions,
    Context,
    attributes_read,
)
from situ.kernel.order import counting_order, number_positions
from situ.kernel.selections import key_columns
from situ.kernel.snapshot import digest, with_digest
from situ.kernel.store import Store, concat_stores, empty_store, gather, order_parts
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
        self.conditions = {step.alias: own_conditions(step) for step in steps}
        self.types = {step.alias: step.test.event_type for step in steps}
        # For windows of events, by group: positions so far, and windows closed.
        self.counted = GroupIndex()
        self.counts, self.closed = np.zeros(0, np.int64), np.zeros(0, np.int64)
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
            if self.context.slice_us is not None:
                closed &= self.context.begins_in_slice(
                    ends - over, store.columns[f"group.{SLICE}"].take(pa.array(event))
                )
        else:
            counted = self._counted(index)[store.group[event]]
            closed = (number >= self.closed[counted]) & (number < self.counts[counted] // every)
        if self.context.chosen is not None:
            closed &= self._chosen(store, event, number)
        return self._sorted(event[closed], number[closed], store)

    def _counted(self, index: GroupIndex) -> I64:
        """The numbers under which groups are counted."""
        return self.counted.numbers(index.keys(np.arange(len(index)), self._key_types), len(index))

    def _chosen(self, store: Store, event: I64, number: I64) -> np.ndarray:
        """Whether the window of this number of the event's group is to be processed."""
        chosen = [(*key, n) for key, numbers in (self.context.chosen or {}).items() for n in numbers]
        wanted = GroupIndex()
        wanted.numbers(key_columns(chosen, [*self._key_types, pa.int64()]), len(chosen))
        known = len(wanted)
        keys = [store.columns[f"group.{key}"].take(pa.array(event)) for key in self.context.group_by]
        return wanted.numbers([*keys, pa.array(number)], len(event)) < known

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
            counted = self._counted(index)
            self.closed[counted] = self.counts[counted] // self.window.every
            kept = (store.position + self.window.over) // self.window.every - 1 >= self.closed[counted][store.group]
        self.retained = store.take(np.flatnonzero(kept))

    @property
    def _key_types(self) -> list[pa.DataType]:
        return [self.context.key_type(key) for key in self.context.group_by]

    # --- snapshots

    def snapshot(self) -> dict[str, pa.Table]:
        """The events of open windows, and for windows of events what has been counted."""
        numbers = {"type_rank": self.retained.type_rank, "time": self.retained.time, "position": self.retained.position}
        events = pa.table({name: pa.array(values) for name, values in numbers.items()} | self.retained.columns)
        keys = self.counted.keys(np.arange(len(self.counted)), self._key_types)
        counted = {f"key {i}": key for i, key in enumerate(keys)}
        counted |= {"count": pa.array(self.counts), "closed": pa.array(self.closed)}
        until = pa.table({"closed_before": pa.array([self.closed_before], pa.int64())})
        return {"events": events, "counts": pa.table(counted), "until": until}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        events = tables["events"].combine_chunks()
        columns = {name: one_chunk(events.column(name)) for name in self.retained.columns}
        rank, time, position = (events.column(name).to_numpy() for name in ("type_rank", "time", "position"))
        zeros = np.zeros(len(time), np.int64)
        self.retained = Store(rank, time, zeros, position, zeros.astype(np.uint8), columns)
        counts = tables["counts"]
        keys = [one_chunk(counts.column(f"key {i}")) for i in range(len(self.context.group_by))]
        self.counted = GroupIndex()
        self.counted.numbers(keys, counts.num_rows)  # key i has number i
        self.counts, self.closed = (counts.column(name).to_numpy().copy() for name in ("count", "closed"))
        self.closed_before = tables["until"].column("closed_before")[0].as_py()


def _grown(numbers: I64, size: int) -> I64:
    return np.concatenate([numbers, np.zeros(size - len(numbers), np.int64)])


def describe_window(window: Window) -> str:
    """`every 1 min over 10 min`, `every 10 events`."""
    lengths = [format_duration(n) if window.unit == "time" else f"{n} events" for n in (window.every, window.over)]
    return f"every {lengths[0]}" + (f" over {lengths[1]}" if window.over != window.every else "")


def own_conditions(step: Step) -> tuple[Expression, ...]:
    """The conditions of a step on its own event, with the alias `this`."""
    own = [c for c in conjuncts(step.test.condition) if aliases_of(c) <= {step.alias}]
    return tuple(rename_alias(c, step.alias, THIS) for c in own)


def stored_columns(context: Context, case: Case) -> dict[str, tuple[str, ...]]:
    """Per input type, the attributes that assignments and joining conditions read."""
    joining = [
        c for step in steps_of(case.detect) for c in conjuncts(step.test.condition) if not aliases_of(c) <= {step.alias}
    ]
    read = _read(context, case, [*(item.expression for item in case.assign), *joining])
    return {name: tuple(sorted(read[name])) for name in context.inputs}


def tests_of_windows(contents: Iterable[WindowContent]) -> dict[str, tuple[Conditions, ...]]:
    """For each input type, what the steps ask of single events."""
    tests: dict[str, tuple[Conditions, ...]] = {}
    for content in contents:
        for alias, conditions in content.conditions.items():
            tests[content.types[alias]] = (*tests.get(content.types[alias], ()), conditions)
    return tests


def columns_read(
    context: Context, contents: Iterable[WindowContent], judged: Collection[Conditions]
) -> dict[str, frozenset[str]]:
    always = frozenset(context.group_by) | frozenset(context.carried)
    read = dict.fromkeys(context.inputs, always)
    for content in contents:
        own = [
            (condition, {THIS: content.types[alias]})
            for alias, conditions in content.conditions.items()
            if conditions not in judged
            for condition in conditions
        ]
        tested = attributes_read(own, context.schemas)
        read = {name: columns | tested[name] | frozenset(content.stored[name]) for name, columns in read.items()}
    return read


def _read(context: Context, case: Case, expressions: Iterable[Expression]) -> dict[str, set[str]]:
    types = {step.alias: step.test.event_type for step in steps_of(case.detect)}
    return attributes_read([(expression, types) for expression in expressions], context.schemas)


_TABLES = ("events", "counts", "until")


def digests_of(operator: object, contents: list[WindowContent]) -> dict[str, str]:
    """The state of a window operator fits the operator as it prints itself, holding the same columns."""
    return {
        f"case {n} {table}": digest(operator, content.context.group_by, sorted(content.retained.columns))
        for n, content in enumerate(contents)
        for table in _TABLES
    }


def snapshot_of(operator: object, contents: list[WindowContent]) -> dict[str, pa.Table]:
    digests = digests_of(operator, contents)
    tables = {f"case {n} {name}": table for n, c in enumerate(contents) for name, table in c.snapshot().items()}
    return {name: with_digest(table, digests[name]) for name, table in tables.items()}


def restore_into(tables: Mapping[str, pa.Table], contents: list[WindowContent]) -> None:
    for n, content in enumerate(contents):
        content.restore({name: tables[f"case {n} {name}"] for name in _TABLES})
