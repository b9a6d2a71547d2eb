"""How late results typically are, beside simulated sites, and beside the longest that a match can take."""

from __future__ import annotations

import numpy as np
import pytest

from situ.bench.live_sites import planetlab_case
from situ.lab.panorama.experiments.cases import random_case
from situ.lab.panorama.simulation.on_sites import run_on_sites
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.generate import antennas
from situ.placement.evaluate import evaluate
from situ.placement.mechanisms import mechanism
from situ.placement.typical_latency import typical_latency_ms


@pytest.mark.slow
@pytest.mark.parametrize(
    ("by", "seconds"),
    [("naive", 15), *(pytest.param(by, s, marks=pytest.mark.storm) for by, s in (("grin", 15), ("optimal", 90)))],
)
def test_sites_are_as_late_as_predicted(by: str, seconds: float) -> None:
    """Simulated sites, with the latencies of PlanetLab and sources that are live."""
    case = planetlab_case(by, seconds=seconds)
    problem, placed = case.planned.problem, case.planned.placed
    assert problem is not None
    run = run_on_sites(case.text, problem, resolve(parse(case.text)), placed, case.occurred)
    late_ms = 1e3 * np.array(run.latency_s["Exfiltration"])
    predicted = typical_latency_ms(problem, placed)
    assert np.median(late_ms) == pytest.approx(predicted, rel=0.25)
    assert late_ms.max() <= case.planned.latency_ms + 1
    assert run.counts.questions == 0


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("by", ["naive", "greedy+", "cpp"])
def test_no_median_is_above_the_longest(seed: int, by: str) -> None:
    rng = np.random.default_rng(seed)
    problem = random_case(antennas(30, rng), rng).problem()
    placed = mechanism(by)(problem).placed
    assert 0 <= typical_latency_ms(problem, placed) <= evaluate(problem, placed).latency_ns / 1e6 + 1e-6


def test_what_is_drawn_is_the_same_each_time() -> None:
    problem = random_case(antennas(30, np.random.default_rng(1)), np.random.default_rng(2)).problem()
    placed = mechanism("greedy+")(problem).placed
    assert typical_latency_ms(problem, placed) == typical_latency_ms(problem, placed)
