"""Costs, latencies and loads of plans against the oracle, which was written from the definition alone."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from placement.oracle import all_rates, tell
from placement.random_problems import Shape, random_problem
from situ.placement.evaluate import evaluate, overloaded_sites, union
from situ.placement.plan import Placed
from situ.placement.problem import Need, Problem, Weight
from situ.placement.steps import possible_steps

SHAPE = Shape(operators=(1, 5), inputs=(1, 4), sites=(1, 9), plans=np.inf, outputs=3)
SHARED = replace(SHAPE, operators=(2, 6), shared=True)
TWICE = replace(SHAPE, twice=True)


def random_placement(problem: Problem, rng: np.random.Generator) -> tuple[Placed, ...]:
    """Few sites, so that operators meet there."""
    sites = rng.integers(len(problem.network.sites), size=3)
    choices = [possible_steps(operator) for operator in problem.operators]
    return tuple(Placed(int(rng.choice(sites)), steps[int(rng.integers(len(steps)))]) for steps in choices)


@pytest.mark.parametrize("model", ["coverage", "paper"])
@pytest.mark.parametrize("weight", ["hops", "price"])
@pytest.mark.parametrize(
    "shape", [SHAPE, SHARED, replace(SHARED, ties=True), TWICE], ids=["plain", "shared", "ties", "twice"]
)
def test_cost_and_latency_are_those_of_the_definition(model: str, weight: Weight, shape: Shape) -> None:
    for seed in range(15):
        rng = np.random.default_rng(seed)
        problem = random_problem(seed, shape, model, weight)
        for _ in range(3):
            placed = random_placement(problem, rng)
            found, told = evaluate(problem, placed), tell(problem, placed)
            assert found.cost == pytest.approx(told.cost, rel=1e-9, abs=1e-12), seed
            assert found.latency_ns == told.latency_ns, seed
            assert {problem.operators[n].name: ns for n, ns in found.output_ns.items()} == told.output_ns, seed


@pytest.mark.parametrize("model", ["coverage", "paper"])
def test_rates_are_those_of_the_printed_formulas(model: str) -> None:
    for seed in range(40):
        problem = random_problem(seed, SHARED, model)
        assert problem.rates == pytest.approx(all_rates(problem), rel=1e-9)


@pytest.mark.parametrize("model", ["coverage", "paper"])
def test_a_site_is_overloaded_above_its_operators_or_its_load(model: str) -> None:
    for seed in range(15):
        rng = np.random.default_rng(seed)
        problem = random_problem(seed, SHARED, model)
        placed = random_placement(problem, rng)
        load = tell(problem, placed).load_per_s
        count = {site: [where.site for where in placed].count(site) for site in load}
        for site in load:
            for spare, over in ((1e-6, ()), (-1e-6, (site,))):
                limited = _limited(problem, site, load_per_s=load[site] * (1 + spare))
                assert overloaded_sites(limited, placed) == over
            assert overloaded_sites(_limited(problem, site, operators=count[site]), placed) == ()
            assert overloaded_sites(_limited(problem, site, operators=count[site] - 1), placed) == (site,)


def test_readers_of_one_filter_are_sent_the_largest_share_whatever_their_order() -> None:
    readers = [("x", 0.5, Need(1.0)), ("x", 1.0, Need(1.0)), ("x", 0.7, Need(0.5, 3.0))]
    for order in itertools.permutations(readers):
        assert union(order) == (1.0, 0.0)


def _limited(problem: Problem, site: int, **limits: float) -> Problem:
    sites = [replace(each, **limits) if number == site else each for number, each in enumerate(problem.network.sites)]
    return replace(problem, network=replace(problem.network, sites=tuple(sites)))


def test_a_spark_site_adds_its_trigger_once_to_what_comes_from_elsewhere() -> None:
    """All at one site: every operator is as late as before, and a trigger more; in one batch, not one for each."""
    for seed in range(10):
        problem = random_problem(seed, SHAPE, "coverage", "hops")
        site = int(np.random.default_rng(seed).integers(len(problem.network.sites)))
        network = problem.network
        sites = tuple(replace(s, engine="spark") if n == site else s for n, s in enumerate(network.sites))
        on_spark = replace(problem, network=replace(network, sites=sites))
        pushed = [(tuple(range(len(operator.inputs))),) for operator in problem.operators]
        placed = tuple(Placed(site, steps) for steps in pushed)
        before, after = evaluate(problem, placed), evaluate(on_spark, placed)
        assert after.operator_ns == tuple(ns + 100_000_000 for ns in before.operator_ns), seed
        assert after.cost == before.cost
