"""Which operators run together: routes, and the stages in which routes follow each other.

Operators of one route meet the same events in the same tasks. A stage is one shuffle: an operator that reads complex
events joins the route that makes them where these already lie in the right tasks, and else waits for the next stage.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from situ.graph.expressions import Attribute, Expression, GroupKey
from situ.graph.operators import Operator, OperatorGraph
from situ.graph.patterns import steps_of
from situ.graph.query import Aggregation
from situ.runtime.spark.plan.partitioning import Anywhere, ByKey, BySlice, OneTask, Partitioning, partitioning_of


@dataclass(frozen=True, slots=True)
class Route:
    """Operators that run in the same tasks, inputs first."""

    stage: int
    partitioning: Partitioning
    operators: tuple[Operator, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """The event types that come from outside of the route."""
        made = {operator.name for operator in self.operators}
        return tuple(dict.fromkeys(name for o in self.operators for name in o.inputs if name not in made))


def routes_of(graph: OperatorGraph, here: Container[str] | None = None) -> tuple[Route, ...]:
    """The routes of all operators, or of those that are `here`, by stage. What others make comes from outside."""
    planner = _Planner(graph, tuple(o for o in graph.operators if here is None or o.name in here))
    for operator in planner.here:
        planner.place(operator)
    return planner.routes()


@dataclass
class _Placed:
    """A route that operators are still added to."""

    stage: int
    partitioning: Partitioning
    operators: list[Operator]

    @property
    def reads(self) -> tuple[str, ...]:
        return self.as_route().reads

    def as_route(self) -> Route:
        return Route(self.stage, self.partitioning, tuple(self.operators))


@dataclass
class _Planner:
    graph: OperatorGraph
    here: tuple[Operator, ...]
    placed: list[_Placed] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.operators = {operator.name: operator for operator in self.here}

    def place(self, operator: Operator) -> None:
        partitioning = partitioning_of(operator)
        if isinstance(partitioning, ByKey):
            self._bring_to_key(operator, partitioning)
        sources = self._sources(operator)
        if not sources:
            self._add(operator, 0, partitioning)
        elif len(sources) == 1 and self._fits(operator, partitioning, self.placed[sources[0]]):
            self.placed[sources[0]].operators.append(operator)
        else:
            self._add(operator, self.placed[sources[0]].stage + 1, partitioning)

    def _sources(self, operator: Operator) -> list[int]:
        """The routes of the last stage that makes inputs of the operator. What earlier ones make comes by a shuffle,
        and so to the right tasks anyway."""
        if not any(name in self.operators for name in operator.inputs):
            return []  # of thousands of rules, most read streams alone
        makers = [at for at, route in enumerate(self.placed) if any(o.name in operator.inputs for o in route.operators)]
        last = max((self.placed[at].stage for at in makers), default=0)
        return [at for at in makers if self.placed[at].stage == last]

    def routes(self) -> tuple[Route, ...]:
        """Inputs first. What can run anywhere joins a route that reads the same streams anyway."""
        for at, route in enumerate(self.placed):
            if isinstance(route.partitioning, Anywhere):
                self._join_a_reader(at)
        return tuple(sorted((self._in_order(r) for r in self.placed if r.operators), key=lambda route: route.stage))

    def _in_order(self, route: _Placed) -> Route:
        names = {operator.name for operator in route.operators}
        return Route(route.stage, route.partitioning, tuple(o for o in self.graph.operators if o.name in names))

    def _add(self, operator: Operator, stage: int, partitioning: Partitioning) -> None:
        """Into the stage's route of this partitioning, if there is one. What runs anywhere stays apart at first."""
        for route in self.placed:
            same = route.stage == stage and route.operators and _alike(route.partitioning, partitioning)
            if same and not isinstance(partitioning, Anywhere):
                route.operators.append(operator)
                return
        self.placed.append(_Placed(stage, partitioning, [operator]))

    def _fits(self, operator: Operator, partitioning: Partitioning, route: _Placed) -> bool:
        """Whether the operator's inputs meet in the tasks of the route that makes some of them."""
        made = [o.name for o in route.operators if o.name in operator.inputs]
        match partitioning, route.partitioning:
            case Anywhere(), BySlice():  # slices overlap: they see what comes from outside twice
                return {*operator.inputs} == {*made}
            case (Anywhere(), _) | (OneTask(), OneTask()):
                return True
            case ByKey(keys), ByKey(of_route):
                return keys == of_route and all(self._carries(name, key) for name in made for key in keys)
            case _:
                return False

    def _carries(self, name: str, key: str) -> bool:
        """Whether events of a type have the key under which the events behind them met."""
        if name not in self.operators:
            return key in self.graph.schemas[name].names
        operator = self.operators[name]
        kind = operator.rule.kind
        if isinstance(kind, Aggregation) and kind.post:
            values = [{item.name: item.expression for item in kind.post}]
        else:
            values = [{item.name: item.expression for item in case.assign} for case in operator.rule.cases]
        types = {step.alias: step.test.event_type for case in operator.rule.cases for step in steps_of(case.detect)}

        def is_key(value: Expression | None) -> bool:
            match value:
                case GroupKey(named):
                    return named == key
                case Attribute(str(alias), named):
                    return named == key and self._carries(types[alias], key)
                case _:
                    return False

        return all(is_key(assigned.get(key)) for assigned in values)

    def _bring_to_key(self, operator: Operator, partitioning: ByKey) -> None:
        """Let inputs that can be made anywhere be made where the key's events meet."""
        for at in self._sources(operator):
            route = self.placed[at]
            types = {*route.reads, *(name for name in operator.inputs if name in {o.name for o in route.operators})}
            if (
                isinstance(route.partitioning, Anywhere)
                and all(name not in self.operators for name in route.reads)
                and all(self._carries(name, key) for name in types for key in partitioning.keys)
            ):
                self._move(at, partitioning)

    def _move(self, at: int, partitioning: Partitioning) -> None:
        stage, operators = self.placed[at].stage, self.placed[at].operators
        for to, route in enumerate(self.placed):
            if to != at and route.stage == stage and route.partitioning == partitioning and route.operators:
                route.operators += operators
                self.placed[at].operators = []
                return
        self.placed[at].partitioning = partitioning

    def _join_a_reader(self, at: int) -> None:
        mine = self.placed[at]
        for to, route in enumerate(self.placed):
            fits = isinstance(route.partitioning, ByKey | OneTask) or (
                isinstance(route.partitioning, Anywhere) and to < at
            )
            if to != at and route.operators and route.stage == mine.stage and fits and {*mine.reads} <= {*route.reads}:
                route.operators += mine.operators
                mine.operators = []
                return


def _alike(one: Partitioning, other: Partitioning) -> bool:
    """One task is one task, whatever the reason."""
    return one == other or (isinstance(one, OneTask) and isinstance(other, OneTask))
