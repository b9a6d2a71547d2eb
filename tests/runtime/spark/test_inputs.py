"""Rows of DataFrames: as the embedded engine takes them, whatever Spark makes of their types."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from runtime.spark.input_comparison import MICROS, by_spark, check, configured, stream_of
from situ.core.errors import InputError
from situ.core.time import FIRST_TIME_US, LAST_TIME_US
from situ.runtime.spark.inputs.tables import dataframe_to_input

pytestmark = pytest.mark.slow

D = decimal.Decimal
NAN, INF = math.nan, math.inf


# ---- attributes

EVERY_CONVERSION = """
V(n int, i8 int, i16 int, i32 int, i64 int, dec0_int int, dec2_int int, dec38_int int, void_int int,
  f32_double double, f64_double double, i64_double double, dec_double double, dec38_double double,
  same decimal(10, 2), wider decimal(12, 4), finer decimal(10, 5), coarser decimal(10, 1), smaller decimal(4, 2),
  from38 decimal(38, 3), to38 decimal(38, 38), i64_dec decimal(6, 2), i64_dec38 decimal(38, 10), i8_dec decimal(1, 0),
  text string, bytes_text string, bytes binary, text_bytes binary, yes boolean, void string, date timestamp,
  at timestamp, ts timestamp) time ts
"""

#: Times in range, and their neighbours that are none.
ENDS = [FIRST_TIME_US, LAST_TIME_US, FIRST_TIME_US - 1, LAST_TIME_US + 1]
WHOLE = [0, 1, -1, 7, 100, 9999, 10_000, -9999, 2**53 + 1, 2**63 - 1, -(2**63)]
REAL = [0.0, -0.0, 1.5, 0.1, NAN, INF, -INF, 5e-324, 1e300]
TEXTS = ["", "a", "straße", "🚗", "a\nb", "\\", '"', "\x7f"]
NO_TEXTS = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"]

#: For each column its type and its values; the first one fits.
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), [1, -128, 127]),
    "i16": (pa.int16(), [1, -(2**15), 2**15 - 1]),
    "i32": (pa.int32(), [1, -(2**31), 2**31 - 1]),
    "i64": (pa.int64(), WHOLE),
    "f32_double": (pa.float32(), REAL[:7]),
    "f64_double": (pa.float64(), REAL),
    "i64_double": (pa.int64(), WHOLE),
    "i64_dec": (pa.int64(), WHOLE),
    "i64_dec38": (pa.int64(), WHOLE),
    "i8_dec": (pa.int8(), [0, 9, -9, 10, -10, 127]),
    "text": (pa.string(), TEXTS),
    "bytes_text": (pa.binary(), [text.encode() for text in TEXTS] + NO_TEXTS),
    "bytes": (pa.binary(), [text.encode() for text in TEXTS] + NO_TEXTS),
    "text_bytes": (pa.string(), TEXTS),
    "yes": (pa.bool_(), [True, False]),
    "date": (pa.date32(), [0, 1, -1, 20_000, 106_751_992, 2**31 - 1, -(2**31)]),
    "at": (MICROS, [0, -1, 1_700_000_000_000_000, 2**62, -(2**62)]),
    "ts": (MICROS, [0, -1, 1_700_000_000_000_000, *ENDS, 2**63 - 1, -(2**63)]),
    "void_int": (pa.null(), [None]),
    "void": (pa.null(), [None]),
}
DECIMALS = {
    "dec0_int": (20, 0),
    "dec2_int": (12, 2),
    "dec38_int": (38, 18),
    "dec_double": (10, 2),
    "dec38_double": (38, 20),
    "same": (10, 2),
    "wider": (10, 2),
    "finer": (10, 2),
    "coarser": (10, 2),
    "smaller": (10, 2),
    "from38": (38, 30),
    "to38": (38, 10),
}


def some_decimals(rng: random.Random, precision: int, scale: int) -> list[D]:
    """Of all sizes, some of them whole, and the largest of the type."""
    unscaled = [0, 10**precision - 1, 1 - 10**precision, 2**63 * 10**scale]
    unscaled += [rng.randrange(10 ** rng.randint(1, precision)) * rng.choice([1, -1]) for _ in range(100)]
    unscaled += [n - n % 10 ** min(scale, precision) for n in unscaled]
    with decimal.localcontext(prec=80):
        return [D(n).scaleb(-scale) for n in unscaled if abs(n) < 10**precision]


def table_of_everything(rng: random.Random, rows_per_column: int) -> pa.Table:
    """In every row, one column has any of its values, or null, and the others have one that fits."""
    columns = COLUMNS | {name: (pa.decimal128(p, s), some_decimals(rng, p, s)) for name, (p, s) in DECIMALS.items()}
    data: dict[str, list[Any]] = {name: [] for name in columns}
    for _ in range(rows_per_column):
        for varied in columns:
            for name, (_, values) in columns.items():
                data[name].append(rng.choice([*values, None]) if name == varied else values[0])
    arrays = {name: pa.array(values, columns[name][0]) for name, values in data.items()}
    return pa.table({"n": range(rows_per_column * len(columns)), **arrays})


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_every_conversion_gives_the_values_and_the_reasons_of_the_embedded_engine(
    spark: SparkSession, ansi: str
) -> None:
    stream = stream_of(EVERY_CONVERSION)
    with configured(spark, ansi__enabled=ansi):
        events, rejected = check(spark, table_of_everything(random.Random(11), 60), stream)
    failing = {row["_reason"].replace(" is null", ":").split(":")[0] for row in rejected}
    assert failing == {
        *("dec0_int", "dec2_int", "dec38_int", "finer", "coarser", "smaller", "from38", "to38", "i64_dec", "i8_dec"),
        *("bytes_text", "date", "ts"),
    }
    assert len(events) > 1000


def test_events_have_the_declared_types(spark: SparkSession) -> None:
    given = dataframe_to_input(
        spark.createDataFrame(table_of_everything(random.Random(1), 1)), stream_of(EVERY_CONVERSION)
    )
    kinds = dict(given.events.dtypes)
    assert kinds["dec38_int"] == kinds["_time"] == "bigint"
    assert kinds["i8"] == "tinyint"  # integers keep their width
    assert kinds["f32_double"] == "double"
    assert kinds["wider"] == "decimal(12,4)"
    assert (kinds["void"], kinds["bytes"], kinds["yes"], kinds["date"]) == ("string", "binary", "boolean", "timestamp")
    assert given.rejected.columns == ["_stream", "_reason", "_row", "_place"]


# ---- times


def times_around(first: int, last: int, rng: random.Random) -> list[int]:
    near = [end + step for end in (first, last) for step in (-1001, -1000, -999, -2, -1, 0, 1, 2, 999, 1000, 1001)]
    return [*near, 0, 1, -1, 999, -999, 1500, -1500, *(rng.randrange(first, last) for _ in range(200))]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_whole_times(spark: SparkSession, unit: str) -> None:
    factor = {"s": 10**6, "ms": 1000, "us": 1, "ns": 0}[unit]
    first, last = (end // factor if factor else sign * (2**63 - 2000) for end, sign in zip(ENDS, (-1, 1), strict=False))
    values = [*times_around(first, last, random.Random(5)), None, 2**63 - 1, -(2**63)]
    events, rejected = check(
        spark, pa.table({"t": pa.array(values, pa.int64())}), stream_of(f"V(t int) time t in {unit}")
    )
    assert len(events) > 200
    assert len(rejected) == 1 if unit == "ns" else len(rejected) > 10  # every count of nanoseconds is in range


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_real_times(spark: SparkSession, unit: str) -> None:
    scale = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}[unit]
    rng = random.Random(6)
    ends = [-FIRST_TIME_US / scale, (LAST_TIME_US + 1) / scale, 2.0**63 / scale]
    near = [np.nextafter(end, toward) for end in ends for toward in (0, INF)] + ends
    halves = [(n + 0.5) / scale for n in (0, 1, 2, 3, -1, -2, -3, 10**6, 10**6 + 1)]  # rounded to the even one
    spread = [rng.uniform(-1, 1) * 10 ** rng.randint(-8, 20) for _ in range(300)]
    values = [*near, *(-value for value in near), *halves, *spread, 0.0, -0.0, NAN, INF, -INF, None]
    events, rejected = check(
        spark, pa.table({"t": pa.array(values, pa.float64())}), stream_of(f"V(t double) time t in {unit}")
    )
    assert min(len(events), len(rejected)) > 10


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize(("precision", "scale"), [(38, 0), (38, 9), (38, 25), (38, 38), (19, 3), (5, 2)])
def test_decimal_times(spark: SparkSession, unit: str, precision: int, scale: int) -> None:
    rng = random.Random(7)
    power = {"s": 6, "ms": 3, "us": 0, "ns": -3}[unit]
    with decimal.localcontext(prec=100):
        step = D(1).scaleb(-scale)
        ends = [D(end).scaleb(-power).quantize(step, "ROUND_FLOOR") for end in (*ENDS, 2**63, -(2**63))]
        values = [end + n * step for end in ends for n in (-2, -1, 0, 1, 2)]
        values += [D(end).scaleb(-power).quantize(step, "ROUND_FLOOR") for end in (-1, 1, 0)]
        values = [value for value in values if abs(value) < 10 ** (precision - scale)]
    table = pa.table(
        {"t": pa.array([*values, *some_decimals(rng, precision, scale), None], pa.decimal128(precision, scale))}
    )
    events, rejected = check(spark, table, stream_of(f"V(t decimal({precision}, {scale})) time t in {unit}"))
    assert len(events) > 50
    assert rejected


def test_a_time_may_be_declared_otherwise_than_it_is_stored(spark: SparkSession) -> None:
    whole = pa.table({"t": pa.array([1, 2**31 - 1, None, -5], pa.int32())})
    check(spark, whole, stream_of("V(t double) time t in s"))
    check(spark, whole, stream_of("V(t decimal(9, 0)) time t in ms"))
    fine = pa.table({"t": pa.array([D("1.25"), D("1.5"), None], pa.decimal128(9, 2))})
    check(spark, fine, stream_of("V(t decimal(9, 1)) time t in s"))
    check(spark, fine, stream_of("V(t int) time t in s"))
    check(spark, pa.table({"t": pa.array([1.5, NAN, None], pa.float32())}), stream_of("V(t double) time t in s"))


# ---- zones, names, errors


def test_times_without_a_zone_are_taken_in_the_sessions(spark: SparkSession) -> None:
    stream = stream_of("V(day timestamp, naive timestamp, ts timestamp) time naive")
    rows = [("2024-01-01", "2024-07-01 12:00:00", "2024-07-01 12:00:00Z"), ("2024-07-01", None, "2024-07-01 12:00:00Z")]
    df = spark.createDataFrame(rows, "day string, naive string, ts string").select(
        F.col("day").cast("date"), F.col("naive").cast("timestamp_ntz"), F.col("ts").cast("timestamp")
    )
    with configured(spark, session__timeZone="Europe/Berlin"):
        events, rejected = by_spark(dataframe_to_input(df, stream))
    noon = int(datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.UTC).timestamp()) * 1_000_000
    new_year = int(datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC).timestamp()) * 1_000_000
    hour = 3_600_000_000
    assert events == [
        {"day": new_year - hour, "naive": noon - 2 * hour, "ts": noon, "_time": noon - 2 * hour},
    ]
    assert [row["_reason"] for row in rejected] == ["naive is null"]
    assert rejected[0]["_row"] == '{"day": "2024-07-01", "naive": null, "ts": "2024-07-01T12:00:00.000000Z"}'


@pytest.mark.parametrize("kind", ["timestamp_ntz", "date", "timestamp"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_no_row_is_lost_or_doubled_at_the_ends_of_time(spark: SparkSession, kind: str, zone: str) -> None:
    # Where the zone moves a time out of range, only Catalyst knows.
    ends = FIRST_TIME_US, LAST_TIME_US + 1
    hours = [end + n * 3_600_000_000 + m for end in ends for n in range(-50, 51, 2) for m in (-1, 0, 1)]
    extremes = [2**62 + 10**15, -(2**62) - 10**15, 0]
    stream = stream_of("V(ts timestamp, n int) time ts")
    micros = F.timestamp_micros(F.col("n"))
    days = F.date_from_unix_date((F.col("n") / 86_400_000_000).cast("int"))
    with configured(spark, session__timeZone=zone):
        df = spark.createDataFrame([(n,) for n in [*hours, *extremes]], "n bigint").coalesce(1)
        df = df.select(days.alias("ts") if kind == "date" else micros.cast(kind).alias("ts"), "n")
        given = dataframe_to_input(df, stream)
        events, rejected = given.events.select("n", "_time", F.unix_micros("ts")).collect(), given.rejected.collect()
    in_range = [n for n, _, _ in events]
    assert sorted([*in_range, *(json.loads(row["_row"])["n"] for row in rejected)]) == sorted([*hours, *extremes])
    assert all(FIRST_TIME_US <= time <= LAST_TIME_US and time == ts for _, time, ts in events)
    if kind == "timestamp":
        assert in_range == [n for n in [*hours, *extremes] if FIRST_TIME_US <= n <= LAST_TIME_US]
    assert len(events) > 100 or kind == "date"
    assert all("out of range" in row["_reason"] or "no time in range" in row["_reason"] for row in rejected)


def test_nested_columns_and_names_that_need_care(spark: SparkSession) -> None:
    stream = stream_of(
        "V(`a.b` int, x double from position.x, big double from position.`X`, y int from `road.part`.`no ``1`, "
        'speed double, `SPEED` double, t int from "event time") time t in s'
    )
    table = pa.table(
        {
            "a.b": [1, 2, 3, 4],
            "position": [{"x": 1.5, "X": 2.5}, None, {"x": None, "X": 1.0}, {"x": 0.0, "X": 0.0}],
            "road.part": pa.array([{"no `1": 1, "z": "q"}, {"no `1": None, "z": ""}, None, None]),
            "event time": [10, 20, 30, None],
            "speed": [1.0, 2.0, 3.0, 4.0],
            "SPEED": [5.0, 6.0, 7.0, 8.0],
            "Speed": ["nobody", "asked", "for", "it"],
            "back`tick": [[{"a": 1}], [], None, [{"a": None}]],
        }
    )
    events, rejected = check(spark, table, stream)
    assert [event["x"] for event in events] == [1.5, None, None]
    assert [event["SPEED"] for event in events] == [5.0, 6.0, 7.0]
    assert [row["_reason"] for row in rejected] == ["t is null"]


def test_what_no_row_can_mend_is_an_error_at_once(spark: SparkSession) -> None:
    df = spark.createDataFrame([(1, "a", "b")], "ts int, sped string, lane string")
    wrong = {
        "V(speed double, ts int) time ts in s": "there is no column 'speed', which stream V declares.\n"
        "  known: lane, sped, ts. Did you mean 'sped'?",
        "V(`T S` int) time `T S` in s": "there is no column 'T S', which stream V declares.\n  known: lane, sped, ts.",
        "V(sped double, ts int) time ts in s": "column 'sped' is string, but stream V declares it as double.\n"
        "  Declare it as string, or convert the column.",
        "V(ts timestamp) time ts": "column 'ts' is int32, but stream V declares it as timestamp.\n"
        "  Declare `ts int` and, if it is the event time, its unit: `time ts in ms`.",
        "V(x double from ts.x, ts int) time ts in s": "column 'ts' is int32 and has no field 'x', which stream V "
        "declares.\n  Only a column of structs has fields.",
    }
    for stream, says in wrong.items():
        with pytest.raises(InputError) as error:
            dataframe_to_input(df, stream_of(stream))
        assert str(error.value).startswith(f"rows of V: {says}")
    with pytest.raises(InputError, match="column 'ts' occurs 2 times"):
        dataframe_to_input(df.select("ts", "ts"), stream_of("V(ts int) time ts in s"))
    with pytest.raises(InputError, match=r"column 'i' is .*interval"):
        dataframe_to_input(
            df.select("ts", F.expr("interval 1 month").alias("i")), stream_of("V(i double, ts int) time ts in s")
        )


def test_columns_that_python_cannot_take_are_shown_as_text(spark: SparkSession) -> None:
    df = spark.range(1).select(
        F.lit(None).cast("int").alias("ts"),
        F.expr("interval 3 year").alias("years"),
        F.expr("struct(interval 2 month as m, 1.5D as x)").alias("nested"),
        F.expr("parse_json('{\"a\": 1}')").alias("variant"),
        F.expr("cast('abc' as varchar(5))").alias("text"),
    )
    stream = stream_of("V(x double from nested.x, text string, ts int) time ts in s")
    [row] = dataframe_to_input(df, stream).rejected.collect()
    assert row["_reason"] == "ts is null"
    assert json.loads(row["_row"]) == {
        "ts": None,
        "years": "INTERVAL '3' YEAR",
        "nested": {"m": "INTERVAL '2' MONTH", "x": 1.5},
        "variant": '{"a":1}',
        "text": "abc",
    }
