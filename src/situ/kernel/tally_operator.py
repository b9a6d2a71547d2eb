"""A pattern of which a tally is kept instead of its matches, at work (`situ.graph.tallies`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from situ.core.hops import hop
from situ.core.memory import MemoryBudget
from situ.graph.expressions import Aggregate, Attribute, Expression, WholeEvent
from situ.kernel.arrays import F64, I64, U64
from situ.kernel.batch import Batch, Calls
from situ.kernel.columns.evaluate import evaluate
from situ.kernel.matching.chains import LARGEST, LEAST, NO_RANK, NOTHING, SUM, Chains, chains_of
from situ.kernel.matching.order import dense_ranks
from situ.kernel.operator import SLICE, Produced, complex_events, no_events
from situ.kernel.program.tally_program import TallyProgram
from situ.kernel.state.store import Store, StoreRows
from situ.kernel.windows import WindowContent, put_into, tables_of_cases


class TallyOperator:
    """For each event that completes matches, one event with what is asked of them. Its state is the events with which
    matches can still begin or go on."""

    def __init__(self, program: TallyProgram, calls: Calls, memory: MemoryBudget) -> None:
        self.program, self.context, self.calls = program, program.context, calls
        (self.case,) = program.context.operator.rule.cases
        self.aliases = tuple(program.cases[0].conditions)
        self.content = WindowContent(program.cases[0], calls, memory, None)

    def process(self, inputs: Mapping[str, Batch], before: int) -> Produced:
        seen_before = self.content.closed_before
        store, index = self.content.add(inputs)
        events = self._tallies(store, seen_before)
        self.content.retain(store, index, before)
        return Produced(events, no_events(self.context), before)

    def _tallies(self, store: Store, seen_before: int) -> Batch:
        inside = [store.columns[f"_in {alias}"].to_numpy(zero_copy_only=False) for alias in self.aliases]
        is_new = inside[-1] & (store.time >= seen_before)
        if not is_new.any():
            return no_events(self.context)
        *steps, _ = inside
        steps[0] = steps[0] & self._may_begin(store)
        fits = np.zeros(len(store), np.uint64)
        for number, mask in enumerate(steps):
            fits |= mask.astype(np.uint64) << np.uint64(number)
        tally = _Tally(store, fits, is_new, self.aliases, self.program)
        if not len(tally.completing):
            return no_events(self.context)
        columns = {item.name: self._column(item.expression, tally) for item in self.case.assign}
        times = store.time[tally.completing]
        return complex_events(self.context, times, columns).take(np.argsort(times, kind="stable"))

    def _may_begin(self, store: Store) -> np.ndarray:
        """Which events matches may begin with: those that begin elsewhere are another task's."""
        may_begin = np.ones(len(store), np.bool_)
        if self.context.slice_us is not None:
            may_begin &= self.context.begins_in_slice(store.time, store.columns[f"group.{SLICE}"])
        if self.context.own_us is not None:
            may_begin &= self.context.begins_in_span(store.time)
        return may_begin

    def _column(self, expression: Expression, tally: _Tally) -> pa.Array:
        match expression:
            case Aggregate("count", WholeEvent()):
                return tally.number()
            case Aggregate("count", Attribute(str(alias), name)):
                return tally.numbers(alias, name)
            case Aggregate("sum", Attribute(str(alias), name)):
                return tally.sums(alias, name)
            case Aggregate("min" | "max" as function, Attribute(str(alias), name)):
                return tally.extremes(function == "min", alias, name)
            case _:
                return tally.kept(expression, self.calls)

    def idle(self, before: int) -> bool:
        self.content.closed_before = max(self.content.closed_before, before)
        return True

    def snapshot(self) -> dict[str, pa.Table]:
        return tables_of_cases([self.content.snapshot()])

    def take(self, keys: Sequence[pa.Array]) -> dict[str, pa.Table]:
        return tables_of_cases([self.content.take(keys)])

    def put(self, tables: Mapping[str, pa.Table]) -> None:
        put_into(tables, [self.content])


class _Tally:
    """What is asked of the matches that the events of a store complete."""

    def __init__(
        self, store: Store, fits: U64, is_last: np.ndarray, aliases: tuple[str, ...], program: TallyProgram
    ) -> None:
        self.store, self.fits, self.is_last, self.aliases, self.program = store, fits, is_last, aliases, program
        chains = self._chains()
        #: The events that complete matches, and how many: modulo 2 to the 64th, and about.
        self.completing = np.flatnonzero(chains.count_sizes > 0)
        self.counts, self.sizes = chains.counts[self.completing], chains.count_sizes[self.completing]

    def _chains(self, kept: int = NOTHING, at: int = 0, values: I64 | None = None) -> Chains:
        with hop("kernel"):
            return chains_of(
                self.store.group, self.store.time, self.fits, self.is_last, len(self.aliases) - 1,
                self.program.window_us, kept, at, values,
            )  # fmt: skip

    def number(self) -> pa.Array:
        return _told(self.counts, self.sizes)

    def numbers(self, alias: str, name: str) -> pa.Array:
        """In how many matches the event of an alias has a value."""
        is_valid = self._values(alias, name).is_valid().to_numpy(zero_copy_only=False)
        return _told(*self._sums(alias, is_valid.astype(np.int64)))

    def sums(self, alias: str, name: str) -> pa.Array:
        values = self._values(alias, name)
        totals, sizes = self._sums(alias, values.fill_null(0).to_numpy())
        has_values = self._sums(alias, values.is_valid().to_numpy(zero_copy_only=False).astype(np.int64))[1] > 0
        return _told(totals, sizes, ~has_values)

    def _sums(self, alias: str, values: I64) -> tuple[I64, F64]:
        """Sums over the events that matches have for an alias, and about how large they may be."""
        if alias == self.aliases[-1]:
            own = values[self.completing]
            with np.errstate(over="ignore"):
                return self.counts * own, self.sizes * np.abs(own.astype(np.float64))
        chains = self._chains(SUM, self.aliases.index(alias), values)
        return chains.values[self.completing], chains.value_sizes[self.completing]

    def extremes(self, smallest: bool, alias: str, name: str) -> pa.Array:
        """The smallest or the largest value that the event of an alias has in some match."""
        values = self._values(alias, name)
        if alias == self.aliases[-1]:
            return values.take(pa.array(self.completing))
        ranks = dense_ranks(values)
        most = int(ranks.max(initial=0))
        asked = ranks if smallest else most + 1 - ranks
        least = self._chains(LEAST, self.aliases.index(alias), np.where(ranks == 0, NO_RANK, asked)).values
        found = least[self.completing]
        row_of = np.zeros(most + 2, np.int64)
        row_of[asked] = np.arange(len(asked))
        missing = found == NO_RANK
        return values.take(pa.array(row_of[np.where(missing, 0, found)], mask=missing))

    def _values(self, alias: str, name: str) -> pa.Array:
        return self.store.columns[f"{self.program.cases[0].types[alias]}.{name}"]

    def kept(self, expression: Expression, calls: Calls) -> pa.Array:
        """What all matches that an event completes agree in: a group key, or an attribute of its own."""
        last = self.aliases[-1]
        if isinstance(expression, Attribute) and expression.alias != last:
            return self.store.columns[f"group.{expression.name}"].take(pa.array(self.completing))
        rows = StoreRows(self.store, self.program.cases[0].types[last], (), self.completing)
        return evaluate(expression, rows, **calls)


def _told(numbers: I64, sizes: F64, missing: np.ndarray | None = None) -> pa.Array:
    """Whole numbers; null where they are too large, as sums of integers are that do not fit."""
    too_large = sizes >= LARGEST
    return pa.array(numbers, mask=too_large if missing is None else too_large | missing)
