"""MCEP's Figures 6a to 6d: the cases, the counting beside the runs, and small runs of the figures."""

from __future__ import annotations

import numpy as np
import pytest

from situ.lab.figure import QUICK, Figure
from situ.lab.mcep.experiments.switching import (
    STRATEGIES,
    TOWN_M,
    _graphs_with,
    figure_6a,
    figure_6b,
    figure_6c,
    figure_6d,
)
from situ.lab.mcep.experiments.switching_cases import (
    ACCIDENT,
    BEFORE_S,
    CAMERAS_M,
    FIRST_CAMERA_M,
    FRIEND,
    S,
    query,
    trips,
)
from situ.lab.mcep.switching.locality import preserves_locality
from situ.lang.parse import parse
from situ.lang.resolve import resolve


def quietly(done: int, total: int, what: str) -> None:
    assert done < total, what


def test_trips_are_seconds_on_the_way_with_the_history_before() -> None:
    (trip,) = trips(1, 10, np.random.default_rng(3))
    assert np.diff(trip.updates.times_us).tolist() == [S] * 9
    for name in ("Vehicle", "Frame"):
        times = trip.events[name]["time_us"].to_numpy()
        assert trip.begin_us - BEFORE_S * S <= times[0] < trip.begin_us - (BEFORE_S - 1) * S
        assert times[-1] <= trip.updates.times_us[-1]
        assert np.all(np.diff(times) >= 0)


def test_every_camera_films_once_in_a_second_at_least() -> None:
    (trip,) = trips(1, 10, np.random.default_rng(3))
    frames = trip.events["Frame"]
    camera, time = frames["camera"].to_numpy(), frames["time_us"].to_numpy()
    assert set((frames["x"].to_numpy() % CAMERAS_M).tolist()) == {FIRST_CAMERA_M}
    second = time // S
    inner = (second > second[0]) & (second < second[-1])
    filmed = {*zip(camera[inner].tolist(), second[inner].tolist(), strict=True)}
    assert len(filmed) == len({*camera.tolist()}) * (second[-1] - second[0] - 1)


def test_what_is_streamed_between_operators_preserves_locality() -> None:
    for rule, names in ((ACCIDENT, ("Drop", "Change")), (FRIEND, ("Seen", "Asked"))):
        graph = resolve(parse(query(rule, 100)))
        assert all(preserves_locality(graph, name) for name in names)


def test_static_graphs_are_counted_as_if_one_by_one() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.uniform(0, 2660, (2, 50))
    width, height = rng.uniform(0, 60, (2, 50))
    for edge_m, deviation_m in ((50.0, 100.0), (300.0, 100.0), (120.0, 200.0), (500.0, 50.0)):
        middles = (np.arange(np.ceil(TOWN_M / deviation_m)) + 0.5) * deviation_m
        in_x = (middles[:, None] - edge_m / 2 <= x) & (x + width <= middles[:, None] + edge_m / 2)
        in_y = (middles[:, None] - edge_m / 2 <= y) & (y + height <= middles[:, None] + edge_m / 2)
        expected = int((in_x.sum(axis=0) * in_y.sum(axis=0)).sum())
        assert _graphs_with((x, y), (x + width, y + height), edge_m, deviation_m) == expected


def values(figure: Figure, name: str) -> list[float]:
    return [y for _, y in figure.curves[name]]


@pytest.mark.slow
def test_figure_6a_moves_with_less() -> None:
    figure = figure_6a(QUICK, 2, quietly)
    for name in ("traffic", "video"):
        off, on = (values(figure, f"{name}, {which} optimiser") for which in ("without", "with"))
        assert all(b <= 0.4 * a for a, b in zip(off, on, strict=True))
        assert max(off) < 1.0


@pytest.mark.storm
def test_figure_6b_fewer_switches_stream_less() -> None:
    figure = figure_6b(QUICK, 2, quietly)
    assert values(figure, "update basic") == [1.0, 1.0]
    assert all(max(values(figure, strategy)) < 1.0 for strategy in STRATEGIES[1:])


@pytest.mark.storm
def test_figure_6c_fewer_switches_are_less_precise() -> None:
    figure = figure_6c(QUICK, 2, quietly)
    assert values(figure, "update basic") == [1.0, 1.0]
    assert min(values(figure, "quality 0.9")) >= 0.9
    assert np.mean(values(figure, "update every 10 s")) < np.mean(values(figure, "update every 5 s"))


@pytest.mark.storm
def test_figure_6d_windows_miss_little_and_cost_little() -> None:
    figure = figure_6d(QUICK, 2, quietly)
    assert min(values(figure, "windows: completeness")) >= 0.8
    assert max(values(figure, "windows: overhead")) < 0.1
    assert values(figure, "none: overhead") == [0.0, 0.0]
    assert values(figure, "none: completeness")[-1] < values(figure, "windows: completeness")[-1]
