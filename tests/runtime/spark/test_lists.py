"""Lists (`collect`) in everything that holds results: files, messages, PostgreSQL."""

from __future__ import annotations

import csv
import json
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.command import situ
from runtime.spark.without_spark import detect_without_spark, output_without_spark
from servers.postgresql import Postgresql, postgresql
from situ.lang.parse import parse
from situ.lang.resolve import resolve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["postgresql"]  # the fixture

QUERY = """
stream A(i int, d double, s string, b boolean, p decimal(6, 2), raw binary, ts timestamp) time ts
stream B(ts timestamp) time ts
subscribe Lists
  detect   A* as a then B as z within 1 min
  assign   n = count(a), i = collect(a.i), d = collect(a.d), s = collect(a.s), b = collect(a.b), p = collect(a.p),
           raw = collect(a.raw), times = collect(time(a)), after = collect(time(a) - a.ts)
  after match skip past last
"""
ROWS = [
    {"i": 1, "d": 1.5, "s": 'a"\n,', "b": True, "p": Decimal("1.10"), "raw": b"\0x"},
    {"i": None, "d": None, "s": None, "b": None, "p": None, "raw": None},
    {"i": 2**60, "d": -2.0, "s": "é", "b": False, "p": Decimal("-3.00"), "raw": b""},
]
SCHEMA = pa.schema(
    {
        "i": pa.int64(),
        "d": pa.float64(),
        "s": pa.string(),
        "b": pa.bool_(),
        "p": pa.decimal128(6, 2),
        "raw": pa.binary(),
        "ts": pa.timestamp("us", "UTC"),
    }
)


def at(second: int) -> datetime:
    return datetime(2026, 3, 1, 10, 0, second, tzinfo=UTC)


def events() -> dict[str, pa.Table]:
    """A list of three elements, one of them null; and an empty one."""
    rows = [row | {"ts": at(second)} for second, row in enumerate(ROWS)]
    ends = pa.table({"ts": pa.array([at(3), at(50)], pa.timestamp("us", "UTC"))})
    return {"A": pa.Table.from_pylist(rows, SCHEMA), "B": ends}


#: As JSON says it; the same in files and messages.
TIMES = [f"2026-03-01T10:00:0{second}.000000Z" for second in range(3)]
IN_JSON: list[dict[str, Any]] = [
    {
        "n": 3,
        "i": [1, None, 2**60],
        "d": [1.5, None, -2],
        "s": ['a"\n,', None, "é"],
        "b": [True, None, False],
        "p": [1.1, None, -3],
        "raw": ["AHg=", None, ""],
        "times": TIMES,
        "after": [0, 0, 0],
    },
    {name: 0 if name == "n" else [] for name in ("n", "i", "d", "s", "b", "p", "raw", "times", "after")},
]


def own(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith("_")}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    (tmp_path / "lists.situ").write_text(QUERY)
    for name, table in events().items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    return tmp_path


def results(folder: Path, format_: str) -> list[Path]:
    """The files of a run in their order."""
    sources = [part for name in "AB" for part in ("--source", f"{name}={folder / f'{name}.parquet'}")]
    out = folder / format_
    command = "run", folder / "lists.situ", *sources, "--engine", "embedded", "--out", out, "--format", format_
    code, _, error = situ(*command)
    assert code == 0, error
    return sorted((out / "Lists").iterdir())


def test_parquet_has_lists(written: Path) -> None:
    found = pa.concat_tables([pq.read_table(part) for part in results(written, "parquet")])
    assert found.schema.field("p").type.value_type == pa.decimal128(6, 2)
    whole, empty = found.to_pylist()
    assert own(whole) == {
        **{name: [row[name] for row in ROWS] for name in ("i", "d", "s", "b", "p", "raw")},
        "n": 3,
        "times": [at(second) for second in range(3)],
        "after": [timedelta(0)] * 3,
    }
    assert own(empty) == IN_JSON[1]


def test_json_lines_have_arrays_of_what_values_are_by_themselves(written: Path) -> None:
    text = "".join(part.read_text() for part in results(written, "json"))
    assert [own(json.loads(line)) for line in text.splitlines()] == IN_JSON
    assert '"p": [1.10, null, -3.00]' in text


def test_csv_has_json_text(written: Path) -> None:
    parts = [csv.DictReader(part.read_text().splitlines(keepends=True)) for part in results(written, "csv")]
    rows = [own(row) for part in parts for row in part]
    assert [{name: json.loads(text) for name, text in row.items()} for row in rows] == IN_JSON


def test_messages_have_arrays() -> None:
    """What goes to Kafka and MQTT, up to the broker."""
    from situ.runtime.spark.sinks.message_sinks import ResultWriter
    from situ.runtime.spark.sinks.result_tables import Tables

    graph = resolve(parse(QUERY))
    tagged = detect_without_spark(graph, events(), random.Random(1))
    writer = ResultWriter(Tables(output_without_spark(graph)))
    texts = [text for batch in writer.texts(iter(tagged.to_batches())) for text in batch.column("text").to_pylist()]
    assert sorted((own(json.loads(text)) for text in texts), key=lambda row: -row["n"]) == IN_JSON


@pytest.mark.slow
def test_postgresql_has_jsonb(postgresql: Postgresql, spark: SparkSession) -> None:
    from situ.runtime.spark.sinks.stream_sinks import open_sink

    graph = resolve(parse(QUERY))
    output = output_without_spark(graph)
    tagged = detect_without_spark(graph, events(), random.Random(1))
    sink = open_sink(postgresql.address(), "parquet", output, "q1")
    for _ in range(2):  # a batch that comes again
        sink.write(spark.createDataFrame(tagged), 0)
    found = postgresql.rows('SELECT n, i, d, s, b, p, raw, times FROM "Lists" ORDER BY n DESC')
    names = ("n", "i", "d", "s", "b", "p", "raw")
    assert [dict(zip(names, row, strict=False)) for row in found] == [{n: row[n] for n in names} for row in IN_JSON]
    assert [datetime.fromisoformat(text) for text in found[0][7]] == [at(second) for second in range(3)]
    column = 'SELECT pg_typeof(i)::text, pg_typeof(times)::text FROM "Lists" LIMIT 1'
    assert postgresql.rows(column) == [("jsonb", "jsonb")]
