"""Files that situ opens itself on Spark: Spark hands out splits, and Python reads them, tests them and packs them.

Rows of a DataFrame go from Java to Python; these never meet Java. So a run has one crossing, of packets or of results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal as OneOf
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession

from situ.core.errors import InputError, did_you_mean
from situ.graph.query import Stream
from situ.io.files.by_suffix import Format, files_of_one_format
from situ.io.files.parquet import ParquetFile
from situ.io.files.root import Root
from situ.io.rows.conform import type_found
from situ.runtime.spark.inputs.splits import Split, SplitFiles, splits_of, told_apart
from situ.runtime.spark.inputs.tables import StreamInput, files_to_input, is_zoneless
from situ.runtime.spark.plan.plan import SparkPlan
from situ.runtime.spark.plan.time_slices import TimedRows, plan_reach_us, time_slices
from situ.runtime.spark.session.task_memory import memory_setting
from situ.runtime.spark.stages.output import TaggedOutput
from situ.runtime.spark.stages.slice_run import SliceRun

#: The setting of a session that says how files are read: by slices of time, if that is possible, else as packets
#: (`slices`, the default); always as packets; or by Spark.
SETTING = "spark.situ.files"
Way: TypeAlias = OneOf["slices", "packets", "spark"]
_WAYS: tuple[Way, ...] = ("slices", "packets", "spark")

#: Footers that are read side by side.
_FOOTERS_AT_ONCE = 8
#: Tasks that pack rows: so many for each that runs at once, and more where there are more rows.
_WAVES, _ROWS_OF_TASK = 2, 8_000_000

_FORMATS: tuple[Format, ...] = ("parquet", "csv", "json")


@dataclass(frozen=True)
class Files:
    """A file, or all files below a directory, for `situ.detect`."""

    spark: SparkSession
    path: Path


def read(spark: SparkSession, format: str, path: str | Path) -> Files:
    """Files that `situ.detect` takes instead of a DataFrame, and reads itself: `situ.read(spark, "parquet", "trips")`.

    Every worker must see them under the same path. Where files are in order of time and rules have windows, tasks read
    slices of time and nothing is shuffled; else rows are packed where they are read. The setting `spark.situ.files` of
    the session says otherwise: `packets`, or `spark`. Formats are parquet, csv and json; the suffixes of the files must
    say so, too.
    """
    if format not in _FORMATS:
        raise InputError(f"situ reads no files of format {format!r}", remedy=did_you_mean(format, _FORMATS))
    _, found = files_of_one_format(Path(path))
    if found != format:
        raise InputError(
            f"the files are {found}, not {format}", place=str(path), remedy=f'Write read(spark, "{found}", ...).'
        )
    return Files(spark, Path(path))


@dataclass(frozen=True)
class OwnFiles:
    """The files of a stream that situ opens itself, in splits."""

    spark: SparkSession
    stream: Stream
    root: Root
    splits: tuple[Split, ...]

    @property
    def rows(self) -> int:
        return sum(split.rows for split in self.splits)

    @property
    def paths(self) -> list[Path]:
        return [Path(path) for path in dict.fromkeys(split.path for split in self.splits)]

    @property
    def may_reject(self) -> bool:
        """Whether some row may be none of the stream's events."""
        return not all(split.all_events for split in self.splits)

    @property
    def is_timed(self) -> bool:
        """Whether it is known between which times all rows lie."""
        return all(split.time_range is not None for split in self.splits)


def open_files(spark: SparkSession, path: str | Path, stream: Stream) -> OwnFiles | StreamInput:
    """A file, or all files below a directory, as events of a stream: Parquet in splits, and other files as DataFrames.

    Times without a zone are taken in the session's time zone, which Arrow does not know: where it is not UTC, Spark
    reads them.
    """
    files, format_ = files_of_one_format(Path(path))
    if format_ != "parquet" or way_of(spark) == "spark":
        return files_to_input(spark, path, stream)
    root, opened = Root.of(Path(path)), checked_files(files, stream)
    if _has_zoneless(opened, stream, root) and spark.conf.get("spark.sql.session.timeZone") not in ("UTC", "Etc/UTC"):
        return files_to_input(spark, path, stream)
    return in_splits(spark, root, opened, stream)


def checked_files(paths: Sequence[Path], stream: Stream) -> list[ParquetFile]:
    """Parquet files whose footers have been read; InputError if one does not have the stream's columns."""
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE, thread_name_prefix="situ-footers") as pool:
        return list(pool.map(lambda path: ParquetFile.checked(path, stream), paths))


def in_splits(spark: SparkSession, root: Root, files: Sequence[ParquetFile], stream: Stream) -> OwnFiles:
    """Files as splits, of which it is known between which times their rows lie."""
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE, thread_name_prefix="situ-footers") as pool:
        of_files = list(pool.map(lambda f: list(splits_of(f, root.absolute_path(f.path), stream)), files))
    return OwnFiles(spark, stream, root, told_apart([split for splits in of_files for split in splits]))


def way_of(spark: SparkSession) -> Way:
    """How the session wants files to be read."""
    text = spark.conf.get(SETTING, _WAYS[0])
    if text not in _WAYS:
        raise InputError(f"{SETTING} cannot be {text!r}", remedy=f"It is one of {', '.join(_WAYS)}.")
    return text


def _has_zoneless(files: list[ParquetFile], stream: Stream, root: Root) -> bool:
    return any(is_zoneless(type_found(a, stream, file.schema, root.given)) for file in files for a in stream.attributes)


# ---- tasks


def one_task_each(spark: SparkSession, count: int) -> DataFrame:
    """So many tasks, each of which gets its number, `id`."""
    return spark.range(0, count, 1, count)


def divided(splits: tuple[Split, ...], at_once: int) -> tuple[tuple[Split, ...], ...]:
    """Neighbouring splits for each task, about as many rows for each, where so many tasks run at once."""
    rows = sum(split.rows for split in splits)
    count = min(len(splits), max(_WAVES * at_once, rows // _ROWS_OF_TASK))
    tasks: list[list[Split]] = [[] for _ in range(count)]
    before = 0
    for split in splits:
        tasks[min(before * count // max(rows, 1), count - 1)].append(split)
        before += split.rows
    return tuple(tuple(task) for task in tasks if task)


def slices_in_place(
    plan: SparkPlan, own: Mapping[str, OwnFiles], output: TaggedOutput, at_once: int
) -> SliceRun | None:
    """The run in which tasks read slices of time; None where rules, or the order of files, do not allow it, or the
    session does not want it."""
    if not own or {*own} != {read.stream.name for read in plan.reads}:
        return None
    spark = next(iter(own.values())).spark
    reach_us = plan_reach_us(plan)
    if reach_us is None or way_of(spark) != "slices" or not all(files.is_timed for files in own.values()):
        return None
    ranges = [(split.time_range, split.rows) for files in own.values() for split in files.splits]
    parts = [TimedRows(*time_range, rows) for time_range, rows in ranges if time_range is not None]
    slices = time_slices(parts, reach_us, at_once)
    if not slices:
        return None
    files = {name: SplitFiles(opened.root, opened.splits) for name, opened in own.items()}
    return SliceRun(plan, files, slices, reach_us, output, memory_setting(spark))
