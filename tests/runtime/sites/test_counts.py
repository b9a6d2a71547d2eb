"""Simulated sites send what the vectorised counting says: every event and every request, for the same plan."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from situ.bench.prediction import random_plan
from situ.lab.panorama.experiments.cases import CaseShape, random_case
from situ.lab.panorama.experiments.thinned_cases import thinned, thinned_text
from situ.lab.panorama.simulation.draw import draw
from situ.lab.panorama.simulation.on_sites import run_on_sites
from situ.lab.panorama.simulation.simulate import simulate
from situ.network.generate import antennas
from situ.placement.coverage import Coverage
from situ.placement.mechanisms import mechanism
from situ.placement.plan import Placed
from situ.placement.problem import Problem

EVENTS = 150
#: Rates are alike, and windows long, so that something is found.
SHAPE = CaseShape(complex_events=2, sources=3, rates_per_s=(0.5, 3.0), windows_s=(0.5, 2.0), diameter_hops=8)


def is_shared(problem: Problem, placed: tuple[Placed, ...]) -> bool:
    """Whether sites are pushed the same events: these cross a link that they share once."""
    readers = Counter(
        (event, where.site) for op, where in zip(problem.operators, placed, strict=True) for event in {*op.events}
    )
    return len({event for event, _ in readers}) < len(readers)


def reads_complex_events_first(problem: Problem, placed: tuple[Placed, ...]) -> bool:
    """Whether some operator pulls after it has read complex events."""
    return any(
        operator.events[number] in problem.number
        for operator, where in zip(problem.operators, placed, strict=True)
        for step in where.steps[:-1]
        for number in step
    )


@pytest.mark.parametrize("seed", [1, 2, *(
    pytest.param(seed, marks=pytest.mark.storm) for seed in range(3, 100)
)])  # fmt: skip
def test_sites_send_what_is_counted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    case = random_case(antennas(20, rng), rng, SHAPE)
    graph, problem = thinned(case, Coverage())
    placed = random_plan(problem, rng) if seed % 2 else mechanism("heuristic+")(problem).placed
    duration_s = EVENTS / sum(sources.rate_per_s for sources in problem.sources.values())
    events = draw(graph, problem.sources, duration_s, rng)
    counted = simulate(problem, graph, placed, events)
    run = run_on_sites(thinned_text(case), problem, graph, placed, events)
    root = problem.operators[problem.outputs[0]].name
    found = run.complex_events[root].num_rows if root in run.complex_events else 0
    assert found == len(counted.complex_events[root])
    assert run.counts.repeats == 0
    # A complex event opens windows when it is certain; several may be certain at once, and one request does for them.
    if reads_complex_events_first(problem, placed):
        assert counted.episode_cost <= run.counts.requests <= counted.growth_cost
    else:
        assert run.counts.requests == counted.growth_cost
    assert run.counts.events == counted.data_cost or (
        is_shared(problem, placed) and run.counts.events < counted.data_cost
    )
