"""DataFrames that are files and nothing else are read by situ itself, where Arrow certainly finds Spark's rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import situ
from runtime.spark.input_comparison import stream_of
from situ.runtime.spark.inputs.own_files import SETTING
from situ.runtime.spark.inputs.plain_files import plain_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENT = stream_of("Event(id int, key string, value double, ts timestamp) time ts")
QUERY = """
stream Event(id int, key string, value double, ts timestamp) time ts  unique id
subscribe Rise
  detect   Event(value < 5) as a then Event(value > a.value + 5) as b within 10 s
  assign   key = a.key, a = a.id, b = b.id
  group by key
subscribe Quiet
  detect   Event(value < 3) as a then Event(value > 8) as b within 10 s
  assign   key = a.key
  group by key
  after match skip past last
"""


def table_of(rng: random.Random, rows: int, without_time: float = 0.0) -> pa.Table:
    """About in order of time; some rows come twice, and some may have no time."""
    seconds = [rng.gauss(n / 5, 3) for n in range(rows)]
    columns = {
        "id": pa.array([n if n % 9 else max(n - 1, 0) for n in range(rows)], pa.int32()),
        "key": pa.array([rng.choice(["a", "b", None, "d"]) for _ in range(rows)]),
        "value": pa.array([rng.choice([0.0, 3.0, None, 7.0, 9.0, float("nan")]) for _ in range(rows)]),
        "ts": pa.array(
            [None if rng.random() < without_time else datetime.fromtimestamp(1e6 + s, UTC) for s in seconds],
            pa.timestamp("us", "UTC"),
        ),
    }
    whole = pa.table(columns)
    return pa.concat_tables([whole, whole.take([rng.randrange(rows) for _ in range(rows // 10)])])


def written(directory: Path, table: pa.Table, files: int = 3) -> Path:
    directory.mkdir()
    for number in range(files):
        begin, end = (len(table) * n // files for n in (number, number + 1))
        pq.write_table(table.slice(begin, end - begin), directory / f"part {number}.parquet", row_group_size=100)
    return directory


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name) if before is None else spark.conf.set(name, before)


#: DataFrames whose rows are certainly those of the files.
TAKEN: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "files": lambda spark, path: spark.read.parquet(path),
    "a pattern": lambda spark, path: spark.read.parquet(f"{path}/part*"),
    "an alias": lambda spark, path: spark.read.parquet(path).alias("e"),
    "columns": lambda spark, path: spark.read.parquet(path).select("ts", "value", "key", "id"),
    "an option": lambda spark, path: spark.read.option("recursiveFileLookup", True).parquet(path),
}
#: Others, which Spark reads.
LEFT: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "a filter": lambda spark, path: spark.read.parquet(path).filter("id > 3"),
    "a computed column": lambda spark, path: spark.read.parquet(path).selectExpr("id + 1 as id", "key", "value", "ts"),
    "a renamed column": lambda spark, path: spark.read.parquet(path).selectExpr(
        "id", "key", "value", "ts as then", "ts"
    ),
    "a limit": lambda spark, path: spark.read.parquet(path).limit(3),
    "a union": lambda spark, path: spark.read.parquet(path).union(spark.read.parquet(path)),
    "the same files twice": lambda spark, path: spark.read.parquet(path, path),
    "a wider type": lambda spark, path: spark.read.schema("id long, key string, value double, ts timestamp").parquet(
        path
    ),
    "another calendar": lambda spark, path: spark.read.option("datetimeRebaseMode", "LEGACY").parquet(path),
    "no files": lambda spark, path: spark.range(3).selectExpr("id", "'a' key", "1d value", "timestamp_micros(id) ts"),
}


def test_rows_of_files_and_nothing_else_are_taken(spark: SparkSession, tmp_path: Path) -> None:
    path = written(tmp_path / "in", table_of(random.Random(1), 300))
    (path / "part 9.parquet").touch()  # Spark leaves out what has no bytes
    for case, dataframe in TAKEN.items():
        opened = plain_files(dataframe(spark, str(path)), EVENT)
        assert opened is not None, case
        assert opened.rows == 330, case
    for case, dataframe in LEFT.items():
        assert plain_files(dataframe(spark, str(path)), EVENT) is None, case


def test_what_is_cached_is_not_read_again(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.read.parquet(str(written(tmp_path / "in", table_of(random.Random(1), 100))))
    assert plain_files(df, EVENT) is not None
    df.cache()
    try:
        assert plain_files(df, EVENT) is None
        assert plain_files(df.select("id", "key", "value", "ts"), EVENT) is None
    finally:
        df.unpersist()


def test_partitions_by_directory_are_columns_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    written(tmp_path / "in" / "key=a", table_of(random.Random(1), 100).drop_columns("key"))
    assert plain_files(spark.read.parquet(str(tmp_path / "in")), EVENT) is None


def test_settings_by_which_spark_reads_otherwise(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.read.parquet(str(written(tmp_path / "in", table_of(random.Random(1), 100))))
    others = {
        SETTING: "spark",
        "spark.sql.files.ignoreCorruptFiles": "true",
        "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    }
    for name, value in others.items():
        with setting(spark, name, value):
            assert plain_files(df, EVENT) is None, name


@pytest.mark.parametrize(
    ("column", "options"),
    [
        (pa.array([1, 2], pa.timestamp("us")), {}),  # without a zone: the session's
        (pa.array([1, 2], pa.timestamp("us", "UTC")), {"use_deprecated_int96_timestamps": True}),
        (pa.array([1, 2], pa.date32()), {}),
    ],
)
def test_times_that_arrow_reads_otherwise(
    spark: SparkSession, tmp_path: Path, column: pa.Array, options: dict[str, Any]
) -> None:
    table = table_of(random.Random(1), 20).slice(0, 2)
    pq.write_table(table.set_column(3, "ts", column), tmp_path / "in.parquet", **options)
    assert plain_files(spark.read.parquet(str(tmp_path / "in.parquet")), EVENT) is None


def test_files_that_differ(spark: SparkSession, tmp_path: Path) -> None:
    """A column that one of the files lacks is null for Spark; a Spark before 3.0 wrote other times of old days; and
    capitals count for Arrow."""
    table = table_of(random.Random(1), 20)
    lacking = written(tmp_path / "lacking", table)
    pq.write_table(table.drop_columns("value"), lacking / "z.parquet")
    old = written(tmp_path / "old", table.replace_schema_metadata({"org.apache.spark.version": "2.4.8"}))
    capitals = written(tmp_path / "capitals", table.rename_columns(["id", "Key", "value", "ts"]))
    for path in (lacking, old, capitals):
        assert plain_files(spark.read.parquet(str(path)), EVENT) is None, path.name


@pytest.mark.parametrize("seed", range(3))
def test_answers_are_those_of_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Rejected rows and rows that came twice among them; a rejected row says where it stood, if situ has read it."""
    monkeypatch.setattr("situ.runtime.spark.plan.time_slices.ROWS_OF_ONE_TASK", 100)
    rng = random.Random(seed)
    path = written(tmp_path / "in", table_of(rng, 2000, 0.02 if seed else 0.0), files=rng.randint(1, 6))
    answers = {}
    for way in ("slices", "packets", "spark"):
        with setting(spark, SETTING, way):
            detection = situ.detect(QUERY, spark.read.parquet(str(path)))
            assert str(detection).startswith("files of Event") == (way != "spark")
            rows = detection.events.drop("_place").collect()
            answers[way] = Counter(repr(sorted(row.asDict().items())) for row in rows)
    assert answers["slices"] == answers["packets"] == answers["spark"]
    assert answers["spark"].total() > 200
