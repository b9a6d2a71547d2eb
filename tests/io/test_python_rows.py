"""Rows that are Python objects fit or are rejected one by one, as JSON lines are."""

from __future__ import annotations

import datetime
import decimal
import json
import random

import numpy as np
import pytest

from situ.core.types import BINARY, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, Decimal
from situ.graph.query import AttributeDeclaration, Stream
from situ.io.files.by_suffix import open_source
from situ.io.rows.python_rows import conform_python_rows

NAN = float("nan")
EAST = datetime.timezone(datetime.timedelta(hours=2))
MIDNIGHT = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
MONEY = Decimal(10, 2)
#: By type, values that fit with what they become, and values that do not.
FITTING = {
    INT: [(1, 1), (-(2**63), -(2**63)), (np.int32(5), 5)],
    DOUBLE: [(1, 1.0), (0.5, 0.5), (2**53 + 1, 2.0**53), (2**70, 2.0**70), (decimal.Decimal("0.1"), 0.1)],
    STRING: [("a", "a"), ("", "")],
    BOOLEAN: [(True, True), (np.bool_(False), False)],
    BINARY: [(b"\xff", b"\xff"), (bytearray(b"b"), b"b"), ("c2l0dQ==", b"situ")],
    TIMESTAMP: [
        (MIDNIGHT, MIDNIGHT),
        (datetime.datetime(2024, 5, 1), MIDNIGHT),
        (datetime.datetime(2024, 5, 1, 2, tzinfo=EAST), MIDNIGHT),
        (datetime.date(2024, 5, 1), MIDNIGHT),
        ("2024-05-01 00:00:00", MIDNIGHT),
    ],
    MONEY: [(1, decimal.Decimal("1.00")), (decimal.Decimal("1.500"), decimal.Decimal("1.50")),
            ("2.5", decimal.Decimal("2.50"))],
}  # fmt: skip
WRONG = {
    INT: [True, 1.0, 1.9, 2**63, 2**70, 10**5000, "1", decimal.Decimal(1), [1], {}],
    DOUBLE: [True, "1", 10**400, 1j, decimal.Decimal("sNaN")],
    STRING: ["\ud800", b"a", 1, object()],
    BOOLEAN: [1, "true"],
    BINARY: ["!!", 1],
    TIMESTAMP: [1, 1.9, "yesterday", datetime.time(1), np.datetime64(0, "s")],
    MONEY: [1.5, True, decimal.Decimal("1.234"), decimal.Decimal("NaN"), 10**9, "one"],
}


def stream_of(*attributes: AttributeDeclaration) -> Stream:
    return Stream("Ping", (*attributes, AttributeDeclaration("ms", INT)), time="ms", time_unit="ms")


@pytest.mark.parametrize("type_", FITTING, ids=str)
def test_every_value_is_judged_by_itself(type_) -> None:
    """Fitting and wrong values stand in one call, in any order: each row has the fate that it has alone."""
    stream = stream_of(AttributeDeclaration("v", type_))
    cases = [(value, expected, True) for value, expected in [*FITTING[type_], (None, None)]]
    cases += [(value, None, False) for value in WRONG[type_]]
    random.Random(3).shuffle(cases)
    result = conform_python_rows([{"v": value, "ms": n, "w": 7} for n, (value, _, _) in enumerate(cases)], stream)
    assert result.events.column("v").to_pylist() == [expected for _, expected, fits in cases if fits]
    assert result.events.column("ms").to_pylist() == [n for n, (_, _, fits) in enumerate(cases) if fits]
    reasons = result.rejected.column("_reason").to_pylist()
    assert len(reasons) == len(WRONG[type_])
    assert all(reason.startswith("v: ") and reason.endswith(f" is no {type_}") for reason in reasons)
    result.rejected.validate(full=True)


LINES = [
    '{"n": 1, "s": "a", "at": {"x": 0.5}, "t": "2024-05-01T00:00:00Z", "b": "c2l0dQ==", "ok": true, "ms": 1}',
    '{"n": 1.9, "ms": 2}',
    '{"n": true, "s": "\\u00fc", "ms": 3}',
    '{"n": 1180591620717411303424, "ms": 4}',
    '{"n": "1", "s": 5, "ms": 5}',
    '{"t": 12, "ms": 6}',
    '{"t": "yesterday", "ms": 7}',
    '{"b": "!!", "ms": 8}',
    '{"ok": 1, "ms": 9}',
    '{"at": 5, "ms": 10}',
    '{"at": null, "ms": 11}',
    '{"at": {"x": "far"}, "ms": 12}',
    '{"ms": null}',
    '{"n": 3}',
    '{"ms": 1e300}',
    '{"ms": 9223372036854775807}',
    '{"p": 12, "ms": 14}',
]


def test_objects_are_judged_as_the_lines_that_they_come_from(tmp_path) -> None:
    names = {"n": INT, "s": STRING, "t": TIMESTAMP, "b": BINARY, "ok": BOOLEAN, "p": MONEY}
    nested = AttributeDeclaration("x", DOUBLE, ("at", "x"))
    stream = stream_of(*(AttributeDeclaration(name, type_) for name, type_ in names.items()), nested)
    path = tmp_path / "pings.jsonl"
    path.write_text("\n".join(LINES) + "\n")
    [chunk] = open_source(path, stream).chunks()
    lines = chunk.read([attribute.name for attribute in stream.attributes])
    objects = conform_python_rows([json.loads(line) for line in LINES], stream)
    assert objects.events.to_pylist() == lines.events.to_pylist()
    assert objects.times.tolist() == lines.times.tolist()
    places = [int(place.rpartition(":")[2]) for place in lines.rejected.column("_place").to_pylist()]
    assert objects.rejected.column("_place").to_pylist() == [f"rows, row {line}" for line in places]
    # JSON's numbers are texts of digits, and Python's a float: 1e+300 as Python writes it.
    said = [reason.replace("1E+300", "1e+300") for reason in lines.rejected.column("_reason").to_pylist()]
    assert objects.rejected.column("_reason").to_pylist() == said
    assert len(said) == 14


class Strange(dict):
    """A row of somebody's own class, which cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_values_that_cannot_be_shown_are_rejected_all_the_same() -> None:
    endless: list[object] = []
    endless.append(endless)
    rows = [{"v": value, "ms": 1} for value in (Strange(), endless, 10**5000, [NAN], {1: b"x"})]
    result = conform_python_rows(rows, stream_of(AttributeDeclaration("v", INT)))
    assert result.rejected.num_rows == 5
    assert result.rejected.column("_reason")[2].as_py() == "v: a value of type int is no int"
    assert result.rejected.column("_row").to_pylist()[3:] == ['{"v": [null], "ms": 1}', '{"v": {"1": "eA=="}, "ms": 1}']


def test_no_rows() -> None:
    result = conform_python_rows([], stream_of())
    assert (result.events.num_rows, result.times.tolist(), result.rejected.num_rows) == (0, [], 0)
