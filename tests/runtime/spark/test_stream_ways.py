"""Streams of files that are packed where they are read give what they give through Catalyst: late, rejected and
repeated rows among them, and counts of matches that nobody makes."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import situ
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.spark.detect import detect_rows
from situ.runtime.spark.inputs.own_files import SETTING
from situ.runtime.spark.inputs.stream_files import files_to_rows
from situ.runtime.spark.inputs.tables import dataframe_to_rows
from situ.runtime.spark.session.tallies import SETTING as TALLIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = """
stream E(id int, key int, kind int, v int, ts int) time ts in s  unique id  watermark 5 s
define M(key, v)
  detect   E(kind = 0) as a then each E(kind = 1) as b then each E(kind = 2) as c within 20 s
  assign   key = a.key, v = a.v
  group by key
subscribe Counted
  aggr every 30 s
  detect   M
  assign   key = group.key, n = count(M), s = sum(M.v), low = min(M.v)
  group by key
subscribe Next
  detect   E(kind = 0) as a then E(kind = 1 and v > a.v) as b within 20 s
  assign   key = a.key, a = a.id, b = b.id
  group by key
"""
FILES, ROWS = 3, 400


def tables(rng: random.Random) -> list[pa.Table]:
    """Rows about in order of time: some come twice, some without a time, and from the second file on some far too
    late."""
    made = []
    for number in range(FILES):
        rows: list[dict[str, Any]] = []
        for at in range(ROWS):
            ts: int | None = number * ROWS // 4 + at // 4 + rng.randrange(3)
            ts = None if rng.random() < 0.02 else 3 if number and rng.random() < 0.02 else ts
            kind, key, v = rng.randrange(4), rng.randrange(3), rng.choice([None, rng.randrange(10)])
            rows.append({"id": number * ROWS + at, "key": key, "kind": kind, "v": v, "ts": ts})
            if rng.random() < 0.05:
                rows.append(rows[-1])
        made.append(pa.Table.from_pylist(rows, pa.schema([(n, pa.int64()) for n in ("id", "key", "kind", "v", "ts")])))
    last = {"id": -1, "key": 0, "kind": 9, "v": 0, "ts": 10_000}
    return [*made, pa.Table.from_pylist([last], made[0].schema)]


def streamed(spark: SparkSession, files: Path, work: Path, way: str, tallies: bool) -> Counter[str]:
    """All rows of the tagged table but for where rejected ones stood."""
    graph = resolve(parse(QUERY))
    (stream,) = graph.streams
    spark.conf.set(SETTING, way)
    spark.conf.set(TALLIES, str(tallies).lower())
    try:
        rows = files_to_rows(spark, files, stream, work / "source", 1)  # a file in a micro-batch
        events = detect_rows(graph, {"E": rows}, shards=2).events.drop("_place")
        writer = events.writeStream.format("parquet").option("path", str(work / "out"))
        query = writer.option("checkpointLocation", str(work / "ck")).trigger(availableNow=True).start()
        assert query.awaitTermination(300)
    finally:
        spark.conf.unset(SETTING)
        spark.conf.unset(TALLIES)
    return Counter(repr(row.asDict()) for row in spark.read.parquet(str(work / "out")).collect())


@pytest.mark.slow
def test_tables_are_tallied_as_files_are(spark: SparkSession, tmp_path: Path) -> None:
    """With and without tallies, as a DataFrame and as files that tasks read."""
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.concat_tables(tables(random.Random(5))), path)
    table, files = spark.read.parquet(str(path)), situ.read(spark, "parquet", path)
    answers = []
    for given, tallies in ((table, "true"), (files, "true"), (files, "false")):
        spark.conf.set(TALLIES, tallies)
        try:
            detection = situ.detect(QUERY, given)
            answers.append(Counter(repr(row.asDict()) for row in detection["Counted"].collect()))
        finally:
            spark.conf.unset(TALLIES)
        assert any(operator.rule.tallied for operator in detection.plan.plain.operators) == (tallies == "true")
    assert answers[0].total() > 10
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.storm
@pytest.mark.slow
def test_both_ways_give_the_same(spark: SparkSession, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    made = tables(random.Random(18))
    for number, table in enumerate(made):
        pq.write_table(table, files / f"{number}.parquet")
    packed = streamed(spark, files, tmp_path / "packed", "slices", tallies=True)
    assert packed == streamed(spark, files, tmp_path / "catalyst", "spark", tallies=False)
    kinds = ("'late'", "'rejected'", "'Counted'", "'Next'")
    assert all(sum(kind in row for row in packed) > 5 for kind in kinds), packed.most_common(5)


TWO_STREAMS = """
stream E(id int, ts int) time ts in s
stream F(id int, ts int) time ts in s
subscribe Both
  detect   E as e then F as f within 5 s
  assign   e = e.id, f = f.id
"""


@pytest.mark.slow
def test_java_code_is_compiled_once_and_not_for_each_micro_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Of files and of DataFrames: the time of a micro-batch, by which rows ahead are told, is no part of the code."""
    for number in range(2):
        for name in ("E", "F"):
            (tmp_path / name).mkdir(exist_ok=True)
            table = pa.table({"id": pa.array([number], pa.int32()), "ts": pa.array([number], pa.int32())})
            pq.write_table(table, tmp_path / name / f"{number}.parquet")
    graph = resolve(parse(TWO_STREAMS))
    one, other = graph.streams
    compiled = []
    for run in range(2):
        frames = spark.readStream.schema("id int, ts int").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "F"))
        rows = {
            "E": files_to_rows(spark, tmp_path / "E", one, tmp_path / f"source-{run}", 1),
            "F": dataframe_to_rows(frames, other),
        }
        writer = detect_rows(graph, rows, shards=1).events.writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(tmp_path / f"ck-{run}"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(300)
        assert len(query.recentProgress) >= 2
        compiled.append(spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME().getCount())
    assert compiled[1] == compiled[0]
