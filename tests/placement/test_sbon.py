"""`sbon`: where springs rest, and what takes the place of a plan that is not within the limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from network.networks import line
from placement.oracle import tell, ways_of
from placement.random_problems import Shape, random_problem, told_otherwise, with_limit
from situ.network.generate import random_geometric
from situ.network.network import Network
from situ.placement.coverage import Coverage
from situ.placement.naive import naive
from situ.placement.problem import Input, Kind, PlannedOperator, Problem, Sources
from situ.placement.sbon import sbon

#: A line of five sites, 10 ms from one to the next.
LINE = line(10.0, 10.0, 10.0, 10.0)


def two_sources(
    left_per_s: float, right_per_s: float, selectivity: float, root: int = 2, network: Network = LINE
) -> Problem:
    """An OR over events at both ends of the line."""
    operator = PlannedOperator("C", Kind.OR, (Input("A"), Input("B")), selectivity=selectivity)
    ends = {"A": (0, left_per_s), "B": (4, right_per_s)}
    sources = {event: Sources(np.array([site]), np.array([rate])) for event, (site, rate) in ends.items()}
    return Problem((operator,), sources, network, root, Coverage())


@pytest.mark.parametrize(
    ("left_per_s", "right_per_s", "selectivity", "site"),
    [(1, 1, 0, 2), (3, 1, 0, 1), (1, 3, 0, 3), (50, 1, 0, 0), (1, 50, 0, 4), (50, 1, 1, 1), (1, 2, 1, 2)],
)  # at the mean of the sites, weighted by rates; with selectivity 1 half of all pull is to the root, in the middle
def test_an_operator_rests_at_the_mean_of_what_pulls_it(
    left_per_s: float, right_per_s: float, selectivity: float, site: int
) -> None:
    assert sbon(two_sources(left_per_s, right_per_s, selectivity)).placed[0].site == site


def test_what_nothing_pulls_stays_at_the_root() -> None:
    problem = two_sources(1.0, 1.0, 0.0, root=3)
    still = replace(problem.operators[0], inputs=(Input("A", 0.0, "x"), Input("B", 0.0, "y")))
    assert sbon(replace(problem, operators=(still,))).placed[0].site == 3


def test_operators_pull_one_another() -> None:
    """D has no source of its own near the middle: it lies between C, which is at the left end, and the root."""
    problem = two_sources(1000.0, 0.001, 0.001, root=4)
    reader = PlannedOperator("D", Kind.OR, (Input("C"),))
    plan = sbon(replace(problem, operators=(*problem.operators, reader)))
    assert [placed.site for placed in plan.placed] == [0, 2]


@pytest.mark.storm
def test_it_is_dearer_than_naive_where_springs_say_so_but_keeps_to_limits() -> None:
    dearer = limited = 0
    for seed in range(60):
        problem = random_problem(seed, Shape(operators=(2, 4), sites=(4, 12), plans=np.inf))
        plan, plain = sbon(problem), naive(problem)
        dearer += plan.cost > plain.cost
        assert plan.pareto == ((plan.cost, plan.latency_ms),)
        within = sbon(with_limit(problem, plain.latency_ms * 1.05))
        if plan.latency_ms > plain.latency_ms * 1.05:
            limited += 1
            assert (within.mechanism, within.placed, within.cost) == ("sbon", plain.placed, plain.cost)
        else:
            assert within == plan
    assert dearer > 2
    assert limited > 2


def test_its_network_usage_is_near_the_least() -> None:
    """Rate x latency^2, over all sites for one operator: the space of coordinates is not exact, but nearly."""
    ratios = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        network = random_geometric(40, rng)
        sources = {e: Sources(rng.choice(40, 3, replace=False), rng.uniform(0.1, 5, 3)) for e in "AB"}
        operator = PlannedOperator("C", Kind.OR, (Input("A"), Input("B")), selectivity=0.3)
        problem = Problem((operator,), sources, network, int(rng.integers(40)), Coverage())
        ways = ways_of(problem)
        pulls = [
            (int(s), float(r)) for each in sources.values() for s, r in zip(each.sites, each.rates_per_s, strict=True)
        ]
        pulls.append((problem.root, 0.3 * sum(rate for _, rate in pulls)))
        usage = [sum(rate * ways[site, at].latency_ns ** 2 for site, rate in pulls) for at in range(40)]
        ratios.append(usage[sbon(problem).placed[0].site] / min(usage))
    assert np.mean(ratios) < 1.1
    assert max(ratios) < 1.6


def test_sites_that_latencies_do_not_tell_apart_are_told_apart_by_cost() -> None:
    for seed in range(30):
        problem = random_problem(seed, Shape(operators=(2, 4), sites=(4, 12), plans=np.inf, ties=True))
        other = told_otherwise(problem, np.random.default_rng(seed))
        assert tell(other, sbon(other).placed).cost == pytest.approx(tell(problem, sbon(problem).placed).cost)
