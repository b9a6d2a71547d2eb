"""What one can write wrongly of `quality` and `leave`, and what is said then; and thresholds that are none."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from cli.command import situ
from mobility.test_quality import shared_rows
from situ.core.errors import QueryError, QuerySyntaxError, SituWarning
from situ.runtime.embedded import Engine

STREAMS = """
stream Car(id int, name string, x double, y double, w double, parked boolean, ts int) time ts in s at (x, y)
stream Lamp(id int, x double, y double, ts int) time ts in s at (x, y)
"""
NEAR = "subscribe Near for Car(id) detect Lamp as a assign lamp = a.id around Car square 40 m"

#: Clauses, what is wrong with them, and what helps.
MISTAKES = [
    ("quality precision 1.5", "a precision of 1.5 is not between 0 and 1", "quality precision 0.9"),
    ("quality precision 0.5 recall 7", "a recall of 7 is not between 0 and 1", "quality recall 0.9"),
    ("quality recall -0.5", "'-' is unexpected here", "expected a name, a number"),
    ("quality", "the text ends here", "expected 'disparity', 'precision' or 'recall'"),
    ("quality precision 0.5 precision 0.6", "'precision' stands twice", "Keep one of them"),
    ("quality precision wanted", "the consumers' stream has no attribute 'wanted'", "known: id, name, parked, ts, w"),
    ("quality precision ww", "has no attribute 'ww'", "Did you mean 'w'?"),
    ("quality precision name", "the threshold 'name' is string", "Declare it as a number"),
    ("quality recall parked", "the threshold 'parked' is boolean", "Declare it as a number"),
    ("quality disparity w", "'w' is unexpected here", "expected a number"),
    ("update when quality", "says nothing of quality", "Write `quality precision 0.9 recall 0.9`"),
    ("update when quality quality recall w", "reads its thresholds from location updates", "as numbers"),
    ("leave when tired", "event type Car has no attribute 'tired'", "known: id, name, parked"),
    ("leave when name", "a condition is true or false, and this one is string", "Compare it with something"),
    ("leave when a.id = 3", "no alias 'a'", "known: update"),
    ("leave when w > 'x'", "`>` compares values of one type, not double and string", "Convert one side"),
    ("leave when count(w) > 3", "count() goes over several events", "Read it directly: update.w"),
    ("leave when tired(w)", "no function 'tired'", "Register your own with @situ.function"),
    ("leave when parked leave when parked", "'leave when' stands twice", "Keep one of them"),
    ("leave after 3", "'3' is unexpected here", "A duration is in us, ms, s, min, h or d"),
    ("leave after 0 s", "nobody stays: `leave after` no time", "above zero"),
    ("leave after 1 h leave after 2 h", "'leave after' stands twice", "Keep one of them"),
    ("leave", "the text ends here", "expected 'after' or 'when'"),
]


@pytest.mark.parametrize(("clauses", "cause", "remedy"), MISTAKES)
def test_a_mistake_is_told_with_its_place_and_what_helps(clauses: str, cause: str, remedy: str) -> None:
    with pytest.raises((QueryError, QuerySyntaxError), match=re.escape(cause)) as raised:
        Engine(f"{STREAMS}{NEAR} {clauses}\n")
    assert remedy in str(raised.value)
    assert raised.value.place is not None
    assert raised.value.place.line == 4


def test_a_threshold_by_attribute_needs_consumers() -> None:
    text = f"{STREAMS}subscribe Near detect Lamp as a quality precision w\n"
    with pytest.raises(QueryError, match="the consumers' stream has no attribute 'w'") as raised:
        Engine(text)
    assert "Write `for Consumer(id)`, or a number" in str(raised.value)


@pytest.mark.parametrize("clause", ["leave when parked", "leave after 3 s"])
def test_nobody_leaves_who_does_not_move(clause: str) -> None:
    with pytest.warns(SituWarning, match=rf"`{clause[:10].strip()}.*` has no effect: without `around`, nothing moves"):
        Engine(f"{STREAMS}subscribe Near detect Lamp as a {clause}\n")


def test_check_says_it_at_the_command_line(tmp_path: Any) -> None:
    (tmp_path / "near.situ").write_text(f"{STREAMS}{NEAR} leave when tired\n")
    code, _, error = situ("check", tmp_path / "near.situ")
    assert code == 1
    assert re.search(r"near.situ:4:\d+: event type Car has no attribute 'tired'", error)


def of_two(threshold: str, type_: pa.DataType, *values: object) -> list[Any]:
    """Two consumers, 10 m apart, and lamps of which the second one's region has one in two more. By consumer and value
    that the second one asks for as precision: whose region served."""
    text = f"{STREAMS}{NEAR} quality precision w recall 0.1\n".replace("w double", threshold)
    served = []
    for value in values:
        cars = pa.table({"id": [1, 2], "x": [0.0, 10.0], "y": [0.0, 0.0], "ts": [0, 1]})
        cars = cars.append_column("w", pa.array([value, value], type_))
        lamps = pa.table({"id": [1, 2, 3, 4], "x": [0.0, 5.0, -15.0, -15.0], "y": [0.0] * 4, "ts": [2, 3, 3, 3]})
        found = [row for o in Engine(text).run({"Car": _whole(cars), "Lamp": lamps})
                 for row in shared_rows(o.complex_events["Near"])]  # fmt: skip
        served.append({row[6] for row in found if row[0] == 2})
    return served


def _whole(cars: pa.Table) -> pa.Table:
    nothing = {"name": pa.nulls(cars.num_rows, pa.string()), "parked": pa.nulls(cars.num_rows, pa.bool_())}
    for name, column in nothing.items():
        cars = cars.append_column(name, column)
    return cars


def test_thresholds_of_any_numeric_type() -> None:
    assert of_two("w double", pa.float64(), 0.2, 0.9) == [{1}, {1, 2}]
    assert of_two("w decimal(3, 2)", pa.decimal128(3, 2), Decimal("0.20"), Decimal("0.90")) == [{1}, {1, 2}]
    assert of_two("w int", pa.int64(), 0, 1) == [{1}, {1, 2}]


def test_a_threshold_that_is_none_means_1() -> None:
    strict = of_two("w double", pa.float64(), 1.0)
    assert of_two("w double", pa.float64(), None, float("nan"), -0.1, 1.1, float("inf")) == strict * 5
