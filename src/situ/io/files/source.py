"""What the engine reads from: sources give chunks, chunks give columns."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from situ.io.rows.conform import Conformed


class Chunk(Protocol):
    """Some rows of a source, read lazily by column."""

    @property
    def rows(self) -> int:
        """Rows of the input: those accepted and those rejected."""
        ...

    @property
    def time_range(self) -> tuple[int, int] | None:
        """No event lies outside of these times (microseconds since the epoch); None where that is not known."""
        ...

    def read(self, columns: Sequence[str]) -> Conformed:
        """The events, with the columns asked for.

        Every call gives the same events in the same order, and the same rejected rows: count them once.
        """
        ...


class Source(Protocol):
    """Bounded input of one stream."""

    @property
    def rows(self) -> int | None:
        """How many rows there are, where that costs little to know."""
        ...

    def chunks(self) -> Iterator[Chunk]:
        """The rows in order, in pieces of any size; each call starts at the beginning."""
        ...


def read_ahead(source: Source, columns: Sequence[str], ahead: int = 2) -> Iterator[tuple[Chunk, Conformed]]:
    """Every chunk with its columns, in order, while the next `ahead` chunks are being read in threads.

    Arrow reads and decodes without the interpreter's lock, so this overlaps with the consumer's own work.
    """
    pending: deque[tuple[Chunk, Future[Conformed]]] = deque()
    pool = ThreadPoolExecutor(ahead, thread_name_prefix="situ-read")
    try:
        for chunk in source.chunks():
            pending.append((chunk, pool.submit(chunk.read, columns)))
            if len(pending) > ahead:
                first, future = pending.popleft()
                yield first, future.result()
        while pending:
            first, future = pending.popleft()
            yield first, future.result()
    finally:  # also where the consumer stops early or a chunk fails
        pool.shutdown(cancel_futures=True)
