"""Events one by one, as dicts, as batches, as files: the same result."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from situ import Engine, InputError

QUERY = """
stream Door(door string, open boolean, ts int) time ts in s
subscribe LeftOpen
  detect   Door(open) as opened then not Door(not open) within 10 s
  assign   door = opened.door, since = opened.ts
  group by door
"""
ROWS = [
    {"door": "front", "open": True, "ts": 0},
    {"door": "back", "open": True, "ts": 3},
    {"door": "front", "open": False, "ts": 5},
    {"door": "front", "open": True, "ts": 20},
]
EXPECTED = [("back", 3), ("front", 20)]


def found(*outputs: object) -> list[tuple[str, int]]:
    rows = [row for output in outputs for row in output.complex_events["LeftOpen"].to_pylist()]  # type: ignore[attr-defined]
    return sorted((row["door"], row["since"]) for row in rows)


def test_one_dict_after_another() -> None:
    engine = Engine(QUERY)
    outputs = [engine.feed(row) for row in ROWS]
    assert found(*outputs) == [("back", 3)]  # certain as soon as time has passed 13
    assert found(*outputs, engine.close()) == EXPECTED


def test_several_dicts_a_batch_a_table_and_a_file(tmp_path: Path) -> None:
    engine = Engine(QUERY)
    assert found(engine.feed(ROWS), engine.close()) == EXPECTED
    engine = Engine(QUERY)
    assert found(engine.feed(pa.RecordBatch.from_pylist(ROWS)), engine.close()) == EXPECTED
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "doors.parquet")
    assert found(*Engine(QUERY).run({"Door": tmp_path / "doors.parquet"})) == EXPECTED
    assert found(*Engine(QUERY).run({"Door": str(tmp_path)})) == EXPECTED


def test_dicts_that_do_not_fit_are_rejected_one_by_one() -> None:
    wrong = [{"door": "front", "open": "yes", "ts": 0}, {"door": "\ud800", "open": True, "ts": 1.9}, "front"]
    engine = Engine(QUERY)
    output = engine.feed([*wrong, *ROWS])
    assert found(output, engine.close()) == EXPECTED
    assert output.events == len(ROWS)
    assert output.rejected["Door"].to_pylist() == [
        {
            "_reason": "open: 'yes' is no boolean",
            "_row": '{"door": "front", "open": "yes", "ts": 0}',
            "_place": "rows of Door, row 1",
        },
        {
            "_reason": r"door: '\ud800' is no string; ts: 1.9 is no int",
            "_row": r'{"door": "\ud800", "open": true, "ts": 1.9}',
            "_place": "rows of Door, row 2",
        },
        {"_reason": "the row is no object", "_row": '"front"', "_place": "rows of Door, row 3"},
    ]


def test_what_are_no_rows_at_all_is_refused() -> None:
    for nothing in ("front", b"front", 7, None):
        with pytest.raises(InputError, match=r"rows of Door: the rows do not fit stream Door: .* is none"):
            Engine(QUERY).feed(nothing)  # type: ignore[arg-type]


def test_a_missing_attribute_of_a_dict_is_null() -> None:
    output = Engine(QUERY).feed({"door": "front", "open": True})
    assert output.rejected["Door"].column("_reason").to_pylist() == ["ts is null"]
