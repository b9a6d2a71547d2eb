"""Operator graph -> plan: what Spark does, and what crosses to Python.

Every stream is read once: a filter and a projection in Catalyst, and one crossing to Python, which packs the rows by
shard for all stages. A stage is one shuffle of packets and one crossing in which operators run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from situ.core.functions import Functions
from situ.core.functions import default as default_functions
from situ.core.identity_cache import IdentityCache
from situ.graph.html import table_to_html, text_to_html
from situ.graph.operators import OperatorGraph, Schema
from situ.graph.query import Stream
from situ.graph.rule_properties import begins_at_start
from situ.graph.tallies import tallied
from situ.graph.typing import Scope
from situ.kernel.batch import EXTENT
from situ.kernel.compile import Programs
from situ.kernel.operator import Conditions, Context, contexts_of, tie_attributes
from situ.lang.unparse import unparse_expression
from situ.mobility.moving_program import MovingProgram
from situ.mobility.moving_query import MovingQuery, moving_queries, without_moving
from situ.runtime.spark.catalyst.conditions import is_expressible
from situ.runtime.spark.plan.partitioning import Anywhere, ByKey, EveryTask, Partitioning, partitioning_of
from situ.runtime.spark.plan.routes import Route, routes_of

#: More tests than these are judged by an index in the packer: Spark's planning, and the code that it generates, grow
#: with every test, and an event looks at all of them.
MOST_IN_CATALYST = 32
#: Of more tests than these, and of more operators, some are shown.
SHOWN_TESTS, SHOWN_OPERATORS = 5, 20
#: Of so many tests it is remembered which of their conditions Catalyst can say.
_EXPRESSIBLE: IdentityCache[Conditions, Schema, Conditions] = IdentityCache(most=1 << 16)


@dataclass(frozen=True, slots=True)
class StreamTest:
    """What some step asks of single events, and which of its conditions Catalyst can judge."""

    conditions: Conditions
    pushed: Conditions

    @property
    def complete(self) -> bool:
        """Whether Catalyst can say all of it, so that the kernel need not ask again."""
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
    """What crosses of one stream; `only_ordering` are columns that do so only because they order equal times.
    `indexed`: an index in the packer judges tests, and not Catalyst."""

    stream: Stream
    tests: tuple[StreamTest, ...]
    columns: tuple[str, ...]
    takers: tuple[Taker, ...]
    only_ordering: frozenset[str]
    positions_of: tuple[str, ...]
    indexed: bool = False

    @property
    def filtered(self) -> bool:
        """Whether rows are left out: by Catalyst, or by the packer."""
        return all(taker.tests is not None for taker in self.takers)

    @property
    def asked(self) -> tuple[Conditions, ...] | None:
        """The tests of which a row must fulfil one, as far as Catalyst can say them; None: all rows are read, or tests
        are so many that an index judges them."""
        if not self.filtered or self.indexed:
            return None
        taken = {number for taker in self.takers for number in taker.tests or ()}
        return tuple(self.tests[number].pushed for number in sorted(taken))

    @property
    def marked(self) -> bool:
        """Whether rows say which tests they fulfil."""
        is_needed = any(test.pushed for test in self.tests) and not (self.filtered and len(self.tests) == 1)
        return is_needed and not self.indexed

    def __str__(self) -> str:
        lines = [f"read {self.stream.name}: {'rows that fulfil a test' if self.filtered else 'all rows'}"]
        if self.indexed:
            lines.append(
                f"  {len(self.tests):,} tests by an index: "
                + ("in the packer, and again in the kernel" if self.filtered else "in the kernel")
                + f"; Catalyst judges no more than {MOST_IN_CATALYST} tests"
            )
            shown = [" and ".join(map(unparse_expression, test.conditions)) for test in self.tests[:SHOWN_TESTS]]
            lines += [f"  test {number} {text or 'every row'}" for number, text in enumerate(shown)]
            lines.append(f"  ... and {len(self.tests) - len(shown):,} more tests")
        else:
            lines += [f"  test {number} {test}" for number, test in enumerate(self.tests)]
        lines.append(f"  cross: {', '.join(('the time', *self.columns, *(['marks of the tests'] * self.marked)))}")
        if self.only_ordering and not self.stream.order:
            lines.append(
                f"  {', '.join(sorted(self.only_ordering))}: only because equal times are ordered by all attributes; "
                f"`order ATTRIBUTE` in the declaration of {self.stream.name} would need that one alone"
            )
        lines += [f"  all rows cross: positions count in {name}" for name in self.positions_of[:SHOWN_OPERATORS]]
        if len(self.positions_of) > SHOWN_OPERATORS:
            lines.append(f"  all rows cross: {len(self.positions_of) - SHOWN_OPERATORS:,} more rules count positions")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Stage:
    """One shuffle, and the routes behind it. A moving subscription has two more: its events, and location updates."""

    number: int
    routes: tuple[Route, ...]
    moving: tuple[MovingQuery, ...] = ()

    def events_of(self, moving: int) -> int:
        """The route of a moving subscription's events."""
        return len(self.routes) + 2 * moving

    def updates_of(self, moving: int) -> int:
        """The route of a moving subscription's location updates."""
        return self.events_of(moving) + 1

    def partitioning(self, route: int) -> Partitioning:
        """How rows for a route are divided among tasks."""
        if route < len(self.routes):
            return self.routes[route].partitioning
        number, is_update = divmod(route - len(self.routes), 2)
        moving = self.moving[number]
        # Consumers who are near each other share what is found: who that is, every task finds out for itself.
        return ByKey((moving.consumer[1],)) if is_update and not moving.reuses else EveryTask()

    @property
    def in_every_task(self) -> list[int]:
        """The routes of moving subscriptions of which every task gets all rows."""
        routes = range(len(self.routes), len(self.routes) + 2 * len(self.moving))
        return [route for route in routes if isinstance(self.partitioning(route), EveryTask)]

    @property
    def begins_at_start(self) -> bool:
        """Whether a rule of it, which one task owns, begins at the start that the query is told."""
        return any(begins_at_start(operator.rule) for route in self.routes for operator in route.operators)

    def __str__(self) -> str:
        lines = [f"stage {self.number + 1}"]
        for route in self.routes:
            lines.append(f"  run {route.partitioning}")
            lines.append(f"    {_some([o.name for o in route.operators])}, from {_some(route.reads)}")
        for query in self.moving:
            stream, attribute = query.consumer
            if query.reuses:
                lines.append(f"  run by place: groups of {stream}s near each other; updates and {EveryTask()}")
            else:
                lines.append(f"  run by consumer: {attribute} of {stream}; {EveryTask()}")
            names = ", ".join(o.name for o in query.graph.operators)
            lines.append(f"    {names}, from {', '.join(query.before_us)} around {query.around.focal}")
        return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class SparkPlan:
    """How a query runs on Spark. `plain` is what of it does not move."""

    graph: OperatorGraph
    plain: OperatorGraph
    reads: tuple[Read, ...]
    stages: tuple[Stage, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.reads, *self.stages)))

    def __repr__(self) -> str:
        """What is read, and in how many stages; `print` shows the whole plan."""
        reads = ", ".join(read.stream.name for read in self.reads)
        return f"SparkPlan(reads {reads}; {len(self.stages)} stage{'s' * (len(self.stages) != 1)})"

    def _repr_html_(self) -> str:
        reads = [
            (
                read.stream.name,
                "rows that fulfil a test" if read.filtered else "all rows",
                "; ".join(map(str, read.tests)),
                ", ".join(("the time", *read.columns)),
            )
            for read in self.reads
        ]
        routes = [(stage.number + 1, route) for stage in self.stages for route in stage.routes]
        runs = [
            (number, ", ".join(o.name for o in route.operators), ", ".join(route.reads), str(route.partitioning))
            for number, route in routes
        ]
        runs += [(1, query.name, ", ".join(query.before_us), f"around {query.around.focal}") for query in self.moving]
        return (
            table_to_html("What is read", ("stream", "what crosses", "tests", "columns"), reads)
            + table_to_html("What runs", ("stage", "operators", "from", "divided"), runs)
            + text_to_html("the plan in words", str(self))
        )

    def read(self, stream: str) -> Read | None:
        """What crosses of a stream; None for complex events, and for a stream that nothing reads."""
        return next((read for read in self.reads if read.stream.name == stream), None)

    @property
    def stream_reads(self) -> tuple[Read, ...]:
        """What crosses of the streams of a streaming query: of those that nothing reads, the time, which passes with
        their events, too."""
        return tuple(self.read(s.name) or Read(s, (), (), (), frozenset(), ()) for s in self.graph.streams)

    @property
    def moving(self) -> tuple[MovingQuery, ...]:
        """The subscriptions that move; they run in the first stage."""
        return self.stages[0].moving if self.stages else ()

    @property
    def reuses(self) -> bool:
        """Whether consumers of some subscription share what is found."""
        return any(query.reuses for query in self.moving)

    def contexts(self, functions: Functions) -> dict[str, Context]:
        """The context of every operator whose complex events can be seen, as they are seen."""
        contexts = contexts_of(self.plain, functions, provenance=False)
        for query in self.moving:
            context = contexts_of(query.graph, functions, provenance=False)[query.name]
            contexts[query.name] = replace(context, operator=query.delivered)
        return contexts

    @property
    def beginning_stages(self) -> tuple[int, ...]:
        """The stages in which rules begin at the start that the query was told: in one task each."""
        return tuple(s.number for s in self.stages if s.begins_at_start) if self.graph.start_us is not None else ()

    def readers(self, event_type: str) -> list[tuple[int, int]]:
        """The stages and routes that read an event type from outside of themselves."""
        return self._readers.get(event_type, [])

    @cached_property
    def _readers(self) -> dict[str, list[tuple[int, int]]]:
        readers: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for stage in self.stages:
            for number, route in enumerate(stage.routes):
                for event_type in route.reads:
                    readers[event_type].append((stage.number, number))
        return dict(readers)


def plan_on_spark(
    graph: OperatorGraph,
    functions: Functions = default_functions,
    most_in_catalyst: int = MOST_IN_CATALYST,
    programs: Programs | None = None,
    tallies: bool = True,
) -> SparkPlan:
    """How a query runs on Spark; needs no session. Where rules ask more than `most_in_catalyst` different things of the
    events of a stream, an index judges them. `programs`: those of the rules that do not move, if they are known.
    `tallies`: definitions whose matches are only counted or summed make none.

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
    plain = tallied(without_moving(graph)) if tallies else without_moving(graph)
    programs = programs or Programs(contexts_of(plain, functions, provenance=False))
    routes = routes_of(plain)
    moving = moving_queries(graph, functions)
    numbers = sorted({route.stage for route in routes} | ({0} if moving else set()))
    stages = tuple(
        Stage(number, tuple(route for route in routes if route.stage == number), () if number else moving)
        for number in numbers
    )
    reads = (_read(stream, stages, programs, functions, most_in_catalyst) for stream in graph.streams)
    return SparkPlan(graph, plain, tuple(read for read in reads if read is not None), stages)


def _read(
    stream: Stream,
    stages: tuple[Stage, ...],
    programs: Programs,
    functions: Functions,
    most_in_catalyst: int,
) -> Read | None:
    places = [(stage.number, n, route) for stage in stages for n, route in enumerate(stage.routes)]
    readers = {
        (stage, n): [operator for operator in route.operators if stream.name in operator.inputs]
        for stage, n, route in places
    }
    operators = [operator for of_route in readers.values() for operator in of_route]
    movers = _movers(stream, stages, functions)
    if not operators and not movers:
        return None
    schema = Schema(tuple((attribute.name, attribute.type) for attribute in stream.attributes))
    scope = Scope({}, functions=functions).with_this(stream.name, schema)
    tests_of = {operator.name: programs.tests(operator.name)[stream.name] for operator in operators}
    asked = dict.fromkeys(c for tests in tests_of.values() for c in tests)
    asked |= dict.fromkeys(c for mover in movers for c in mover.tests)
    tests = tuple(StreamTest(c, _expressible(c, schema, scope)) for c in asked)
    is_indexed = len(tests) > most_in_catalyst
    judged = set() if is_indexed else {test.conditions for test in tests if test.complete}
    columns = {stream.unique} if stream.unique else set[str]()
    ordering: set[str] = set()
    for operator in operators:
        columns |= programs.columns_read(operator.name, judged)[stream.name]
        if not isinstance(partitioning_of(operator), Anywhere):  # then the order of events matters
            ordering |= {*programs.contexts[operator.name].inputs[stream.name].tie_attributes}
    for stage, n, route in places:
        if readers[stage, n] and isinstance(route.partitioning, ByKey):
            columns |= {*route.partitioning.keys}
    for mover in movers:
        columns |= mover.columns_read(judged)
        ordering |= mover.ordering
    if {*EXTENT} & columns and stream.location:
        columns |= {*stream.location}
    counting = tuple(operator.name for operator in operators if programs.template(operator.name).counts_positions)
    takers = tuple(
        Taker(stage, n, _taken([c for o in of_route for c in tests_of[o.name]], tests))
        if {operator.name for operator in of_route}.isdisjoint(counting)
        else Taker(stage, n, None)
        for (stage, n), of_route in readers.items()
        if of_route
    )
    takers += tuple(Taker(0, mover.route, _taken(mover.tests, tests)) for mover in movers)
    if stream.unique:
        ordering |= {*tie_attributes(stream)}
    crossing = tuple(name for name in schema.names if name in columns | ordering)
    return Read(stream, tests, crossing, takers, frozenset(ordering - columns), counting, is_indexed)


@dataclass(frozen=True)
class _Mover:
    """A moving subscription that reads a stream: its events, or its location updates. Without tests, all rows."""

    route: int
    program: MovingProgram
    stream: str
    updates: bool

    @property
    def tests(self) -> tuple[Conditions, ...]:
        return ((),) if self.updates else self.program.tests(self.stream)

    @property
    def ordering(self) -> set[str]:
        return set() if self.updates else {*self.program.ties(self.stream)}

    def columns_read(self, judged: Collection[Conditions]) -> frozenset[str]:
        return self.program.updates_read() if self.updates else self.program.columns_read(self.stream, judged)


def _expressible(conditions: Conditions, schema: Schema, scope: Scope) -> Conditions:
    """Those of a test's conditions that Catalyst can say; what calls users' functions is none of them."""
    return _EXPRESSIBLE.get(conditions, schema, lambda: tuple(c for c in conditions if is_expressible(c, scope)))


def _movers(stream: Stream, stages: tuple[Stage, ...], functions: Functions) -> list[_Mover]:
    movers = []
    for n, query in enumerate(stages[0].moving if stages else ()):
        program = MovingProgram.of(query, functions)
        if stream.name in query.before_us:
            movers.append(_Mover(stages[0].events_of(n), program, stream.name, False))
        if stream.name == query.focal.name:
            movers.append(_Mover(stages[0].updates_of(n), program, stream.name, True))
    return movers


def _some(names: Sequence[str]) -> str:
    left = len(names) - SHOWN_OPERATORS
    return ", ".join(names[:SHOWN_OPERATORS]) + (f" and {left:,} more" if left > 0 else "")


def _taken(asked: Iterable[Conditions], tests: tuple[StreamTest, ...]) -> frozenset[int] | None:
    """The tests by one of which a route takes a row; None: it takes all."""
    numbers = {test.conditions: number for number, test in enumerate(tests)}
    taken = {numbers[c] for c in asked}
    return frozenset(taken) if all(tests[number].pushed for number in taken) else None
