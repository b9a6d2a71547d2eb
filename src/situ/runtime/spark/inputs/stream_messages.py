"""Messages of a broker as rows of a stream: each is one event, as JSON, read by the rules of JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from situ.graph.query import Stream
from situ.io.files.json_lines import JsonFormat
from situ.io.messages import check_json_attributes, conform_messages, pieces_of_messages
from situ.io.rows.ahead import with_default_ahead
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


def messages_to_rows(messages: DataFrame, stream: Stream, place: str) -> JudgedRows:
    """Messages as rows of a stream. `value` is the text, `_place` where the message stands, and `_reason`, if it is
    there, why there is no text. `place` is where all of them come from."""
    check_json_attributes(stream, place)
    columns = [name for name in ("value", "_place", "_reason") if name in messages.columns]
    reader = MessageReader(with_default_ahead(stream))
    messages = messages.select(*columns, micro_batch_us().alias(NOW_US))
    return JudgedRows(messages.mapInArrow(reader.rows, rows_type(stream)), as_it_is, OwnRows(messages, reader))


@dataclass(frozen=True)
class MessageReader:
    """In a task: messages -> rows."""

    stream: Stream

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in self.parts(batch):
                yield from conformed_to_rows(part, self.stream)

    def parts(self, batch: pa.RecordBatch) -> Iterator[Conformed]:
        form = JsonFormat(b"", self.stream)
        for piece in pieces_of_messages(batch):
            yield conform_messages(piece, form, self.stream, now_us_of(piece))
