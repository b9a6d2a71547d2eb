"""Places on the earth and in the plane, against what words and other formulas say."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from situ.core.errors import QueryError
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.embedded import Engine
from situ.space.geometry import EARTH_M, Shape, distance_m
from situ.space.pairs import PlacedEvents, Regions

#: Places that are easy to get wrong: anywhere, around a pole, at both sides of the date line.
AROUND = {"anywhere": (7.0, 48.0), "a pole": (20.0, 89.9), "the date line": (179.999, 10.0), "the south": (0.0, -89.95)}


def angle(x: float, y: float, other_x: float, other_y: float) -> float:
    """Between two places, as seen from the middle of the earth: by vectors."""

    def vector(lon: float, lat: float) -> tuple[float, float, float]:
        lon, lat = math.radians(lon), math.radians(lat)
        return math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat)

    a, b = vector(x, y), vector(other_x, other_y)
    cross = [a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return math.atan2(math.hypot(*cross), sum(p * q for p, q in zip(a, b, strict=True)))


def inside(x: float, y: float, middle: tuple[float, float], shape: Shape) -> bool:
    if shape.is_round:
        return angle(x, y, *middle) * EARTH_M <= shape.half_x
    east = abs((x - middle[0] + 180) % 360 - 180)
    along = math.radians(east) * math.cos(math.radians(middle[1])) * EARTH_M
    return along <= shape.half_x and math.radians(abs(y - middle[1])) * EARTH_M <= shape.half_y


def scattered(rng: np.random.Generator, where: str, number: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = AROUND[where]
    lat = np.clip(y + rng.uniform(-0.2, 0.2, number), -90, 90)
    wide = 180.0 if abs(y) > 89 else 0.3
    return (x + rng.uniform(-wide, wide, number) + 180) % 360 - 180, lat


@pytest.mark.parametrize("shape", [Shape(9_000.0, 4_000.0, degrees=True), Shape(7_000.0, 7_000.0, True, True)])
@pytest.mark.parametrize("where", AROUND)
def test_regions_on_the_earth(where: str, shape: Shape) -> None:
    rng = np.random.default_rng(len(where))
    x, y = scattered(rng, where, 300)
    middle_x, middle_y = scattered(rng, where, 25)
    times = np.arange(300)
    regions = Regions(np.zeros(25, np.int64), np.full(25, 300), middle_x, middle_y)
    events, of = PlacedEvents.of(times, x, y, shape).pairs(regions)
    expected = [
        (event, region)
        for region in range(25)
        for event in range(300)
        if inside(x[event], y[event], (middle_x[region], middle_y[region]), shape)
    ]
    assert list(zip(events.tolist(), of.tolist(), strict=True)) == expected
    assert expected


def test_distances() -> None:
    assert distance_m(0.0, 0.0, 3.0, 4.0, False) == 5.0
    assert distance_m(0.0, 0.0, 0.0, 1.0, True) == pytest.approx(111_195, abs=1)
    assert distance_m(179.5, 0.0, -179.5, 0.0, True) == pytest.approx(111_195, abs=1)
    berlin, munich = (13.405, 52.52), (11.582, 48.135)
    assert distance_m(*berlin, *munich, True) == pytest.approx(504_400, rel=1e-3)
    assert distance_m(*berlin, *munich, True) == pytest.approx(angle(*berlin, *munich) * EARTH_M)


def test_places_far_out_make_no_large_grid() -> None:
    x = np.array([0.0, 1e15, -1e15, np.nan])
    placed = PlacedEvents.of(np.arange(4), x, x, Shape(1.0, 1.0))
    events, _ = placed.pairs(
        Regions(np.zeros(2, np.int64), np.full(2, 9), np.array([0.0, 1e15]), np.array([0.5, 1e15]))
    )
    assert events.tolist() == [0, 1]


CARS = "stream Car(id int, lon double, lat double, ts int) time ts in s  at ({}, {}) in degrees\n"
NEAR = "subscribe Near for Car(id) detect Car as a assign other = a.id around Car circle 500 m update moved 100 m"


def test_a_moving_subscription_in_degrees() -> None:
    """Two cars meet at the date line; the second moves 60 m at a time, and so begins an interest every other time."""
    step = math.degrees(60 / EARTH_M)
    rows = [{"id": 1, "lon": 179.9999, "lat": 0.0, "ts": 0}, {"id": 1, "lon": 179.9999, "lat": 0.0, "ts": 9}]
    rows += [{"id": 2, "lon": -179.9999 + n * step, "lat": 0.0, "ts": n} for n in range(4)]
    found = Engine(CARS.format("lon", "lat") + NEAR).run({"Car": pa.Table.from_pylist(rows)})
    delivered = [row for output in found for row in output.complex_events["Near"].to_pylist()]
    mine = [(row["interest"], row["_time"].second, row["other"]) for row in delivered if row["consumer"] == 2]
    assert sorted(mine) == [(1, 0, 1), (1, 0, 2), (1, 1, 2), (1, 2, 2), (2, 2, 2), (2, 3, 2), (2, 9, 1)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CARS.format("lat", "lon"), "a location in degrees is \\(longitude, latitude\\), and 'lat' comes first"),
        (
            CARS.format("lon", "lat")
            + "stream Lamp(x double, y double, ts int) time ts in s at (x, y)\n"
            + "subscribe Near for Car(id) detect Lamp as a around Car circle 500 m",
            "places of Car are in degrees, and those of Lamp in metres",
        ),
        (CARS.format("lon", "lat") + NEAR.replace("moved 100 m", "when quality"), "says nothing of quality"),
        (CARS.format("lon", "lat") + NEAR + " quality precision 1.5", "a precision of 1.5 is not between 0 and 1"),
        (CARS.format("lon", "lat") + NEAR + " quality disparity 2", "a disparity of 2 is not between 0 and 1"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        resolve(parse(text))
