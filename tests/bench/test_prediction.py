"""Predicted against counted, on few cases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from situ.bench.prediction import RANDOM, draw_histogram, errors, predictions, summary
from situ.lab.panorama.experiments.cases import CaseShape, random_case
from situ.lab.panorama.experiments.thinned_cases import thinned
from situ.lab.panorama.simulation.draw import draw
from situ.lab.panorama.simulation.simulate import simulate
from situ.network.generate import antennas
from situ.placement.coverage import Coverage
from situ.placement.naive import naive


@pytest.mark.storm
def test_what_is_pushed_is_as_predicted() -> None:
    found = list(predictions([1, 2, 3], "naive", 4_000))
    assert np.abs(errors(found)["data"]).max() < 0.1
    assert len(errors(found)["requests"]) == 0


def test_conditions_pass_as_often_as_selectivities_say() -> None:
    """Frequent events, of which few combinations may pass."""
    rng = np.random.default_rng(5)
    shape = CaseShape(complex_events=2, rates_per_s=(4.0, 5.0), windows_s=(1.0, 1.5))
    graph, problem = thinned(random_case(antennas(60, rng), rng, shape), Coverage())
    assert all(operator.selectivity < 0.2 for operator in problem.operators)
    run = simulate(problem, graph, naive(problem).placed, draw(graph, problem.sources, 400.0, rng))
    for name, events in run.complex_events.items():
        assert events.num_rows == pytest.approx(400 * problem.rates[name], rel=0.2)


@pytest.mark.storm
def test_a_summary_and_a_picture(tmp_path: Path) -> None:
    found = list(predictions([1, 2], RANDOM, 1_000))
    assert [prediction.seed for prediction in found] == [1, 2]
    assert [line.split()[0] for line in summary(found).splitlines()[1:4]] == ["data", "requests", "data"]
    draw_histogram(found, tmp_path / "errors.png")
    assert (tmp_path / "errors.png").stat().st_size > 1_000
