"""Looks at sites -> what a plan that runs means for each demand of its subscriptions (TCEP, section 3.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from situ.graph.operators import OperatorGraph
from situ.graph.query import Demand
from situ.lang.demands import JudgedDemand
from situ.network.network import Network
from situ.network.statistics import Statistics, with_measured_latencies
from situ.placement.demands import measured_by
from situ.placement.measures import Measures, measures_of
from situ.placement.overhead import PACKET_BYTES
from situ.placement.plan import Placed, Plan, pushed
from situ.placement.problem import Problem
from situ.runtime.sites.adapting.looks import KnownSite
from situ.runtime.sites.brokers.deciding import local_problem
from situ.runtime.sites.deployed_plan import DeployedPlan


@dataclass(frozen=True, slots=True)
class Situation:
    """A plan that runs, as a placement problem with what was measured, and what it means for each subscription.
    `latency_us` is the mean of the results since the last looks."""

    problem: Problem
    placed: tuple[Placed, ...]
    predicted: Mapping[str, Measures]
    latency_us: Mapping[str, float]
    overhead_bytes: Mapping[str, float]

    def measured(self, subscription: str, demand: Demand) -> float | None:
        """What was measured of a demand, in its unit."""
        match demand.metric:
            case "latency":
                return self.latency_us.get(subscription)
            case "overhead":
                return self.overhead_bytes.get(subscription)
            case _:
                measures = self.predicted.get(subscription)  # from rates, places and ways that were measured
                return None if measures is None else measured_by(measures, demand)


def measured_network(network: Network, known: Mapping[str, KnownSite]) -> Network:
    """The network with the latencies of links as sites time them: half of the way there and back."""
    links = {frozenset((link.a, link.b)) for link in network.links}
    latency_ms = {
        name: {to: us / 2_000 for to, us in site.look.round_trips_us.items() if frozenset((name, to)) in links}
        for name, site in known.items()
    }
    return with_measured_latencies(network, Statistics({}, latency_ms={a: of for a, of in latency_ms.items() if of}))


def situation_of(
    graph: OperatorGraph,
    network: Network,
    plan: DeployedPlan,
    known: Mapping[str, KnownSite],
    latencies_us: Mapping[str, Sequence[int]],
) -> Situation:
    """What is known of a plan that runs, from the last looks at sites that run it."""
    running = {name: site for name, site in known.items() if site.look.version == plan.version}
    volumes = {name: site.volumes for name, site in running.items() if site.volumes is not None}
    problem = local_problem(graph, measured_network(network, known), plan, volumes)
    sites = [problem.network.number(plan.operators[operator.name].site) for operator in problem.operators]
    placed = placed_at_sites(problem, sites)
    return Situation(
        problem,
        placed,
        measures_of(problem, Plan("", placed, 0.0, 0.0)),
        {name: sum(late_us) / len(late_us) for name, late_us in latencies_us.items() if late_us},
        overhead_bytes([problem.operators[n].name for n in problem.outputs], known),
    )


def placed_at_sites(problem: Problem, sites: Sequence[int]) -> tuple[Placed, ...]:
    """Operators at sites, to which all their inputs are pushed."""
    return tuple(Placed(site, pushed(operator)) for site, operator in zip(sites, problem.operators, strict=True))


def overhead_bytes(subscriptions: Sequence[str], known: Mapping[str, KnownSite]) -> dict[str, float]:
    """By subscription that had results since the looks before, the bytes of control messages per site and result: the
    paper's packets per broker until a complex event is delivered, counted."""
    same_life = [site for site in known.values() if site.before is not None]
    packets = sum(max(0, site.look.sent - site.before.sent) for site in same_life if site.before is not None)
    overheads = {}
    for name in subscriptions:
        results = sum(
            site.look.found.get(name, 0) - site.before.found.get(name, 0)
            for site in same_life
            if site.before is not None
        )
        if results > 0:
            overheads[name] = PACKET_BYTES * packets / len(same_life) / results
    return overheads


def judged_demands(situation: Situation | None, demands: Mapping[str, Sequence[Demand]]) -> tuple[JudgedDemand, ...]:
    """All demands, beside what was measured."""
    return tuple(
        JudgedDemand(name, demand, None if situation is None else situation.measured(name, demand))
        for name, of in demands.items()
        for demand in of
    )
