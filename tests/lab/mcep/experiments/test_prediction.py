"""Figures 6e to 6g: the traffic that they run on, small runs, and what their parts would say of other curves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from situ.lab.figure import QUICK, Experiment
from situ.lab.ingolstadt import trace
from situ.lab.mcep.experiments.prediction import (
    ONE_SECOND,
    AsLong,
    S,
    _trend,
    as_long_as_on_demand,
    figure_6e,
    figure_6f,
    figure_6g,
    speed_drops,
    traffic,
)
from situ.lang.parse import parse
from situ.lang.resolve import resolve


def test_vehicles_report_in_phases_of_their_own() -> None:
    town = traffic(QUICK, 3)
    late = town.vehicles["time_us"].to_numpy() - trace()["time_us"].to_numpy()
    assert 0 <= late.min() < late.max() < S
    one = np.array(town.vehicles["vehicle"].to_pylist()) == town.consumers[0]
    assert len(set(late[one].tolist())) == 1
    assert len(set(late.tolist())) > 1000


def test_the_same_seed_gives_the_same_consumers() -> None:
    assert traffic(QUICK, 3).consumers == traffic(QUICK, 3).consumers != traffic(QUICK, 4).consumers


def test_the_query_is_one() -> None:
    (subscription,) = resolve(parse(speed_drops(500, "best effort", 0.9))).query.subscriptions
    assert subscription.deliver == "best effort"


def test_a_switch_that_is_prepared_takes_less() -> None:
    town = traffic(QUICK, 3)
    few = replace(town, consumers=town.consumers[:2])
    on_demand, prepared = (few.switches(200, "complete", predictor) for predictor in (None, ONE_SECOND))
    assert prepared.late_us.mean() < on_demand.late_us.mean()
    assert on_demand.precision.min() == 1.0


def test_trends() -> None:
    up, down = ((0.0, 0.5), (1.0, 0.6), (2.0, 0.9)), ((0.0, 0.9), (1.0, 0.95), (2.0, 0.1))
    assert _trend("up", up, 1).holds
    assert _trend("down", down, -1).holds
    assert not _trend("up", down, 1).holds
    assert not _trend("level is no trend", ((0.0, 0.5), (1.0, 0.6), (2.0, 0.5)), 1).holds


@pytest.mark.parametrize(("late_s", "precision", "holds"), [(0.4, 0.9, True), (0.5, 0.9, False), (0.4, 0.89, False)])
def test_a_tenth_of_on_demand_at_a_precision_of_nine_tenths(late_s: float, precision: float, holds: bool) -> None:
    assert AsLong(4.0, late_s, 4.0, precision, 0.0).holds is holds


@pytest.mark.storm
def test_prepared_as_long_before_as_on_demand_takes() -> None:
    assert as_long_as_on_demand(traffic(QUICK, 2)).holds


@pytest.mark.parametrize(
    "experiment",
    [
        pytest.param(figure_6e, marks=pytest.mark.slow),
        pytest.param(figure_6f, marks=pytest.mark.storm),
        pytest.param(figure_6g, marks=pytest.mark.storm),
    ],
)
def test_small_runs(experiment: Experiment) -> None:
    steps: list[tuple[int, int]] = []
    figure = experiment(QUICK, 1, lambda done, total, _: steps.append((done, total)))
    assert figure.name == experiment.__name__.removeprefix("figure_")
    assert figure.verdict == "holds"
    assert all(0 <= y <= 1 for points in figure.curves.values() for _, y in points)
    assert steps == [(done, steps[0][1]) for done in range(steps[0][1] + 1)]
