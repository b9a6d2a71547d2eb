"""Consumers that do what they should not: what comes of it is defined."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from mobility.test_moving import SCHEMA, STREAMS
from situ.runtime.embedded import Engine

Row = dict[str, Any]
NEAR = "subscribe Near for Car(id) detect Lamp as a assign lamp = a.id around Car square 20 m lifetime 2 s"
TEXT = STREAMS.replace("at (x, y)", "at (x, y) watermark 2 s") + NEAR


def car(ts: int, x: float | None, id_: int | None = 1) -> Row:
    return {"id": id_, "x": x, "y": 0.0, "v": 0, "ts": ts}


def lamp(ts: int, x: float | None, id_: int = 7) -> Row:
    return {"id": id_, "x": x, "y": 0.0, "v": 0, "ts": ts}


def delivered(cars: list[Row], lamps: list[Row]) -> list[tuple[Any, int, int, int]]:
    """Consumer, interest, second and lamp."""
    tables = {"Car": pa.Table.from_pylist(cars, SCHEMA), "Lamp": pa.Table.from_pylist(lamps, SCHEMA)}
    found = [row for output in Engine(TEXT).run(tables) for row in output.complex_events["Near"].to_pylist()]
    return [(row["consumer"], row["interest"], row["_time"].second, row["lamp"]) for row in found]


def test_a_jump_is_an_update_like_any_other() -> None:
    lamps = [lamp(0, 0.0, 1), lamp(4, 0.0, 1), lamp(4, 1e9, 2), lamp(5, 1e9, 2)]
    assert delivered([car(0, 0.0), car(5, 1e9)], lamps) == [(1, 1, 0, 1), (1, 1, 4, 1), (1, 2, 4, 2), (1, 2, 5, 2)]


def test_who_goes_silent_keeps_the_last_interest() -> None:
    assert delivered([car(0, 0.0)], [lamp(0, 0.0), lamp(59, 0.0)]) == [(1, 1, 0, 7), (1, 1, 59, 7)]


def test_updates_out_of_order_count_by_their_times() -> None:
    cars, lamps = (
        [car(0, 0.0), car(3, 100.0), car(6, 200.0)],
        [lamp(ts, x) for ts, x in ((1, 0.0), (4, 100.0), (7, 200.0))],
    )
    assert delivered(cars[::-1], lamps) == delivered(cars, lamps) == [(1, 1, 1, 7), (1, 2, 4, 7), (1, 3, 7, 7)]


def test_an_update_that_is_too_late_is_told_and_changes_nothing() -> None:
    engine = Engine(TEXT)
    for ts in range(9):
        engine.feed(pa.Table.from_pylist([car(ts, 0.0)], SCHEMA), "Car")
        engine.feed(pa.Table.from_pylist([lamp(ts, 0.0)], SCHEMA), "Lamp")
    output = engine.feed(pa.Table.from_pylist([car(1, 500.0)], SCHEMA), "Car")
    assert output.late["Car"].num_rows == 1
    found = engine.close().complex_events["Near"].to_pylist()
    assert {row["interest"] for row in found} == {1}


def test_an_update_that_comes_twice_is_one() -> None:
    assert delivered([car(0, 0.0), car(0, 0.0), car(3, 0.0), car(3, 0.0)], [lamp(4, 0.0)]) == [(1, 1, 4, 7)]


@pytest.mark.parametrize("nowhere", [None, float("nan"), float("inf"), float("-inf")])
def test_places_that_are_none(nowhere: float | None) -> None:
    """No update, and no event in any region."""
    assert delivered([car(0, nowhere), car(2, 0.0), car(4, nowhere)], [lamp(3, nowhere), lamp(5, 0.0)]) == [
        (1, 1, 5, 7)
    ]
    assert delivered([car(0, nowhere)], [lamp(0, 0.0)]) == []


def test_a_consumer_without_a_name_has_no_interest() -> None:
    assert delivered([car(0, 0.0, None)], [lamp(0, 0.0)]) == []


def test_an_interest_in_which_nothing_happens_delivers_nothing() -> None:
    assert delivered([car(0, 0.0), car(1, 1e6), car(2, 0.0)], [lamp(2, 0.0)]) == [(1, 3, 2, 7)]


def test_no_consumer_and_no_event() -> None:
    assert delivered([], [lamp(0, 0.0)]) == []
    assert delivered([car(0, 0.0)], []) == []
