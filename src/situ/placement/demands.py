"""Demands of subscriptions, held against a plan: which it keeps, and which it breaks."""

from __future__ import annotations

from collections.abc import Sequence

from situ.graph.operators import OperatorGraph
from situ.graph.query import Demand
from situ.lang.demands import JudgedDemand
from situ.placement.measures import Measures, measures_of
from situ.placement.plan import Plan
from situ.placement.problem import Problem


def demands_of(graph: OperatorGraph) -> tuple[tuple[str, Demand], ...]:
    """All demands, by the names of their subscriptions."""
    return tuple(
        (subscription.name, demand)
        for subscription in graph.query.subscriptions
        for demand in dict.fromkeys(subscription.demands)
    )


def judged(problem: Problem, plan: Plan, demands: Sequence[tuple[str, Demand]]) -> tuple[JudgedDemand, ...]:
    measures = measures_of(problem, plan)
    return tuple(JudgedDemand(name, demand, measured_by(measures[name], demand)) for name, demand in demands)


def measured_by(measures: Measures, demand: Demand) -> float:
    """Which of the measures of a plan a demand is about, in the unit of the demand."""
    match demand.metric:
        case "latency":
            return measures.latency_ms * 1000
        case "overhead":
            return measures.overhead_bytes
        case "load":
            return measures.load_per_s
        case "hops":
            return measures.hops
        case "bandwidth-delay":
            return measures.bandwidth_delay
