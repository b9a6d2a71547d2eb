"""Files that Spark reads, and files that situ reads in Spark's tasks: the same as the embedded engine reads them."""

from __future__ import annotations

import csv
import datetime
import decimal
import gzip
import io
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from runtime.spark.input_comparison import MICROS, check_files, configured, plain, stream_of
from situ.core.errors import InputError
from situ.core.time import FIRST_TIME_US, LAST_TIME_US
from situ.io.files.by_suffix import open_source
from situ.runtime.spark.inputs.tables import files_to_input

pytestmark = pytest.mark.slow

D = decimal.Decimal
NAN = math.nan


# ---- Parquet


def explained(df: DataFrame, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What the plan says of its scan."""
    capsys.readouterr()
    df.explain("formatted")
    lines = [line.split(": ", 1) for line in capsys.readouterr().out.splitlines() if ": " in line]
    return {name: value for name, value in lines if name in ("PushedFilters", "ReadSchema")}


def rows_scanned(df: DataFrame) -> int | None:
    """How many rows Spark's scan gave when `df` was last run; Spark Connect does not say."""
    if not hasattr(df, "_jdf"):
        return None
    leaves = df._jdf.queryExecution().executedPlan().collectLeaves()
    return sum(int(leaves.apply(i).metrics().apply("numOutputRows").value()) for i in range(leaves.size()))


@pytest.mark.parametrize(
    ("column", "declared", "pushed", "scanned"),
    [
        ("ts", "t timestamp from ts) time t", "Or(Or(IsNull(ts),LessThan(ts", 1),
        ("ms", "t int from ms) time t in ms", "Or(Or(IsNull(ms),LessThan(ms,-62135596800000),GreaterThan(ms", 1),
        ("head.ms", "t int from head.ms) time t in ms", "Or(Or(IsNull(head.ms),LessThan(head.ms", 1),
        ("exact", "t decimal(18, 3) from exact) time t in s", "Or(Or(IsNull(exact),LessThan(exact", 1),
        # Times without a zone are cast first, and NaN need not show in the statistics: the scan must look.
        ("naive", "t timestamp from naive) time t", "", 1001),
        ("day", "t timestamp from day) time t", "", 1001),
        ("s", "t double from s) time t in s", "", 1001),
    ],
)
def test_a_scan_reads_the_declared_columns_only_and_finds_rejected_rows_by_statistics(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    column: str,
    declared: str,
    pushed: str,
    scanned: int,
) -> None:
    n = np.arange(1000)
    table = pa.table(
        {
            "ts": pa.array(n, MICROS),
            "naive": pa.array(n, pa.timestamp("us")),
            "day": pa.array(n, pa.int32()).cast(pa.date32()),
            "ms": n,
            "head": pa.StructArray.from_arrays([pa.array(n), pa.array(n)], ["ms", "other"]),
            "exact": pa.array(n).cast(pa.decimal128(22, 3)).cast(pa.decimal128(18, 3)),
            "s": n.astype(float),
            "speed": n / 2,
            "nobody": n,
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=100)
    without_times = pa.table({field.name: pa.nulls(1, field.type) for field in table.schema})
    pq.write_table(without_times, tmp_path / "b.parquet")
    stream = stream_of(f"V(speed double, {declared}")
    given = files_to_input(spark, tmp_path, stream)
    events = explained(given.events, capsys)
    kept = "head:struct<ms:bigint>" if column == "head.ms" else f"{column}:"
    assert "speed:double" in events["ReadSchema"]
    assert kept in events["ReadSchema"]
    assert events["ReadSchema"].count(":") == 2 + (column == "head.ms")
    assert f"IsNotNull({column})" in events["PushedFilters"]
    assert pushed in explained(given.rejected, capsys).get("PushedFilters", "").replace(")),Gr", "),Gr")
    assert given.events.count() == 1000
    assert len(given.rejected.collect()) == 1
    assert rows_scanned(given.rejected) in (scanned, None)
    # Of the first file alone, the footer says whether there is anything to look for.
    whole = files_to_input(spark, tmp_path / "a.parquet", stream)
    assert whole.events.count() == 1000
    assert whole.rejected.collect() == []
    is_known = column in ("ts", "ms", "head.ms")
    assert ("ReadSchema" in explained(whole.rejected, capsys)) is not is_known


@pytest.mark.storm
def test_parquet_files_as_the_embedded_engine_reads_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files below a directory, of several schemas, hidden ones, and places by file and row."""
    monkeypatch.chdir(tmp_path)
    stream = stream_of("V(n int, x double, text string, ts timestamp) time ts")
    whole, real = {"n": [1, 2, 3]}, {"x": [1.5, None, 2.5]}
    text, time = {"text": ["a", "b", "c"]}, {"ts": pa.array([1, None, 3], MICROS)}
    tables: dict[str, dict[str, Any]] = {
        "b/narrow [1].parquet": {"n": pa.array([1, 2, 3], pa.int32()), "x": pa.array([1, 2, 3], pa.float32())},
        "a/wide {a,b}.parquet": {"n": [1, 2, 2**40], "x": [1, 2, 3]},
        "a/unsigned%20#?.parquet": {"n": pa.array([2**63, 2, 3], pa.uint64())},
        "day=3/more.parquet": {"more": [[1], [2], [3]]},
        "day=3/dictionary.parquet": {"text": pa.array(["a"] * 3).dictionary_encode()},
        "day=3/nothing.parquet": {"n": pa.nulls(3), "x": pa.nulls(3, pa.float64()), "text": pa.nulls(3)},
        "nanoseconds.parquet": {"ts": pa.array([1, 1001, None], pa.timestamp("ns"))},
        "twice: case.parquet": {"N": ["other"] * 3},
        "_hidden.parquet": {"n": ["wrong"]},
        ".hidden/a.parquet": {"n": ["wrong"]},
    }
    for name, columns in tables.items():
        Path("files", name).parent.mkdir(parents=True, exist_ok=True)
        others = {} if "hidden" in name else whole | real | text | time
        pq.write_table(pa.table(others | columns), Path("files", name), row_group_size=2)
    events, rejected = check_files(spark, Path("files"), stream)
    assert (len(events), len(rejected)) == (15, 9)
    assert {row["_place"] for row in rejected} >= {
        "files/b/narrow [1].parquet, row 2",
        "files/a/unsigned%20#?.parquet, row 1",
        "files/nanoseconds.parquet, row 3",
        "files/twice: case.parquet, row 2",
    }
    Path("files/nanoseconds.parquet").rename("files/_single.parquet")
    check_files(spark, Path("files/_single.parquet"), stream)
    monkeypatch.chdir("files/day=3")
    for path in (".", "..", "../a", "more.parquet", tmp_path / "files" / "day=3"):
        check_files(spark, Path(path), stream)


def test_times_without_a_zone_in_parquet_files_are_taken_in_the_sessions(spark: SparkSession, tmp_path: Path) -> None:
    """Also where situ reads the file, because Spark does not read nanoseconds."""
    noon = int(datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.UTC).timestamp()) * 1_000_000
    for unit, factor in (("us", 1), ("ns", 1000)):
        table = pa.table({"ts": pa.array([noon * factor], pa.timestamp(unit)), "day": pa.array([0], pa.date32())})
        pq.write_table(table, tmp_path / f"{unit}.parquet")
        with configured(spark, session__timeZone="Europe/Berlin"):
            given = files_to_input(
                spark, tmp_path / f"{unit}.parquet", stream_of("V(ts timestamp, day timestamp) time ts")
            )
            two_hours, one_hour = 7_200_000_000, 3_600_000_000
            assert plain(given.events.toArrow()) == [
                {"ts": noon - two_hours, "day": -one_hour, "_time": noon - two_hours}
            ]


def test_files_that_cannot_be_read_are_errors_at_once(spark: SparkSession, tmp_path: Path) -> None:
    stream = stream_of("V(speed double, ts int) time ts in s")
    (tmp_path / "empty").mkdir()
    (tmp_path / "mixed").mkdir()
    pq.write_table(pa.table({"sped": [1.0], "ts": [1]}), tmp_path / "mixed" / "a.parquet")
    for name in ("mixed/a.csv", "a.csv"):
        (tmp_path / name).write_text("sped,ts\n1,1\n")
    (tmp_path / "a.jsonl").write_text('{"sped": 1, "ts": 1}\n')
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    for name in ("empty", "mixed", "mixed/a.parquet", "a.csv", "a.jsonl", "a.txt", "none.csv", "cut.parquet"):
        with pytest.raises(InputError) as expected:
            open_source(tmp_path / name, stream)
        with pytest.raises(InputError) as error:
            files_to_input(spark, tmp_path / name, stream)
        assert str(error.value) == str(expected.value)


# ---- CSV and JSON lines


@pytest.mark.parametrize(
    "suffix", ["csv", "jsonl.gz", *(pytest.param(suffix, marks=pytest.mark.storm) for suffix in ("csv.gz", "jsonl"))]
)
def test_text_files_as_the_embedded_engine_reads_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.chdir(tmp_path)
    stream = stream_of(
        "V(id string, n int, x double from p.x, price decimal(6, 2), raw binary, ok boolean, ts timestamp) time ts"
    )
    Path("files/a").mkdir(parents=True)
    rng = random.Random(4)
    rejected = 0
    for number in range(5):
        rows = [random_row(rng, i) for i in range(200)]
        text = as_csv(rows) if suffix.startswith("csv") else as_json(rows, bom=number == 2)
        data = text.encode("utf-8", "surrogateescape")
        path = Path("files", "a" if number % 2 else "", f"{number}.{suffix}")
        path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    if suffix == "jsonl":
        Path("files/9.jsonl").write_text('{"ts": "2024-01-01"}\n')  # keys may be absent, except from all files
    events, rejected_rows = check_files(spark, Path("files"), stream)
    rejected = len(rejected_rows)
    assert min(len(events), rejected) > 100
    assert all(row["_place"].startswith("files/") for row in rejected_rows)
    Path(f"latest.{suffix}").symlink_to(f"files/0.{suffix}")
    check_files(spark, Path(f"latest.{suffix}"), stream)
    monkeypatch.chdir("files")
    check_files(spark, Path(), stream)


def random_row(rng: random.Random, number: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": rng.choice(["a", "straße", 'q"uote', "line\nbreak", "", None]),
        "n": rng.choice([number, 2**63 - 1, None]),
        "p.x": rng.choice([1.5, -0.25, 1e300, None]),
        "price": rng.choice(["1.25", "9999.99", None]),
        "raw": rng.choice(["c2l0dQ==", None]),
        "ok": rng.choice([True, False, None]),
        "ts": rng.choice(["2024-05-01T12:00:00", "2024-05-01 12:00:00.123456", "2024-05-01T12:00:00+02:00"]),
    }
    if rng.random() < 0.2:
        wrong = {"n": 2**63, "price": "1.255", "raw": "?", "ts": "noon", "id": "\udcff"}
        name = rng.choice(list(wrong))
        row[name] = wrong[name]
    return row


def as_csv(rows: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*rows[0], "nobody"])
    for row in rows:
        writer.writerow(["true" if v is True else "false" if v is False else v for v in row.values()] + ["asked"])
    return out.getvalue().replace("asked\n", "asked,for\n", 1)


def as_json(rows: list[dict[str, Any]], bom: bool) -> str:
    lines = []
    for row in rows:
        inner = {"p": {"x": row["p.x"]}, **{k: v for k, v in row.items() if k != "p.x" and v is not None}}
        lines.append(json.dumps(inner, ensure_ascii=False))
    return ("\ufeff" if bom else "") + "\n".join([*lines, "no json", "[1]", '{"p": 1, "ts": "2024-01-01"}'])


@pytest.mark.parametrize("java8", ["true", "false"])
def test_statistics_at_the_ends_of_time_hide_no_row(spark: SparkSession, tmp_path: Path, java8: str) -> None:
    """A row group for each row, so that each is pruned or read for itself."""
    ends = (1, LAST_TIME_US + 1), (-1, FIRST_TIME_US - 1)
    steps = (-86_400_000_001, -1000, -1, 0, 1, 1000, 86_400_000_000)
    micros = [end + sign * step for sign, end in ends for step in steps]
    columns = {
        "t timestamp) time t": pa.array([*micros, 0, None], MICROS),
        "t int) time t in us": pa.array([*micros, 0, None], pa.int64()),
        "t double) time t in us": pa.array([*map(float, micros), NAN, None], pa.float64()),
        "t decimal(20, 1)) time t in us": pa.array([*map(D, micros), D("0.5"), None], pa.decimal128(20, 1)),
    }
    with configured(spark, datetime__java8API__enabled=java8):
        for declared, column in columns.items():
            path = tmp_path / f"{column.type}.parquet"
            pq.write_table(pa.table({"t": column}), path, row_group_size=1)
            events, rejected = check_files(spark, path, stream_of(f"V({declared}"))
            # As a double, a microsecond beside an end is the end: at the last time one fewer is in range, at the first
            # two more are; and the NaN is not, where other columns have 0.
            assert (len(events), len(rejected)) == (7, 9)


def test_a_nan_that_the_statistics_leave_out_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": [1.0, NAN, 2.0]}), tmp_path / "a.parquet")
    statistics = pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(0).column(0).statistics
    assert (statistics.min, statistics.max) == (1.0, 2.0)
    events, rejected = check_files(spark, tmp_path, stream_of("V(t double) time t in s"))
    assert (len(events), [row["_reason"] for row in rejected]) == (2, ["t: nan s is no time in range"])
