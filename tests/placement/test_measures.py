"""What demands are about: measures of plans, by hand and against the oracle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from network.networks import line
from placement.oracle import tell
from placement.random_problems import Shape, random_problem
from situ.graph.query import Demand
from situ.placement.coverage import Coverage
from situ.placement.demands import judged
from situ.placement.measures import measures_of
from situ.placement.mechanisms import MECHANISMS, OBJECTIVES
from situ.placement.plan import Plan
from situ.placement.problem import Input, Kind, PlannedOperator, Problem, Sources
from situ.placement.pushed_plan import pushed_plan


def two_outputs() -> tuple[Problem, Plan]:
    """On a line a - b - c - d of 10 ms each: C at b reads A of a and feeds D at c, whose root is d; E at d reads A."""
    operators = (
        PlannedOperator("C", Kind.OR, (Input("A"),), selectivity=0.5),
        PlannedOperator("D", Kind.OR, (Input("C"), Input("B")), selectivity=0.1),
        PlannedOperator("E", Kind.OR, (Input("A"),), selectivity=0.1),
    )
    sources = {"A": Sources(np.array([0]), np.array([8.0])), "B": Sources(np.array([3]), np.array([2.0]))}
    problem = Problem(operators, sources, line(10, 10, 10), 3, Coverage())
    return problem, pushed_plan("by hand", problem, [1, 2, 3], packets=0)


def test_measures_by_hand() -> None:
    problem, plan = two_outputs()
    measures = measures_of(problem, plan)
    assert (measures["D"].latency_ms, measures["D"].hops) == (30.0, 3)
    assert (measures["E"].latency_ms, measures["E"].hops) == (30.0, 3)
    assert measures["D"].load_per_s == 8.0  # C at b; D has 4 + 2
    assert measures["E"].load_per_s == 8.0
    # A: 8 per s for 10 ms to b and for 30 ms to d; C and B 10 ms to c, D 10 ms to d.
    assert measures["D"].bandwidth_delay == pytest.approx(8 * 0.04 + (4 + 2 + 0.6) * 0.01)
    assert measures["E"].bandwidth_delay == pytest.approx(8 * 0.04)
    packets = 2 + 1 + 1 + 1  # subscriptions to A from b and d, to C, to B, and to D; E stays where it is
    assert measures["D"].overhead_bytes == 96 * packets / 4


def test_demands_are_kept_below_their_limits_only() -> None:
    problem, plan = two_outputs()
    demands = [
        ("D", Demand("latency", 30_000)),
        ("D", Demand("latency", 30_001)),
        ("D", Demand("hops", 3)),
        ("E", Demand("hops", 4)),
        ("D", Demand("load", 8.0)),
        ("D", Demand("load", 8.5)),
        ("E", Demand("bandwidth-delay", 0.33)),
        ("D", Demand("bandwidth-delay", 0.33)),
        ("D", Demand("overhead", 120)),
        ("D", Demand("overhead", 121)),
    ]
    assert [each.kept for each in judged(problem, plan, demands)] == [False, True] * 3 + [True, False, False, True]
    assert str(judged(problem, plan, demands)[2]) == "D: demand hops < 3 is broken: 3"


def test_latencies_and_loads_are_those_of_the_oracle() -> None:
    for seed in range(10):
        problem = random_problem(seed, replace(Shape(sites=(4, 8), plans=np.inf), shared=seed % 2 == 1))
        plan = MECHANISMS["greedy+"](problem)
        told, measures = tell(problem, plan.placed), measures_of(problem, plan)
        assert {name: each.latency_ms for name, each in measures.items()} == {
            name: ns / 1e6 for name, ns in told.output_ns.items()
        }
        assert max(each.load_per_s for each in measures.values()) == pytest.approx(max(told.load_per_s.values()))


def test_every_mechanism_says_what_it_serves() -> None:
    assert set(OBJECTIVES) == set(MECHANISMS)
    words = {"latency", "overhead", "load", "hops", "bandwidth-delay", "cost"}
    assert {word for served in OBJECTIVES.values() for word in served} == words
