"""Operator graph -> plan: what Spark does, and what crosses to Python.

Every stream is read once: a filter and a projection in Catalyst, and one crossing to Python, which packs the rows by
shard for all stages. A stage is one shuffle of packets and one crossing in which operators run.
"""

from __future__ import annotations

from dataclasses import dataclass

from situ.core.functions import Functions
from situ.core.functions import default as default_functions
from situ.graph.operators import Operator, OperatorGraph
from situ.graph.query import Stream
from situ.graph.typing import Scope
from situ.kernel.batch import EXTENT
from situ.kernel.operator import Conditions, Context, RunningOperator, contexts_of
from situ.lang.unparse import unparse_expression
from situ.mobility.subscriptions import refuse_moving
from situ.runtime.compile import compile_operator
from situ.runtime.spark.catalyst import is_expressible
from situ.runtime.spark.partitioning import Anywhere, ByKey, partitioning_of
from situ.runtime.spark.routes import Route, routes_of


@dataclass(frozen=True, slots=True)
class StreamTest:
    """What some step asks of single events, and which of its conditions Catalyst judges."""

    conditions: Conditions
    pushed: Conditions

    @property
    def complete(self) -> bool:
        """Whether Catalyst says all of it, so that the kernel need not ask again."""
        return len(self.pushed) == len(self.conditions)

    def __str__(self) -> str:
        pushed = " and ".join(map(unparse_expression, self.pushed))
        rest = " and ".join(unparse_expression(c) for c in self.conditions if c not in self.pushed)
        if not self.conditions:
            return "every row"
        return "; ".join(
            text for text in (f"in Catalyst: {pushed}" * bool(pushed), f"in the kernel: {rest}" * bool(rest)) if text
        )


@dataclass(frozen=True, slots=True)
class Taker:
    """A route of a stage that reads a stream: rows that fulfil one of these tests (None: all rows)."""

    stage: int
    route: int
    tests: frozenset[int] | None


@dataclass(frozen=True, slots=True)
class Read:
    """What crosses of one stream."""

    stream: Stream
    tests: tuple[StreamTest, ...]
    columns: tuple[str, ...]
    takers: tuple[Taker, ...]
    ties: frozenset[str]
    positions_of: tuple[str, ...]

    @property
    def filtered(self) -> bool:
        """Whether Catalyst leaves rows out."""
        return all(taker.tests is not None for taker in self.takers)

    @property
    def marked(self) -> bool:
        """Whether rows say which tests they fulfil."""
        return any(test.pushed for test in self.tests) and not (self.filtered and len(self.tests) == 1)

    def __str__(self) -> str:
        lines = [f"read {self.stream.name}: {'rows that fulfil a test' if self.filtered else 'all rows'}"]
        lines += [f"  test {number} {test}" for number, test in enumerate(self.tests)]
        lines.append(f"  cross: {', '.join(('the time', *self.columns, *(['marks of the tests'] * self.marked)))}")
        if self.ties:
            lines.append(
                f"  {', '.join(sorted(self.ties))}: only because equal times are ordered by all attributes; "
                f"`order ATTRIBUTE` in the declaration of {self.stream.name} would need that one alone"
            )
        lines += [f"  all rows cross: positions count in {name}" for name in self.positions_of]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Stage:
    """One shuffle, and the routes behind it."""

    number: int
    routes: tuple[Route, ...]

    def __str__(self) -> str:
        lines = [f"stage {self.number + 1}"]
        for route in self.routes:
            lines.append(f"  run {route.partitioning}")
            lines.append(f"    {', '.join(o.name for o in route.operators)}, from {', '.join(route.reads)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class SparkPlan:
    """How a query runs on Spark."""

    graph: OperatorGraph
    reads: tuple[Read, ...]
    stages: tuple[Stage, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.reads, *self.stages)))

    def read(self, stream: str) -> Read | None:
        """What crosses of a stream; None for complex events, and for a stream that nothing reads."""
        return next((read for read in self.reads if read.stream.name == stream), None)

    @property
    def stream_reads(self) -> tuple[Read, ...]:
        """What crosses of the streams of a streaming query: of those that nothing reads, the time, which passes with
        their events, too."""
        return tuple(self.read(s.name) or Read(s, (), (), (), frozenset(), ()) for s in self.graph.streams)

    def readers(self, event_type: str) -> list[tuple[int, int]]:
        """The stages and routes that read an event type from outside of themselves."""
        return [
            (stage.number, number)
            for stage in self.stages
            for number, route in enumerate(stage.routes)
            if event_type in route.reads
        ]


def plan_on_spark(graph: OperatorGraph, functions: Functions = default_functions) -> SparkPlan:
    """How a query runs on Spark; needs no session.

    >>> from situ.lang.parse import parse
    >>> from situ.lang.resolve import resolve
    >>> print(plan_on_spark(resolve(parse('''
    ...     stream Reading(sensor int, value double, note string, ts timestamp) time ts  order ts
    ...     subscribe Rise
    ...       detect   Reading(value > 0) as a then Reading(value > a.value + 5) as b within 10 s
    ...       assign   by = b.value - a.value
    ...       group by sensor
    ... '''))))
    read Reading: all rows
      test 0 in Catalyst: this.value > 0
      test 1 every row
      cross: the time, sensor, value, marks of the tests
    stage 1
      run by key: sensor
        Rise, from Reading
    """
    refuse_moving(graph)
    contexts = contexts_of(graph, functions, provenance=False)
    running = {name: compile_operator(context) for name, context in contexts.items()}
    routes = routes_of(graph)
    numbers = sorted({route.stage for route in routes})
    stages = tuple(Stage(number, tuple(route for route in routes if route.stage == number)) for number in numbers)
    reads = (_read(stream, stages, contexts, running, functions) for stream in graph.streams)
    return SparkPlan(graph, tuple(read for read in reads if read is not None), stages)


def _read(
    stream: Stream,
    stages: tuple[Stage, ...],
    contexts: dict[str, Context],
    running: dict[str, RunningOperator],
    functions: Functions,
) -> Read | None:
    places = [(stage.number, n, route) for stage in stages for n, route in enumerate(stage.routes)]
    readers = {
        (stage, n): [operator for operator in route.operators if stream.name in operator.inputs]
        for stage, n, route in places
    }
    operators = [operator for of_route in readers.values() for operator in of_route]
    if not operators:
        return None
    schema = contexts[operators[0].name].schemas[stream.name]
    scope = Scope({}, functions=functions).with_this(stream.name, schema)
    asked = dict.fromkeys(c for operator in operators for c in running[operator.name].tests()[stream.name])
    tests = tuple(StreamTest(c, tuple(x for x in c if is_expressible(x, scope))) for c in asked)
    judged = {test.conditions for test in tests if test.complete}
    columns = {stream.unique} if stream.unique else set[str]()
    ordering: set[str] = set()
    for operator in operators:
        read = running[operator.name].columns_read(judged)[stream.name]
        columns |= read - {*EXTENT}
        if {*EXTENT} & read and stream.location:
            columns |= {*stream.location}
        if not isinstance(partitioning_of(operator), Anywhere):  # then the order of events matters
            ordering |= {*contexts[operator.name].inputs[stream.name].tie_attributes}
    for stage, n, route in places:
        if readers[stage, n] and isinstance(route.partitioning, ByKey):
            columns |= {*route.partitioning.keys}
    takers = tuple(
        Taker(stage, n, _taken(stream.name, of_route, tests, running))
        for (stage, n), of_route in readers.items()
        if of_route
    )
    counting = tuple(operator.name for operator in operators if running[operator.name].counts_positions)
    if stream.unique:
        ordering |= {*contexts[operators[0].name].inputs[stream.name].tie_attributes}
    crossing = tuple(name for name in schema.names if name in columns | ordering)
    ties = frozenset() if stream.order else frozenset(ordering - columns)
    return Read(stream, tests, crossing, takers, ties, counting)


def _taken(
    stream: str, operators: list[Operator], tests: tuple[StreamTest, ...], running: dict[str, RunningOperator]
) -> frozenset[int] | None:
    """The tests by one of which a route takes a row; None: it takes all."""
    if any(running[operator.name].counts_positions for operator in operators):
        return None
    numbers = {test.conditions: number for number, test in enumerate(tests)}
    taken = {numbers[c] for operator in operators for c in running[operator.name].tests()[stream]}
    return frozenset(taken) if all(tests[number].pushed for number in taken) else None
