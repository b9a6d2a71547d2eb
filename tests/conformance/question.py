"""One question for every way to run a query: a query with the rows of its streams; and what comes back.

A `.case` file, a random query and one of Flink's cases are all questions. An `Executor` answers them: the oracle, the
embedded engine, the Python parts of the Spark engine without Spark, and Spark itself. Nothing but the executor differs.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from cases.case_file import Case, Found
from conformance.flink import FlinkCase
from oracle.events import read_stream
from runtime.comparison import _rows, tables
from situ.graph.operators import OperatorGraph
from situ.graph.query import Stream
from situ.graph.rule_properties import has_unbounded_state
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.lang.unparse import unparse
from situ.runtime.spark.stages.output import COMPLEX_EVENT, TIMED_OUT, TaggedOutput
from strategies import Scenario

SECOND_US = 1_000_000
#: How far beyond all other rows the last one of every stream is, so that everything before it is decided.
FAR_US = 1000 * SECOND_US

Events = Mapping[str, pa.Table]
#: What a query finds, row by row, for every definition, and under `NAME timed out` what timed out.
Rows = dict[str, Counter[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class Question:
    """A query and the rows of its streams, in any order; `arriving`: they come in this order, and may be late."""

    name: str
    text: str
    graph: OperatorGraph
    events: Events
    arriving: bool = False

    @property
    def ends_only(self) -> bool:
        """Whether some definition would keep its state for ever, which input without end does not allow."""
        return any(map(has_unbounded_state, self.graph.operators))

    def __str__(self) -> str:
        return f"{self.name}\n{self.text}"


class Executor(Protocol):
    """A way to run a query. `rng` chooses what must not matter: order of arrival, pieces, shards."""

    def accepts(self, question: Question) -> bool:
        """Whether the question is one for this executor."""
        ...

    def run(self, question: Question, rng: random.Random) -> Found:
        """What it finds; of definitions, too."""
        ...


def case_to_question(case: Case) -> Question:
    return Question(case.name, case.query, case.graph, case.events, case.unbounded)


def scenario_to_question(name: str, scenario: Scenario) -> Question:
    graph = resolve(scenario.query)
    return Question(name, unparse(scenario.query), graph, tables(graph, scenario.events))


def flink_to_question(case: FlinkCase) -> Question:
    graph = resolve(case.query)
    return Question(case.name, unparse(case.query), graph, tables(graph, {"E": case.events}))


def rows_of(question: Question, found: Found) -> Rows:
    """The rows of all definitions, without what only some executors say."""
    operators = question.graph.operators
    rows: Rows = {operator.name: Counter() for operator in operators}
    rows |= {f"{operator.name} timed out": Counter() for operator in operators if operator.rule.timed_out}
    for suffix, found_tables in (("", found.complex_events), (" timed out", found.timed_out or {})):
        for name, table in found_tables.items():
            rows[name + suffix].update(_rows(question.graph, name, table))
    return rows


# --- rows as they come


def times_us(stream: Stream, table: pa.Table) -> list[int | None]:
    """The time of every row, read as the oracle reads it; None: it has none."""
    rows = table.to_pylist()
    timed = iter(read_stream(stream, [row for row in rows if row[stream.time] is not None]))
    return [None if row[stream.time] is None else next(timed).time for row in rows]


def arrivals(question: Question, rng: random.Random) -> list[tuple[str, int]]:
    """Stream and number of every row, in an order in which none is late."""
    rows = [(stream.name, n) for stream in question.graph.streams for n in range(len(question.events[stream.name]))]
    arriving_us: dict[tuple[str, int], float] = {}
    for stream in question.graph.streams:
        lag_us = rng.choice([0, 0, 1, 5]) * SECOND_US  # a stream may be far behind the others
        for n, time_us in enumerate(times_us(stream, question.events[stream.name])):
            arriving_us[stream.name, n] = (time_us or 0) + rng.randint(0, stream.watermark_us) + lag_us
    rng.shuffle(rows)
    return sorted(rows, key=lambda row: arriving_us[row])


def pieces(question: Question, rng: random.Random, cut_chance: float | None = None) -> list[dict[str, pa.Table]]:
    """The rows in pieces as they come, some of them empty; where they may be late, a row of each stream at a time."""
    if question.arriving:
        rows = max(map(len, question.events.values()))
        return [{name: t.slice(n, 1) for name, t in question.events.items() if n < len(t)} for n in range(rows)]
    chance = rng.choice([0.15, 0.4, 0.8]) if cut_chance is None else cut_chance
    numbers: list[dict[str, list[int]]] = [{}]
    for stream, number in arrivals(question, rng):
        if rng.random() < chance:
            numbers.append({})
        if rng.random() < 0.1:
            numbers.append({})
        numbers[-1].setdefault(stream, []).append(number)
    return [{name: question.events[name].take(rows) for name, rows in piece.items()} for piece in numbers]


def far_away(question: Question) -> dict[str, pa.Table]:
    """A row for every stream that lets all time pass. It is not read itself, because none follows it."""
    streams = question.graph.streams
    known = [time for stream in streams for time in times_us(stream, question.events[stream.name]) if time is not None]
    far_us = max(known, default=0) + FAR_US
    rows = {}
    for stream in streams:
        schema = question.events[stream.name].schema
        unit_us = {"s": SECOND_US, "ms": 1000}.get(stream.time_unit or "", 1)
        time = pa.scalar(far_us // unit_us, pa.int64()).cast(schema.field(stream.time).type)
        columns = {name: [time.as_py() if name == stream.time else None] for name in schema.names}
        rows[stream.name] = pa.table(columns, schema=schema)
    return rows


# --- the tagged table of the Spark engine


def tagged_to_found(graph: OperatorGraph, output: TaggedOutput, tagged: pa.Table, rejected: bool = False) -> Found:
    """The tagged table, definition by definition; `rejected`: its rejected rows count, too."""
    return Found(
        {operator.name: _of_tag(output, tagged, COMPLEX_EVENT, operator.name) for operator in graph.operators},
        {o.name: _of_tag(output, tagged, TIMED_OUT, o.name) for o in graph.operators if o.rule.timed_out},
        rejected={s.name: _rows_with(tagged, "rejected", s.name) for s in graph.streams} if rejected else None,
    )


def _of_tag(output: TaggedOutput, tagged: pa.Table, kind: str, name: str) -> pa.Table:
    rows = _rows_with(tagged, kind, name)
    attributes = {a: rows[column] for (operator, a), (column, _) in output.columns.items() if operator == name}
    own = [column for column in rows.column_names if column == "_time" or column.endswith(("_min", "_max"))]
    return pa.table(attributes | {column: rows[column] for column in own})


def _rows_with(tagged: pa.Table, kind: str, name: str) -> pa.Table:
    return tagged.filter(pc.and_(pc.equal(tagged["_kind"], kind), pc.equal(tagged["_name"], name)))


# --- many questions in one


@dataclass(frozen=True, slots=True)
class Merged:
    """Many questions as one query, which one Spark job answers. Streams and definitions get a prefix of their own."""

    questions: tuple[Question, ...]
    whole: Question

    @classmethod
    def of(cls, questions: Sequence[Question]) -> Merged:
        text = "\n".join(_renamed(question, prefix) for prefix, question in _prefixed(questions))
        events = {p + name: table for p, question in _prefixed(questions) for name, table in question.events.items()}
        arriving = any(question.arriving for question in questions)
        return cls(tuple(questions), Question("merged", text, resolve(parse(text)), events, arriving))

    def answers(self, found: Found) -> list[Found]:
        """What was found, question by question."""
        return [_without(prefix, found) for prefix, _ in _prefixed(self.questions)]


def _prefixed(questions: Sequence[Question]) -> list[tuple[str, Question]]:
    """A prefix, and no suffix: events of one time are in the order of their types' names, which must not change."""
    return [(f"q{number}_", question) for number, question in enumerate(questions)]


def _renamed(question: Question, prefix: str) -> str:
    names = [*(s.name for s in question.graph.streams), *(o.name for o in question.graph.operators)]
    return re.sub(rf"\b({'|'.join(names)})\b", rf"{prefix}\1", question.text)


def _without(prefix: str, found: Found) -> Found:
    def mine(of_kind: Events | None) -> Events | None:
        if of_kind is None:
            return None
        return {name.removeprefix(prefix): rows for name, rows in of_kind.items() if name.startswith(prefix)}

    return Found(mine(found.complex_events) or {}, mine(found.timed_out), mine(found.late), mine(found.rejected))
