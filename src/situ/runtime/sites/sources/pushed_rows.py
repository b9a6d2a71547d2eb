"""Rows that a producer pushes to the site, and numbers itself: the position is the number of the next one.

What has come is handed on as soon as the site takes it, all of it at once. A producer keeps what it has sent until it
hears that it is on the site's disk, and is asked for it again after the site was killed.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator

import pyarrow as pa

from situ.core.errors import SituError
from situ.graph.query import Stream
from situ.io.rows.ahead import reject_ahead
from situ.io.rows.conform import Conformed, conform
from situ.runtime.sites.sources.source import PIECE_ROWS, SourceRows, position_of_text, position_to_text
from situ.runtime.sites.wire.producing import NotNowError

#: Rows that may wait here; whoever pushes more waits itself.
_MOST_ROWS = 4 * PIECE_ROWS
_LOOK_S = 0.05
#: How long a producer may wait until the source is read.
_BEGIN_S = 30.0


class PushedRows:
    """The rows of one producer. It is pushed to in the thread of a connection, and read in the source's own."""

    def __init__(self, producer: str, stream: Stream) -> None:
        self._producer, self._stream = producer, stream
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Conformed | None, int, bool]] = deque()
        self._rows = 0
        #: The numbers of the next row that may come, and of the first one that is not on disk; None before the start.
        self._following: int | None = None
        self._taken = 0
        self._closed = False

    # ---- for the connection

    def following(self) -> int:
        """The number of the row that is to come next."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._closed or self._following is not None, _BEGIN_S):
                raise NotNowError(f"{self._stream.name} is not read yet")
            self._require_open()
            assert self._following is not None
            return self._following

    def push(self, first: int, rows: pa.RecordBatch, ended: bool) -> None:
        """Takes rows with numbers from `first` on; those that have come before are dropped. An end has a number, too.
        SituError if some are missing before them, or if they are no rows of the stream. Waits while too many wait."""
        following = self.following()
        if first > following:
            raise SituError(f"rows from {first} on have come, and {following} is the next one")
        end = first + rows.num_rows + ended
        if end <= following:
            return
        fresh = rows.slice(min(following - first, rows.num_rows))
        conformed = self._conformed(fresh) if fresh.num_rows else None
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._rows < _MOST_ROWS)
            self._require_open()
            if following != self._following:
                raise SituError("another connection has pushed rows meanwhile")
            self._following = end
            self._waiting.append((conformed, end, ended))
            self._rows += fresh.num_rows
            self._changed.notify_all()

    def taken_after(self, number: int, timeout_s: float) -> int:
        """The number of the first row that is not on disk, as soon as it is larger than `number`, or later."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._taken > number, timeout_s)
            return self._taken

    def _require_open(self) -> None:
        if self._closed:
            raise NotNowError("the site ends")

    def _conformed(self, rows: pa.RecordBatch) -> Conformed:
        place = f"producer {self._producer}"
        conformed = conform(rows, self._stream, place=place)
        return reject_ahead(conformed, self._stream, round(time.time() * 1e6), place)

    # ---- for the site

    def read(self, position: str | None) -> Iterator[SourceRows | None]:
        begin = 0 if position is None else int(position_of_text(position, f"producer {self._producer}")["next"])
        with self._changed:
            self._following = self._taken = begin
            self._changed.notify_all()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or bool(self._waiting), _LOOK_S)
                waiting = list(self._waiting)
                self._waiting.clear()
                self._rows = 0
                self._changed.notify_all()
            if not waiting:
                yield None
                continue
            parts = [rows for rows, _, _ in waiting if rows is not None]
            _, following, ended = waiting[-1]
            yield SourceRows(Conformed.concat(parts) if parts else None, position_to_text({"next": following}), ended)
            if ended:
                return

    def taken(self, position: str) -> None:
        with self._changed:
            self._taken = int(position_of_text(position, f"producer {self._producer}")["next"])
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
