"""Demands of subscriptions, held against a plan: which it keeps, and which it breaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from situ.graph.operators import OperatorGraph
from situ.graph.query import Demand
from situ.lang.unparse import unparse_demand
from situ.placement.measures import Measures, measures_of
from situ.placement.plan import Plan
from situ.placement.problem import Problem


@dataclass(frozen=True, slots=True)
class JudgedDemand:
    """A demand of a subscription, and what a plan means for it, in the demand's unit."""

    subscription: str
    demand: Demand
    measured: float

    @property
    def kept(self) -> bool:
        return self.measured < self.demand.limit

    def __str__(self) -> str:
        """
        >>> print(JudgedDemand("Alarm", Demand("hops", 3), 4))
        Alarm: demand hops < 3 is broken: 4
        """
        verb = "kept" if self.kept else "broken"
        return f"{self.subscription}: demand {unparse_demand(self.demand)} is {verb}: {self._measured_as_text()}"

    def _measured_as_text(self) -> str:
        match self.demand.metric:
            case "latency":
                return f"{self.measured / 1000:,.4g} ms"
            case "overhead":
                return f"{self.measured:,.0f} bytes per broker"
            case "load":
                return f"{self.measured:,.4g} events per s at one site"
            case "bandwidth-delay":
                return f"{self.measured:,.3g} events under way"
            case "hops":
                return f"{self.measured:g}"


def demands_of(graph: OperatorGraph) -> tuple[tuple[str, Demand], ...]:
    """All demands, by the names of their subscriptions."""
    return tuple(
        (subscription.name, demand)
        for subscription in graph.query.subscriptions
        for demand in dict.fromkeys(subscription.demands)
    )


def judged(problem: Problem, plan: Plan, demands: Sequence[tuple[str, Demand]]) -> tuple[JudgedDemand, ...]:
    measures = measures_of(problem, plan)
    return tuple(JudgedDemand(name, demand, _measured(measures[name], demand)) for name, demand in demands)


def _measured(measures: Measures, demand: Demand) -> float:
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
