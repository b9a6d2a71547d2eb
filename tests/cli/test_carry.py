"""From the tagged table to the tables in it: what a task does, without Spark."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from situ.cli import carry
from situ.cli.carry import AllRows, CountAndFirst
from situ.core.functions import default
from situ.kernel.operator import contexts_of
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.spark.sinks.result_tables import Tables, bytes_to_table
from situ.runtime.spark.stages.output import TaggedOutput

GRAPH = resolve(
    parse("""
    stream Car(name string, speed double, lane int, x double, y double, ts timestamp) time ts at (x, y)
    stream Note(text string, ts timestamp) time ts
    subscribe Fast
      detect Car(speed > 30) as a
      assign name = a.name, speed = a.speed, nothing = null
    subscribe Noted
      detect Note as n then Note as m within 1 s
      assign name = length(n.text), waited = m.ts - n.ts
    """)
)
OUTPUT = TaggedOutput.of(contexts_of(GRAPH, default, provenance=False), show_definitions=False)
TABLES = Tables(OUTPUT)


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def tagged(*rows: dict[str, Any]) -> pa.RecordBatch:
    """Rows as `detection.events` has them; what is not said is null."""
    fields = {**OUTPUT.fields, "_calls": pa.int64(), **dict.fromkeys(("_reason", "_row", "_place"), pa.string())}
    tags = dict.fromkeys(("_kind", "_name"), pa.string())  # `detection.events` spells them
    return pa.RecordBatch.from_pylist(list(rows), schema=pa.schema(list((fields | tags).items())))


def fast(second: int, name: str, speed: float = 31.0) -> dict[str, Any]:
    place = {"_x_min": 1.0, "_y_min": 2.0, "_x_max": 1.0, "_y_max": 2.0}
    return {"_kind": "complex event", "_name": "Fast", "_time": at(second), "name": name, "speed": speed, **place}


REJECTED = {"_kind": "rejected", "_name": "Car", "_reason": "ts is null", "_row": "{}", "_place": "cars.csv, row 1"}
FAILED = {"_kind": "failed call", "_name": "Face", "_calls": 3}


def carried(batches: Iterator[pa.RecordBatch]) -> list[tuple[str, str, int, list[dict[str, Any]] | None]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [
        (r["kind"], r["name"], r["rows"], None if r["packed"] is None else bytes_to_table(r["packed"]).to_pylist())
        for r in rows
    ]


def test_each_subscription_has_its_own_columns_and_types() -> None:
    shared, own = (OUTPUT.columns[operator, "name"][0] for operator in ("Fast", "Noted"))
    assert shared != own  # one name, two types
    noted = {"_kind": "complex event", "_name": "Noted", "_time": at(2), own: 4}
    found = {name: table for _, name, table in TABLES.split(tagged(fast(1, "a"), noted, fast(2, "b")))}
    assert found["Fast"].schema == TABLES.empty("complex event", "Fast").schema
    assert found["Fast"].column_names == ["name", "speed", "nothing", "_time", "_x_min", "_y_min", "_x_max", "_y_max"]
    assert pa.types.is_null(found["Fast"].schema.field("nothing").type)
    assert found["Fast"].column("name").to_pylist() == ["a", "b"]
    assert found["Noted"].column_names == ["name", "waited", "_time"]
    assert found["Noted"].column("name").to_pylist() == [4]
    assert pa.types.is_duration(found["Noted"].schema.field("waited").type)


def test_a_task_counts_its_rows_and_gives_the_first() -> None:
    timed_out = fast(9, "late") | {"_kind": "timed out"}
    batches = [tagged(fast(3, "c"), FAILED, REJECTED, fast(1, "b")), tagged(fast(1, "a"), FAILED, timed_out)]
    found = {
        (kind, name): (rows, first) for kind, name, rows, first in carried(CountAndFirst(TABLES, 2)(iter(batches)))
    }
    count, first = found.pop(("complex event", "Fast"))
    assert (count, [row["name"] for row in first or []]) == (3, ["a", "b"])
    assert found == {
        ("failed call", "Face"): (6, None),
        ("rejected", "Car"): (1, None),
        ("timed out", "Fast"): (1, None),
    }


def test_without_a_limit_no_rows_travel() -> None:
    assert carried(CountAndFirst(TABLES, 0)(iter([tagged(fast(1, "a"))]))) == [("complex event", "Fast", 1, None)]


def test_all_rows_travel_in_packs_ordered_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry, "ROWS_PER_PACK", 3)
    batches = [tagged(fast(4, "d"), fast(2, "b")), tagged(REJECTED, FAILED, fast(1, "a")), tagged(fast(5, "e"))]
    found = carried(AllRows(TABLES)(iter(batches)))
    assert [(kind, name, rows) for kind, name, rows, _ in found] == [
        ("complex event", "Fast", 3),
        ("rejected", "Car", 1),
        ("complex event", "Fast", 1),
    ]
    assert [row["name"] for row in found[0][3] or []] == ["a", "b", "d"]
    assert found[1][3] == [{"_reason": "ts is null", "_row": "{}", "_place": "cars.csv, row 1"}]


def test_a_task_without_rows_gives_none() -> None:
    assert carried(CountAndFirst(TABLES, 2)(iter([]))) == carried(AllRows(TABLES)(iter([tagged()]))) == []
