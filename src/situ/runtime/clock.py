"""How far event time has come: the watermark of unbounded streams."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from situ.graph.query import Stream

#: Before every event.
BEGINNING = int(np.iinfo(np.int64).min)


@dataclass(slots=True)
class StreamClock:
    """`latest` is the stream's largest event time so far; `seen_at`, in seconds of wall time, when rows last came."""

    stream: Stream
    seen_at: float | None = None
    latest: int = BEGINNING

    @property
    def watermark(self) -> int:
        """No event before it can come without being late."""
        return BEGINNING if self.latest == BEGINNING else self.latest - self.stream.watermark_us

    @property
    def idle_at(self) -> float | None:
        """When, without further rows, the stream has been silent too long; None: never."""
        after = self.stream.idle_after_us
        return None if after is None or self.seen_at is None else self.seen_at + after / 1e6

    def is_idle(self, now: float) -> bool:
        return self.idle_at is not None and now >= self.idle_at


@dataclass(slots=True)
class Clock:
    """The clocks of a query's streams, and the time that has passed on all of them.

    >>> from situ.graph.query import Stream
    >>> clock = Clock.of([Stream("A", (), "ts"), Stream("B", (), "ts", watermark_us=10, idle_after_us=5_000_000)])
    >>> clock.see("A", 100, now=0.0), clock.see("B", 50, now=0.0)
    (None, None)
    >>> clock.advance(now=0.0), clock.advance(now=6.0)
    (40, 100)
    """

    streams: dict[str, StreamClock]
    passed: int = field(default=BEGINNING)

    @classmethod
    def of(cls, streams: Iterable[Stream]) -> Clock:
        return cls({stream.name: StreamClock(stream) for stream in streams})

    def see(self, stream: str, latest: int, now: float) -> None:
        """Rows of a stream came, with times up to `latest`."""
        clock = self.streams[stream]
        clock.latest, clock.seen_at = max(clock.latest, latest), now

    def limit(self, stream: str) -> int:
        """Events before it are late."""
        return max(self.streams[stream].watermark, self.passed)

    def advance(self, now: float) -> int:
        """How far time has passed: the slowest stream decides, but for those that have been silent too long."""
        for clock in self.streams.values():
            if clock.seen_at is None:
                clock.seen_at = now  # silence is counted from the start
        active = [clock.watermark for clock in self.streams.values() if not clock.is_idle(now)]
        self.passed = max(self.passed, min(active, default=self.passed))
        return self.passed

    def idle_at(self, now: float) -> float | None:
        """When, without further rows, the next stream stops holding others back; None: never."""
        holding = [clock for clock in self.streams.values() if clock.watermark <= self.passed]
        moments = [moment for clock in holding if (moment := clock.idle_at) is not None and moment > now]
        return min(moments, default=None) if len(self.streams) > 1 else None

    def table(self) -> pa.Table:
        """For a snapshot; without wall time, where it does not count."""
        clocks = self.streams.values()
        seen = [None, *(clock.seen_at if clock.stream.idle_after_us is not None else None for clock in clocks)]
        times = pa.array([self.passed, *(clock.latest for clock in clocks)], pa.int64())
        return pa.table({"stream": ["", *self.streams], "time": times, "seen_at": pa.array(seen, pa.float64())})

    def restore(self, table: pa.Table) -> None:
        for row in table.to_pylist():
            if row["stream"] == "":
                self.passed = row["time"]
            elif row["stream"] in self.streams:
                clock = self.streams[row["stream"]]
                clock.latest, clock.seen_at = row["time"], row["seen_at"]
