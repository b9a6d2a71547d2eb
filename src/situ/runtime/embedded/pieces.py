"""Bounded sources -> pieces in order of time.

A source is read chunk by chunk where Parquet's statistics show that its chunks follow one another in time; chunks
that overlap are read together. So a sorted directory of any size streams through, and any other is still right.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from situ.core.hops import hop
from situ.core.time import BEGINNING, END
from situ.flow.clock import ONLY_SOURCE
from situ.graph.query import Stream
from situ.io.files.source import Chunk, Source
from situ.io.rows.conform import Conformed, conform
from situ.kernel.batch import EXTENT, ORIGINS, Batch, concat, one_chunk
from situ.kernel.operator import origins_of

#: Chunks that are read while the one before is at work.
_AHEAD = 2


class StreamReader:
    """Turns a stream's rows into batches with the columns that operators read."""

    def __init__(self, stream: Stream, columns: frozenset[str], provenance: bool) -> None:
        self.stream, self._columns = stream, frozenset[str]()
        self.also_read(columns)
        #: By source, how many rows were read: the next row's number.
        self.rows_read: Counter[str] = Counter()

    def also_read(self, columns: frozenset[str]) -> None:
        """From now on these columns are read, too."""
        stream, self._columns = self.stream, self._columns | columns
        columns = self._columns
        declared = [attribute.name for attribute in stream.attributes]
        self.needed = [
            name
            for name in declared
            if name in columns or name == stream.unique or (name in (stream.location or ()) and "_x_min" in columns)
        ]
        self.derived = [name for name in (*EXTENT, ORIGINS) if name in columns]

    def batch(self, conformed: Conformed, load: Chunk | None = None, source: str = ONLY_SOURCE) -> Batch:
        """A batch of rows of one source; columns that `conformed` lacks are loaded from the chunk when they are
        read."""
        columns = {name: one_chunk(conformed.events.column(name)) for name in conformed.events.column_names}
        first = self.rows_read[source]
        self.rows_read[source] += len(conformed.times)

        def read(names: Iterable[str]) -> Mapping[str, pa.Array]:
            attributes = [name for name in names if not name.startswith("_")]
            loaded: dict[str, pa.Array] = {}
            if attributes:
                assert load is not None, attributes
                table = load.read(attributes).events
                loaded = {name: one_chunk(table.column(name)) for name in attributes}
            for name in names:
                if name in EXTENT:
                    loaded[name] = self._extent(name, columns, len(conformed.times))
                elif name == ORIGINS:
                    numbers = np.arange(first, first + len(conformed.times))
                    loaded[name] = origins_of(self.stream.name, source, conformed.times, numbers)
            return loaded

        return Batch(conformed.times, columns, read)

    def _extent(self, name: str, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
        location = self.stream.location
        if location is None:
            return pa.nulls(rows, pa.float64())
        return columns[location[0] if "_x" in name else location[1]].cast(pa.float64())


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one stream; no other piece of the stream has rows among or before them."""

    stream: str
    batch: Batch
    rejected: pa.Table


@dataclass(frozen=True, slots=True)
class Span:
    """Chunks that are read together, and the times between which they lie."""

    stream: str
    chunks: tuple[Chunk, ...]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _TableChunk:
    """A table in memory as a chunk."""

    table: pa.Table
    stream: Stream
    time_range: tuple[int, int] | None = None

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    def read(self, columns: Sequence[str]) -> Conformed:
        return conform(self.table, self.stream, columns, place=f"rows of {self.stream.name}")


def read_in_order(
    sources: Mapping[str, Source | pa.Table], readers: Mapping[str, StreamReader]
) -> Iterator[tuple[Piece, int]]:
    """The pieces of all sources by their first time, each with the first time of what follows it."""
    spans = sorted(
        (span for name, source in sources.items() for span in spans_in_order(source, readers[name].stream)),
        key=lambda span: (span.first, span.stream),
    )
    with ThreadPoolExecutor(_AHEAD, thread_name_prefix="situ-read") as pool:
        pending: deque[tuple[Span, list[Future[Conformed]]]] = deque()
        for number in range(len(spans) + _AHEAD):
            if number < len(spans):
                span = spans[number]
                needed = readers[span.stream].needed
                pending.append((span, [pool.submit(chunk.read, needed) for chunk in span.chunks]))
            finished = number - _AHEAD
            if finished >= 0:
                span, futures = pending.popleft()
                following = spans[finished + 1].first if finished + 1 < len(spans) else END
                with hop("scan"):
                    piece = _piece(span, [future.result() for future in futures], readers[span.stream])
                yield piece, following


def spans_in_order(source: Source | pa.Table, stream: Stream) -> list[Span]:
    """The chunks of a source in order of time; those that overlap are one span."""
    chunks: list[Chunk] = [_TableChunk(source, stream)] if isinstance(source, pa.Table) else list(source.chunks())
    chunks = chunks[:1] + [chunk for chunk in chunks[1:] if chunk.rows]  # the first one may still say what is wrong
    ranged = sorted(((*(chunk.time_range or (BEGINNING, END)), n) for n, chunk in enumerate(chunks)))
    spans: list[Span] = []
    for first, last, number in ranged:
        if spans and first <= spans[-1].last:
            before = spans[-1]
            spans[-1] = Span(stream.name, (*before.chunks, chunks[number]), before.first, max(last, before.last))
        else:
            spans.append(Span(stream.name, (chunks[number],), first, last))
    return spans


def _piece(span: Span, conformed: list[Conformed], reader: StreamReader) -> Piece:
    batches = [reader.batch(rows, chunk) for rows, chunk in zip(conformed, span.chunks, strict=True)]
    rejected = pa.concat_tables([rows.rejected for rows in conformed])
    return Piece(span.stream, concat(batches), rejected)
