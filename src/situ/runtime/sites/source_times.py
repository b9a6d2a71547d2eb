"""How far the sources of a stream at one site have come, and what the site may promise about them.

A promise is the least of the sources' own. Where rows come, it follows their times. Where none come and somebody asks,
a live source answers by its clock, and a source that has been silent for its `idle after` holds nobody back: it goes
on from its largest time at the pace of the clock, or as far as other origins have come.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from situ.core.time import BEGINNING, END
from situ.graph.query import Stream


@dataclass(slots=True)
class SourceState:
    """Where a source goes on, its largest event time, when its rows last came, and whether it has ended."""

    position: str = ""
    latest_us: int = BEGINNING
    seen_at: float = 0.0
    ended: bool = False

    def to_json(self) -> str:
        return json.dumps([self.position, self.latest_us, self.ended])

    @classmethod
    def of_json(cls, text: str, now: float) -> SourceState:
        """The state that a journal has. While the site was away nobody could hear the source: that was no silence."""
        position, latest_us, ended = json.loads(text)
        return cls(position, latest_us, now, ended)


@dataclass(slots=True)
class StreamTime:
    """The sources of one stream at this site. `promise_us` is in memory: no event before it will be admitted.

    `limit_us`: no promise goes beyond, because a plan that begins then is prepared. `until_us`, `pace_us` and
    `reached_us` are those of the questions that are open. `has_rows`: rows have come since the last promise; that of a
    live stream may ride on them.
    """

    sources: dict[str, SourceState]
    promise_us: int = BEGINNING
    limit_us: int = END
    until_us: int = BEGINNING
    pace_us: int = END
    reached_us: int = BEGINNING
    has_rows: bool = False

    def ask(self, until_us: int, pace_us: int, reached_us: int) -> None:
        """Somebody wants to hear when time has passed."""
        self.until_us = max(self.until_us, until_us)
        self.pace_us = min(self.pace_us, pace_us)
        self.reached_us = max(self.reached_us, reached_us)

    def advance(self, stream: Stream, live: bool, now: float) -> bool:
        """Promise what can be promised; whether that is more than before."""
        reached = min(self._reached(source, stream, live, now) for source in self.sources.values())
        reached, self.has_rows = min(reached, self.limit_us), False
        if reached <= self.promise_us:
            return False
        self.promise_us = reached
        if self.promise_us >= self.until_us:
            self.until_us, self.pace_us, self.reached_us = BEGINNING, END, BEGINNING
        return True

    def _reached(self, source: SourceState, stream: Stream, live: bool, now: float) -> int:
        if source.ended:
            return END
        known = source.latest_us != BEGINNING
        reached = source.latest_us - stream.watermark_us if known else BEGINNING
        is_asked = self.until_us > self.promise_us
        if live and (is_asked or self.has_rows):
            reached = max(reached, round(now * 1e6) - stream.watermark_us)
        if not is_asked:
            return reached
        silent_us = round((now - source.seen_at) * 1e6)
        if stream.idle_after_us is not None and silent_us >= stream.idle_after_us:
            in_silence = source.latest_us - stream.watermark_us + silent_us if known else BEGINNING
            reached = max(reached, in_silence, min(self.until_us, self.reached_us))
        return reached

    def wakes_at(self, stream: Stream, live: bool, now: float) -> float | None:
        """When, without rows, there may be more to promise to those who ask."""
        if self.until_us <= self.promise_us or self.promise_us >= self.limit_us:
            return None
        wanted_us = (
            min(self.until_us, self.promise_us + self.pace_us) if self.promise_us != BEGINNING else self.until_us
        )
        moments = []
        for source in self.sources.values():
            if source.ended:
                continue
            if live:
                moments.append(max((wanted_us + stream.watermark_us) / 1e6, now + 0.001))
            elif stream.idle_after_us is not None:
                idle_at = source.seen_at + stream.idle_after_us / 1e6
                paced = now + min(max(self.pace_us / 1e6, 0.01), 1.0)
                moments.append(idle_at if idle_at > now else paced)
        return min(moments, default=None)
