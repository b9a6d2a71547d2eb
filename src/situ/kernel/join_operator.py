"""Window join, `join every T on k`, at work (docs/language.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from situ.core.memory import MemoryBudget
from situ.graph.expressions import aliases_of
from situ.graph.patterns import decidable, steps_of
from situ.kernel.arrays import I64
from situ.kernel.batch import ORIGINS, Batch, Calls, as_timestamps, concat
from situ.kernel.columns.evaluate import Rows, evaluate, evaluate_condition
from situ.kernel.operator import (
    Chosen,
    Context,
    Produced,
    complex_events,
    joined_extents,
    joined_origins,
    no_events,
)
from situ.kernel.program.window_program import JoinProgram
from situ.kernel.state.groups import GroupIndex
from situ.kernel.state.store import Store
from situ.kernel.windows import Members, WindowContent, put_into, tables_of_cases


class JoinOperator:
    """`join every T on k`: combinations of events of one window that agree in k."""

    def __init__(self, program: JoinProgram, calls: Calls, memory: MemoryBudget, chosen: Chosen | None) -> None:
        self.context, self.kind, self.calls = program.context, program.kind, calls
        (self.case,) = program.context.operator.rule.cases
        self.steps = tuple(steps_of(self.case.detect))
        self.content = WindowContent(program.cases[0], calls, memory, chosen)

    def process(self, inputs: Mapping[str, Batch], before: int) -> Produced:
        store, index = self.content.add(inputs)
        pieces = [self._joined(members, store) for members in self.content.members(store, index, before)]
        self.content.retain(store, index, before)
        events = concat([no_events(self.context), *pieces]) if pieces else no_events(self.context)
        return Produced(events.take(np.argsort(events.times, kind="stable")), no_events(self.context), before)

    def _joined(self, members: Members, store: Store) -> Batch:
        """The combinations of some windows as complex events."""
        combined = self._combinations(members, store)
        if len(combined.record) == 0:
            return no_events(self.context)
        rows = CombinationRows(self.context, store, combined, self.content.steps.types)
        columns = {item.name: evaluate(item.expression, rows, **self.calls) for item in self.case.assign}
        events = np.stack([combined.rows[step.alias] for step in self.steps], axis=1).reshape(-1)
        offsets = np.arange(0, len(events) + 1, len(self.steps))
        if self.context.located:
            columns |= joined_extents(store.columns, events, offsets)
        if self.context.selections:
            columns["_selection"] = pa.array(members.window[combined.record])
        if self.context.provenance:
            columns[ORIGINS] = joined_origins(store.columns[ORIGINS], events, offsets)
        return complex_events(self.context, members.time[combined.record], columns)

    def idle(self, before: int) -> bool:
        return self.content.idle(before)

    def snapshot(self) -> dict[str, pa.Table]:
        return tables_of_cases([self.content.snapshot()])

    def take(self, keys: Sequence[pa.Array]) -> dict[str, pa.Table]:
        return tables_of_cases([self.content.take(keys)])

    def put(self, tables: Mapping[str, pa.Table]) -> None:
        put_into(tables, [self.content])

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
            for owner, conjunct in decidable(self.steps, bound, step.alias):
                if aliases_of(conjunct) <= {owner.alias}:
                    continue  # judged before the event came here
                rows = CombinationRows(self.context, store, result, self.content.steps.types)
                result = result.take(np.flatnonzero(evaluate_condition(conjunct, rows, **self.calls)))
        assert result is not None
        return result

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
