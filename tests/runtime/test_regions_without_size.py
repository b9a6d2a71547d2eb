"""Regions that are a point or a line: they hold what lies exactly there, and are shared at one place only."""

from __future__ import annotations

import warnings

import pyarrow as pa
import pytest

from situ.runtime.embedded import Engine

STREAMS = """
stream Car(id int, x double, y double, ts int) time ts in s at (x, y){unit} key id
stream Lamp(v int, x double, y double, ts int) time ts in s at (x, y){unit}
subscribe Near for Car(id)
  detect Lamp as a
  assign lamp = a.v
  around Car {region}
  {quality}
"""
CARS = [
    {"id": 1, "x": 0.0, "y": 0.0, "ts": 0},
    {"id": 2, "x": 0.0, "y": 0.0, "ts": 0},
    {"id": 3, "x": 1.0, "y": 0.0, "ts": 0},
    {"id": 1, "x": 2.0, "y": 0.0, "ts": 4},
]
LAMPS = [
    {"v": 7, "x": 0.0, "y": 0.0, "ts": 1},
    {"v": 8, "x": 1.0, "y": 0.5, "ts": 2},
    {"v": 9, "x": 2.0, "y": 0.0, "ts": 5},
]


def delivered(unit: str, region: str, quality: str) -> set[tuple[int, int]]:
    """Consumers, and the lamps that they hear of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = Engine(STREAMS.format(unit=unit, region=region, quality=quality))
    outputs = engine.run({"Car": pa.Table.from_pylist(CARS), "Lamp": pa.Table.from_pylist(LAMPS)})
    rows = [row for output in outputs for row in output.complex_events["Near"].to_pylist()]
    return {(row["consumer"], row["lamp"]) for row in rows}


@pytest.mark.parametrize("quality", ["", "quality precision 0.8 recall 0.8"], ids=["own", "shared"])
@pytest.mark.parametrize("unit", ["", " in degrees"], ids=["metres", "degrees"])
@pytest.mark.parametrize("region", ["square 0 km", "circle 0 m", "rectangle 0 m x 0.2 m", "rectangle 0.2 m x 0 m"])
def test_a_region_without_size_holds_its_own_place(region: str, unit: str, quality: str) -> None:
    assert delivered(unit, region, quality) == {(1, 7), (2, 7), (1, 9)}
