"""Files that situ opens itself: splits, what statistics rule out, slices of time; they give what DataFrames give."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import situ
from runtime.spark.input_comparison import stream_of
from situ.core.errors import InputError
from situ.core.time import BEGINNING, END
from situ.io.files.parquet import ParquetFile
from situ.io.files.root import Root
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.spark.inputs.little import SETTING as ONE_TASK
from situ.runtime.spark.inputs.own_files import SETTING, OwnFiles, divided, open_files, slices_in_place
from situ.runtime.spark.inputs.splits import Split, SplitReader, splits_of, told_apart
from situ.runtime.spark.plan.plan import plan_on_spark
from situ.runtime.spark.plan.time_slices import TimedRows, is_read, plan_reach_us, time_slices
from situ.runtime.spark.stages.output import TaggedOutput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READING = stream_of("Reading(id int, key int, kind string, value double, ts int) time ts in s")
QUERY = """
stream Reading(id int, key int, kind string, value double, ts int) time ts in s  unique id
subscribe Rise
  detect   Reading(kind = 'a') as a then Reading(value > a.value + 5) as b within 10 s
  assign   key = a.key, a = a.id, b = b.id
  group by key
subscribe Busy
  aggr every 7 s
  detect   Reading
  assign   n = count(Reading)
  group by key
"""


def readings(rng: random.Random, rows: int) -> pa.Table:
    """In order of time, some of them twice."""
    times = sorted(rng.randrange(rows) for _ in range(rows))
    table = {
        "id": [n if n % 9 else max(n - 1, 0) for n in range(rows)],
        "key": [rng.randrange(4) for _ in range(rows)],
        "kind": [rng.choice("abc") for _ in range(rows)],
        "value": [rng.choice([0.0, 3.0, 7.0, 9.0]) for _ in range(rows)],
        "ts": times,
    }
    copies = [rng.randrange(rows) for _ in range(rows // 10)]
    whole = pa.table(table)
    return pa.concat_tables([whole, whole.take(copies)]).sort_by("ts")


def write(directory: Path, table: pa.Table, files: int, row_group_size: int = 1000) -> None:
    directory.mkdir()
    bounds = [len(table) * n // files for n in range(files + 1)]
    for number, (begin, end) in enumerate(pairwise(bounds)):
        path = directory / f"{number}.parquet"
        pq.write_table(table.slice(begin, end - begin), path, row_group_size=row_group_size)


def splits(directory: Path) -> list[Split]:
    files = sorted(directory.glob("*.parquet"))
    return [s for file in files for s in splits_of(ParquetFile.checked(file, READING), str(file), READING)]


# ---- splits


def test_a_split_says_what_statistics_say(tmp_path: Path) -> None:
    table = readings(random.Random(1), 100)
    write(tmp_path / "in", table, 2)
    first, second = splits(tmp_path / "in")
    times = table.column("ts").to_numpy() * 1_000_000
    assert first.rows + second.rows == len(table)
    assert first.time_range == (times[: first.rows].min(), times[: first.rows].max())
    assert first.all_events
    assert second.all_events


def test_a_row_without_a_time_makes_the_times_of_a_split_unknown(tmp_path: Path) -> None:
    write(tmp_path / "in", readings(random.Random(1), 10).slice(0, 2), 1)
    table = pq.read_table(tmp_path / "in" / "0.parquet")
    with_null = table.set_column(4, "ts", pa.array([None, 3], pa.int64()))
    pq.write_table(with_null, tmp_path / "in" / "0.parquet")
    (split,) = splits(tmp_path / "in")
    assert (split.time_range, split.all_events) == (None, False)


@pytest.mark.parametrize("seed", range(20))
def test_splits_lie_apart_where_no_other_reaches_into_them(seed: int) -> None:
    rng = random.Random(seed)
    ranges = [(first, first + rng.randrange(4)) for first in rng.sample(range(40), 8)]
    told = told_apart([Split(str(n), (0,), 0, 1, range_, True) for n, range_ in enumerate(ranges)])
    for split in told:
        first, last = split.time_range or (0, 0)
        others = [other.time_range or (0, 0) for other in told if other is not split]
        assert split.is_apart == all(end < first or last < begin for begin, end in others)


def test_row_groups_that_statistics_rule_out_are_not_read(tmp_path: Path) -> None:
    table = readings(random.Random(2), 300).sort_by("kind")
    write(tmp_path / "in", table, 1, row_group_size=20)
    (split,) = splits(tmp_path / "in")
    text = "subscribe S detect Reading(kind = 'b' and value > 1) as a assign id = a.id"
    read = plan_on_spark(resolve(parse(f"{READING_TEXT}\n{text}"))).reads[0]
    groups = SplitReader(READING, Root.of(tmp_path / "in"), read.asked).row_groups(split).groups
    kinds = [table.column("kind").to_pylist()[n : n + 20] for n in range(0, len(table), 20)]
    assert list(groups) == [n for n, of_group in enumerate(kinds) if "b" in of_group]
    assert 0 < len(groups) < len(split.groups)
    everything = SplitReader(READING, Root.of(tmp_path / "in")).row_groups(split).groups
    assert everything == split.groups


READING_TEXT = "stream Reading(id int, key int, kind string, value double, ts int) time ts in s"


def test_tasks_get_neighbouring_splits() -> None:
    given = tuple(Split(str(n), (0,), 0, rows, None, True) for n, rows in enumerate([5, 5, 4, 6, 9, 1, 4, 6]))
    tasks = divided(given, at_once=2)
    assert [split for task in tasks for split in task] == list(given)
    assert [sum(split.rows for split in task) for task in tasks] == [10, 10, 10, 10]


# ---- slices of time


@pytest.mark.parametrize("seed", range(20))
def test_slices_follow_each_other_and_have_about_as_many_rows(seed: int) -> None:
    rng = random.Random(seed)
    bounds = sorted(rng.sample(range(10_000), 20))
    parts = [TimedRows(a, b - 1, 1_000_000) for a, b in pairwise(bounds)]
    reach = rng.choice([0, 10, 100])
    slices = time_slices(parts, reach, tasks := rng.choice([2, 3]))
    assert not slices or len(slices) == tasks
    assert [s.since_us for s in slices] == ([BEGINNING, *(s.until_us for s in slices[:-1])] if slices else [])
    if slices:
        assert slices[-1].until_us == END
        read = [sum(p.rows for p in parts if is_read(p.first_us, p.last_us, s, reach)) for s in slices]
        assert sum(read) <= 1.75 * sum(p.rows for p in parts)


def test_a_window_as_long_as_the_stream_is_not_cut_in_slices() -> None:
    parts = [TimedRows(n, n, 1_000_000) for n in range(10)]
    assert time_slices(parts, 8, 2) == ()
    assert len(time_slices(parts, 8, 1)) == 1


@pytest.mark.parametrize(
    ("rule", "reach_s"),
    [
        ("detect Reading as a then Reading as b within 5 s assign id = a.id group by key", 5),
        ("detect Reading as a then Reading as b assign id = a.id group by key", None),
        (
            "detect Reading as a then Reading as b within 5 s assign id = a.id group by key after match skip past last",
            None,
        ),
        ("detect once Reading as a then Reading as b within 5 s assign id = a.id group by key", None),
        ("detect Reading(value > 1) as a assign id = a.id", 0),
    ],
)
def test_what_a_rule_reads_after_its_slice(rule: str, reach_s: int | None) -> None:
    reach_us = plan_reach_us(plan_on_spark(resolve(parse(f"{READING_TEXT} subscribe S {rule}"))))
    assert reach_us == (None if reach_s is None else reach_s * 1_000_000)


# ---- on Spark

#: How a detection says that it reads files.
WORDS = {
    "slices": "files of Reading: 2 slices of time, each with the 10 s that follow",
    "packets": "files of Reading: 5 splits, packed",
    "spark": "read Reading",
}


def found(detection: situ.Detection) -> Counter[tuple[Any, ...]]:
    """All rows of the tagged table, whatever the order of its columns."""
    rows = detection.events.toArrow()
    names = sorted(set(rows.column_names) - {"_x_min", "_y_min", "_x_max", "_y_max"})
    return Counter(zip(*(rows.column(name).to_pylist() for name in names), strict=True))


def test_files_are_read_alike_by_situ_and_by_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In slices of time, as packets, and as a DataFrame: rejected rows and rows that came twice among them."""
    monkeypatch.setattr("situ.runtime.spark.plan.time_slices.ROWS_OF_ONE_TASK", 100)
    table = readings(random.Random(3), 2000)
    too_large = np.arange(len(table), dtype=np.uint64)
    too_large[::97] = 2**63  # no int
    table = table.set_column(0, "id", pa.array(too_large))
    write(tmp_path / "in", table, 5)
    streams = situ.read(spark, "parquet", tmp_path / "in")
    graph = resolve(parse(QUERY))
    answers = {}
    for way in ("slices", "packets", "spark"):
        spark.conf.set(SETTING, way)
        spark.conf.set(ONE_TASK, "0")  # these are few rows, and many would be shuffled
        try:
            detection = situ.detect(graph, streams)
            answers[way] = found(detection)
            assert str(detection).startswith(WORDS[way])
            rejected = situ.detect(graph, streams).rejected.count()
        finally:
            spark.conf.unset(SETTING)
            spark.conf.unset(ONE_TASK)
        assert rejected == len(too_large[::97]), way
    assert answers["slices"] == answers["packets"] == answers["spark"]
    assert answers["slices"].total() > 500


def test_which_way_is_taken(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", readings(random.Random(4), 200), 3)
    graph = resolve(parse(QUERY))
    opened = open_files(spark, tmp_path / "in", graph.streams[0])
    assert isinstance(opened, OwnFiles)
    assert not opened.may_reject
    plan = plan_on_spark(graph)
    output = TaggedOutput.of(plan.contexts(situ.core.functions.default), False)
    assert slices_in_place(plan, {"Reading": opened}, output, 2) is not None
    spark.conf.set(SETTING, "fast")
    try:
        with pytest.raises(InputError, match=r"spark\.situ\.files cannot be 'fast'"):
            open_files(spark, tmp_path / "in", graph.streams[0])
    finally:
        spark.conf.unset(SETTING)


def test_a_format_that_is_none(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no files of format 'orc'"):
        situ.read(spark, "orc", tmp_path)
    write(tmp_path / "in", readings(random.Random(4), 20), 1)
    with pytest.raises(InputError, match="the files are parquet, not csv"):
        situ.read(spark, "csv", tmp_path / "in")
