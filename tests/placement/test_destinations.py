"""Outputs that go elsewhere than to the root: plans are told as the oracle tells them, and still the best."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from placement.oracle import tell
from placement.random_problems import Shape, random_problem
from placement.test_edgecep import SMALL, all_pushed, every_plan
from placement.test_optimal import check_against_exhaustive
from situ.placement.edgecep import decided
from situ.placement.edgecep_optimal import optimal_sites
from situ.placement.evaluate import evaluate
from situ.placement.hop import hop
from situ.placement.mechanisms import MECHANISMS
from situ.placement.problem import PlacementError, Problem
from situ.placement.task_flows import TaskFlows


def with_destinations(problem: Problem, seed: int) -> Problem:
    """Some outputs, one at least, go to any site."""
    rng = np.random.default_rng(seed)
    first, *others = [problem.operators[number].name for number in problem.outputs]
    chosen = [first, *(name for name in others if rng.random() < 0.5)]
    return replace(problem, destinations={name: int(rng.integers(len(problem.network.sites))) for name in chosen})


def test_plans_are_told_as_the_oracle_tells_them() -> None:
    differ = 0
    for seed in range(20):
        plain = random_problem(seed, SMALL)
        problem, rng = with_destinations(plain, seed), np.random.default_rng(seed)
        sites = tuple(rng.integers(len(problem.network.sites), size=len(problem.operators)).tolist())
        placed = all_pushed(problem, sites)
        told, found = tell(problem, placed), evaluate(problem, placed)
        assert found.cost == pytest.approx(told.cost)
        assert found.latency_ns == told.latency_ns
        assert TaskFlows.of(problem).volume(sites) == pytest.approx(told.cost)
        differ += found.cost != pytest.approx(evaluate(plain, placed).cost)
    assert differ > 5


@pytest.mark.parametrize("seed", range(8))
def test_brokers_and_the_integer_program_find_the_best_pushed_plan(seed: int) -> None:
    problem = with_destinations(random_problem(seed, SMALL), seed)
    tasks = TaskFlows.of(problem)
    least = min(tell(problem, all_pushed(problem, sites)).cost for sites in every_plan(problem))
    assert tasks.volume(optimal_sites(tasks)) == pytest.approx(least)
    assert tasks.volume(decided(tasks, None)[0]) == pytest.approx(least)
    assert evaluate(problem, hop(problem).placed).cost >= least - 1e-9


@pytest.mark.parametrize("shape", [Shape(plans=600), Shape(operators=(3, 3), inputs=(1, 3), plans=1000)])
def test_the_optimal_mechanism_is_exact(shape: Shape) -> None:
    for seed in range(5):
        check_against_exhaustive(with_destinations(random_problem(seed, shape), seed))


def test_what_mechanisms_say_of_their_plans_is_what_these_cost() -> None:
    for seed in range(3):
        problem = with_destinations(random_problem(seed), seed)
        for name, mechanism in MECHANISMS.items():
            try:
                plan = mechanism(problem)
            except PlacementError:
                continue
            assert plan.cost == pytest.approx(tell(problem, list(plan.placed)).cost), name
