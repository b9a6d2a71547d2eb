"""What flows between operators: events, logs of events, progress and markers, on FIFO streams that are counted."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from situ.kernel.arrays import I64
from situ.kernel.batch import Batch
from situ.lab.mcep.switching.buffer import Buffer
from situ.space.event_store import Region


@dataclass(frozen=True, slots=True)
class Marker:
    """All that follows is of another interest (MCEP, section 4.2.2).

    `since_us`: the initialisation points of the atomic streams. `reuse_since_us`: what was streamed for the interest
    before, lies in this one's region and is not before this time, is of this one, too, and is not streamed again
    (section 5.2); None: nothing is. `is_end`: no interest follows, and this marker only ends the last one.
    """

    number: int
    start_us: int
    region: Region
    since_us: Mapping[str, int]
    reuse_since_us: int | None = None
    is_end: bool = False


@dataclass(frozen=True, slots=True)
class Streamed:
    """Events, by time; all of them are later than what has been passed."""

    events: Batch


@dataclass(frozen=True, slots=True)
class Log:
    """Events that have been streamed for the interest before, by their numbers: they are in the reader's buffer."""

    numbers: I64


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A heart beat: no event before this time will follow."""

    before_us: int


@dataclass(frozen=True, slots=True)
class Kept:
    """Events that are not streamed: the reader finds them in its buffer, because a marker or a log says so."""

    events: Batch


Message: TypeAlias = Marker | Streamed | Log | Heartbeat
Received: TypeAlias = Marker | Streamed | Kept | Heartbeat


@dataclass(slots=True)
class SwitchingCosts:
    """What one consumer's operator graph cost. Streams are named (producer, reader).

    `overhead`: complex events that were detected for an interest and were too early to be delivered.
    """

    streamed: Counter[tuple[str, str]] = field(default_factory=Counter)
    logged: Counter[tuple[str, str]] = field(default_factory=Counter)
    log_messages: Counter[tuple[str, str]] = field(default_factory=Counter)
    reused: Counter[tuple[str, str]] = field(default_factory=Counter)
    steps_run: Counter[str] = field(default_factory=Counter)
    steps_reused: Counter[str] = field(default_factory=Counter)
    switches: int = 0
    overhead: int = 0

    @property
    def events_streamed(self) -> int:
        """Over all streams: those of the range queries, and those between operators."""
        return self.streamed.total()

    def add(self, other: SwitchingCosts) -> None:
        for name in ("streamed", "logged", "log_messages", "reused", "steps_run", "steps_reused"):
            getattr(self, name).update(getattr(other, name))
        self.switches += other.switches
        self.overhead += other.overhead

    def __str__(self) -> str:
        lines = [f"{self.switches} switches, {self.events_streamed} events streamed"]
        for stream in sorted(self.streamed.keys() | self.reused.keys()):
            told = f"  {stream[0]} -> {stream[1]}: {self.streamed[stream]} streamed, {self.reused[stream]} reused"
            lines.append(told + f", {self.logged[stream]} in {self.log_messages[stream]} logs")
        for name in sorted(self.steps_run.keys() | self.steps_reused.keys()):
            lines.append(f"  {name}: {self.steps_run[name]} correlation steps, {self.steps_reused[name]} reused")
        return "\n".join(lines)


class EventChannel:
    """A FIFO stream from a producer to a reader. What was streamed for the interest before is in the event storage, in
    `buffer`; there a reader finds what markers and logs name."""

    def __init__(self, producer: str, reader: str, buffer: Buffer, counts: SwitchingCosts) -> None:
        self.producer, self._buffer = producer, buffer
        self._name, self._counts = (producer, reader), counts
        self._queue: deque[Received] = deque()

    def send(self, message: Message) -> None:
        match message:
            case Streamed(events):
                self._counts.streamed[self._name] += len(events)
                self._queue.append(message)
            case Log(numbers):
                self._counts.logged[self._name] += len(numbers)
                self._counts.log_messages[self._name] += 1
                self._queue.append(Kept(self._buffer.retrieve(numbers)))
            case Marker():
                self._queue.append(message)
                if message.reuse_since_us is not None:
                    self._counts.reused[self._name] += len(self._buffer.reused)
                    self._queue.append(Kept(self._buffer.reused))
            case Heartbeat():
                self._queue.append(message)
            case _:
                assert_never(message)

    def receive(self) -> Received | None:
        return self._queue.popleft() if self._queue else None
