"""Logs as a site knows them: those that it makes, with the positions of their readers, and those that it reads."""

from __future__ import annotations

import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from situ.core.time import BEGINNING, END
from situ.runtime.sites.journal import EntryStub
from situ.runtime.sites.messages import FINISHED, LogBatch, LogName, Position, PullRequest, Question
from situ.runtime.sites.ranges import Ranges

#: What is journalled is acknowledged at once when it is this part of the credit.
_MUCH_OF_CREDIT = 4

#: The reader that is a site's own sink.
SINK = ""


class Shelf:
    """The entries of a log that are in the journal, in order. `_ends` are the bytes up to the end of each of them: much
    may be kept for those who pull, and how much is asked again and again."""

    def __init__(self) -> None:
        self.stubs: list[EntryStub] = []
        self._ends: list[int] = []

    @property
    def size(self) -> int:
        return self._bytes(0, len(self.stubs))

    def add(self, stub: EntryStub) -> None:
        self.stubs.append(stub)
        self._ends.append(stub.size + (self._ends[-1] if self._ends else 0))

    def begin(self, end: int) -> int:
        """The first number that is there, of a log that ends with `end`."""
        return self.stubs[0].first if self.stubs else end

    def after(self, number: int) -> Iterator[EntryStub]:
        """The entries from a number on."""
        yield from self.stubs[self._place_after(number) :]

    def size_between(self, first: int, following: int) -> int:
        """The bytes of the entries with these numbers."""
        return self._bytes(self._place_after(first), bisect_left(self.stubs, following, key=lambda stub: stub.first))

    def forget(self, before: int) -> None:
        """Forget entries that end before a number."""
        forgotten = self._place_after(before)
        del self.stubs[:forgotten], self._ends[:forgotten]

    def _place_after(self, number: int) -> int:
        return bisect_right(self.stubs, number, key=lambda stub: stub.following)

    def _bytes(self, begin: int, end: int) -> int:
        if end <= begin:
            return 0
        return self._ends[end - 1] - self._ends[begin] + self.stubs[begin].size


@dataclass(frozen=True, slots=True)
class PullState:
    """What a reader pulls: the last of its requests, which says all that is asked for."""

    number: int = 0
    forget_us: int = BEGINNING
    ranges: tuple[Ranges, ...] = ()

    def ends_between(self, first_us: int, before_us: int) -> bool:
        """Whether a range ends at or after one time and before another."""
        return any(first_us <= last < before_us for ranges in self.ranges for _, last in ranges)

    def next_end(self, passed_us: int) -> int:
        """The time from which on the next range that has not ended is over; BEGINNING if all have ended."""
        ends = [last for ranges in self.ranges for _, last in ranges if last >= passed_us]
        return min(ends) + 1 if ends else BEGINNING

    def to_json(self) -> str:
        return json.dumps([self.number, self.forget_us, self.ranges])

    @classmethod
    def of_json(cls, text: str) -> PullState:
        number, forget_us, sets = json.loads(text)
        return cls(number, forget_us, tuple(tuple((first, last) for first, last in ranges) for ranges in sets))


@dataclass(slots=True)
class Reader:
    """What a log's origin knows of one of its readers: up to where entries were sent, and what survives there.

    `told_us` is the latest promise that was sent, `told_request` the request that it answered, `question` what the
    reader wants to hear, `heard_at` when it last moved on, `waited_at` when it last said that it takes no more for now.
    """

    sent: int = 0
    sent_ever: int = 0
    committed: int = 0
    watermark_us: int = BEGINNING
    request: int = 0
    told_us: int = BEGINNING
    told_request: int = 0
    credit: int = 0
    question: Question | None = None
    heard_at: float = 0.0
    waited_at: float = -math.inf
    nudged_at: float = 0.0

    def outstanding(self, shelf: Shelf) -> int:
        """Bytes that were sent, and of which nobody knows whether they survive there."""
        return shelf.size_between(self.committed, self.sent)


@dataclass(slots=True)
class MadeLog:
    """A log that this site makes. `end` and `watermark_us` are in memory; what is durable may be sent.

    `pulled`: what the only reader of a log asks for, if it pulls. `latest_us` is the largest time of an event in the
    log.
    """

    name: LogName
    readers: dict[str, Reader]
    pulled: PullState | None = None
    end: int = 0
    watermark_us: int = BEGINNING
    durable_end: int = 0
    durable_us: int = BEGINNING
    durable_request: int = 0
    latest_us: int = BEGINNING
    shelf: Shelf = field(default_factory=Shelf)

    @property
    def request(self) -> int:
        """The last request that is answered, in memory."""
        return 0 if self.pulled is None else self.pulled.number

    @property
    def is_pulled_no_more(self) -> bool:
        """Whether nothing will be asked for any more."""
        return self.pulled is None or self.pulled.forget_us == END

    def owes(self, reader: Reader) -> bool:
        """Whether a reader has not committed all that is durable here; the end counts, and that of a range which it
        pulls, and the last request; other promises do not."""
        if reader.committed < self.durable_end or (self.durable_us == END and reader.watermark_us < END):
            return True
        if self.pulled is None:
            return False
        is_last = self.pulled.forget_us == END and reader.request < self.durable_request
        return is_last or self.pulled.ends_between(reader.watermark_us, min(self.durable_us, reader.told_us))

    @property
    def is_over(self) -> bool:
        """Whether all readers have all of it, and know that this is all."""
        if self.durable_us < END or not self.is_pulled_no_more:
            return False
        return not any(
            reader.committed < self.durable_end if site == SINK else self.owes(reader) or reader.request < self.request
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

    def promise_after(self, stub: EntryStub) -> tuple[int, int]:
        """The promise, and the request that it answers, which hold after an entry."""
        is_last = stub.following == self.durable_end
        return (max(stub.watermark, self.durable_us), self.durable_request) if is_last else (stub.watermark, 0)

    def promise_for(self, reader: Reader) -> int | None:
        """The promise that a reader is to be told by itself: the end, what it asked for, or the answer to a request
        for events that are not there."""
        if reader.sent < self.durable_end:
            return None
        if self.durable_request > reader.told_request:
            return self.durable_us
        if self.durable_us <= reader.told_us:
            return None
        if self.durable_us == END or self._has_passed(reader.told_us):
            return self.durable_us
        question = reader.question
        if question is None:
            return None
        passed = self.durable_us >= question.until_us or (
            reader.told_us == BEGINNING or self.durable_us - reader.told_us >= question.pace_us
        )
        return self.durable_us if passed else None

    def _has_passed(self, told_us: int) -> bool:
        """Whether, since a promise, time has passed the end of a range that is pulled, or an event that was sent: then
        the reader may be able to decide something."""
        if self.pulled is None:
            return False
        return told_us <= self.latest_us < self.durable_us or self.pulled.ends_between(told_us, self.durable_us)

    def asked_us(self) -> int:
        """Up to which time readers want to hear of it."""
        questions = [reader.question for reader in self.readers.values()]
        times = [q.until_us for q in questions if q is not None and q.until_us > self.durable_us]
        if self.pulled is not None:
            times.append(self.pulled.next_end(self.durable_us))
            if self.latest_us >= self.durable_us:
                times.append(self.latest_us + 1)
        return max(times, default=BEGINNING)

    def asked_pace_us(self) -> int:
        """How often readers want to hear how far time has come; who pulls wants to hear when a range is over."""
        questions = [reader.question for reader in self.readers.values()]
        return min((q.pace_us for q in questions if q is not None and q.until_us > self.durable_us), default=END)

    def acknowledged(self) -> int:
        """The number before which all readers have everything."""
        return min((reader.committed for reader in self.readers.values()), default=self.durable_end)


@dataclass(slots=True)
class TimeBuffer:
    """What is kept of a log because readers may still pull it: all from the first entry on that has an event of a time
    that may be asked for. PaNORAMA, section 6.

    `latest` has the largest time of entries, by first number, as far as it is known; `needless`: entries before this
    number are asked for no more.
    """

    latest: dict[int, int] = field(default_factory=dict)
    needless: int = 0

    def forget(self, shelf: Shelf, before_us: int, latest_in: Callable[[int], int]) -> None:
        """No event before a time will be asked for; `latest_in` reads an entry for its largest time."""
        for stub in shelf.after(self.needless):
            if stub.first not in self.latest:
                self.latest[stub.first] = latest_in(stub.first)
            if self.latest[stub.first] >= before_us:
                return
            self.needless = stub.following
            del self.latest[stub.first]


@dataclass(slots=True)
class ReadLog:
    """A log of another site that this one reads.

    What came waits in `pending`, up to `received`; a step takes it; a commit makes it durable.
    Batches that came before what they follow are `early`; they lack something since `missing_since`. `sink`: what is
    known of this site's own sink, if it reads the log. `waiting` has, of events that were taken and that time has not
    passed, (largest time, bytes). `asked` is the last question, and how often it was said again. `pulled`: what this
    site asks for, if it pulls, as far as that is durable; `requested` is what the origin was told of it.
    """

    name: LogName
    by_operators: bool
    sink: Reader | None
    pulled: PullState | None = None
    received: int = 0
    received_us: int = BEGINNING
    received_request: int = 0
    taken: int = 0
    taken_us: int = BEGINNING
    taken_request: int = 0
    committed: int = 0
    committed_us: int = BEGINNING
    committed_request: int = 0
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
    requested: PullState = field(default_factory=PullState)
    requested_at: float = 0.0
    requested_again: int = 0
    is_nudged: bool = False
    told: Position | None = None
    tell_at: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether all of it is durable here, and written where a sink reads it; and nothing will be pulled."""
        if self.pulled is not None and not (
            self.pulled.forget_us == END and self.committed_request >= self.pulled.number
        ):
            return False
        return self.committed_us == END and (self.sink is None or self.sink.committed >= self.committed)

    def is_worth_telling(self, committed: int, committed_us: int) -> bool:
        """Whether the origin wants to know that so much is durable here now: events, the end, that of a range which is
        pulled; other promises are not told, unless there is credit again."""
        if committed > self.committed or committed_us == END or (self.told is not None and not self.told.credit):
            return True
        return self.pulled is not None and self.pulled.ends_between(self.committed_us, committed_us)

    def must_be_told(self, credit: int) -> bool:
        """Whether the origin may wait for what is durable here: at the end, or when much of its credit is used up."""
        if self.committed_us == END or self.told is None or not self.told.credit:
            return True
        return self.shelf.size_between(self.told.committed, self.committed) * _MUCH_OF_CREDIT > credit

    def request(self) -> PullRequest:
        assert self.pulled is not None
        return PullRequest(self.name, self.pulled.number, self.pulled.forget_us, self.pulled.ranges)

    @property
    def early_size(self) -> int:
        return sum(len(batch.rows) for batch in self.early.values())

    @property
    def is_asked(self) -> bool:
        """Whether a question is open."""
        return self.asked is not None and self.asked.until_us > self.received_us

    def is_new(self, batch: LogBatch) -> bool:
        """Whether a batch has numbers, or a promise, that are not here yet, and nothing is missing before it."""
        tells_more = batch.watermark > self.received_us or batch.request > self.received_request
        return batch.first == self.received and (batch.following > batch.first or tells_more)

    def lacks(self, batch: LogBatch) -> bool:
        """Whether there are numbers before a batch that have not come."""
        return batch.first > self.received

    def position(self, life: str, credit: int, again: bool = False) -> Position:
        """What the origin may know: what survives here."""
        return Position(
            self.name, life, self.received, self.committed, self.committed_us, credit, again, self.committed_request
        )

    def waiting_size(self, passed_us: int) -> int:
        """Bytes of events that time has not passed yet."""
        self.waiting = [(latest, size) for latest, size in self.waiting if latest >= passed_us]
        return sum(size for _, size in self.waiting)


def finished(log: LogName, life: str) -> Position:
    """What a reader says of a log that it has read to the end and forgotten."""
    return Position(log, life, FINISHED, FINISHED, END, 0, request=FINISHED)
