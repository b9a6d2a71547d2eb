"""What Spark and the embedded engine make of the same rows and files, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from situ.core.types import to_arrow
from situ.graph.query import Stream
from situ.io.files.by_suffix import open_source
from situ.io.rows.conform import conform
from situ.lang.parse import parse
from situ.runtime.spark.inputs.tables import StreamInput, dataframe_to_input, files_to_input

MICROS = pa.timestamp("us", tz="UTC")


def stream_of(text: str) -> Stream:
    [stream] = parse(f"stream {text}").streams
    return stream


@contextmanager
def configured(spark: SparkSession, **settings: str) -> Iterator[None]:
    """A session with other settings, for a while."""
    named = {"spark.sql." + key.replace("__", "."): value for key, value in settings.items()}
    before = {key: spark.conf.get(key, None) for key in named}
    for key, value in named.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)


def by_situ(table: pa.Table, stream: Stream) -> tuple[list[Any], list[Any]]:
    """The events and the rejected rows that the embedded engine makes of a table."""
    conformed = conform(table, stream, place=f"rows of {stream.name}")
    return events_of(conformed.events, conformed.times, stream), [
        {"_stream": stream.name, **row, "_place": f"rows of {stream.name}"} for row in conformed.rejected.to_pylist()
    ]


def events_of(events: pa.Table, times: np.ndarray, stream: Stream) -> list[Any]:
    schema = pa.schema([(attribute.name, to_arrow(attribute.type)) for attribute in stream.attributes])
    return plain(events.cast(schema).append_column("_time", pa.array(times)))


def by_spark(given: StreamInput) -> tuple[list[Any], list[Any]]:
    return plain(given.events.toArrow()), given.rejected.toArrow().to_pylist()


def plain(table: pa.Table) -> list[Any]:
    """Rows that can be compared: timestamps as microseconds, NaN equal to itself."""
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    rows = pa.table(columns, names=table.column_names).to_pylist()
    return [{name: "NaN" if value != value else value for name, value in row.items()} for row in rows]


def check(spark: SparkSession, table: pa.Table, stream: Stream) -> tuple[list[Any], list[Any]]:
    """What Spark and the embedded engine make of the same rows; in one partition, they come in order."""
    events, rejected = by_spark(dataframe_to_input(spark.createDataFrame(table).coalesce(1), stream))
    expected_events, expected_rejected = by_situ(table, stream)
    assert events == expected_events
    assert rejected == expected_rejected
    return events, rejected


def read_by_situ(path: Path, stream: Stream) -> tuple[list[Any], list[Any]]:
    parts = [chunk.read([a.name for a in stream.attributes]) for chunk in open_source(path, stream).chunks()]
    events = [row for part in parts for row in events_of(part.events, part.times, stream)]
    return events, [{"_stream": stream.name, **row} for part in parts for row in part.rejected.to_pylist()]


def check_files(spark: SparkSession, path: Path, stream: Stream) -> tuple[list[Any], list[Any]]:
    """What Spark and the embedded engine read from the same files; Spark may begin with any of them."""
    given, expected = by_spark(files_to_input(spark, path, stream)), read_by_situ(path, stream)
    assert sorted(given[0], key=repr) == sorted(expected[0], key=repr)
    assert sorted(given[1], key=repr) == sorted(expected[1], key=repr)
    return expected
