"""Bounds take away no plan of the final front: the search at all sites, with and without them."""

from __future__ import annotations

import numpy as np
import pytest

from placement.compare import about, same_front
from placement.random_problems import Shape, random_problem, with_limit
from situ.placement import bounds
from situ.placement.candidates import solutions_nearby
from situ.placement.naive import naive
from situ.placement.optimal import optimal
from situ.placement.problem import Problem, Weight
from situ.placement.search import Search, Shares, Solutions, every_solution, whole_plans

SHAPES = {
    "plain": Shape(operators=(2, 4), inputs=(2, 3), sites=(8, 25), plans=np.inf, outputs=3),
    "shared": Shape(operators=(2, 4), inputs=(2, 3), sites=(8, 20), plans=np.inf, shared=True),
    "ties": Shape(operators=(2, 4), inputs=(2, 3), sites=(8, 25), plans=np.inf, ties=True),
}


def solved(search: Search) -> dict[int, Solutions]:
    known: dict[int, Solutions] = {}
    for number in range(len(search.problem.operators)):
        known[number] = search.solve(number, range(len(search.problem.network.sites)), known)
    return known


def front(problem: Problem, known: dict[int, Solutions]) -> list[tuple[float, float]]:
    whole = whole_plans(problem, known)
    return list(zip(whole.cost.tolist(), whole.latency_ns.tolist(), strict=True))


def even_shares(problem: Problem) -> Shares:
    """As `optimal` charges the readers of a shared event."""
    shared = {event: len(readers) for event, readers in problem.readers.items() if len(readers) > 1}
    return Shares({event: 1 / number for event, number in shared.items()}, dict.fromkeys(shared, 0.0))


def problems(shape: str, weight: Weight) -> list[Problem]:
    """Without a limit, and with one."""
    found = []
    for seed in range(6):
        problem = random_problem(seed, SHAPES[shape], "paper" if seed % 3 == 0 else "coverage", weight)
        found += [problem, with_limit(problem, naive(problem).latency_ms * 1.3)]
    return found


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weight", ["hops", "price"])
def test_the_front_is_the_same_with_and_without_bounds(shape: str, weight: Weight) -> None:
    kept = all_ = 0
    for problem in problems(shape, weight):
        search = Search(problem, every_solution, shares=even_shares(problem))
        without = solved(search)
        within = solved(bounds.bounded(search, solutions_nearby(search, per_site=False)))
        assert same_front(front(problem, within), front(problem, without))
        kept, all_ = kept + sum(map(len, within.values())), all_ + sum(map(len, without.values()))
    assert kept < 0.7 * all_  # they do take away


@pytest.mark.parametrize("shape", ["plain", "ties"])
def test_on_large_networks_the_cheapest_plan_is_still_exact(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There, fewer known plans and fewer ways are looked at."""
    expected = [optimal(problem).cost for problem in problems(shape, "hops")]
    monkeypatch.setattr(bounds, "WHOLE_FRONT_SITES", 0)
    monkeypatch.setattr(bounds, "ALL_WAYS_SITES", 0)
    for problem, cost in zip(problems(shape, "hops"), expected, strict=True):
        plan = optimal(problem)
        assert plan.cost == about(cost)
        assert plan.lower_bound == about(cost)
