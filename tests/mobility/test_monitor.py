"""`update when quality` against its definition, whole and update by update."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from situ.mobility.interests import Updates
from situ.mobility.monitor import Condition, LastPlaces, heed, quality_interests
from situ.space.pairs import Located, together

Row = dict[str, Any]
SHAPES = ((6.0, 6.0, True), (6.0, 6.0, False), (9.0, 4.0, False))


def random_updates(rng: np.random.Generator, number: int = 80) -> list[Row]:
    """Consumers that walk, stand, jump, say two places at once, none, or not who they are."""
    rows: list[Row] = []
    places = rng.integers(0, 30, (3, 2)).astype(float)
    for _ in range(number):
        who, step = int(rng.integers(3)), rng.random()
        places[who] += rng.integers(-2, 3, 2) if step < 0.8 else rng.integers(-20, 20, 2)
        row = {
            "id": f"c{who}",
            "time": int(rng.integers(0, 60)),
            "x": float(places[who, 0]),
            "y": float(places[who, 1]),
        }
        if step < 0.05:
            row["x"] = math.nan
        if step > 0.97:
            row["id"] = None
        rows.append(row)
    return rows


def random_events(rng: np.random.Generator) -> list[Located]:
    def stream(number: int) -> Located:
        x, y = rng.integers(0, 30, (2, number)).astype(float)
        x[::11] = np.nan
        return np.sort(rng.integers(0, 60, number)), x, y

    return [stream(120), stream(60), stream(0)]


def columns(rows: list[Row]) -> Updates:
    x, y = (np.array([row[name] for row in rows]) for name in "xy")
    return Updates(pa.array([row["id"] for row in rows]), np.array([row["time"] for row in rows]), x, y)


def by_words(rows: list[Row], streams: list[Located], condition: Condition) -> list[tuple[str, int, int, float, float]]:
    """(consumer, number, start, x, y)."""
    events = [event for times, x, y in streams for event in zip(times, x, y, strict=True)]

    def held(row: Row, at: int) -> set[int]:
        found = set()
        for number, (time, x, y) in enumerate(events):
            dx, dy = abs(x - row["x"]), abs(y - row["y"])
            inside = dx**2 + dy**2 <= condition.half_x**2 if condition.is_round else dx <= condition.half_x
            inside = inside and dy <= condition.half_y
            if at - condition.recent_us <= time <= at and inside:
                found.add(number)
        return found

    found = []
    for consumer in sorted({row["id"] for row in rows if row["id"] is not None}):
        own = [row for row in rows if row["id"] == consumer and not math.isnan(row["x"])]
        at = {row["time"]: row for row in sorted(own, key=lambda row: (row["x"], row["y"]))}
        taken: list[Row] = []
        for time in sorted(at):
            row = at[time]
            if taken and (row["x"], row["y"]) == (taken[-1]["x"], taken[-1]["y"]):
                continue
            if taken:
                asked, processed = held(row, time), held(taken[-1], time)
                both = len(asked & processed)
                precision = both / len(processed) if processed else 1
                recall = both / len(asked) if asked else 1
                if precision >= condition.precision and recall >= condition.recall:
                    continue
            taken.append(row)
        found += [(consumer, k + 1, row["time"], row["x"], row["y"]) for k, row in enumerate(taken)]
    return found


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("thresholds", [(0.9, 0.9), (0.5, 0.0), (0.0, 0.7), (1.0, 1.0), (0.0, 0.0)])
def test_interests_are_what_the_definition_says(
    shape: tuple[float, float, bool], thresholds: tuple[float, float]
) -> None:
    some = 0
    for seed in range(4):
        rng = np.random.default_rng([seed, len(shape)])
        rows, streams = random_updates(rng), random_events(rng)
        condition = Condition(*shape, 7, *thresholds)
        expected = by_words(rows, streams, condition)
        found = quality_interests(columns(rows), streams, *shape, 7, *thresholds)
        whose = (found.consumer.to_pylist(), found.number.tolist(), found.start_us.tolist())
        assert list(zip(*whose, found.x.tolist(), found.y.tolist(), strict=True)) == expected
        some += len(expected) - 3
    assert some or thresholds == (0.0, 0.0)


def test_places_in_degrees() -> None:
    """Half a degree of longitude is 36 km at 50 degrees north and 56 km at the equator, across the date line, too."""
    for north, far in ((50.0, False), (0.0, True)):
        updates = Updates(pa.array(["a", "a"]), np.array([0, 5]), np.array([179.75, -179.75]), np.full(2, north))
        events = np.array([4]), np.array([179.75]), np.array([north])
        found = quality_interests(updates, [events], 40_000.0, 40_000.0, False, 5, 0.9, 0.9, degrees=True)
        assert (len(found) == 2) is far


def test_an_interest_lasts_until_the_next() -> None:
    updates = Updates(pa.array(["a", "a"]), np.array([0, 5]), np.array([0.0, 50.0]), np.zeros(2))
    events = np.array([4]), np.array([50.0]), np.zeros(1)
    interests = quality_interests(updates, [events], 5.0, 5.0, False, 5, 0.9, 0.9)
    assert interests.end_us.tolist() == [5, np.iinfo(np.int64).max]


def test_without_recent_events_nothing_is_missing() -> None:
    updates = Updates(pa.array(["a", "a"]), np.array([0, 50]), np.array([0.0, 50.0]), np.zeros(2))
    events = np.array([4]), np.array([50.0]), np.zeros(1)
    assert len(quality_interests(updates, [events], 5.0, 5.0, False, 5, 0.9, 0.9)) == 1
    assert len(quality_interests(updates, [], 5.0, 5.0, False, 5, 0.9, 0.9)) == 1


def test_nobody_has_no_interests() -> None:
    nobody = Updates(pa.array([], pa.string()), np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    assert len(quality_interests(nobody, [], 5.0, 5.0, False, 5, 0.9, 0.9)) == 0


@pytest.mark.parametrize("seed", range(4))
def test_update_by_update_is_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [row for row in random_updates(rng) if row["id"] is not None and not math.isnan(row["x"])]
    events, condition = together(random_events(rng)), Condition(6.0, 6.0, False, 7, 0.8, 0.8)

    def run(some: list[Row], last: LastPlaces) -> tuple[list[bool], LastPlaces]:
        who, times = (
            np.array([int(r["id"][1]) for r in some], np.int64),
            np.array([r["time"] for r in some], np.int64),
        )
        x, y = (np.array([row[name] for row in some], float) for name in "xy")
        mask, after = heed(who, times, x, y, last, events, condition)
        return mask.tolist(), after

    whole, end = run(rows, LastPlaces.none(3))
    last, found = LastPlaces.none(3), [False] * len(rows)
    for cut in range(0, 60, 7):
        some = [k for k, row in enumerate(rows) if cut <= row["time"] < cut + 7]
        mask, last = run([rows[k] for k in some], last)
        for k, value in zip(some, mask, strict=True):
            found[k] = value
    assert found == whole
    np.testing.assert_array_equal(last.x, end.x)
    assert 3 < sum(whole) < len(rows)
