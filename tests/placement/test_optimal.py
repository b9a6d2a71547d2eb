"""`optimal` against `exhaustive`: equal where it is exact, between bound and rival elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest

from placement.compare import about, cheapest_within, covers, not_more, same_front, within
from placement.random_problems import Shape, random_problem, with_capacities, with_limit
from situ.placement.evaluate import evaluate
from situ.placement.exhaustive import exhaustive
from situ.placement.naive import naive
from situ.placement.optimal import optimal
from situ.placement.problem import PlacementError, Problem, Weight

Problems = Callable[[range, str], Iterator[Problem]]

FACTORS = (1.0, 1.2, 1.5, 2.0)
SHAPES = {
    "plain": Shape(plans=600),
    "ties": Shape(plans=600, ties=True),
    "twice": Shape(plans=600, twice=True),
    "three": Shape(operators=(3, 3), inputs=(1, 3), plans=1000),
}
CASES = list(itertools.product(SHAPES, ("coverage", "bursts", "paper"), ("hops", "price")))
BIG = Shape(operators=(2, 4), inputs=(2, 4), plans=8_000)


def check_against_exhaustive(problem: Problem) -> None:
    """With every limit: the exhaustive front without one holds the best plan of each."""
    best, found = exhaustive(problem), optimal(problem)
    assert found.cost == about(best.cost)
    assert found.lower_bound == about(best.cost)
    assert same_front(found.pareto, best.pareto)
    fastest_ms = naive(problem).latency_ms
    for factor in FACTORS:
        limit_ms = fastest_ms * factor
        limited = optimal(with_limit(problem, limit_ms))
        assert limited.cost == about(cheapest_within(best.pareto, limit_ms))
        assert within([(limited.cost, limited.latency_ms)], limit_ms)
        assert same_front(limited.pareto, within(best.pareto, limit_ms))


@pytest.mark.parametrize(("shape", "model", "weight"), CASES)
def test_optimal_is_exact_without_shared_events(shape: str, model: str, weight: Weight) -> None:
    for seed in range(6):
        check_against_exhaustive(random_problem(seed, SHAPES[shape], model, weight))


@pytest.mark.storm
@pytest.mark.parametrize(("shape", "model", "weight"), CASES)
def test_optimal_is_exact_without_shared_events_many_seeds(shape: str, model: str, weight: Weight) -> None:
    for seed in range(100, 116):
        check_against_exhaustive(random_problem(seed, SHAPES[shape], model, weight))


def test_exhaustive_keeps_to_a_limit() -> None:
    for seed in range(12):
        problem = random_problem(seed, Shape(plans=400))
        limit_ms = naive(problem).latency_ms * FACTORS[seed % 4]
        free, limited = exhaustive(problem), exhaustive(with_limit(problem, limit_ms))
        assert limited.cost == about(cheapest_within(free.pareto, limit_ms))
        assert limited.lower_bound == limited.cost


def test_outputs_have_limits_of_their_own() -> None:
    """Two outputs: each is held to its own limit, and the optimum is still exact."""
    for seed in range(12):
        problem = next(
            p for k in itertools.count() if len((p := random_problem(100 * seed + k, Shape(plans=400))).outputs) == 2
        )
        first, second = (problem.operators[number].name for number in problem.outputs)
        fastest = evaluate(problem, naive(problem).placed).output_ns
        tight_ms, loose_ms = (
            fastest[number] / 1e6 * factor for number, factor in zip(problem.outputs, (1.1, 1.8), strict=True)
        )
        limited = with_limit(problem, None, {first: tight_ms, second: loose_ms})
        plan, best = optimal(limited), exhaustive(limited)
        assert plan.cost == about(best.cost)
        assert same_front(plan.pareto, best.pareto)
        found = evaluate(problem, plan.placed).output_ns
        assert all(found[n] <= limit * 1e6 for n, limit in zip(problem.outputs, (tight_ms, loose_ms), strict=True))


def between_bound_and_rival(problems: Iterable[Problem]) -> float:
    """lower bound <= exhaustive <= optimal; returns how often the last two are equal."""
    equal, total = 0, 0
    for problem in problems:
        try:
            best = exhaustive(problem)
        except PlacementError:
            with pytest.raises(PlacementError, match="no plan was found within the capacities"):
                optimal(problem)
            continue
        found = optimal(problem)
        assert found.lower_bound is not None
        assert not_more(found.lower_bound, best.cost)
        assert not_more(best.cost, found.cost)
        assert covers(best.pareto, found.pareto)
        equal, total = equal + not_more(found.cost, best.cost), total + 1
    return equal / total


def shared_problems(seeds: range, model: str) -> Iterator[Problem]:
    for seed in seeds:
        problem = random_problem(
            seed, Shape(plans=400, shared=True, ties=seed % 3 == 0), model, "price" if seed % 2 else "hops"
        )
        yield problem if seed % 2 else with_limit(problem, naive(problem).latency_ms * 1.5)


def limited_problems(seeds: range, model: str) -> Iterator[Problem]:
    for seed in seeds:
        problem = random_problem(seed, Shape(plans=400, shared=seed % 3 == 0), model)
        yield with_capacities(problem, np.random.default_rng(seed))


@pytest.mark.parametrize("model", ["coverage", "paper"])
@pytest.mark.parametrize(("problems", "often"), [(shared_problems, 0.9), (limited_problems, 0.8)])
def test_where_it_is_not_exact_the_optimum_lies_between_its_bound_and_its_plan(
    problems: Problems, often: float, model: str
) -> None:
    assert between_bound_and_rival(problems(range(15), model)) >= often


@pytest.mark.storm
@pytest.mark.parametrize("model", ["coverage", "paper"])
@pytest.mark.parametrize(("problems", "often"), [(shared_problems, 0.95), (limited_problems, 0.9)])
def test_where_it_is_not_exact_the_optimum_lies_between_many_seeds(
    problems: Problems, often: float, model: str
) -> None:
    assert between_bound_and_rival(problems(range(100, 150), model)) >= often


@pytest.mark.slow
@pytest.mark.parametrize("model", ["coverage", "paper"])
@pytest.mark.storm
def test_optimal_is_exact_for_larger_operators(model: str) -> None:
    for seed in range(8):
        check_against_exhaustive(random_problem(seed, BIG, model))
