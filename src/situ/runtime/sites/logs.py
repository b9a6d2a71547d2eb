"""Logs as a site knows them: those that it makes, with the positions of their readers, and those that it reads."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from situ.core.time import BEGINNING, END
from situ.runtime.sites.journal import EntryStub
from situ.runtime.sites.messages import FINISHED, LogBatch, LogName, Position, Question

#: The reader that is a site's own sink.
SINK = ""


@dataclass(slots=True)
class Shelf:
    """The entries of a log that are in the journal, in order."""

    stubs: list[EntryStub] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(stub.size for stub in self.stubs)

    def begin(self, end: int) -> int:
        """The first number that is there, of a log that ends with `end`."""
        return self.stubs[0].first if self.stubs else end

    def after(self, number: int) -> Iterator[EntryStub]:
        """The entries from a number on."""
        yield from self.stubs[bisect_right(self.stubs, number, key=lambda stub: stub.following) :]

    def size_between(self, first: int, following: int) -> int:
        """The bytes of the entries with these numbers."""
        begin = bisect_right(self.stubs, first, key=lambda stub: stub.following)
        end = bisect_left(self.stubs, following, key=lambda stub: stub.first)
        return sum(stub.size for stub in self.stubs[begin:end])

    def forget(self, before: int) -> None:
        """Forget entries that end before a number."""
        del self.stubs[: bisect_right(self.stubs, before, key=lambda stub: stub.following)]


@dataclass(slots=True)
class Reader:
    """What a log's origin knows of one of its readers: up to where entries were sent, and what survives there.

    `told_us` is the latest promise that was sent, `question` what the reader wants to hear, `heard_at` when it last
    moved on.
    """

    sent: int = 0
    committed: int = 0
    watermark_us: int = BEGINNING
    told_us: int = BEGINNING
    credit: int = 0
    question: Question | None = None
    heard_at: float = 0.0

    def outstanding(self, shelf: Shelf) -> int:
        """Bytes that were sent, and of which nobody knows whether they survive there."""
        return shelf.size_between(self.committed, self.sent)


@dataclass(slots=True)
class MadeLog:
    """A log that this site makes. `end` and `watermark_us` are in memory; what is durable may be sent."""

    name: LogName
    readers: dict[str, Reader]
    end: int = 0
    watermark_us: int = BEGINNING
    durable_end: int = 0
    durable_us: int = BEGINNING
    shelf: Shelf = field(default_factory=Shelf)

    def owes(self, reader: Reader) -> bool:
        """Whether a reader has not committed all that is durable here; an end counts, other promises do not."""
        return reader.committed < self.durable_end or (self.durable_us == END and reader.watermark_us < END)

    @property
    def is_over(self) -> bool:
        """Whether all readers have all of it, and know that this is all."""
        return self.durable_us == END and not any(
            reader.committed < self.durable_end if site == SINK else self.owes(reader)
            for site, reader in self.readers.items()
        )

    def sendable(self, reader: Reader) -> Iterator[EntryStub]:
        """The entries that a reader may be sent now: as much as its credit allows, and one if it has nothing."""
        if not reader.credit:
            return
        outstanding = reader.outstanding(self.shelf)
        for stub in self.shelf.after(reader.sent):
            if stub.following > self.durable_end or (outstanding and outstanding + stub.size > reader.credit):
                return
            outstanding += stub.size
            yield stub

    def promise_for(self, reader: Reader) -> int | None:
        """The promise that a reader is to be told by itself: the end, or what it asked for."""
        if reader.sent < self.durable_end or self.durable_us <= reader.told_us:
            return None
        if self.durable_us == END:
            return END
        question = reader.question
        if question is None:
            return None
        passed = self.durable_us >= question.until_us or (
            reader.told_us == BEGINNING or self.durable_us - reader.told_us >= question.pace_us
        )
        return self.durable_us if passed else None

    def asked_us(self) -> int:
        """Up to which time readers want to hear of it."""
        questions = [reader.question for reader in self.readers.values()]
        return max((q.until_us for q in questions if q is not None and q.until_us > self.durable_us), default=BEGINNING)

    def acknowledged(self) -> int:
        """The number before which all readers have everything."""
        return min((reader.committed for reader in self.readers.values()), default=self.durable_end)


@dataclass(slots=True)
class ReadLog:
    """A log of another site that this one reads.

    What came waits in `pending`, up to `received` and `received_us`; a step takes it; a commit makes it durable.
    Batches that came before what they follow are `early`; they lack something since `missing_since`. `sink`: what is
    known of this site's own sink, if it reads the log. `waiting` has, of events that were taken and that time has not
    passed, (largest time, bytes). `asked` is the last question, and how often it was said again.
    """

    name: LogName
    by_operators: bool
    sink: Reader | None
    received: int = 0
    received_us: int = BEGINNING
    taken: int = 0
    taken_us: int = BEGINNING
    committed: int = 0
    committed_us: int = BEGINNING
    pending: list[tuple[LogBatch, pa.RecordBatch | None]] = field(default_factory=list)
    shelf: Shelf = field(default_factory=Shelf)
    waiting: list[tuple[int, int]] = field(default_factory=list)
    early: dict[int, LogBatch] = field(default_factory=dict)
    missing_since: float | None = None
    lag_us: int = BEGINNING
    lag_since: float = 0.0
    asked: Question | None = None
    asked_at: float = 0.0
    asked_again: int = 0

    @property
    def is_over(self) -> bool:
        """Whether all of it is durable here, and written where a sink reads it."""
        return self.committed_us == END and (self.sink is None or self.sink.committed >= self.committed)

    @property
    def early_size(self) -> int:
        return sum(len(batch.rows) for batch in self.early.values())

    @property
    def is_asked(self) -> bool:
        """Whether a question is open."""
        return self.asked is not None and self.asked.until_us > self.received_us

    def is_new(self, batch: LogBatch) -> bool:
        """Whether a batch has numbers, or a promise, that are not here yet, and nothing is missing before it."""
        follows = batch.first == self.received
        return follows and (batch.following > batch.first or batch.watermark > self.received_us)

    def lacks(self, batch: LogBatch) -> bool:
        """Whether there are numbers before a batch that have not come."""
        return batch.first > self.received

    def position(self, life: str, credit: int, again: bool = False) -> Position:
        """What the origin may know: what survives here."""
        return Position(self.name, life, self.received, self.committed, self.committed_us, credit, again)

    def waiting_size(self, passed_us: int) -> int:
        """Bytes of events that time has not passed yet."""
        self.waiting = [(latest, size) for latest, size in self.waiting if latest >= passed_us]
        return sum(size for _, size in self.waiting)


def finished(log: LogName, life: str) -> Position:
    """What a reader says of a log that it has read to the end and forgotten."""
    return Position(log, life, FINISHED, FINISHED, END, 0)
