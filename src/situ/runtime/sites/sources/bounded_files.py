"""Files that are there, read to their end in order of time: what `situ up --once` replays.

Rows are sorted as the embedded engine sorts them, so that none is late. The position is the number of a span (rows that
no other span has rows among) and a row in it.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa

from situ.core.errors import StateError
from situ.graph.query import Stream
from situ.io.files.by_suffix import files_below, open_source
from situ.io.rows.conform import Conformed
from situ.runtime.embedded.pieces import Span, spans_in_order
from situ.runtime.sites.sources.source import (
    OTHER_SOURCE,
    SourceRows,
    position_of_text,
    position_to_text,
    slices,
)

#: Spans that are read while the one before is handed on.
_AHEAD = 2


class BoundedFiles:
    """A file, or all files below a directory, as the events of a stream that ends."""

    def __init__(self, path: Path, stream: Stream) -> None:
        self._path, self._stream = path, stream
        self._source = open_source(path, stream)
        self._columns = [attribute.name for attribute in stream.attributes]

    def read(self, position: str | None) -> Iterator[SourceRows | None]:
        first_span, first_row = self._place_of(position)
        spans = spans_in_order(self._source, self._stream)
        files = self._files_digest()
        for number, rows in enumerate(self._read_ahead(spans[first_span:]), first_span):
            row, last = first_row, len(rows.times)
            if row:
                rows = Conformed(rows.events.slice(row), rows.times[row:], rows.rejected.slice(0, 0))
            for piece in slices(rows):
                row += len(piece.times)
                place = {"span": number, "row": row} if row < last else {"span": number + 1, "row": 0}
                yield SourceRows(piece, position_to_text({"files": files, **place}))
            first_row = 0
        yield SourceRows(None, position_to_text({"files": files, "span": len(spans), "row": 0}), ended=True)

    def taken(self, position: str) -> None:
        """Files stay as they are."""

    def close(self) -> None:
        """Nothing is open between two reads."""

    def _place_of(self, position: str | None) -> tuple[int, int]:
        if position is None:
            return 0, 0
        place = position_of_text(position, str(self._path))
        if place.get("files") != self._files_digest():
            raise StateError(
                "these are not the files that were read before: names or sizes differ",
                place=str(self._path),
                remedy=OTHER_SOURCE,
            )
        return int(place["span"]), int(place["row"])

    def _files_digest(self) -> str:
        files = [(file.name, file.stat().st_size) for file in files_below(self._path)]
        return hashlib.sha256(repr(files).encode()).hexdigest()[:16]

    def _read_ahead(self, spans: list[Span]) -> Iterator[Conformed]:
        pool = ThreadPoolExecutor(_AHEAD, thread_name_prefix="situ-read")
        try:
            pending: deque[Future[Conformed]] = deque()
            for span in spans:
                pending.append(pool.submit(self._read_span, span))
                if len(pending) > _AHEAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:  # also where nobody reads on
            pool.shutdown(cancel_futures=True)

    def _read_span(self, span: Span) -> Conformed:
        rows = Conformed.concat([chunk.read(self._columns) for chunk in span.chunks])
        if len(rows.times) and (rows.times[1:] < rows.times[:-1]).any():
            order = np.argsort(rows.times, kind="stable")
            rows = Conformed(rows.events.take(pa.array(order)).combine_chunks(), rows.times[order], rows.rejected)
        return rows
