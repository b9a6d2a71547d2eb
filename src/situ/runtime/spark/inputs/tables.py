"""DataFrames and files as the input of a stream: rows that fit its declaration, and rows that do not.

Rows that fit never meet Python: they are a filter and a projection that Catalyst pushes into the scan. Rows that do
not fit are a second branch over the same input, with the reasons that the embedded engine gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from situ.core.errors import InputError
from situ.graph.query import AttributeDeclaration, Stream
from situ.io.files.by_suffix import files_of_one_format, open_source
from situ.io.files.json_text import rows_to_json
from situ.io.files.parquet import ParquetFile
from situ.io.files.root import Root
from situ.io.rows.ahead import reasons_ahead, with_default_ahead
from situ.io.rows.column_names import spelt_as_found
from situ.io.rows.conform import attribute_columns, conversions_to, convert_columns, judge, type_found
from situ.runtime.spark.inputs.columns import (
    any_of,
    attribute_reading,
    shown_type,
    spark_to_arrow,
    time_reading,
)
from situ.runtime.spark.inputs.files import REJECTED, events_in_tasks, rejected_in_tasks
from situ.runtime.spark.inputs.stream_rows import NOW_US, micro_batch_us, now_us_of
from situ.runtime.spark.stages.stream_packer import PartReader

#: For a row that only Catalyst finds fault with: `situ.io` takes times without a zone as UTC.
_NOT_IN_ITS_ZONE = "a date, or a timestamp without a zone, is out of range"
#: The time of a rejected row of a stream, in microseconds.
_TIME_US = "_time_us"


@dataclass(frozen=True)
class StreamInput:
    """`events` has every declared attribute in its type, integers in any width, and `_time` in microseconds.

    `rejected` has `_stream`, `_reason`, `_row` (JSON, or the line of a file) and `_place`.
    """

    events: DataFrame
    rejected: DataFrame


def dataframe_to_input(df: DataFrame, stream: Stream) -> StreamInput:
    """The rows of a DataFrame as events of a stream.

    InputError, before anything runs, where a column is missing or of another type. A timestamp without a zone
    (`timestamp_ntz`) and a date are taken in the session's time zone, as a cast in Spark takes them. Columns are found
    by their names as Spark finds them: in any capitals, unless `spark.sql.caseSensitive` is set. Both branches read
    `df`: where it gives other rows each time, they may not fit together. In Parquet, rejected rows are found by
    statistics where the time is a timestamp, an int or a decimal; for other times the scan looks at every row.
    """
    return _rows_to_input(df, as_spark_names_it(stream, df), f"rows of {stream.name}")


def files_to_input(spark: SparkSession, path: str | Path, stream: Stream) -> StreamInput:
    """A file, or all files below a directory, as events of a stream: the files that the embedded engine reads.

    Every worker must see them under the same path. Spark itself reads Parquet. What it cannot read (times in
    nanoseconds, names that differ in case only), and CSV and JSON lines, are read by situ in Spark's tasks. Times
    without a zone in Parquet are taken in the session's time zone, in text as UTC.
    """
    files, format_ = files_of_one_format(Path(path))
    root = Root.of(Path(path))
    if format_ != "parquet":
        open_source(path, stream)  # raises where a header or a column is wrong
        return _in_tasks(spark, root, files, stream)
    inputs = [_parquet_to_input(spark, root, alike, stream) for alike in _by_schema(files, stream)]
    return StreamInput(
        reduce(DataFrame.unionAll, [part.events for part in inputs]),
        reduce(DataFrame.unionAll, [part.rejected for part in inputs]),
    )


# ---- rows of a DataFrame


def _rows_to_input(df: DataFrame, stream: Stream, place: str, root: Root | None = None) -> StreamInput:
    """`root` is given where the rows are those of Parquet files, and have places of their own."""
    judged = _judge(df, stream, place)
    events = _numbered(df).filter(~judged.misfit).select(*judged.values)
    whole = df if root is None else df.select("*", "_metadata.file_path", "_metadata.row_index")
    misfits = _numbered(whole).filter(judged.misfit)
    shown = [*judged.shown, *(F.col(name) for name in misfits.columns[len(judged.shown) :])]
    rejecter = _Rejecter(stream, judged.names, place, root)
    return StreamInput(events, misfits.select(*shown).mapInArrow(rejecter.reject_all, REJECTED))


@dataclass(frozen=True)
class _Judged:
    """Columns over `_numbered` rows: does a row not fit, the attributes and the time of one that does, and the row as
    it can be shown."""

    misfit: Column
    values: list[Column]
    time: Column
    shown: list[Column]
    names: tuple[str, ...]


def as_spark_names_it(stream: Stream, df: DataFrame) -> Stream:
    """The stream with the names of its columns as they are in the DataFrame, where Spark does not tell them apart."""
    exactly = df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    return stream if exactly else spelt_as_found(stream, arrow_schema(df))


def arrow_schema(df: DataFrame) -> pa.Schema:
    """The columns of a DataFrame, with the Arrow types by which they are judged."""
    return pa.schema([(field.name, spark_to_arrow(field.dataType)) for field in df.schema.fields])


def _judge(df: DataFrame, stream: Stream, place: str) -> _Judged:
    fields, schema = df.schema.fields, arrow_schema(df)
    conversions_to(stream, schema, place)
    columns = {a.name: _source_column(a, fields) for a in stream.attributes}
    column_types = {a.name: type_found(a, stream, schema, place) for a in stream.attributes}
    readings = {a.name: attribute_reading(columns[a.name], column_types[a.name], a.type) for a in stream.attributes}
    declared = next(a.type for a in stream.attributes if a.name == stream.time)
    time = time_reading(columns[stream.time], readings[stream.time].value, declared, stream.time_unit)
    misfit = any_of([misfit for reading in (*readings.values(), time) for misfit in reading.misfits])
    values = [reading.value.alias(name) for name, reading in readings.items()]
    shown = [F.col(f"c{i}").cast(shown_type(field.dataType)).alias(f"c{i}") for i, field in enumerate(fields)]
    return _Judged(misfit, [*values, time.value.alias("_time")], time.value, shown, tuple(schema.names))


@dataclass(frozen=True)
class OwnRows:
    """Rows of a stream that situ reads itself, of what Spark hands out."""

    handed_out: DataFrame
    reader: PartReader


@dataclass(frozen=True)
class JudgedRows:
    """All rows of a streaming DataFrame: attributes, `_time`, and `_misfit`, a struct that is null where a row fits.
    `reject` makes `_reason`, `_row` and `_place` of the fields of that struct. `own`: where situ reads the rows itself,
    and so can pack them as soon as they are read."""

    rows: DataFrame
    reject: Callable[[pa.RecordBatch], pa.RecordBatch]
    own: OwnRows | None = None


def dataframe_to_rows(df: DataFrame, stream: Stream) -> JudgedRows:
    """The rows of a streaming DataFrame, which is read once: rows that do not fit go along with the others."""
    place = f"rows of {stream.name}"
    stream = with_default_ahead(as_spark_names_it(stream, df))
    judged = _judge(df, stream, place)
    is_ahead = judged.time > micro_batch_us() + F.lit(stream.ahead_us)
    about = F.struct(*judged.shown, judged.time.alias(_TIME_US), micro_batch_us().alias(NOW_US))
    misfit = F.when(judged.misfit | is_ahead, about).alias("_misfit")
    return JudgedRows(_numbered(df).select(*judged.values, misfit), _Rejecter(stream, judged.names, place, None).reject)


def _numbered(df: DataFrame) -> DataFrame:
    """Numbers for names: two names may differ in case only, and dots and backquotes would need care."""
    return df.toDF(*(f"c{i}" for i in range(len(df.columns))))


def _source_column(attribute: AttributeDeclaration, fields: list[StructField]) -> Column:
    """The column that an attribute comes from, after `_numbered`."""
    name, *inner = attribute.source
    number = [field.name for field in fields].index(name)
    column, column_type = F.col(f"c{number}"), fields[number].dataType
    for name in inner:
        assert isinstance(column_type, StructType)
        number = column_type.names.index(name)
        if len({known.lower() for known in column_type.names}) < len(column_type.names):  # here, too
            column = column.cast(
                StructType([StructField(f"c{i}", field.dataType) for i, field in enumerate(column_type)])
            )
            column = column.getField(f"c{number}")
        else:
            column = column.getField(name)
        column_type = column_type.fields[number].dataType
    return column


@dataclass(frozen=True)
class _Rejecter:
    """In a task: rows that Catalyst found not to fit -> why, by the functions of the embedded engine."""

    stream: Stream
    names: tuple[str, ...]
    place: str
    root: Root | None

    def reject_all(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(self.reject, batches)

    def reject(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        table = pa.table(batch.columns[: len(self.names)], names=self.names)
        conversions = conversions_to(self.stream, table.schema, self.place)
        columns = attribute_columns(table, self.stream, list(conversions))
        reasons = judge(*convert_columns(columns, self.stream, conversions), self.stream).reasons
        if NOW_US in batch.schema.names:
            # By the time that Catalyst found, which takes times without a zone in the session's.
            times = batch.column(_TIME_US).fill_null(0).to_numpy()
            reasons = reasons_ahead(times, self.stream, now_us_of(batch)) | reasons
        return pa.record_batch(
            {
                "_stream": pa.repeat(self.stream.name, len(table)),
                "_reason": pa.array([reasons.get(row, _NOT_IN_ITS_ZONE) for row in range(len(table))]),
                "_row": rows_to_json(table),
                "_place": pa.array(self._places(batch), pa.string()),
            }
        )

    def _places(self, batch: pa.RecordBatch) -> list[str]:
        if self.root is None:
            return [self.place] * len(batch)
        files, rows = (column.to_pylist() for column in batch.columns[-2:])
        return [f"{self.root.shown_uri(file)}, row {row + 1}" for file, row in zip(files, rows, strict=True)]


# ---- files


def _by_schema(paths: list[Path], stream: Stream) -> list[list[ParquetFile]]:
    """Files of the same columns together; InputError if one does not have the stream's.

    Spark merges neither int with bigint nor a column with none; rows that fit are alike again.
    """
    groups: dict[tuple[tuple[str, pa.DataType], ...], list[ParquetFile]] = {}
    for path in paths:
        file = ParquetFile.checked(path, stream)
        groups.setdefault(tuple((f.name, f.type) for f in file.schema), []).append(file)
    return list(groups.values())


def _parquet_to_input(spark: SparkSession, root: Root, files: list[ParquetFile], stream: Stream) -> StreamInput:
    """Files of the same columns. Where their footers say it, Spark is told the types of the columns, and is not sent to
    look for rejected rows: each would be a job of its own."""
    schema = files[0].schema
    zoneless = {a.name for a in stream.attributes if is_zoneless(type_found(a, stream, schema, root.given))}
    paths = [root.absolute_path(file.path) for file in files]
    if not any(":" in path or Path(path).name.startswith(("_", ".")) for path in paths):  # Spark finds no such files
        try:
            df = _reader(spark, schema).parquet(*map(_escaped, paths))
            named = "_metadata" in (name.lower() for name in df.columns)
            rows = _rows_to_input(df, stream, root.given, None if named else root)
            if stream.time not in zoneless and all(file.is_all_events(stream) for file in files):
                return replace(rows, rejected=nothing_rejected(spark))
            return rows
        except (PySparkException, InputError):
            pass  # a type that Spark does not read, or reads as another one
    return _in_tasks(spark, root, [file.path for file in files], stream, zoneless)


def nothing_rejected(spark: SparkSession) -> DataFrame:
    """A table without rows, which Spark leaves out of its plans."""
    columns = (f"CAST(NULL AS {type_}) AS {name}" for name, type_ in map(str.split, REJECTED.split(", ")))
    return spark.sql(f"SELECT {', '.join(columns)} WHERE false")


def _reader(spark: SparkSession, schema: pa.Schema) -> DataFrameReader:
    """A reader that knows the columns of Parquet files, if Spark would find the same ones; else it looks itself."""
    names = [name.lower() for name in schema.names]
    if len({*names}) < len(names) or not all(_is_alike_in_spark(field.type) for field in schema):
        return spark.read
    return spark.read.schema(StructType([StructField(f.name, from_arrow_type(f.type)) for f in schema]))


def _is_alike_in_spark(type_: pa.DataType) -> bool:
    """Whether Spark finds the type in Parquet files that Arrow finds there."""
    if pa.types.is_timestamp(type_):
        return type_.tz == "UTC" and type_.unit in ("ms", "us")
    return (
        pa.types.is_signed_integer(type_)
        or pa.types.is_float32(type_)
        or pa.types.is_float64(type_)
        or pa.types.is_boolean(type_)
        or pa.types.is_string(type_)
        or pa.types.is_date32(type_)
    )


def _escaped(path: str) -> str:
    """A path as Spark reads it, which takes it for a pattern."""
    return "file://" + re.sub(r"([\\\[\]{}*?])", r"\\\1", path)


def is_zoneless(found: pa.DataType) -> bool:
    """Whether values of a column are times that some zone must be known for."""
    if pa.types.is_dictionary(found):
        return is_zoneless(found.value_type)
    return pa.types.is_date(found) or (pa.types.is_timestamp(found) and found.tz is None)


def _in_tasks(
    spark: SparkSession, root: Root, files: list[Path], stream: Stream, zoneless: set[str] | None = None
) -> StreamInput:
    """Files read by situ. Attributes that are `zoneless` were read as UTC, but are meant in the session's zone."""
    events = events_in_tasks(spark, root, files, stream)
    if zoneless:
        zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
        flat = _numbered(events)
        names = events.columns
        columns = dict(zip(names, (F.col(name) for name in flat.columns), strict=True))
        columns |= {name: F.to_utc_timestamp(columns[name], zone) for name in zoneless}
        if stream.time in zoneless:
            columns["_time"] = F.unix_micros(columns[stream.time])
        events = flat.select(*(columns[name].alias(name) for name in names))
    return StreamInput(events, rejected_in_tasks(spark, root, files, stream))
