"""Rules of one shape at work as one program: their template, with the rule as the first group key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa

from situ.core.time import BEGINNING
from situ.filter.filterer import Hits
from situ.flow.family_state import own_tables, template_tables
from situ.kernel.arrays import I64, U64
from situ.kernel.batch import Batch, Calls, Marks, concat
from situ.kernel.compile import RuleProgram
from situ.kernel.matching.machine import jit
from situ.kernel.matching.order import is_sorted
from situ.kernel.operator import RULE, Conditions, Produced, RunningOperator
from situ.kernel.program.shape import Shaped, constant_names
from situ.kernel.state.checks import require

#: So many pairs of a rule and an event are read at once, or as many as one moment has.
PAIRS_AT_ONCE = 1 << 22


@dataclass
class _Tests:
    """What the rules of a family ask of the events of one type: by rule and test of the template, the number of the
    content (-1: every event)."""

    conditions: tuple[Conditions, ...]
    reads_all: bool
    contents: I64

    @cached_property
    def numbers(self) -> dict[Conditions, int]:
        """The number of each test."""
        return {conditions: number for number, conditions in enumerate(self.conditions)}


@dataclass
class RuleFamily:
    """Rules of one shape. `program` is that of their template, at work as `operator`. A rule has a number for as long
    as it is there."""

    program: RuleProgram
    operator: RunningOperator
    calls: Calls
    rules: dict[str, int] = field(default_factory=dict)
    _names: list[str | None] = field(default_factory=list)
    _shaped: dict[str, Shaped] = field(default_factory=dict)
    _constants: list[list[float | str | None]] = field(default_factory=list)
    _columns: list[pa.Array] | None = None
    _free: list[int] = field(default_factory=list)
    _gone: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        reads_all = self.program.counts_positions
        self._tests = {
            name: _Tests(unique, reads_all or () in unique, np.zeros((0, len(unique)), np.int64))
            for name, conditions in self.program.tests().items()
            for unique in [tuple(dict.fromkeys(conditions))]
        }
        keys = [name for name in self.program.context.group_by if name.startswith("_constant ")]
        self._types = [self.program.context.key_type(key) for key in keys]
        self._constants = [[] for _ in keys]

    # --- rules come and go

    def contents(self, rule: Shaped) -> dict[str, tuple[Conditions, ...]]:
        """What a rule asks of the events of each type, in the order of the template's tests."""
        return {name: tuple(rule.own(c) for c in tests.conditions) for name, tests in self._tests.items()}

    def add(self, name: str, rule: Shaped, contents: Mapping[str, Sequence[int]]) -> None:
        """One more rule, whose contents have these numbers (-1: every event)."""
        if self._free:
            number = self._free.pop()
        else:
            number = len(self._names)
            self._names.append(None)
            for constants in self._constants:
                constants.append(None)
            for tests in self._tests.values():
                tests.contents = _one_more(tests.contents, number)
        self._names[number], self.rules[name], self._shaped[name] = name, number, rule
        for constants, value in zip(self._constants, rule.constants, strict=True):
            constants[number] = value
        for type_, tests in self._tests.items():
            tests.contents[number] = contents[type_]
        self._columns = None

    def take(self, name: str) -> dict[str, pa.Table]:
        """Remove a rule; its state."""
        number = self._without(name)
        tables = self.operator.take([pa.array([number])])
        self._free.append(number)
        return {part: own_tables(table, number, len(self._constants)) for part, table in tables.items()}

    def forget(self, name: str) -> None:
        """Remove a rule that is not wanted any more. Its state, which reads no event from now on, goes together with
        that of others when these have become many: to look through the state of all rules for that of one would cost
        as much as all of them."""
        self._gone.append(self._without(name))
        if len(self._gone) >= max(_MANY_GONE, len(self.rules) // 8):
            self.operator.take([pa.array(self._gone)])
            self._free += self._gone
            self._gone = []

    def _without(self, name: str) -> int:
        """Let a rule read no more events, and be known by no name; its number."""
        number = self.rules.pop(name)
        self._names[number] = None
        del self._shaped[name]
        for tests in self._tests.values():
            tests.contents[number] = _NOBODY
        return number

    def contents_asked(self, event_type: str) -> list[int]:
        """The numbers of what its rules ask of single events of a type."""
        contents = self._tests[event_type].contents
        asked: list[int] = np.unique(contents[contents >= 0]).tolist()
        return asked

    def numbers_of_contents(self, name: str) -> dict[str, list[int]]:
        return {type_: tests.contents[self.rules[name]].tolist() for type_, tests in self._tests.items()}

    # --- a step

    def contents_of(self, name: str) -> dict[str, tuple[Conditions, ...]]:
        return self.contents(self._shaped[name])

    def reads(self, type_: str, batch: Batch, hits: Hits) -> bool:
        """Whether some rule takes some of the events."""
        return len(batch) > 0 and (self._tests[type_].reads_all or bool(self._touched(type_, hits).any()))

    def _touched(self, type_: str, hits: Hits) -> np.ndarray:
        contents = self._tests[type_].contents
        return np.asarray(np.logical_or.reduce((hits.places[contents] >= 0) & (contents >= 0), axis=1))

    def process(
        self,
        inputs: Mapping[str, Batch],
        hits: Mapping[str, Hits],
        waiting: Mapping[str, Mapping[str, Batch]],
        apart: Mapping[str, Sequence[str]],
        before: int,
    ) -> tuple[dict[str, Produced], int]:
        """Let the rules read events; `waiting` has those that one rule alone has not read yet, and by type, the rules
        `apart` read these only. What rules found, of those that found something, and the low watermark of all.

        Where rules read all events, there are many pairs of both: then some time after the other."""
        found: dict[str, list[Produced]] = {}
        low = before
        for since, until in self._stretches(inputs, hits, before):
            of_inputs = {name: _between(batch, since, until) for name, batch in inputs.items()}
            of_waiting = {
                rule: {name: batch.view(_between(batch, since, until)) for name, batch in of_types.items()}
                for rule, of_types in waiting.items()
            }
            is_all = until == before and since == BEGINNING
            made, low = self._process(
                inputs if is_all else {name: batch.view(of_inputs[name]) for name, batch in inputs.items()},
                hits if is_all else {name: hits[name].among(of_inputs[name]) for name in inputs},
                waiting if is_all else of_waiting,
                apart,
                until,
            )
            for name, produced in made.items():
                found.setdefault(name, []).append(produced)
        return {name: _joined(pieces, low) for name, pieces in found.items()}, low

    def _stretches(self, inputs: Mapping[str, Batch], hits: Mapping[str, Hits], before: int) -> list[tuple[int, int]]:
        """Stretches of time, each with as many pairs as are read at once."""
        pairs = sum(_most_pairs(self._tests[name], len(self.rules), hits[name], len(inputs[name])) for name in inputs)
        if pairs <= PAIRS_AT_ONCE:
            return [(BEGINNING, before)]
        times = np.sort(np.concatenate([batch.times for batch in inputs.values()]))
        size = max(1, len(times) * PAIRS_AT_ONCE // pairs)
        cuts = np.unique(times[size::size]).tolist()
        return [*pairwise([BEGINNING, *cuts, before])]

    def _process(
        self,
        inputs: Mapping[str, Batch],
        hits: Mapping[str, Hits],
        waiting: Mapping[str, Mapping[str, Batch]],
        apart: Mapping[str, Sequence[str]],
        before: int,
    ) -> tuple[dict[str, Produced], int]:
        pairs = {name: self._pairs(name, batch, hits[name], apart.get(name, ())) for name, batch in inputs.items()}
        for rule, of_types in waiting.items():
            for type_, batch in of_types.items():
                own = self._pairs_of(rule, type_, batch)
                pairs[type_] = concat([own, pairs[type_]]) if type_ in pairs else own
        pairs = {name: batch for name, batch in pairs.items() if len(batch)}
        produced = self.operator.process(pairs, before)
        events, timed_out = self._by_rule(produced.events), self._by_rule(produced.timed_out)
        low = produced.low_watermark
        nothing = (produced.events.take(np.zeros(0, np.int64)), produced.timed_out.take(np.zeros(0, np.int64)))
        return {
            name: Produced(events.get(name, nothing[0]), timed_out.get(name, nothing[1]), low)
            for name in {**events, **timed_out}
        }, low

    def _by_rule(self, batch: Batch) -> dict[str, Batch]:
        if not len(batch):
            return {}
        numbers = batch.columns.pop(RULE).to_numpy(zero_copy_only=False)
        sorted_, ordered = batch, numbers
        if not is_sorted(numbers):  # patterns give them rule by rule, windows by time
            order = np.argsort(numbers, kind="stable")
            sorted_, ordered = batch.take(order), numbers[order]
        bounds = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(ordered)]
        parts = {}
        for begin, end in pairwise(bounds):
            name = self._names[int(ordered[begin])]
            if name is None:
                continue  # it is gone, and its state will go
            columns = {n: column.slice(begin, end - begin) for n, column in sorted_.columns.items()}
            parts[name] = Batch(sorted_.times[begin:end], columns)
        return parts

    def _pairs(self, type_: str, batch: Batch, hits: Hits, apart: Sequence[str]) -> Batch:
        """Each event once for every rule that it concerns: rule by rule, the events of one in their order."""
        tests = self._tests[type_]
        if tests.reads_all:
            rules = np.array(sorted(self.rules.values()), np.int64)
        else:
            rules = np.flatnonzero(self._touched(type_, hits))
        rules = np.setdiff1d(rules, [self.rules[name] for name in apart]) if apart else rules
        spans = _spans(tests.contents[rules], hits)
        most = len(rules) * len(batch) if tests.reads_all else int((spans[..., 1] - spans[..., 0]).sum())
        rows, bits = np.empty(most, np.int64), np.empty(most, np.uint64)
        ends = np.zeros(len(rules), np.int64)
        row_at = np.empty(spans.shape[1], np.int64)
        _merge(spans, hits.rows, len(batch), tests.reads_all, rows, bits, ends, row_at)
        used = int(ends[-1]) if len(ends) else 0
        numbers = np.repeat(rules, np.diff(ends, prepend=0))
        return self._batch(type_, batch, rows[:used], numbers, bits[:used])

    def _pairs_of(self, rule: str, type_: str, batch: Batch) -> Batch:
        """The events of a batch for one rule."""
        tests, shaped = self._tests[type_], self._shaped[rule]
        bits = np.zeros(len(batch), np.uint64)
        for number, conditions in enumerate(tests.conditions):
            mask = batch.mask(shaped.own(conditions), self.calls)
            bits |= np.uint64(1 << number) if mask is None else mask.astype(np.uint64) << np.uint64(number)
        return self._batch(type_, batch, np.arange(len(batch)), np.full(len(batch), self.rules[rule]), bits)

    def _batch(self, type_: str, batch: Batch, rows: I64, rules: I64, bits: U64) -> Batch:
        chosen, names = pa.array(rows), constant_names(len(self._constants))

        def load(wanted: Iterable[str]) -> dict[str, pa.Array]:
            own = [name for name in wanted if name in names]
            others = [name for name in wanted if name not in names]
            batch.require(others)
            taken = {name: batch.columns[name].take(chosen) for name in others}
            of_rules = pa.array(rules)
            return taken | {name: self._constant_columns[names.index(name)].take(of_rules) for name in own}

        marks = Marks(self._tests[type_].numbers, bits)
        return Batch(batch.times[rows], {RULE: pa.array(rules)}, load, marks=marks, of=(batch, rows))

    @property
    def _constant_columns(self) -> list[pa.Array]:
        if self._columns is None:
            pairs = zip(self._constants, self._types, strict=True)
            self._columns = [pa.array(constants, type_) for constants, type_ in pairs]
        return self._columns

    # --- state

    def snapshot(self) -> dict[str, dict[str, pa.Table]]:
        """The state of each rule, as it would be if the rule ran by itself."""
        tables = {part: _SplitTable(table) for part, table in self.operator.snapshot().items()}
        constants = len(self._constants)
        return {
            name: {part: own_tables(table.of(number), number, constants) for part, table in tables.items()}
            for name, number in self.rules.items()
        }

    def put(self, states: Mapping[str, Callable[[str], pa.Table]]) -> None:
        """The states of some rules, each as it is if the rule runs by itself: by rule, what gives its tables."""
        wanted = {part: table.schema for part, table in self.operator.snapshot().items()}
        given = []
        for name, table_of in states.items():
            number, constants = self.rules[name], self._shaped[name].constants
            state = {part: template_tables(table_of(part), wanted[part], number, constants) for part in wanted}
            if not _is_new(state):
                given.append(state)
        if given:
            self.operator.put({part: _one_table(part, [state[part] for state in given]) for part in wanted})


def _one_table(part: str, tables: list[pa.Table]) -> pa.Table:
    """The tables of several rules as one; what holds for all rules is the same in each of them."""
    if not part.endswith(" until"):
        return pa.concat_tables(tables)
    require(all(table.equals(tables[0]) for table in tables), "windows have passed several times")
    return tables[0]


def _is_new(tables: Mapping[str, pa.Table]) -> bool:
    """Whether a state is that of a rule which time has not passed yet: the others are further."""
    until = [table for part, table in tables.items() if part.endswith(" until")]
    rows = sum(table.num_rows for table in tables.values())
    return rows == len(until) > 0 and all(table.column(0)[0].as_py() == BEGINNING for table in until)


#: The contents of a rule that is gone; and so many that are gone are many.
_NOBODY, _MANY_GONE = -2, 16


def _one_more(contents: I64, number: int) -> I64:
    """Room for the contents of rule `number`, and of others after it."""
    if number < len(contents):
        return contents
    return np.concatenate([contents, np.full((max(8, len(contents)), contents.shape[1]), _NOBODY)])


@dataclass(slots=True)
class _SplitTable:
    """A table of a template's state, by rule."""

    table: pa.Table
    _order: I64 | None = None
    _sorted: I64 | None = None

    def of(self, rule: int) -> pa.Table:
        name = next((n for n in ("key 0", f"group.{RULE}") if n in self.table.column_names), None)
        if name is None:
            return self.table  # what it says holds for all rules
        if self._order is None or self._sorted is None:
            numbers = self.table.column(name).to_numpy()
            self._order = np.argsort(numbers, kind="stable")
            self._sorted = numbers[self._order]
            self.table = self.table.take(pa.array(self._order)).combine_chunks()
        begin, end = np.searchsorted(self._sorted, [rule, rule + 1])
        return self.table.slice(begin, end - begin)


def _spans(contents: I64, hits: Hits) -> I64:
    """By rule and test, where the rows of its content begin and end in `hits`; -1: every event."""
    spans = np.stack(hits.spans(contents), axis=-1)
    spans[contents == -1] = -1
    return spans


def _most_pairs(tests: _Tests, rules: int, hits: Hits, events: int) -> int:
    """At most so many pairs of a rule and an event there are."""
    if tests.reads_all:
        return rules * events
    spans = _spans(tests.contents, hits)
    return int((spans[..., 1] - spans[..., 0]).sum())


def _between(batch: Batch, since: int, until: int) -> I64:
    """The rows of a stretch of time."""
    return np.flatnonzero((batch.times >= since) & (batch.times < until))


def _joined(pieces: list[Produced], low: int) -> Produced:
    if len(pieces) == 1:
        return pieces[0]
    return Produced(concat([p.events for p in pieces]), concat([p.timed_out for p in pieces]), low)


@jit
def _merge(spans: I64, hit_rows: I64, events: int, all_rows: bool, rows: I64, bits: U64, ends: I64,
           row_at: I64) -> None:  # fmt: skip
    """For each rule its rows in order, each with the tests that accept it as bits. `row_at` is room for the next row of
    each test (`events`: it has none)."""
    written = 0
    one = np.uint64(1)
    tests = spans.shape[1]
    for rule in range(spans.shape[0]):
        if all_rows:
            for row in range(events):
                rows[written + row], bits[written + row] = row, np.uint64(0)
            for test in range(spans.shape[1]):
                bit = one << np.uint64(test)
                if spans[rule, test, 0] < 0:
                    for row in range(events):
                        bits[written + row] |= bit
                else:
                    for at in range(spans[rule, test, 0], spans[rule, test, 1]):
                        bits[written + hit_rows[at]] |= bit
            written += events
        else:
            least = events
            for test in range(tests):
                begin = spans[rule, test, 0]
                row_at[test] = hit_rows[begin] if begin < spans[rule, test, 1] else events
                least = min(least, row_at[test])
            while least < events:
                accepted, following = np.uint64(0), events
                for test in range(tests):
                    if row_at[test] == least:
                        accepted |= one << np.uint64(test)
                        begin = spans[rule, test, 0] + 1
                        spans[rule, test, 0] = begin
                        row_at[test] = hit_rows[begin] if begin < spans[rule, test, 1] else events
                    following = min(following, row_at[test])
                rows[written], bits[written] = least, accepted
                written += 1
                least = following
        ends[rule] = written
