"""Figures 6h and 6i: trips, what is predicted of them, and the curves."""

from __future__ import annotations

import numpy as np
import pytest

from situ.lab.figure import QUICK
from situ.lab.ingolstadt import trace
from situ.lab.mcep.experiments.migration import SAVED, STATES, figure_6h, figure_6i, saved
from situ.lab.mcep.experiments.migration_trips import Parameters, Town, Trip


@pytest.fixture(scope="module")
def trips() -> list[Trip]:
    return Town(Parameters()).trips(2, np.random.default_rng(5))


def silent(done: int, total: int, what: str) -> None:
    assert 0 <= done <= total


def test_trips_are_those_of_the_trace(trips: list[Trip]) -> None:
    for trip in trips:
        rows = trace().filter(np.array(trace()["vehicle"].to_pylist()) == trip.vehicle)
        assert rows["x"].to_pylist() == trip.x.tolist()
        assert rows["time_us"][0].as_py() == trip.start_s * 1_000_000
        assert len(trip.x) >= Parameters().trip_s


def test_an_exact_future_has_the_vehicles_of_the_interest(trips: list[Trip]) -> None:
    trip, second = trips[0], 100
    problem = trip.exact("traffic")
    assert problem.steps == len(trip.x)
    assert len(problem.network.sites) == 41
    now = trace().filter(np.equal(trace()["time_us"].to_numpy(), (trip.start_s + second) * 1_000_000))
    near = [
        max(abs(x - trip.x[second]), abs(y - trip.y[second])) <= 250
        for x, y in zip(now["x"].to_pylist(), now["y"].to_pylist(), strict=True)
    ]
    assert sum(near) > 1
    assert problem.range_queries["Interest"][second].sum() == pytest.approx(50.0 * sum(near))


def test_cameras_are_where_they_are(trips: list[Trip]) -> None:
    streams = trips[0].exact("video").range_queries["Interest"]
    assert (streams.sum(axis=1) % 50_000.0 == 0).all()
    assert streams.sum(axis=1).max() == 16 * 50_000.0


@pytest.mark.parametrize("application", ["traffic", "video"])
def test_a_prediction_begins_with_what_is_so(trips: list[Trip], application: str) -> None:
    exact = trips[0].exact(application)  # type: ignore[arg-type]
    predictions = list(trips[0].predicted(application))  # type: ignore[arg-type]
    assert len(predictions) == -(-exact.steps // 5)
    for number, prediction in enumerate(predictions):
        assert prediction.steps == 240
        assert prediction.start_us == exact.start_us + 5_000_000 * number
        assert prediction.consumer[0] == exact.consumer[5 * number]
        np.testing.assert_allclose(prediction.range_queries["Interest"][0], exact.range_queries["Interest"][5 * number])


def test_the_course_is_a_straight_line_up_to_the_border(trips: list[Trip]) -> None:
    trip, area = trips[0], trips[0].town.regions.area
    moving = int(np.argmax(np.hypot(trip.x[5:] - trip.x[:-5], trip.y[5:] - trip.y[:-5]))) + 5
    x, y = trip._course(moving)
    step_x, step_y = (trip.x[moving] - trip.x[moving - 5]) / 5, (trip.y[moving] - trip.y[moving - 5]) / 5
    np.testing.assert_allclose(x, np.clip(trip.x[moving] + np.arange(240) * step_x, area.x_min, area.x_max))
    np.testing.assert_allclose(y, np.clip(trip.y[moving] + np.arange(240) * step_y, area.y_min, area.y_max))


@pytest.mark.storm
def test_figure_6h() -> None:
    figure = figure_6h(QUICK, 1, silent)
    assert len(figure.curves) == 8
    for name, points in figure.curves.items():
        assert [x for x, _ in points] == [0.0, 10_000.0, 100_000.0]
        if name.endswith("bdp"):
            ys = [y for _, y in points]
            assert ys == sorted(ys, reverse=True)
    assert [part.holds for part in figure.parts[:3]] == [True] * 3


@pytest.mark.slow
def test_figure_6i() -> None:
    figure = figure_6i(QUICK, 1, silent)
    assert figure == figure_6i(QUICK, 1, silent)
    assert figure.verdict == "holds"
    for points in figure.curves.values():
        assert [x for x, _ in points] == [10.0, 50.0, 100.0]


@pytest.mark.storm
def test_the_bar() -> None:
    assert STATES[-1] == 100_000.0
    assert saved(seed=1) >= SAVED
