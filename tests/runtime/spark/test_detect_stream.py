"""Streaming on Spark: what comes out, over a restart. That it is what the oracle gives is in `tests/conformance`."""

from __future__ import annotations

import datetime
import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from runtime.comparison import tables
from runtime.spark.streaming_without_spark import (
    far_away,
)
from situ.core.functions import Functions
from situ.graph.operators import OperatorGraph
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.spark.detect import Detection, detect
from situ.runtime.spark.follow.progress import micro_batch
from situ.service.figures import MicroBatch
from strategies import Rows

pytestmark = pytest.mark.slow

#: Far above what anything here takes: a test that waits so long has failed.
DEADLINE_S = 300.0


@dataclass
class Files:
    """Directories from which Spark reads streams. The n-th micro-batch reads the n-th file of each."""

    root: Path
    graph: OperatorGraph
    written: int = 0

    def write(self, rows: Rows) -> None:
        """One file more for every stream; each appears as a whole, and is younger than those before it."""
        self.written += 1
        for name, table in tables(self.graph, rows).items():
            (self.root / name).mkdir(parents=True, exist_ok=True)
            path = self.root / f"{name}.{self.written}"
            pq.write_table(table, path)
            os.utime(path, (1_700_000_000 + self.written,) * 2)
            path.rename(self.root / name / f"{self.written:04}.parquet")

    def stream(self, spark: SparkSession) -> dict[str, DataFrame]:
        schemas = {name: from_arrow_schema(table.schema) for name, table in tables(self.graph, {}).items()}
        reader = spark.readStream.option("maxFilesPerTrigger", 1)
        return {name: reader.schema(schema).parquet(str(self.root / name)) for name, schema in schemas.items()}

    def table(self, spark: SparkSession) -> dict[str, DataFrame]:
        return {stream.name: spark.read.parquet(str(self.root / stream.name)) for stream in self.graph.streams}


def written(spark: SparkSession, path: Path) -> pa.Table:
    return spark.read.parquet(str(path / "out")).toArrow()


def start(events: DataFrame, path: Path, **trigger: Any) -> Any:
    """A streaming query that writes below a path."""
    writer = events.writeStream.format("parquet").option("path", str(path / "out"))
    writer = writer.option("checkpointLocation", str(path / "checkpoint"))
    return (writer.trigger(**trigger) if trigger else writer).start()


def run_to_the_end(events: DataFrame, path: Path) -> Any:
    """All files that are there, one by one, and no more."""
    query = start(events, path, availableNow=True)
    try:
        assert query.awaitTermination(DEADLINE_S), "Spark did not come to the end of what was available"
    finally:
        query.stop()
    return query


# --- everything that comes out, over a restart

QUERY = """
stream Reading(sensor int, value double, ts timestamp) time ts watermark 5 s

subscribe Rise
  detect   Reading(value > 0) as a then Reading(value > 0 and value > a.value + 5) as b within 10 s
  assign   sensor = a.sensor, by = b.value - a.value
  group by sensor
  report timed out

define Hot(sensor)
  detect   Reading(value > 100) as a then not Reading(value > 200) within 10 s
  assign   sensor = a.sensor
  group by sensor

subscribe Spread
  detect   Hot as a then Hot(sensor != a.sensor) as b within 60 s
  assign   one = a.sensor, other = b.sensor

subscribe Odd
  detect   Reading(value < 0 and log(value + 1.5) < 0) as r
  assign   sensor = r.sensor
"""
#: The workers of a streaming query have no module of ours, but they have Python's own.
FUNCTIONS = Functions()
FUNCTIONS.register(math.log, returns="double", name="log")


def reading(sensor: int, value: float, second: float | None) -> dict[str, Any]:
    begin = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
    return {
        "sensor": sensor,
        "value": value,
        "ts": None if second is None else begin + datetime.timedelta(seconds=second),
    }


#: One list for each micro-batch.
READINGS = [
    [reading(1, 1.0, 0), reading(1, 2.0, 1), reading(2, 101.0, 2), reading(1, 3.0, None)],
    [reading(1, 9.0, 4), reading(3, 150.0, 3), reading(4, -1.0, 8), reading(4, -2.0, 9), reading(2, 60.0, 20)],
    [reading(1, 9.5, 14), reading(3, 8.0, 16), reading(1, 3.0, 17)],  # 15 is the limit: the first one is late
    [reading(1, -2.0, 40)],
    [reading(5, 1.0, 30), reading(5, 2.0, 34.5), reading(5, 0.0, 10), reading(5, 3.0, 35)],  # 0 is read by no rule
    [reading(6, 1.0, 100)],
]
RESTART = 3


@dataclass
class Recorded:
    """A run of QUERY: rows of the tagged table, and the figures of each micro-batch with rows."""

    detection: Detection
    files: Files
    table: pa.Table
    batches: list[MicroBatch]

    def rows(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.table.to_pylist() if row["_kind"] == kind]


@pytest.fixture(scope="module")
def recorded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    path = tmp_path_factory.mktemp("stream")
    files = Files(path / "in", resolve(parse(QUERY), FUNCTIONS))
    files.write({"Reading": READINGS[0]})
    batches: list[MicroBatch] = []
    for begin, end in ((0, RESTART), (RESTART, len(READINGS))):
        detection = detect(QUERY, files.stream(spark), FUNCTIONS, show_definitions=True, shards=2)
        query = start(detection.events, path)
        try:
            for number in range(begin, end):
                if number > 0:
                    files.write({"Reading": READINGS[number]})
                query.processAllAvailable()
            batches += micro_batches_of(query)
        finally:
            query.stop()
    return Recorded(detection, files, written(spark, path), batches)


def micro_batches_of(query: Any) -> list[MicroBatch]:
    """What the progress says of micro-batches with rows."""
    told = [micro_batch(progress) for progress in query.recentProgress]
    return [batch for batch in told if batch is not None and batch.input]


def second_of(time: datetime.datetime) -> float:
    return (time - reading(0, 0.0, 0)["ts"]).total_seconds()


def shown(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return sorted((row["_name"], *(row[name] for name in names), second_of(row["_time"])) for row in rows)


@pytest.mark.connect
def test_complex_events_and_what_timed_out(recorded: Recorded) -> None:
    events = recorded.rows("complex event")
    assert shown([row for row in events if row["_name"] == "Rise"], "sensor", "by") == [
        ("Rise", 1, 7.0, 4.0),
        ("Rise", 1, 8.0, 4.0),
    ]
    assert shown([row for row in events if row["_name"] == "Spread"], "one", "other") == [("Spread", 2, 3, 13.0)]
    others = [row for row in events if row["_name"] in ("Hot", "Odd")]
    assert shown(others, "sensor") == [("Hot", 2, 12.0), ("Hot", 3, 13.0), ("Odd", 4, 8.0)]
    assert len(events) == 6
    assert shown(recorded.rows("timed out"), "sensor") == [
        *(("Rise", 1, 14.0), ("Rise", 1, 27.0), ("Rise", 2, 12.0), ("Rise", 2, 30.0)),
        *(("Rise", 3, 13.0), ("Rise", 3, 26.0), ("Rise", 5, 45.0)),
    ]


@pytest.mark.connect
def test_late_rows_have_their_lateness(recorded: Recorded) -> None:
    rows = sorted(recorded.rows("late"), key=lambda row: row["_time"])
    assert [(row["_lateness"].total_seconds(), second_of(row["_time"])) for row in rows] == [
        *((1.0, 14.0), (5.0, 30.0), (0.5, 34.5)),
    ]
    assert [json.loads(row["_row"])["value"] for row in rows] == [9.5, 1.0, 2.0]
    assert {row["_name"] for row in rows} == {"Reading"}


@pytest.mark.connect
def test_rejected_rows_have_their_reason(recorded: Recorded) -> None:
    (row,) = recorded.rows("rejected")
    assert (row["_name"], row["_reason"]) == ("Reading", "ts is null")
    assert json.loads(row["_row"]) == {"sensor": 1, "value": 3, "ts": None}


@pytest.mark.connect
def test_failed_calls_are_counted(recorded: Recorded) -> None:
    rows = recorded.rows("failed call")
    assert {row["_name"] for row in rows} == {"log"}
    assert sum(row["_calls"] for row in rows) == 2
    assert sum(batch.failed_calls for batch in recorded.batches) == 2


@pytest.mark.connect
def test_figures_of_every_micro_batch(recorded: Recorded) -> None:
    """Micro-batch by micro-batch: a restart repeats none, and none is counted twice."""
    batches = recorded.batches
    assert [batch.number for batch in batches] == [*range(len(READINGS))]
    assert [batch.input for batch in batches] == [len(rows) for rows in READINGS]
    assert [batch.rejected for batch in batches] == [1, 0, 0, 0, 0, 0]
    assert [batch.late for batch in batches] == [0, 0, 1, 0, 2, 0]
    assert [batch.complex_events for batch in batches] == [0, 6, 0, 0, 0, 0]
    assert [batch.timed_out for batch in batches] == [0, 3, 0, 3, 0, 1]
    begin = reading(0, 0.0, 0)["ts"].timestamp()
    assert [batch.watermark and batch.watermark - begin for batch in batches] == [-3, 15, 15, 35, 35, 95]
    assert all(0 < (batch.largest_shard_bytes or 0) <= batch.state_bytes for batch in batches)


# --- single outputs, streams that are idle, rules that change


@pytest.mark.storm
def test_each_output_is_a_streaming_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    """Each of them is a streaming query of its own; here they come to an end."""
    files = Files(tmp_path / "in", resolve(parse(QUERY), FUNCTIONS))
    for readings in READINGS[:3]:
        files.write({"Reading": readings})
    detection = detect(QUERY, files.stream(spark), FUNCTIONS, shards=2)
    run_to_the_end(detection.late, tmp_path / "late")
    run_to_the_end(detection.rejected, tmp_path / "rejected")
    late, rejected = written(spark, tmp_path / "late"), written(spark, tmp_path / "rejected")
    assert late.column_names == ["_stream", "_time", "_lateness", "_row"]
    assert late["_stream"].to_pylist() == ["Reading"]
    assert rejected.column_names == ["_stream", "_reason", "_row", "_place"]
    assert rejected["_reason"].to_pylist() == ["ts is null"]


IDLE = """
stream A(k int, v int, n int, ts int) time ts in s
stream B(k int, v int, n int, ts int) time ts in s idle after 1 s
define D(k, v) detect A as a then A(v > a.v) as b within 5 s assign k = b.v, v = a.v group by k
subscribe M detect D as a then D as b within 5 s assign k = a.v, v = b.v
subscribe N detect B(v > 0)
"""


def wait_until(query: Any, reached: Callable[[], bool]) -> None:
    """Until a streaming query has come so far; an error if it ends or takes too long."""
    deadline = time.monotonic() + DEADLINE_S
    while not reached():
        assert time.monotonic() < deadline, "the streaming query did not come so far"
        assert not query.awaitTermination(1), query.exception()


@pytest.mark.connect
@pytest.mark.storm
def test_an_idle_stream_stops_holding_others_back(spark: SparkSession, tmp_path: Path) -> None:
    """Wall time lets time pass without rows: B is silent, and after a second D and M are found all the same."""
    files = Files(tmp_path / "in", resolve(parse(IDLE)))
    files.write({"A": [{"k": 1, "v": v, "n": v, "ts": v} for v in range(4)]})
    detection = detect(IDLE, files.stream(spark), show_definitions=True, shards=2)
    query = start(detection.events, tmp_path)
    told: dict[int, MicroBatch] = {}

    def total(name: str) -> int:
        """Spark forgets old micro-batches, and runs many without rows."""
        told.update({batch.number: batch for p in query.recentProgress if (batch := micro_batch(p)) is not None})
        return sum(getattr(batch, name) for batch in told.values())

    try:
        wait_until(query, lambda: total("complex_events") >= 3)  # D of (0, 1) and (1, 2), and M
        files.write({"B": [{"k": 1, "v": 1, "n": 1, "ts": 2}, {"k": 1, "v": 2, "n": 2, "ts": 3}]})
        wait_until(query, lambda: total("input") == 6)
    finally:
        query.stop()
    rows = written(spark, tmp_path).to_pylist()
    assert [(row["_name"], json.loads(row["_row"])["ts"]) for row in rows if row["_kind"] == "late"] == [("B", 2)]
    assert sorted(row["_name"] for row in rows if row["_kind"] == "complex event") == ["D", "D", "M"]


@pytest.mark.storm
def test_available_now_ends_with_streams_that_may_be_idle(spark: SparkSession, tmp_path: Path) -> None:
    """For the sake of wall time, Spark would run one empty micro-batch after another."""
    files = Files(tmp_path / "in", resolve(parse(IDLE)))
    files.write({"A": [{"k": 1, "v": v, "n": v, "ts": v} for v in range(4)]})
    files.write(far_away(files.graph))
    setting = "spark.sql.streaming.noDataMicroBatches.enabled"
    spark.conf.set(setting, "false")
    try:
        run_to_the_end(detect(IDLE, files.stream(spark), shards=2)["M"], tmp_path)
    finally:
        spark.conf.unset(setting)
    assert written(spark, tmp_path).select(["k", "v"]).to_pylist() == [{"k": 0, "v": 1}, {"k": 1, "v": 2}]


CHANGES = """
stream A(k int, v int, n int, ts int) time ts in s
subscribe M detect A as a then A(v > a.v) as b within 50 s assign a = a.v, b = b.v group by k
"""


@pytest.mark.connect
@pytest.mark.storm
def test_rules_change_at_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    """A rule that stays goes on; one that is new reads what comes; what does not fit is refused, and says so."""
    files = Files(tmp_path / "in", resolve(parse(CHANGES)))
    files.write({"A": [{"k": 1, "v": 1, "n": 1, "ts": 1}]})
    run_to_the_end(detect(CHANGES, files.stream(spark), shards=2, levels=2).events, tmp_path)
    files.write({"A": [{"k": 1, "v": 5, "n": 2, "ts": 5}, {"k": 1, "v": 6, "n": 3, "ts": 6}]})
    other = CHANGES.replace("v > a.v", "v = a.v")
    query = start(detect(other, files.stream(spark), shards=2, levels=2).events, tmp_path, availableNow=True)
    with pytest.raises(Exception, match="the snapshot's state of M is of another program"):
        query.awaitTermination(DEADLINE_S)
    (kept,) = (line for line in CHANGES.splitlines() if line.startswith("subscribe"))
    new = "\n".join([CHANGES, kept.replace("M", "N"), "define D(k) detect A(v > 0) assign k = A.k", ""])
    new += "subscribe O detect D as a then D as b within 50 s assign k = a.k"
    files.write(far_away(files.graph))
    run_to_the_end(detect(new, files.stream(spark), shards=2, levels=2).events, tmp_path)
    rows = spark.read.option("mergeSchema", True).parquet(str(tmp_path / "out")).toArrow().to_pylist()
    found = sorted((row["_name"], row["a"], row["b"]) for row in rows)
    assert found == [("M", 1, 5), ("M", 5, 6), ("N", 5, 6), ("O", None, None)]
