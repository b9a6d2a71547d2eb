"""Operator graph + statistics -> operators as the planner sees them, and where events come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from situ.core.errors import did_you_mean
from situ.graph.expressions import aliases_of, conjuncts, rename_alias
from situ.graph.operators import Operator, OperatorGraph
from situ.graph.patterns import (
    Absence,
    And,
    Contiguity,
    Follow,
    Loop,
    Or,
    Pattern,
    Seq,
    Step,
    first_silences,
    silences_of,
    steps_of,
    tests_of,
)
from situ.graph.query import Aggregation, Case, From, Join, Rule
from situ.graph.rule_properties import compares_matches, longest_us
from situ.graph.typing import THIS
from situ.lang.unparse_expression import unparse_expression
from situ.network.network import Network
from situ.network.statistics import Statistics, check
from situ.placement.problem import (
    MOST_PULLED,
    CostModel,
    Input,
    Kind,
    Limits,
    PlacementError,
    PlannedOperator,
    Problem,
    Sources,
    Weight,
)


def problem_of(
    graph: OperatorGraph,
    network: Network,
    statistics: Statistics,
    model: CostModel,
    *,
    root: str | None = None,
    weight: Weight = "hops",
    limits: Limits | None = None,
) -> Problem:
    """The problem of placing a query. Without a root, results go to where all events are gathered at the least cost."""
    check(statistics, network)
    limits = limits or Limits()
    operators = tuple(planned(operator, statistics.selectivity) for operator in graph.active().operators)
    if not operators:
        raise PlacementError("the query has no operators", remedy="Write a define or a subscribe.")
    _check_names(graph, operators, statistics, limits)
    sources = {
        stream.name: _sources(stream.name, statistics, network)
        for stream in graph.streams
        if any(stream.name in operator.events for operator in operators)
    }
    problem = Problem(operators, sources, network, 0, model, weight, limits)
    return replace(problem, root=_centre(problem) if root is None else network.number(root))


def _centre(problem: Problem) -> int:
    """The site where gathering all events costs least; of several, the first by name."""
    costs = np.sum([gathering.cost for gathering in problem.gatherings.values()], axis=0)
    best = np.flatnonzero(costs <= costs.min() * (1 + 1e-12))
    return min(map(int, best), key=lambda site: problem.network.names[site])


def planned(operator: Operator, selectivity: Mapping[str, float]) -> PlannedOperator:
    """One operator. Only a plain SEQ or AND can be pulled: there, an event that meets no others changes nothing."""
    rule, name = operator.rule, operator.name
    passes = selectivity.get(name, 1.0)
    only = rule.cases[0]
    shape = _shape(only) if len(rule.cases) == 1 and rule.kind is None else None
    if shape is None:
        inputs = tuple(_input(name, event, None, operator, selectivity) for event in operator.inputs)
        window = rule.kind.window if isinstance(rule.kind, Aggregation | Join) else None
        if window is None or window.unit == "events":
            return PlannedOperator(name, Kind.OTHER, inputs, selectivity=passes / (window.every if window else 1))
        return PlannedOperator(name, Kind.OTHER, inputs, selectivity=passes, every_s=window.every / 1e6)
    kind, steps, each = shape
    inputs = tuple(_input(name, step.test.event_type, step, operator, selectivity) for step in steps)
    window_s = _window_s(operator, only) if kind in (Kind.SEQ, Kind.AND) else 0.0
    plain = (
        kind in (Kind.SEQ, Kind.AND)
        and len({step.test.event_type for step in steps}) == len(steps) <= MOST_PULLED
        and only.within is not None
        and only.within.anchor is From.FIRST
        and compares_matches(rule) is None
        and not rule.timed_out
    )
    return PlannedOperator(name, kind, inputs, window_s, passes, each, can_pull=plain)


def _shape(case: Case) -> tuple[Kind, tuple[Step, ...], tuple[bool, ...]] | None:
    """Kind, steps, and whether each of them follows or the next; None for patterns of no simple kind."""
    if any(True for _ in silences_of(case.detect)):
        return None
    match case.detect:
        case Step() as step:
            return Kind.OR, (step,), ()
        case And(parts):
            return Kind.AND, parts, ()
        case Or(parts) if all(isinstance(part, Step) for part in parts):
            return Kind.OR, tuple(steps_of(case.detect)), ()
        case Seq(parts) if all(_follows_plainly(part) for part in parts):
            steps = tuple(steps_of(case.detect))
            each = [isinstance(part, Follow) and part.contiguity is Contiguity.EACH for part in parts]
            # Of all events that `first` or `last` chooses from, one stays.
            return Kind.SEQ, steps, tuple(e and not s.selector for e, s in zip(each, steps, strict=True))[1:]
        case _:
            return None


def _follows_plainly(part: object) -> bool:
    return isinstance(part, Follow) and isinstance(part.pattern, Step) and part.contiguity is not Contiguity.IMMEDIATELY


def _window_s(operator: Operator, case: Case) -> float:
    """The longest time from the first event of a match to its last, in seconds; PlacementError if there is no
    window."""
    longest = longest_us(case)
    if longest is None:
        raise PlacementError(
            f"{operator.name} has no window, so its rate is unknown", place=case.place, remedy="Write `within T`."
        )
    return longest / 1e6


def _input(name: str, event: str, step: Step | None, operator: Operator, selectivity: Mapping[str, float]) -> Input:
    """An input with its filter: what the condition says of this event alone. In patterns of no simple kind, an event
    type has a filter if it is tested once only."""
    if step is None and _counts_all(operator.rule):
        return Input(event)
    if step is None:
        tests = [test for case in operator.rule.cases for test in tests_of(case.detect) if test.event_type == event]
        reading_steps = [s for case in operator.rule.cases for s in steps_of(case.detect) if s.test.event_type == event]
        if len(tests) != 1 or len(reading_steps) != 1:
            return Input(event, selectivity.get(f"{name}.{event}", 1.0))
        step = reading_steps[0]
    alone = [c for c in conjuncts(step.test.condition) if aliases_of(c) <= {step.alias}]
    text = " and ".join(unparse_expression(rename_alias(conjunct, step.alias, THIS)) for conjunct in alone)
    return Input(event, selectivity.get(f"{name}.{step.alias}", 1.0), text)


def _counts_all(rule: Rule) -> bool:
    """Whether events that fail their filters matter, too: in windows of so many events, to `immediately`, and to a
    silence that comes first, which begins with any event."""
    if rule.kind is not None:
        return rule.kind.window.unit == "events"
    return any(_immediately(case.detect) or first_silences(case.detect) for case in rule.cases)


def _immediately(pattern: Pattern) -> bool:
    match pattern:
        case Step() | And():
            return False
        case Loop(body, inner=inner):
            return inner is Contiguity.IMMEDIATELY or _immediately(body)
        case Or(parts):
            return any(map(_immediately, parts))
        case Seq(parts):
            return any(
                part.immediately
                if isinstance(part, Absence)
                else part.contiguity is Contiguity.IMMEDIATELY or _immediately(part.pattern)
                for part in parts
            )


def _sources(event: str, statistics: Statistics, network: Network) -> Sources:
    rates = {site: rate for site, rate in statistics.rates.get(event, {}).items() if rate > 0}
    if not rates:
        raise PlacementError(f"nothing is known of where {event} occurs", remedy=f"Give the rates of {event}.")
    return Sources(np.array([network.number(site) for site in rates], np.int64), np.array([*rates.values()], float))


def _check_names(
    graph: OperatorGraph, operators: tuple[PlannedOperator, ...], statistics: Statistics, limits: Limits
) -> None:
    """Rates of streams, selectivities of operators and their inputs, limits of outputs: of nothing else."""
    streams = [stream.name for stream in graph.streams]
    names = [operator.name for operator in operators]
    read = {event for operator in operators for event in operator.events}
    outputs = [name for name in names if name not in read]
    aliases = [f"{o.name}.{s.alias}" for o in graph.operators for c in o.rule.cases for s in steps_of(c.detect)]
    inputs = [f"{operator.name}.{event}" for operator in operators for event in operator.events]
    for cause, stated_names, candidates in (
        ("rates are given for", statistics.rates, streams),
        ("a selectivity is given for", statistics.selectivity, [*names, *aliases, *inputs]),
        ("a latency is asked for", limits.outputs_ms, outputs),
    ):
        for name in stated_names:
            if name not in candidates:
                raise PlacementError(
                    f"{cause} {name}, which the query does not have", remedy=did_you_mean(name, candidates)
                )
    for name, value in statistics.selectivity.items():
        if "." in name and value > 1:
            raise PlacementError(
                f"the selectivity of {name} is {value:g}", remedy="The share of events that pass a filter is at most 1."
            )
