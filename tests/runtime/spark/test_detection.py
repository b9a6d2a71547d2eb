"""`situ.detect` in the hands of a Spark user: composing, types, functions, mistakes, and what it leaves behind."""

from __future__ import annotations

import datetime
import decimal
import importlib
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import situ
from situ.core.functions import Functions
from situ.runtime.embedded import Engine
from situ.runtime.spark.inputs.little import SETTING as ONE_TASK

pytestmark = [pytest.mark.slow, pytest.mark.connect]

QUERY = """
stream Reading(sensor int, value double, ts timestamp) time ts
subscribe Rise
  detect   Reading as a then Reading(value > a.value + 5) as b within 10 s
  assign   sensor = a.sensor, by = b.value - a.value
  group by sensor
subscribe High
  detect   Reading(value > 8) as r
  assign   sensor = r.sensor, value = r.value
"""


def at(second: float) -> datetime.datetime:
    return datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=second)


def readings(spark: SparkSession, *rows: tuple[int | None, float | None, float | None]):
    values = [(sensor, value, None if second is None else at(second)) for sensor, value, second in rows]
    return spark.createDataFrame(values, "sensor int, value double, ts timestamp")


def test_results_compose_with_the_users_own_code(spark: SparkSession, tmp_path: Path) -> None:
    detection = situ.detect(QUERY, {"Reading": readings(spark, (1, 2.0, 0), (1, 9.0, 4), (2, 8.5, 5))})
    names = spark.createDataFrame([(1, "hall"), (2, "roof")], "sensor bigint, room string")
    joined = detection["Rise"].join(names, "sensor").select("room", "by", "_time").collect()
    assert [(row.room, row.by) for row in joined] == [("hall", 7.0)]
    detection["High"].write.parquet(str(tmp_path / "high"))
    assert spark.read.parquet(str(tmp_path / "high")).groupBy("sensor").count().count() == 2
    assert detection["High"].columns == ["sensor", "value", "_time"]


def test_events_has_everything_under_tags(spark: SparkSession) -> None:
    detection = situ.detect(QUERY, {"Reading": readings(spark, (1, 2.0, 0), (1, 9.0, 4), (2, 1.0, None))})
    counted = detection.events.groupBy("_kind", "_name").count().collect()
    assert {(row["_kind"], row["_name"]): row["count"] for row in counted} == {
        ("complex event", "Rise"): 1,
        ("complex event", "High"): 1,
        ("rejected", "Reading"): 1,
    }
    assert detection.events.columns == [
        *("_kind", "_name", "_time", "sensor", "by", "value", "_calls", "_reason", "_row", "_place")
    ]


def test_attributes_of_one_name_and_different_types_have_columns_of_their_own(spark: SparkSession) -> None:
    query = """
        stream A(v int, ts timestamp) time ts
        subscribe P detect A as a assign v = a.v, V = a.v + 1
        subscribe Q detect A as a assign v = 'text'
    """
    detection = situ.detect(query, {"A": spark.createDataFrame([(1, at(0))], "v int, ts timestamp")})
    assert {"v", "P_V", "Q_v"} <= set(detection.events.columns)
    assert [tuple(row)[:2] for row in detection["P"].collect()] == [(1, 2)]
    assert [row[0] for row in detection["Q"].collect()] == ["text"]


def test_types_come_and_go_as_spark_has_them(spark: SparkSession) -> None:
    query = """
        stream A(i int, d double, m decimal(10, 2), s string, b binary, t boolean, x double from place.x, ts timestamp)
          time ts
        subscribe P
          detect   A(m > 1.50 and x < 3) as a
          assign   i = a.i, d = a.d, m = a.m + 1, s = a.s, b = a.b, t = a.t, x = a.x, ts = a.ts, since = a.ts - a.ts
    """
    schema = (
        "i smallint, d float, m decimal(10,2), s string, b binary, t boolean, place struct<x: double>, ts timestamp"
    )
    rows = [
        (7, 0.5, decimal.Decimal("2.25"), "ü", b"\x00", None, (1.5,), at(0)),
        (8, 0.5, None, None, None, None, None, at(1)),
    ]
    detection = situ.detect(query, {"A": spark.createDataFrame(rows, schema)})
    types = dict(detection["P"].dtypes)
    assert types["i"] == "bigint"
    assert types["m"].startswith("decimal(")
    assert types["since"] == "interval day to second"
    (row,) = detection["P"].collect()
    assert (row.i, row.d, row.m, row.s, bytes(row.b), row.t, row.x) == (
        7, 0.5, decimal.Decimal("3.25"), "ü", b"\x00", None, 1.5,
    )  # fmt: skip
    assert row.since == datetime.timedelta(0)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Los_Angeles"])
def test_times_are_instants_in_every_session_zone(spark: SparkSession, zone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        detection = situ.detect(QUERY, {"Reading": readings(spark, (1, 2.0, 0), (1, 9.0, 4))})
        (micros,) = detection["Rise"].select(F.unix_micros("_time")).collect()[0]
        assert micros == int(at(4).timestamp()) * 1_000_000
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_rejected_rows_have_the_reasons_of_the_embedded_engine(spark: SparkSession) -> None:
    table = pa.table({"sensor": [1, 2], "value": [1.0, 2.0], "ts": pa.array([0, None], pa.timestamp("us", tz="UTC"))})
    (output,) = Engine(QUERY).run({"Reading": table})
    want = output.rejected["Reading"].select(["_reason", "_row"]).to_pylist()
    detection = situ.detect(QUERY, {"Reading": spark.createDataFrame(table)})
    found = detection.rejected.select("_reason", "_row").toArrow().to_pylist()
    assert found == want == [{"_reason": "ts is null", "_row": '{"sensor": 2, "value": 2, "ts": null}'}]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("sensor int, ts timestamp", "there is no column 'value', which stream Reading declares"),
        (
            "sensor int, value string, ts timestamp",
            "column 'value' is string, but stream Reading declares it as double",
        ),
        ("sensor int, valeu double, ts timestamp", "Did you mean 'valeu'?"),
    ],
)
def test_wrong_columns_are_said_before_anything_runs(spark: SparkSession, columns: str, message: str) -> None:
    with pytest.raises(situ.InputError) as raised:
        situ.detect(QUERY, {"Reading": spark.createDataFrame([], columns)})
    assert message in str(raised.value)


def test_wrong_streams(spark: SparkSession) -> None:
    df = readings(spark)
    with pytest.raises(situ.InputError, match="no stream 'Readings' in the query"):
        situ.detect(QUERY, {"Readings": df})
    with pytest.raises(situ.InputError, match="no DataFrame for stream Reading"):
        situ.detect(QUERY, {})
    two = "stream Other(ts timestamp) time ts\n" + QUERY
    endless = spark.readStream.format("rate").load().select(F.col("timestamp").alias("ts"))
    with pytest.raises(situ.InputError, match="stream Reading ends, and that of Other is a stream that does not"):
        situ.detect(two, {"Reading": df, "Other": endless})
    with pytest.raises(KeyError, match="no subscription 'Rises'"):
        situ.detect(QUERY, {"Reading": df})["Rises"]


def test_empty_input_gives_empty_output(spark: SparkSession) -> None:
    detection = situ.detect(QUERY, {"Reading": readings(spark)})
    assert detection.events.count() == 0


FUNCTIONS = """
from situ.core.functions import Functions

functions = Functions()

@functions.function(returns="double")
def reciprocal(value):
    return 1 / value

@functions.function(returns="string")
def label(event):
    return f"sensor {event['sensor']}"
"""


def test_functions_travel_by_name_and_failed_calls_are_counted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "functions_of_a_user.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    functions = importlib.import_module("functions_of_a_user").functions
    spark.addArtifacts(str(tmp_path / "functions_of_a_user.py"), pyfile=True)
    query = """
        stream Reading(sensor int, value double, ts timestamp) time ts
        subscribe Odd detect Reading(reciprocal(value) > 0) as r assign sensor = r.sensor, name = label(r)
    """
    given = readings(spark, (1, 2.0, 0), (2, 0.0, 1), (3, 0.0, 2), (4, -1.0, 3))
    detection = situ.detect(query, {"Reading": given}, functions=functions)
    assert [(row.sensor, row.name) for row in detection["Odd"].collect()] == [(1, "sensor 1")]
    assert [(row.function, row.calls) for row in detection.failed_calls.collect()] == [("reciprocal", 2)]
    assert "in the kernel: reciprocal(this.value) > 0" in str(detection)


def test_functions_that_workers_cannot_import_are_refused(spark: SparkSession) -> None:
    functions = Functions()

    @functions.function(returns="int")
    def local(value):  # type: ignore[no-untyped-def]
        return value

    query = "stream A(v int, ts timestamp) time ts subscribe P detect A(local(v) > 0) as a"
    with pytest.raises(situ.QueryError, match="which Spark's workers cannot import"):
        situ.detect(query, {"A": spark.createDataFrame([], "v int, ts timestamp")}, functions=functions)


def test_keys_of_very_different_sizes(spark: SparkSession) -> None:
    """One key has half of all events; each key has its own matches."""
    query = """
        stream A(k int, v int, ts int) time ts in s
        subscribe P detect A(v = 0) as a then A(v = 1) as b within 1 s assign k = a.k group by k
    """
    n = F.col("id")
    rows = spark.range(20_000).select(
        F.when(n % 2 == 0, 0).otherwise(n % 997).alias("k"), (F.floor(n / 2) % 2).alias("v"), F.floor(n / 4).alias("ts")
    )
    found = situ.detect(query, {"A": rows})["P"].groupBy("k").count().toArrow()
    (output,) = Engine(query).run({"A": rows.toArrow()})
    want = output.complex_events["P"].group_by("k").aggregate([([], "count_all")])
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == sorted(
        zip(*(want[name].to_pylist() for name in ("k", "count_all")), strict=True)
    )


def test_nothing_is_left_behind(spark: SparkSession, tmp_path: Path) -> None:
    before = {table.name for table in spark.catalog.listTables()}
    detection = situ.detect(QUERY, {"Reading": readings(spark, (1, 2.0, 0), (1, 9.0, 4))})
    detection.events.count()
    assert {table.name for table in spark.catalog.listTables()} == before
    assert not detection.events.is_cached
    assert not detection["Rise"].is_cached


def test_one_scan_and_one_shuffle_for_several_subscriptions(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readings(spark, (1, 2.0, 0)).write.parquet(str(tmp_path / "readings"))
    df = spark.read.parquet(str(tmp_path / "readings")).filter("true or rand() < 2")  # else situ reads the files itself
    spark.conf.set(ONE_TASK, "0")
    try:
        detection = situ.detect(QUERY, {"Reading": df})
    finally:
        spark.conf.unset(ONE_TASK)
    detection.found.explain()
    plan = capsys.readouterr().out
    assert plan.count("FileScan parquet") == 1
    assert plan.count("Exchange ") == 1
    assert plan.count("MapInArrow") == 2
    detection["Rise"].explain()  # rejected rows are another branch, which nobody asked for
    assert capsys.readouterr().out.count("FileScan parquet") == 1
