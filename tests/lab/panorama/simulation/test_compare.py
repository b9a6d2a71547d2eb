"""Predicted and counted traffic."""

from __future__ import annotations

import numpy as np
import pytest

from situ.lab.panorama.simulation.compare import CostComparison, compare_with_model, relative_error
from situ.lab.panorama.simulation.draw import draw
from situ.lab.panorama.simulation.simulate import simulate
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.network import Link, Network, Site
from situ.network.statistics import Statistics
from situ.placement.coverage import Coverage
from situ.placement.evaluate import evaluate
from situ.placement.from_graph import problem_of
from situ.placement.plan import Placed
from situ.placement.problem import Problem

NETWORK = Network(
    (Site("one"), Site("two"), Site("three")), (Link("one", "two", 1.0), Link("two", "three", 1.0, hops=2))
)


def compared(detect: str, placed: Placed, duration_s: float = 5_000.0) -> tuple[Problem, CostComparison]:
    text = "stream A(us int) time us in us stream B(us int) time us in us subscribe Pair detect " + detect
    graph = resolve(parse(text + " within 500 ms assign x = A.us"))
    rates = Statistics({"A": {"one": 0.2, "three": 0.1}, "B": {"two": 3.0, "three": 1.0}})
    problem = problem_of(graph, NETWORK, rates, Coverage(), root="one")
    events = draw(graph, problem.sources, duration_s, np.random.default_rng(7))
    run = simulate(problem, graph, [placed], events)
    return problem, compare_with_model(problem, [placed], run, duration_s)


def test_what_is_predicted_is_the_plans_cost() -> None:
    placed = Placed(1, ((0,), (1,)))
    problem, found = compared("A and B", placed)
    assert found.predicted.total == pytest.approx(evaluate(problem, [placed]).cost * 5_000)
    assert found.predicted.requests > 0


@pytest.mark.parametrize("detect", ["A and B", "A then each B"])
@pytest.mark.parametrize("steps", [((0, 1),), ((0,), (1,)), ((1,), (0,))])
def test_data_is_as_predicted(detect: str, steps: tuple[tuple[int, ...], ...]) -> None:
    _, found = compared(detect, Placed(2, steps))
    assert abs(found.data_error) < 0.05
    assert (found.counted.requests == 0) == (len(steps) == 1)


@pytest.mark.jit_only
def test_episodes_are_as_predicted() -> None:
    """The model has one request for each episode. What is sent is more: no one knows how long an episode will be."""
    _, found = compared("A and B", Placed(2, ((0,), (1,))), duration_s=20_000.0)
    assert relative_error(found.predicted.requests, found.episodes) == pytest.approx(0.0, abs=0.05)
    assert found.counted.requests > found.episodes
    assert found.extensions > 0
