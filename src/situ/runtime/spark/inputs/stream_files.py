"""Files that come into a directory, as rows of a stream.

Spark finds new files, and keeps in its checkpoint which ones have been read. It hands over their paths; situ reads
them in Spark's tasks, as the embedded engine does: block by block, each file by its own header or schema. So one that
does not fit the stream is told by its reasons, and memory does not depend on the size of files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from situ.graph.query import Stream
from situ.io.files.arriving import ArrivingFileReader, check_files, is_hidden, require_directory
from situ.io.files.root import Root
from situ.io.permissions import PRIVATE
from situ.io.rows.ahead import reject_ahead, with_default_ahead
from situ.io.rows.conform import Conformed
from situ.runtime.spark.inputs.stream_rows import (
    NOW_US,
    as_it_is,
    conformed_to_rows,
    micro_batch_us,
    now_us_of,
    rows_type,
)
from situ.runtime.spark.inputs.tables import JudgedRows, OwnRows

#: Bytes of the files of one micro-batch; a larger file is one alone. A backlog is read in such pieces.
BATCH_BYTES = 256 << 20

_OPENED = "opened"

_FILES = "path string, modificationTime timestamp, length long, content binary"


def files_to_rows(
    spark: SparkSession, directory: Path, stream: Stream, work: Path, batch_bytes: int = BATCH_BYTES
) -> JudgedRows:
    """Files of Parquet, CSV or JSON lines, also below the directory, and those that will come.

    A file is read once, by its name: it must be moved in whole, and not changed later. Names that begin with `.` or
    `_` are passed over. Times without a zone are UTC. Every worker must see the files under the same path.

    When a stream is first opened, files that are there and do not fit it are an InputError: most likely the declaration
    is wrong. `work` remembers that it has been. Rows of such files that come later are rejected, and so is, as one
    row, a file that cannot be read.
    """
    require_directory(directory)
    if not (work / _OPENED).exists():
        check_files(directory, stream)
        PRIVATE.make_directory(work)
        PRIVATE.open_new(work / _OPENED).close()
    root = Root.of(directory)
    paths = _paths(spark, root.absolute, batch_bytes).select("path", micro_batch_us().alias(NOW_US))
    reader = FileReader(with_default_ahead(stream), root)
    return JudgedRows(paths.mapInArrow(reader.rows, rows_type(stream)), as_it_is, OwnRows(paths, reader))


def _paths(spark: SparkSession, directory: str, batch_bytes: int) -> DataFrame:
    """One row for each file. Without the column `content`, Spark does not open them."""
    settings = {
        "recursiveFileLookup": "true",
        "maxBytesPerTrigger": str(batch_bytes),
        # Else Spark would pass over, without a word, files that are a week older than others.
        "maxFileAge": "36500d",
    }
    reader = spark.readStream.format("binaryFile").schema(_FILES).options(**settings)
    return reader.load(_escaped(directory)).select("path")


def _escaped(path: str) -> str:
    """A path as Spark reads it, which takes it for a pattern."""
    return "file://" + re.sub(r"([\\\[\]{}*?])", r"\\\1", path)


# ---- in a task


@dataclass(frozen=True)
class FileReader:
    """Paths -> rows."""

    stream: Stream
    root: Root

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in self.parts(batch):
                yield from conformed_to_rows(part, self.stream)

    def parts(self, batch: pa.RecordBatch) -> Iterator[Conformed]:
        for path in batch.column("path").to_pylist():
            file = Path(re.sub(r"^file:/+", "/", path))
            if not is_hidden(file, Path(self.root.absolute)):  # Spark has a rule of its own for names with a `=`
                for part in ArrivingFileReader(self.stream, self.root).read(file):
                    yield reject_ahead(part, self.stream, now_us_of(batch), self.root.shown(str(file)))
