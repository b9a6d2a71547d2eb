"""PaNORAMA's figures: sweeps, and what is drawn of their plans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from situ.lab.figure import QUICK
from situ.lab.panorama.experiments import paper_placement
from situ.lab.panorama.experiments.cases import random_case
from situ.lab.panorama.experiments.causes import FreeRequests
from situ.lab.panorama.experiments.placement import FIGURES, LOOKS, SHOWN
from situ.lab.panorama.experiments.sweeps import EFFORTS, sweeps
from situ.lab.panorama.paper import PANORAMA, PAPER_COSTS
from situ.network.generate import antennas
from situ.placement.coverage import Coverage


def quietly(done: int, total: int, what: str) -> None:
    """Says nothing."""


def test_every_sweep_is_shown_and_every_mechanism_has_a_look() -> None:
    for effort in EFFORTS.values():
        found = sweeps(effort)
        assert {shown.sweep for shown in SHOWN.values()} == set(found)
        assert {name for sweep in found.values() for name in sweep.mechanisms} == set(LOOKS)
        assert [name for name, sweep in found.items() if not sweep.varies] == ["runs"]


def test_runs_of_a_sweep() -> None:
    sweep = sweeps(replace(EFFORTS[QUICK], cases=3))["window"]
    runs = list(sweep.runs(7))
    assert len(runs) == sweep.size
    assert [(s.shape.windows_s[0], seed) for s, seed in runs if s.sites] == [
        (window, seed) for window in (0.1, 10.0) for seed in (7, 8, 9)
    ]


@pytest.mark.slow
def test_two_figures_of_one_sweep() -> None:
    discovered, cost = (FIGURES[name](QUICK, 1, quietly) for name in ("10a", "10b"))
    assert discovered.cases is not None
    assert discovered.cases.equals(cost.cases)  # the seconds, too: it was run once
    optimum = dict(cost.curves["optimal"])
    at_most = [
        row["cost"] / row["naive_cost"]
        for row in discovered.cases.to_pylist()
        if row["network"] == "antennas" and row["x"] == 4.0
    ]
    assert optimum[1.0] >= optimum[4.0] >= min(at_most)
    for name, points in cost.curves.items():
        assert all(y >= optimum[x] - 1e-9 for x, y in points), name
    assert cost.beside is not None
    assert list(cost.beside.curves) == list(cost.curves)


@pytest.mark.storm
def test_many_runs_are_drawn_as_percentiles() -> None:
    many = FIGURES["10f"](QUICK, 1, quietly)
    for points in many.curves.values():
        assert [x for x, _ in points] == [5.0, 25.0, 50.0, 75.0, 95.0]
        assert [y for _, y in points] == sorted(y for _, y in points)


def test_the_same_figures_by_the_papers_costs() -> None:
    assert [*PAPER_COSTS.modules] == [*SHOWN]
    assert [*PANORAMA.modules] == [*SHOWN, "causes", "counted"]
    assert {*paper_placement.FIGURES} == {*SHOWN}


def test_requests_that_cost_nothing() -> None:
    operator = random_case(antennas(20, np.random.default_rng(1)), np.random.default_rng(1)).problem().operators[0]
    plain, free = (
        model.need(operator, np.ones(len(operator.inputs)), (0,), (1,)) for model in (Coverage(), FreeRequests())
    )
    assert (free.fraction, free.requests_per_s) == (plain.fraction, 0.0)
    assert plain.requests_per_s > 0


@pytest.mark.storm
def test_every_figure(tmp_path: Path) -> None:
    figures = PANORAMA.run(tmp_path, [], 1, True, quietly)
    assert [figure.name for figure in figures] == list(PANORAMA.modules)
    assert all((tmp_path / f"{figure.name}.png").stat().st_size > 1_000 for figure in figures)
    assert all(figure.parts for figure in figures)
