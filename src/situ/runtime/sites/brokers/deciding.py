"""Records of the brokers in view -> a decision: Problem Definition 2, by the search of `situ.placement.edgecep`.

A broker knows the links of the network file, the plan that runs, and of brokers in view what they flooded. What a task
in view reads of brokers beyond is known from whoever runs it. Of tasks beyond, nothing is known, and none is moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from situ.graph.operators import OperatorGraph
from situ.network.network import Network
from situ.network.statistics import Statistics
from situ.placement.coverage import Coverage
from situ.placement.edgecep import Sites, View, Worth, decide, is_better
from situ.placement.from_graph import problem_of
from situ.placement.problem import Problem, Sources
from situ.placement.selectivities import selectivities
from situ.placement.task_flows import TaskFlows
from situ.runtime.sites.brokers.records import Volumes
from situ.runtime.sites.deployed_plan import DeployedPlan

#: The rate of what nobody in view has counted: it is there, and moves nothing.
_HARDLY_PER_S = 1e-9


@dataclass(frozen=True, slots=True)
class Decision:
    """What a broker would change: the plan that runs and the one that it prefers, sites in the order of the tasks, and
    what it thinks of both."""

    now: Sites
    then: Sites
    worth_now: Worth
    worth_then: Worth


def statistics_of(graph: OperatorGraph, plan: DeployedPlan, known: Mapping[str, Volumes]) -> Statistics:
    """Rates and selectivities, from the volumes of brokers in view."""
    rates: dict[str, dict[str, float]] = {}
    for stream, sites in plan.sources.items():
        rates[stream] = {site: _made_at(stream, site, known) or _HARDLY_PER_S for site in sites}
    shares = {alias: share for volumes in known.values() for alias, share in volumes.shares.items()}
    aliases = {f"{o.name}.": o.name for o in graph.operators}
    shares = {alias: share for alias, share in shares.items() if alias[: alias.find(".") + 1] in aliases}
    totals = {stream: sum(of.values()) for stream, of in rates.items()}
    for operator in graph.operators:
        totals[operator.name] = _made_at(operator.name, plan.operators[operator.name].site, known)
    return Statistics(rates, selectivities(graph, totals, shares) | shares)


def _made_at(event: str, site: str, known: Mapping[str, Volumes]) -> float:
    """Events of a type that a site makes per second: as it counts them itself, or as a reader in view does."""
    if site in known:
        return known[site].made.get(event, 0.0)
    return max((volumes.read.get(event, {}).get(site, 0.0) for volumes in known.values()), default=0.0)


def local_problem(graph: OperatorGraph, network: Network, plan: DeployedPlan, known: Mapping[str, Volumes]) -> Problem:
    """The problem as a broker sees it that knows these volumes."""
    statistics = statistics_of(graph, plan, known)
    problem = problem_of(graph, network, statistics, Coverage(), root=plan.results[0])
    sources = {
        stream: Sources(np.array([network.number(site) for site in of], np.int64), np.array([*of.values()], np.float64))
        for stream, of in statistics.rates.items()
        if stream in problem.sources
    }
    return replace(problem, sources=sources, destinations=destinations_of(graph, network, plan))


def destinations_of(graph: OperatorGraph, network: Network, plan: DeployedPlan) -> dict[str, int]:
    """Where the results of subscriptions go that deliver to an actor."""
    wanted = {o.name: plan.wanted_at(o.subscription)[0] for o in graph.subscriptions if plan.wanted_at(o.subscription)}
    return {name: network.number(site) for name, site in wanted.items()}


def decision(problem: Problem, plan: DeployedPlan, members: frozenset[int], broker: int) -> Decision:
    """What a broker that sees these members would rather have."""
    now = tuple(problem.network.number(plan.operators[operator.name].site) for operator in problem.operators)
    view = View(TaskFlows.of(problem), members)
    then = decide(view, now, broker)
    return Decision(now, then, view.worth(now), view.worth(then))


@dataclass
class Damping:
    """Which decisions become versions, so that brokers do not swing: those that are better by `margin` (or exceed
    limits less), were the same `rounds` times in a row, and lead back to no plan that was left in the last `memory`
    seconds."""

    margin: float = 0.05
    rounds: int = 2
    memory: float = 120.0
    _left: dict[Sites, float] = field(default_factory=dict)
    _last: Sites | None = None
    _same: int = 0

    def allows(self, decision: Decision, now: float) -> bool:
        """Whether a decision is to become a version, now."""
        self._same = self._same + 1 if decision.then == self._last else 1
        self._last = decision.then
        self._left = {sites: at for sites, at in self._left.items() if now < at + self.memory}
        return self._is_worth_it(decision) and self._same >= self.rounds and decision.then not in self._left

    def _is_worth_it(self, decision: Decision) -> bool:
        if decision.then == decision.now or not is_better(decision.worth_then, decision.worth_now):
            return False
        less = decision.worth_then[1] < decision.worth_now[1] * (1 - self.margin)
        return less or decision.worth_then[0] < decision.worth_now[0] * (1 - self.margin)

    def leave(self, sites: Sites, now: float) -> None:
        """A plan is left."""
        self._left[sites] = now
        self._last, self._same = None, 0
