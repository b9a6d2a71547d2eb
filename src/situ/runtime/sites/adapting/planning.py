"""Demands that are broken -> a transition that is worth it, or the reasons against each (TCEP, sections 4 and 5.2).

Beyond the paper, every candidate is estimated before it is tried: what its placement would mean for the demands, by
what was measured of the one that runs, and what it costs to come there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from situ.core.errors import SituError
from situ.graph.cuts import Cut, cut_in
from situ.graph.operators import OperatorGraph
from situ.graph.query import Demand
from situ.lang.demands import JudgedDemand
from situ.network.network import SPARK, Coordination
from situ.placement.demands import measured_by
from situ.placement.measures import measures_of
from situ.placement.mechanisms import OBJECTIVES, mechanism
from situ.placement.overhead import PACKET_BYTES, words_per_s
from situ.placement.plan import Plan
from situ.runtime.sites.adapting.measuring import Situation, placed_at_sites
from situ.runtime.sites.deployed_plan import DeployedPlan
from situ.runtime.sites.transition import BytesToMove, Move, event_bytes, moves_between, placed_at

#: The mechanisms among which the loop chooses: they place operators alone, and answer at once.
LIBRARY = ("relaxation", "mobile", "producer-consumer", "central", "sbon", "hop", "greedy", "edgecep")
#: Messages of a site for one version: prepare and go, and their answers.
_MESSAGES_PER_SITE = 4
#: What a way between sites is taken to carry, where nobody has said it.
_BYTES_PER_S = 10e6


@dataclass(frozen=True, slots=True)
class TransitionCost:
    """What a transition takes: the time in which operators move, the time for which they wait before that (until the
    version begins, and what began before is finished), and the bytes that are sent for it."""

    seconds: float
    wait_s: float
    overhead_bytes: float

    def weighted(self, settings: Coordination) -> float:
        """The paper's cost, w_t x time + w_o x overhead, in seconds: overhead counts by KB, waiting not at all.

        >>> TransitionCost(2.0, 30.0, 5_000.0).weighted(Coordination("hall", time_weight=1.5, overhead_weight=0.2))
        4.0
        """
        return settings.time_weight * self.seconds + settings.overhead_weight * self.overhead_bytes / 1_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a mechanism would do, whether it pays, and why it is tried, or is not."""

    mechanism: str
    moves: tuple[Move, ...]
    cost: TransitionCost | None
    pays: bool
    reason: str

    def to_json(self) -> dict[str, Any]:
        cost = self.cost
        return {
            "mechanism": self.mechanism,
            "moves": {move.operator: move.target for move in self.moves},
            "cost": None
            if cost is None
            else {"seconds": cost.seconds, "wait_s": cost.wait_s, "overhead_bytes": cost.overhead_bytes},
            "pays": self.pays,
            "reason": self.reason,
        }


def suited_to(metrics: Sequence[str]) -> list[str]:
    """The mechanisms of the library that serve one of these objectives."""
    return [name for name in LIBRARY if {*OBJECTIVES[name]} & {*metrics}]


def expected(demand: Demand, measured: float, now: float, then: float) -> float:
    """What will be measured of a demand, if a formula says `now` of the placement that runs and `then` of another.

    Ways make part of a latency, and what sites need beside that stays. All else is in proportion.

    >>> expected(Demand("latency", 100_000), 130_000.0, 100_000.0, 40_000.0)
    70000.0
    >>> expected(Demand("overhead", 1_000), 600.0, 200.0, 100.0)
    300.0
    """
    if demand.metric == "latency":
        return max(then, measured + then - now)
    return measured * then / now if now > 0 else then


def traffic_of_operators(
    graph: OperatorGraph, situation: Situation, state_bytes: Mapping[str, int]
) -> dict[str, BytesToMove]:
    """The states of operators, and about how many bytes they read in a second."""
    sizes = {name: event_bytes(schema) for name, schema in graph.schemas.items()}
    problem = situation.problem
    return {
        operator.name: BytesToMove(
            state_bytes.get(operator.name, 0),
            sum(
                float(rate) * sizes[event]
                for event, rate in zip(operator.events, problem.input_rates(operator), strict=True)
            ),
        )
        for operator in problem.operators
    }


def cost_of(
    graph: OperatorGraph, moves: Sequence[Move], sites: int, latency_s: float, settings: Coordination
) -> TransitionCost:
    """What it takes to move operators, all at once: as long as the one that takes longest."""
    seconds, wait_s = 0.0, 0.0
    moved_bytes = sum(move.bytes_by.get(move.strategy, 0.0) for move in moves)
    for move in moves:
        of_move = move.bytes_by.get(move.strategy, 0.0)
        seconds = max(seconds, 4 * latency_s + of_move / _BYTES_PER_S)
        cut = cut_in(graph, move.operator)
        purge_s = (cut.back_us + cut.after_us) / 1e6 if move.strategy == "sms" and isinstance(cut, Cut) else 0.0
        wait_s = max(wait_s, settings.lead_s + purge_s)
    return TransitionCost(seconds, wait_s, moved_bytes + PACKET_BYTES * _MESSAGES_PER_SITE * sites)


def candidate(
    name: str,
    graph: OperatorGraph,
    plan: DeployedPlan,
    situation: Situation,
    demands: Sequence[JudgedDemand],
    settings: Coordination,
    state_bytes: Mapping[str, int],
    reachable: frozenset[str],
) -> Candidate:
    """What a mechanism would do about demands that are broken, and whether that pays."""
    problem = situation.problem
    try:
        found = mechanism(name)(problem)
        wanted = {o.name: problem.network.names[p.site] for o, p in zip(problem.operators, found.placed, strict=True)}
        moved = placed_at(plan, wanted)
        on_spark = {site.name for site in problem.network.sites if site.engine == SPARK}
        traffic = traffic_of_operators(graph, situation, state_bytes)
        moves = moves_between(moved, plan, "auto", traffic, settings.lead_s, on_spark)
    except SituError as error:
        return Candidate(name, (), None, False, error.cause)
    if not moves:
        return Candidate(name, (), None, False, "it wants operators where they are")
    away = sorted({site for move in moves for site in (move.source, move.target)} - reachable)
    if away:
        return Candidate(name, moves, None, False, f"{away[0]} does not answer")
    sites = [problem.network.number(wanted[operator.name]) for operator in problem.operators]
    pushed = Plan(name, placed_at_sites(problem, sites), 0.0, 0.0, packets=found.packets)
    then = measures_of(problem, pushed)
    gained: list[str] = []
    lost: list[str] = []
    for each in demands:
        if each.measured is None:
            continue
        if each.demand.metric == "overhead":  # what is measured is what sites say while the plan runs
            of_now, of_then = (words_per_s(problem, of) for of in (situation.placed, pushed.placed))
        else:
            of_now, of_then = (
                measured_by(measures[each.subscription], each.demand) for measures in (situation.predicted, then)
            )
        will_be_kept = expected(each.demand, each.measured, of_now, of_then) < each.demand.limit
        if will_be_kept and not each.kept:
            gained.append(f"{each.demand.metric} of {each.subscription}")
        if each.kept and not will_be_kept:
            lost.append(f"{each.demand.metric} of {each.subscription}")
    latency_s = max(float(problem.network.ways_from(site).latency_ns.max()) for site in sites) / 1e9
    cost = cost_of(graph, moves, len(reachable), latency_s, settings)
    gain_s = (len(gained) - len(lost)) * settings.horizon_s
    price_s = cost.weighted(settings)
    if not gained:
        return Candidate(name, moves, cost, False, "it is not expected to keep what is broken")
    words = f"it is expected to keep {', '.join(gained)}" + (f", and to break {', '.join(lost)}" if lost else "")
    if not gain_s > price_s or not math.isfinite(price_s):
        return Candidate(name, moves, cost, False, f"{words}, which is not worth {price_s:.3g} s of cost")
    return Candidate(name, moves, cost, True, f"{words}, at a cost of {price_s:.3g} s")
