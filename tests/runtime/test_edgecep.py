"""The EdgeCEP paper's definitions and subscriptions (section III-B, Table I), as printed, on two hours made by hand."""

from __future__ import annotations

import datetime
import importlib.util
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from oracle import detect
from situ import Engine, Output
from situ.io.files.by_suffix import open_source
from situ.lang.parse import parse
from situ.lang.resolve import resolve

EDGECEP = Path(__file__).parents[2] / "examples" / "edgecep"
PRINTED = Path(__file__).parents[1] / "lang" / "edgecep.situ"

# Who moves (a Tracking sensor stands between left and right; direction 1 is from left to right):
#
#   10:00:20  street -> hall      10:02:30  street -> hall       10:58:30  hall -> kitchen
#   10:00:50  hall -> kitchen     10:03:00  hall -> kitchen      11:58:10  hall -> kitchen
#   10:01:10  street -> hall      10:03:20  hall -> kitchen
#   10:01:30  hall -> kitchen     10:03:50  kitchen -> hall
#   10:01:40  kitchen -> hall

#: (location, count, timestamp, time). As printed, the count is of the two minutes alone, and the timestamp that of the
#: last one who moved out.
PEOPLE_COUNT = [
    ("hall", 1, "10:01:30", "10:02:00"),  # in: 00:20, 01:10, 01:40; out: 00:50, 01:30
    ("kitchen", 1, "10:01:40", "10:02:00"),  # in: 00:50, 01:30; out: 01:40
    ("street", -2, "10:01:10", "10:02:00"),  # `outer MoveIn`: nobody moves in
    ("hall", 0, "10:03:20", "10:04:00"),
    ("kitchen", 1, "10:03:50", "10:04:00"),
    ("street", -1, "10:02:30", "10:04:00"),
    ("hall", -1, "10:58:30", "11:00:00"),
    ("kitchen", 1, None, "11:00:00"),  # `outer MoveOut`: nobody moves out
    ("hall", -1, "11:58:10", "12:00:00"),
    ("kitchen", 1, None, "12:00:00"),
]

#: (avg, location, timestamp, time): people are there, and the temperature is below 20 or above 25.
TEMPERATURE_OUT = [
    (18.5, "kitchen", "10:03:50", "10:05:00"),  # of the counts at 10:02 and 10:04, the last one
    (26.5, "hall", "10:01:30", "10:05:00"),  # the count at 10:04 is 0, so the one at 10:02 is the last
    # not the 18 degrees of the kitchen at 10:10: the last count above 0 is 6 minutes old
    # not the 28 degrees of the hall at 11:00: one more has left than has come
    (25.5, "kitchen", None, "11:00:00"),  # a count of the same time opens the window too
    # not the 22 degrees of the kitchen at 12:00: they are in range
]

#: (avg, location, timestamp, time): people are there, and the humidity is below 30 or above 50.
HUMIDITY_OUT = [
    (55.0, "hall", "10:01:30", "10:05:00"),
    # not the 40 % of the kitchen at 10:05: they are in range
    (20.0, "kitchen", None, "11:00:00"),
]

#: (face, location, timestamp of MoveIn, time): a frame from a room that somebody entered at most 5 minutes before.
FACES = [
    # not the kitchen's frame of 10:00:30: nobody has moved in yet
    ("Anna", "hall", "10:00:20", "10:00:40"),
    ("Anna", "kitchen", "10:00:50", "10:00:55"),
    (None, "kitchen", "10:00:50", "10:01:30"),  # consumed with this MoveIn, so the one of 10:01:30 does not see it
    ("Ben", "kitchen", "10:00:50", "10:02:00"),  # what one frame completes stands together
    ("Ben", "kitchen", "10:01:30", "10:02:00"),
    ("Cleo", "kitchen", "10:03:20", "10:08:20"),  # exactly 5 minutes; 10:03:00 is too long ago
    # not the kitchen's frame of 10:08:30, nor the street's: nobody moves into the street
]


@pytest.fixture(scope="module", autouse=True)
def faces() -> None:
    """`import faces` registers FaceDetect."""
    spec = importlib.util.spec_from_file_location("faces", EDGECEP / "faces.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.fixture
def engine() -> Engine:
    return Engine((EDGECEP / "edgecep.situ").read_text(), show_definitions=True)


def path_of(stream: str) -> Path:
    return EDGECEP / f"{stream.lower()}.csv"


def tables(engine: Engine) -> dict[str, pa.Table]:
    """Every file as one table."""
    read = {}
    for stream in engine.graph.streams:
        (chunk,) = open_source(path_of(stream.name), stream).chunks()
        read[stream.name] = chunk.read([attribute.name for attribute in stream.attributes]).events
    return read


def rows(outputs: Iterable[Output], name: str) -> list[tuple[object, ...]]:
    """The complex events of one name, with the times of the day as text."""
    found = [row for output in outputs for row in output.complex_events[name].to_pylist()]
    return in_order([tuple(map(time_of_day, row.values())) for row in found])


def time_of_day(value: object) -> object:
    return value.strftime("%H:%M:%S") if isinstance(value, datetime.datetime) else value


def in_order(found: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return sorted(found, key=repr)


def check(outputs: list[Output]) -> None:
    assert rows(outputs, "PeopleCount2Mins") == in_order(PEOPLE_COUNT)
    assert rows(outputs, "User1_1") == in_order(TEMPERATURE_OUT)
    assert rows(outputs, "User1_2") == in_order(HUMIDITY_OUT)
    assert rows(outputs, "User1_3") == in_order(FACES)


def test_the_texts_are_those_that_the_paper_prints() -> None:
    printed, ours = (parse(file.read_text()) for file in (PRINTED, EDGECEP / "edgecep.situ"))
    assert printed.subscriptions == ours.subscriptions
    assert printed.definitions == ours.definitions[:3]


def test_files(engine: Engine) -> None:
    check(list(engine.run({s.name: open_source(path_of(s.name), s) for s in engine.graph.streams})))


def test_event_by_event(engine: Engine) -> None:
    """As the sensors send them: all streams in one order of time."""
    events = sorted(
        (row["timestamp"], name, number)
        for name, table in tables(engine).items()
        for number, row in enumerate(table.to_pylist())
    )
    read = tables(engine)
    outputs = [engine.feed(read[name].slice(number, 1), name) for _, name, number in events]
    assert not any(output.late for output in outputs)
    # The air controller hears of the kitchen before the lab's second hour begins, not at the end of everything.
    before_noon = [output for (time, _, _), output in zip(events, outputs, strict=True) if time.hour == 10]
    assert rows(before_noon, "User1_1") == in_order(TEMPERATURE_OUT[:2])
    check([*outputs, engine.close()])


def test_the_oracle_agrees(engine: Engine) -> None:
    found = detect(resolve(parse((EDGECEP / "edgecep.situ").read_text())), read_rows(engine)).matches
    for name, expected in [("User1_1", TEMPERATURE_OUT), ("User1_2", HUMIDITY_OUT), ("User1_3", FACES)]:
        told = [tuple(map(time_of_day, match.attributes.values())) for match in found[name]]
        assert in_order(told) == in_order([row[:-1] for row in expected])


def read_rows(engine: Engine) -> dict[str, list[dict[str, object]]]:
    return {name: table.to_pylist() for name, table in tables(engine).items()}
