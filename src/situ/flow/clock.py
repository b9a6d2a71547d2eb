"""How far event time has come: the watermark of unbounded streams.

Time passes with the events. Where all streams have been silent for their `idle after`, it goes on at the pace of the
wall clock, so that a situation in which nothing happens any more is found, too. It goes on from the largest time that
was seen and never jumps to the wall clock itself: what is read may be old.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from situ.core.time import BEGINNING
from situ.graph.query import Stream

#: The source of rows that come without the name of one: a stream that nobody divided has this one only.
ONLY_SOURCE = ""

#: Where all streams are silent, those who wait look at the clock again after this part of the shortest `idle after`,
#: and not more often than once in so many seconds.
_PACE, _LEAST_PACE_S = 0.1, 1.0


@dataclass(slots=True)
class SourceClock:
    """How far one source of a stream has come: `latest` is its largest event time so far; `seen_at`, in seconds of wall
    time, is when its rows last came."""

    stream: Stream
    seen_at: float | None = None
    latest: int = BEGINNING

    @property
    def watermark(self) -> int:
        """No event before it can come without being late."""
        return BEGINNING if self.latest == BEGINNING else self.latest - self.stream.watermark_us

    @property
    def idle_at(self) -> float | None:
        """When, without further rows, the source has been silent too long; None: never."""
        after = self.stream.idle_after_us
        return None if after is None or self.seen_at is None else self.seen_at + after / 1e6

    def is_idle(self, now: float) -> bool:
        return self.idle_at is not None and now >= self.idle_at


@dataclass(slots=True)
class Clock:
    """The clocks of a query's streams, one for each source of a stream, and the time that has passed on all of them.

    >>> from situ.graph.query import Stream
    >>> clock = Clock.of([Stream("A", (), "ts"), Stream("B", (), "ts", watermark_us=10, idle_after_us=5_000_000)])
    >>> clock.see("A", 100, now=0.0), clock.see("B", 50, now=0.0)
    (None, None)
    >>> clock.advance(now=0.0), clock.advance(now=6.0)
    (40, 100)

    `looked_at` is the wall time of the last step, in seconds.
    """

    sources: dict[tuple[str, str], SourceClock]
    passed: int = field(default=BEGINNING)
    looked_at: float | None = None

    @classmethod
    def of(cls, streams: Iterable[Stream], sources: Mapping[str, Sequence[str]] | None = None) -> Clock:
        """The clock of some streams; `sources` has, by stream, the names of those that have several."""
        named = sources or {}
        return cls(
            {
                (stream.name, source): SourceClock(stream)
                for stream in streams
                for source in named.get(stream.name, (ONLY_SOURCE,))
            }
        )

    def see(self, stream: str, latest: int, now: float, source: str = ONLY_SOURCE) -> None:
        """Rows of a source came, with times up to `latest`."""
        clock = self.sources[stream, source]
        clock.latest, clock.seen_at = max(clock.latest, latest), now

    def latest(self, stream: str, source: str = ONLY_SOURCE) -> int:
        """The largest time of the source's events so far."""
        return self.sources[stream, source].latest

    def limit(self, stream: str, source: str = ONLY_SOURCE) -> int:
        """Events of the source before it are late."""
        return max(self.sources[stream, source].watermark, self.passed)

    def advance(self, now: float) -> int:
        """How far time has passed: the slowest source decides, but for those that have been silent too long; where all
        have been, the wall clock does."""
        for clock in self.sources.values():
            if clock.seen_at is None:
                clock.seen_at = now  # silence is counted from the start
        active = [clock.watermark for clock in self.sources.values() if not clock.is_idle(now)]
        self.passed = max(self.passed, min(active) if active else self._reached_in_silence(now))
        self.looked_at = now
        return self.passed

    def _reached_in_silence(self, now: float) -> int:
        """The largest time seen, less its stream's watermark, and as much later as the silence of all streams lasts."""
        latest = max(clock.watermark for clock in self.sources.values())
        if latest == BEGINNING:
            return BEGINNING  # nobody knows the time
        heard_at = max(clock.seen_at for clock in self.sources.values() if clock.seen_at is not None)
        return latest + round((now - heard_at) * 1e6)

    def idle_at(self, now: float) -> float | None:
        """When, without further rows, wall time lets time pass next; None: never."""
        clocks = self.sources.values()
        holding = [clock for clock in clocks if clock.watermark <= self.passed and len(clocks) > 1]
        moments = [moment for clock in holding if (moment := clock.idle_at) is not None and moment > now]
        if (silent_at := self._silent_at()) is not None:
            moments.append(silent_at if silent_at > now else now + self._pace_s())
        return min(moments, default=None)

    def _silent_at(self) -> float | None:
        """When, without further rows, time goes on by the wall clock; None: never, as a stream is never idle, or nobody
        knows the time."""
        moments = [clock.idle_at for clock in self.sources.values()]
        is_time_known = any(clock.latest != BEGINNING for clock in self.sources.values())
        return (
            max((m for m in moments if m is not None), default=None) if is_time_known and None not in moments else None
        )

    def _pace_s(self) -> float:
        shortest_us = min(clock.stream.idle_after_us or 0 for clock in self.sources.values())
        return max(shortest_us / 1e6 * _PACE, _LEAST_PACE_S)

    def resume(self, since: float) -> None:
        """From the last look at the clock to `since` nobody could hear the streams: that was no silence."""
        for clock in self.sources.values():
            if clock.seen_at is not None:
                clock.seen_at = since if self.looked_at is None else clock.seen_at + since - self.looked_at
        self.looked_at = since

    def table(self) -> pa.Table:
        """For a snapshot; without wall time, where it does not count."""
        clocks = self.sources.values()
        heard = [clock.seen_at if clock.stream.idle_after_us is not None else None for clock in clocks]
        seen = [self.looked_at if any(moment is not None for moment in heard) else None, *heard]
        columns = {
            "stream": pa.array(["", *(stream for stream, _ in self.sources)], pa.string()),
            "source": pa.array(["", *(source for _, source in self.sources)], pa.string()),
            "time": pa.array([self.passed, *(clock.latest for clock in clocks)], pa.int64()),
            "seen_at": pa.array(seen, pa.float64()),
        }
        return pa.table(columns)

    def restore(self, table: pa.Table) -> None:
        for row in table.to_pylist():
            if row["stream"] == "":
                self.passed, self.looked_at = row["time"], row["seen_at"]
            elif (clock := self.sources.get((row["stream"], row["source"]))) is not None:
                clock.latest, clock.seen_at = row["time"], row["seen_at"]
