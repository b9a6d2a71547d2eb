"""Files that situ reads itself, in Spark's tasks: a DataFrame of paths -> their events, or their rejected rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from situ.core.types import to_arrow
from situ.graph.query import Stream
from situ.io.files.by_suffix import open_checked_file
from situ.io.files.root import Root
from situ.io.files.source import read_ahead
from situ.io.rows.conform import Conformed
from situ.runtime.spark.inputs.columns import to_spark

REJECTED = "_stream string, _reason string, _row string, _place string"

#: Rows that cross to Spark at once: Spark's own batches have 10,000, and these are columns already.
_BATCH_ROWS = 100_000


def events_in_tasks(spark: SparkSession, root: Root, files: list[Path], stream: Stream) -> DataFrame:
    fields = [StructField(a.name, to_spark(a.type)) for a in stream.attributes]
    schema = StructType([*fields, StructField("_time", LongType())])
    return _one_row_each(spark, root, files).mapInArrow(_FileReader(stream, root).events, schema)


def rejected_in_tasks(spark: SparkSession, root: Root, files: list[Path], stream: Stream) -> DataFrame:
    return _one_row_each(spark, root, files).mapInArrow(_FileReader(stream, root).rejected, REJECTED)


def _one_row_each(spark: SparkSession, root: Root, files: list[Path]) -> DataFrame:
    return spark.createDataFrame([(root.absolute_path(file),) for file in files], "path string")


@dataclass(frozen=True)
class _FileReader:
    """In a task: paths -> rows."""

    stream: Stream
    root: Root

    def events(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([*((a.name, to_arrow(a.type)) for a in self.stream.attributes), ("_time", pa.int64())])
        for part in self._parts(batches):
            table = part.events.append_column("_time", pa.array(part.times, pa.int64()))
            # Integers are as wide as in their files, until here.
            yield from table.cast(schema).to_batches(_BATCH_ROWS)

    def rejected(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in self._parts(batches):
            reasons, rows, places = part.rejected.columns
            shown = pa.array(map(self.root.shown, places.to_pylist()), pa.string())
            stream = pa.repeat(self.stream.name, len(rows))
            table = pa.table([stream, reasons, rows, shown], names=["_stream", *part.rejected.column_names])
            yield from table.to_batches(_BATCH_ROWS)

    def _parts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Conformed]:
        names = [attribute.name for attribute in self.stream.attributes]
        for batch in batches:
            for path in batch.column("path").to_pylist():
                for _, part in read_ahead(open_checked_file(Path(path), self.stream), names, ahead=1):
                    yield part
