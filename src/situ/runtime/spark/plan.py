"""Operator graph -> plan: what Spark does, and what crosses to Python.

A stage is: for every stream that it reads, a filter and a projection in Catalyst; one crossing to Python, which packs
the rows by shard; one shuffle of packets; one crossing in which the operators run.
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
    """A route that reads a stream: rows that fulfil one of these tests (None: all rows)."""

    route: int
    tests: frozenset[int] | None


@dataclass(frozen=True, slots=True)
class Read:
    """What crosses of one stream for one stage."""

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
        lines = [f"  read {self.stream.name}: {'rows that fulfil a test' if self.filtered else 'all rows'}"]
        lines += [f"    test {number} {test}" for number, test in enumerate(self.tests)]
        lines.append(f"    cross: {', '.join(('the time', *self.columns, *(['marks of the tests'] * self.marked)))}")
        if self.ties:
            lines.append(
                f"    {', '.join(sorted(self.ties))}: only because equal times are ordered by all attributes; "
                f"`order ATTRIBUTE` in the declaration of {self.stream.name} would need that one alone"
            )
        lines += [f"    all rows cross: positions count in {name}" for name in self.positions_of]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Stage:
    """One shuffle, and the routes behind it."""

    number: int
    reads: tuple[Read, ...]
    routes: tuple[Route, ...]

    def __str__(self) -> str:
        lines = [f"stage {self.number + 1}", *map(str, self.reads)]
        streams = {read.stream.name for read in self.reads}
        for route in self.routes:
            handed = [name for name in route.reads if name not in streams]
            lines.append(f"  run {route.partitioning}")
            lines.append(f"    {', '.join(operator.name for operator in route.operators)}")
            lines += [f"    from earlier stages: {', '.join(handed)}"] * bool(handed)
        return "\n".join(lines)


@dataclass(frozen=True)
class SparkPlan:
    """How a query runs on Spark."""

    graph: OperatorGraph
    stages: tuple[Stage, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.stages))

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
    stage 1
      read Reading: all rows
        test 0 in Catalyst: this.value > 0
        test 1 every row
        cross: the time, sensor, value, marks of the tests
      run by key: sensor
        Rise
    """
    contexts = contexts_of(graph, functions, provenance=False)
    running = {name: compile_operator(context) for name, context in contexts.items()}
    routes = routes_of(graph)
    stages = []
    for number in sorted({route.stage for route in routes}):
        of_stage = tuple(route for route in routes if route.stage == number)
        reads = tuple(
            _read(stream, of_stage, contexts, running, functions)
            for stream in graph.streams
            if any(stream.name in route.reads for route in of_stage)
        )
        stages.append(Stage(number, reads, of_stage))
    return SparkPlan(graph, tuple(stages))


def _read(
    stream: Stream,
    routes: tuple[Route, ...],
    contexts: dict[str, Context],
    running: dict[str, RunningOperator],
    functions: Functions,
) -> Read:
    schema = next(context.schemas[stream.name] for context in contexts.values())
    scope = Scope({}, functions=functions).with_this(stream.name, schema)
    readers = [(n, o) for n, route in enumerate(routes) for o in route.operators if stream.name in o.inputs]
    asked = dict.fromkeys(c for _, operator in readers for c in running[operator.name].tests()[stream.name])
    tests = tuple(StreamTest(c, tuple(x for x in c if is_expressible(x, scope))) for c in asked)
    judged = {test.conditions for test in tests if test.complete}
    columns: set[str] = set()
    ordering: set[str] = set()
    for number, operator in readers:
        read = running[operator.name].columns_read(judged)[stream.name]
        columns |= read - {*EXTENT}
        if {*EXTENT} & read and stream.location:
            columns |= {*stream.location}
        if isinstance(key := routes[number].partitioning, ByKey):
            columns |= {*key.keys}
        if not isinstance(partitioning_of(operator), Anywhere):  # then the order of events matters
            ordering |= {*contexts[operator.name].inputs[stream.name].tie_attributes}
    takers = tuple(
        Taker(n, _taken(stream.name, [o for m, o in readers if m == n], tests, running))
        for n in dict.fromkeys(number for number, _ in readers)
    )
    counting = tuple(o.name for _, o in readers if running[o.name].counts_positions)
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
