"""What a site notices of time, for the latency of results: when its sources came to which event times, and when results
were on disk. Nothing of it is kept there itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from situ.core.time import BEGINNING
from situ.flow.latency import LatencyMonitor, ResultSeen
from situ.runtime.sites.journal import Entry
from situ.runtime.sites.rows import read_rows, times_us

if TYPE_CHECKING:
    from situ.runtime.sites.running_version import RunningVersion


class SiteMonitor(LatencyMonitor):
    """What one site has noticed in this life. `counts` has the results, by subscription."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self._waiting: list[tuple[int, str, int]] = []

    def arrived(self, stream: str, source: str, latest_us: int, now: float) -> None:
        """A source has handed on rows, and has come to an event time with them."""
        self.reached.arrived(stream, source, latest_us, round(now * 1e6))

    def made(self, version: RunningVersion, entries: Iterable[Entry], commit: int) -> None:
        """Entries of logs are in a commit; those of results are noticed when it is on disk."""
        for entry in entries:
            if entry.log.kind == "events" and not entry.log.selection and version.is_sink_of(entry.log):
                self.counts[entry.log.type] += entry.following - entry.first
                if entry.following > entry.first:
                    time_us = int(times_us(read_rows(entry.rows)).max(initial=BEGINNING))
                    self._waiting.append((commit, entry.log.type, time_us))

    def committed(self, number: int, now: float) -> None:
        """A commit is on disk."""
        done = [each for each in self._waiting if each[0] <= number]
        for _, subscription, time_us in done:
            self.results[subscription].append(ResultSeen(time_us, round(now * 1e6)))
        if done:
            self._waiting = [each for each in self._waiting if each[0] > number]
