"""How far event time has come: the watermark of unbounded streams.

Time passes with the events. Where all streams have been silent for their `idle after`, it goes on at the pace of the
wall clock, so that a situation in which nothing happens any more is found, too. It goes on from the largest time that
was seen and never jumps to the wall clock itself: what is read may be old.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from situ.graph.query import Stream

#: Before every event.
BEGINNING = int(np.iinfo(np.int64).min)

#: Where all streams are silent, those who wait look at the clock again after this part of the shortest `idle after`,
#: and not more often than once in so many seconds.
_PACE, _LEAST_PACE_S = 0.1, 1.0


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

    `looked_at` is the wall time of the last step, in seconds.
    """

    streams: dict[str, StreamClock]
    passed: int = field(default=BEGINNING)
    looked_at: float | None = None

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
        """How far time has passed: the slowest stream decides, but for those that have been silent too long; where all
        have been, the wall clock does."""
        for clock in self.streams.values():
            if clock.seen_at is None:
                clock.seen_at = now  # silence is counted from the start
        active = [clock.watermark for clock in self.streams.values() if not clock.is_idle(now)]
        self.passed = max(self.passed, min(active) if active else self._reached_in_silence(now))
        self.looked_at = now
        return self.passed

    def _reached_in_silence(self, now: float) -> int:
        """The largest time seen, less its stream's watermark, and as much later as the silence of all streams lasts."""
        latest = max(clock.watermark for clock in self.streams.values())
        if latest == BEGINNING:
            return BEGINNING  # nobody knows the time
        heard_at = max(clock.seen_at for clock in self.streams.values() if clock.seen_at is not None)
        return latest + round((now - heard_at) * 1e6)

    def idle_at(self, now: float) -> float | None:
        """When, without further rows, wall time lets time pass next; None: never."""
        clocks = self.streams.values()
        holding = [clock for clock in clocks if clock.watermark <= self.passed and len(clocks) > 1]
        moments = [moment for clock in holding if (moment := clock.idle_at) is not None and moment > now]
        if (silent_at := self._silent_at()) is not None:
            moments.append(silent_at if silent_at > now else now + self._pace_s())
        return min(moments, default=None)

    def _silent_at(self) -> float | None:
        """When, without further rows, time goes on by the wall clock; None: never, as a stream is never idle, or nobody
        knows the time."""
        moments = [clock.idle_at for clock in self.streams.values()]
        known = any(clock.latest != BEGINNING for clock in self.streams.values())
        return max((m for m in moments if m is not None), default=None) if known and None not in moments else None

    def _pace_s(self) -> float:
        shortest_us = min(clock.stream.idle_after_us or 0 for clock in self.streams.values())
        return max(shortest_us / 1e6 * _PACE, _LEAST_PACE_S)

    def resume(self, since: float) -> None:
        """From the last look at the clock to `since` nobody could hear the streams: that was no silence."""
        for clock in self.streams.values():
            if clock.seen_at is not None:
                clock.seen_at = since if self.looked_at is None else clock.seen_at + since - self.looked_at
        self.looked_at = since

    def table(self) -> pa.Table:
        """For a snapshot; without wall time, where it does not count."""
        clocks = self.streams.values()
        heard = [clock.seen_at if clock.stream.idle_after_us is not None else None for clock in clocks]
        seen = [self.looked_at if any(moment is not None for moment in heard) else None, *heard]
        times = pa.array([self.passed, *(clock.latest for clock in clocks)], pa.int64())
        return pa.table({"stream": ["", *self.streams], "time": times, "seen_at": pa.array(seen, pa.float64())})

    def restore(self, table: pa.Table) -> None:
        for row in table.to_pylist():
            if row["stream"] == "":
                self.passed, self.looked_at = row["time"], row["seen_at"]
            elif row["stream"] in self.streams:
                clock = self.streams[row["stream"]]
                clock.latest, clock.seen_at = row["time"], row["seen_at"]
