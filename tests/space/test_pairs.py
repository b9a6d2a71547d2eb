"""Who reads what, against a comparison of each with each; and the updates that begin an interest."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from situ.core.time import END
from situ.graph.query import Update
from situ.mobility.interests import Interests, Updates, interests_of
from situ.space.geometry import Shape
from situ.space.pairs import PlacedEvents, Regions


@pytest.mark.parametrize("is_round", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_pairs_are_those_within_time_and_region(seed: int, is_round: bool) -> None:
    rng = np.random.default_rng(seed)
    events, interests = int(rng.integers(0, 60)), int(rng.integers(0, 20))
    times = np.sort(rng.integers(0, 30, events))
    x, y = rng.integers(0, 12, (2, events)).astype(float)
    x[rng.random(events) < 0.1] = np.nan
    since, centre_x, centre_y = rng.integers(0, 30, interests), *rng.integers(0, 12, (2, interests)).astype(float)
    until = since + rng.integers(0, 10, interests)
    half_x, half_y = (3.0, 3.0) if is_round else (4.0, 2.0)
    placed = PlacedEvents.of(times, x, y, Shape(half_x, half_y, is_round))
    found = placed.pairs(Regions(since, until, centre_x, centre_y))
    expected = [
        (event, interest)
        for interest in range(interests)
        for event in range(events)
        if since[interest] <= times[event] <= until[interest]
        and abs(x[event] - centre_x[interest]) <= half_x
        and abs(y[event] - centre_y[interest]) <= half_y
        and (not is_round or np.hypot(x[event] - centre_x[interest], y[event] - centre_y[interest]) <= half_x)
    ]
    assert list(zip(*(column.tolist() for column in found), strict=True)) == expected


def begun(update: Update | None, *places: tuple[int, float]) -> Interests:
    """The interests of one consumer who is at these places, along a line, at these times."""
    times, x = np.array([time for time, _ in places]), np.array([place for _, place in places])
    updates = Updates(pa.array(["me"] * len(times)), times, x, np.zeros(len(times)))
    return interests_of(updates, update) if update else interests_of(updates)


@pytest.mark.parametrize(
    ("update", "starts"),
    [
        (None, [0, 2, 5, 6, 9]),  # at 1 nothing has changed
        (Update("every", 4), [0, 5, 9]),
        (Update("moved", 3.0), [0, 5, 9]),
    ],
)
def test_updates_that_begin_an_interest(update: Update | None, starts: list[int]) -> None:
    found = begun(update, (0, 0.0), (1, 0.0), (2, 1.0), (5, 4.0), (6, 5.0), (9, 9.0))
    assert found.start_us.tolist() == starts
    assert found.end_us.tolist() == [*starts[1:], END]
    assert found.number.tolist() == list(range(1, len(starts) + 1))


def test_of_several_updates_at_one_time_the_largest_place_counts_in_any_order() -> None:
    assert begun(None, (7, 2.0), (0, 1.0), (7, 9.0), (7, 4.0)).x.tolist() == [1.0, 9.0]


def test_updates_without_a_place_begin_nothing() -> None:
    assert begun(None, (0, np.nan), (1, 3.0), (2, np.inf)).start_us.tolist() == [1]
    assert len(begun(None, (0, np.nan))) == 0


def test_consumers_come_in_order() -> None:
    updates = Updates(pa.array(["b", None, "a"]), np.zeros(3, np.int64), np.zeros(3), np.zeros(3))
    assert interests_of(updates).consumer.to_pylist() == ["a", "b"]
