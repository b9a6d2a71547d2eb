"""One case, several mechanisms: what their plans cost beside the naive one, and how long they took to find."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from situ.lab.panorama.experiments.cases import CaseShape, PlacementCase, random_case, scattered_again
from situ.lab.panorama.experiments.fraud import fraud_case
from situ.network.generate import antennas
from situ.network.load import load_network
from situ.network.network import Network
from situ.placement.cost_models import COST_MODELS
from situ.placement.finish import naive_placement
from situ.placement.mechanisms import mechanism
from situ.placement.plan import Plan
from situ.placement.problem import CostModel, Problem

#: Real networks, from the Internet Topology Zoo.
TOPOLOGIES = tuple(sorted((Path(__file__).parents[1] / "topologies").glob("*.graphml")))

#: How rows name the networks of antennas; the topologies have names of their own.
HERE = "antennas"

#: It places without regard to latency, so it is tried without a limit (PaNORAMA, section 7).
WITHOUT_LIMIT = ("sbon",)

#: The naive plan is one of their own: they always discover one.
HOLD_THE_NAIVE = ("naive", "cpp", "optimal")


DEFAULT = CaseShape()


@dataclass(frozen=True, slots=True)
class Setting:
    """One point of an experiment. `sites`: of a network of antennas, or None for the real topologies in turn.

    `x`: the value of what is varied; None stands for the number of sites of a topology.
    `diameter_hops`: the events of a case are scattered over so many hops, where that is what is varied.
    `latency_factor`: the limit, as a multiple of what the naive plan takes. `model`: by which plans are made, and cost.
    """

    x: float | None
    sites: int | None
    shape: CaseShape = DEFAULT
    latency_factor: float | None = 3.0
    diameter_hops: int | None = None
    fraud: bool = False
    model: CostModel = COST_MODELS["coverage"]


@dataclass(frozen=True, slots=True)
class MeasuredPlan:
    """One plan. `cost` and `latency_ms` of the naive plan are those that the mechanism's are measured against."""

    network: str
    x: float
    seed: int
    mechanism: str
    cost: float
    naive_cost: float
    latency_ms: float
    naive_latency_ms: float
    seconds: float
    discovered: bool

    @property
    def factor(self) -> float:
        """The transmission factor."""
        return self.cost / self.naive_cost


def measured(setting: Setting, seed: int, mechanisms: Sequence[str]) -> list[MeasuredPlan]:
    """The plans of all mechanisms for the case of a seed."""
    case = case_of(setting, seed)
    first = mechanism("naive")(case.problem(setting.model))
    place = HERE if setting.sites is not None else TOPOLOGIES[seed % len(TOPOLOGIES)].stem
    x = len(case.network.sites) if setting.x is None else setting.x
    rows = []
    for name in mechanisms:
        problem = limited(case, first, None if name in WITHOUT_LIMIT else setting.latency_factor, setting.model)
        begun = time.perf_counter()
        plan = mechanism(name)(problem)
        seconds = time.perf_counter() - begun
        figures = plan.cost, first.cost, plan.latency_ms, first.latency_ms, seconds, discovered(problem, plan)
        rows.append(MeasuredPlan(place, x, seed, name, *figures))
    return rows


def case_of(setting: Setting, seed: int) -> PlacementCase:
    """The case of a seed: rates and windows do not change with what is varied, where that is possible.

    >>> narrow, wide = (case_of(Setting(hops, 60, diameter_hops=hops), 1) for hops in (10, 20))
    >>> narrow.text == wide.text, narrow.statistics.rates == wide.statistics.rates
    (True, False)
    """
    rng = np.random.default_rng(seed)
    network = _topology(seed % len(TOPOLOGIES)) if setting.sites is None else antennas(setting.sites, rng)
    if setting.fraud:
        return fraud_case(network, rng, setting.shape.sources)
    case = random_case(network, rng, setting.shape)
    if setting.diameter_hops is None:
        return case
    return scattered_again(case, rng, replace(setting.shape, diameter_hops=setting.diameter_hops))


def limited(case: PlacementCase, first: Plan, latency_factor: float | None, model: CostModel | None = None) -> Problem:
    """The case's problem, with a limit in multiples of a first plan's latency. Nothing is known of its network yet, so
    that each mechanism takes the time to find the ways that it needs."""
    unknown = replace(case, network=Network(case.network.sites, case.network.links))
    return unknown.problem(model, latency_ms=None if latency_factor is None else latency_factor * first.latency_ms)


def discovered(problem: Problem, plan: Plan) -> bool:
    """Whether a plan is the mechanism's own, and not the naive one that takes its place where it has none."""
    return plan.mechanism in HOLD_THE_NAIVE or plan.placed != naive_placement(problem)


@cache
def _topology(number: int) -> Network:
    return load_network(TOPOLOGIES[number])
