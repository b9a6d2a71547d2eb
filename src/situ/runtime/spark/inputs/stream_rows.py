"""Rows that situ judged itself, in Spark's tasks, as the rows of a stream: events, and misfits among them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, types
from pyspark.sql import functions as F

from situ.core.types import to_arrow
from situ.graph.query import Stream
from situ.io.rows.conform import REJECTED, Conformed
from situ.runtime.spark.inputs.columns import to_spark
from situ.runtime.spark.stages.stream_packer import MISFIT

#: The column in which the time of the micro-batch crosses to Python.
NOW_US = "_now_us"
#: Rows that cross to Spark at once.
_BATCH_ROWS = 32_768


def micro_batch_us() -> Column:
    """The time of the micro-batch in microseconds, by which rows ahead are judged. A micro-batch that is done again has
    the same, and so rejects the same rows.

    It is taken out of a sorted list, for which Spark generates no Java code: the code would have the time in it, and
    would be compiled again for each micro-batch.
    """
    return F.element_at(F.array_sort(F.array(F.unix_micros(F.current_timestamp()))), 1)


def now_us_of(batch: pa.RecordBatch) -> int:
    """The time of the micro-batch of which a batch is a part; any, where the batch has no rows."""
    times = batch.column(NOW_US)
    return int(times[0].as_py()) if len(times) else 0


def rows_type(stream: Stream) -> types.StructType:
    """The columns of such rows, as Spark's: attributes, `_time`, `_misfit`."""
    misfit = types.StructType([types.StructField(name, types.StringType()) for name in REJECTED.names])
    attributes = [types.StructField(a.name, to_spark(a.type)) for a in stream.attributes]
    return types.StructType(
        [*attributes, types.StructField("_time", types.LongType()), types.StructField(MISFIT, misfit)]
    )


def conformed_to_rows(part: Conformed, stream: Stream) -> Iterator[pa.RecordBatch]:
    """The events, and then the rows that are none. Their order does not matter within a micro-batch."""
    attributes = [(a.name, to_arrow(a.type)) for a in stream.attributes]
    misfit = pa.struct(list(REJECTED))
    schema = pa.schema([*attributes, ("_time", pa.int64()), (MISFIT, misfit)])
    if len(part.times):
        # Integers are as wide as in their files, until here.
        columns = [part.events.column(name).cast(type_) for name, type_ in attributes]
        fits = [pa.array(part.times, pa.int64()), pa.nulls(len(part.times), misfit)]
        yield from pa.table([*columns, *fits], schema=schema).to_batches(_BATCH_ROWS)
    count = part.rejected.num_rows
    if count:
        nothing = [pa.nulls(count, type_) for _, type_ in [*attributes, ("_time", pa.int64())]]
        reasons = [column.combine_chunks() for column in part.rejected.columns]
        misfits = pa.StructArray.from_arrays(reasons, fields=list(REJECTED))
        yield from pa.table([*nothing, misfits], schema=schema).to_batches(_BATCH_ROWS)


def as_it_is(misfits: pa.RecordBatch) -> pa.RecordBatch:
    """What `JudgedRows` asks for: the fields of such misfits are `_reason`, `_row` and `_place` already."""
    return misfits
