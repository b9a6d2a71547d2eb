"""Rows of a site's own sources: judged once, put into the logs of the versions that hold for their times; and what the
site promises about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from situ.core.errors import SituError
from situ.core.time import BEGINNING, END
from situ.runtime.sites.actions import Hold, RowsRead, Taken
from situ.runtime.sites.host import Admitted
from situ.runtime.sites.logs import MadeLog
from situ.runtime.sites.messages import LogKind, LogName
from situ.runtime.sites.rows import TIME
from situ.runtime.sites.running_version import RunningVersion
from situ.runtime.sites.source_times import StreamTime

if TYPE_CHECKING:
    from situ.runtime.sites.site import SiteCore


class Admission:
    """The sources of a site. `held_rows` wait to be judged; `held` says why streams are not read just now; `counts` are
    of this life."""

    def __init__(self, site: SiteCore, times: Mapping[str, StreamTime]) -> None:
        self._site, self.times = site, times
        self.held_rows: list[RowsRead] = []
        self.held: dict[str, str] = {}
        self.counts = {"late": 0, "rejected": 0, "admitted": 0, "unread": 0}

    def add(self, rows: RowsRead) -> None:
        """Rows have come; they are judged in their turn."""
        self.held_rows.append(rows)

    def admit(self, now: float) -> None:
        """Judge rows of sources, once and in order; those of a source wait while it is not decided which version they
        belong to."""
        waiting: list[RowsRead] = []
        for rows in self.held_rows:
            of_same_source = any((w.stream, w.source) == (rows.stream, rows.source) for w in waiting)
            if of_same_source or not self._take(rows, now):
                waiting.append(rows)
        self.held_rows = waiting
        self._hold(now)

    def _version_of(self, stream: str) -> RunningVersion | None:
        """The newest version that reads a stream here."""
        reading = [v for v in self._site.versions.values() if self._site.name in v.plan.sources.get(stream, ())]
        return reading[-1] if reading else None

    def _take(self, read: RowsRead, now: float) -> bool:
        version, time = self._version_of(read.stream), self.times.get(read.stream)
        if time is None or read.source not in time.sources:
            raise SituError(f"{self._site.name} has no source {read.source!r} of {read.stream}")
        if version is None:
            return False
        source = time.sources[read.source]
        if read.rows is not None:
            limit_us = max(time.promise_us, BEGINNING)
            admitted = version.host.admit(read.stream, read.rows, source.latest_us, limit_us, round(now * 1e6))
            if admitted.latest_us >= time.limit_us:
                return False
            source.latest_us, time.has_rows = admitted.latest_us, True
            self._site.monitor.arrived(read.stream, read.source, source.latest_us, now)
            self._file(version, read.stream, admitted)
        source.position, source.ended, source.seen_at = read.position, read.ended, now
        self._site.open.values[f"source/{read.stream}/{read.source}"] = source.to_json()
        self._site.open.after.append(Taken(read.stream, read.source, read.position))
        return True

    def _file(self, newest: RunningVersion, stream: str, admitted: Admitted) -> None:
        """Put admitted rows into the logs of the versions that hold for their times, others into the newest one's.

        What comes after the time of the last version that reads the stream here is nobody's."""
        kinds: tuple[tuple[LogKind, pa.RecordBatch], ...] = (("late", admitted.late), ("rejected", admitted.rejected))
        for kind, rows in kinds:
            log = LogName(kind, stream, self._site.name, newest.number)
            is_open = newest.made[log].watermark_us < END
            self.counts[kind if is_open else "unread"] += rows.num_rows
            if rows.num_rows and is_open:
                self._site.open.entries += newest.append(log, rows, BEGINNING)
        filed = 0
        for version in self._site.versions.values():
            log = LogName("events", stream, self._site.name, version.number)
            mine = rows_between(admitted.events, version.plan.starts_us, version.ends_us)
            if mine.num_rows and log in version.made:
                part = mine.select(version.host.schema("events", stream).names)
                self._site.open.entries += version.append(log, part, BEGINNING)
                filed += part.num_rows
                if self._site.name in version.logs.operators[log]:
                    version.fresh.append((log, part))
        self.counts["admitted"] += filed
        self.counts["unread"] += admitted.events.num_rows - filed

    def promise(self, now: float) -> None:
        """Promise about own streams what can be promised now."""
        for stream, time in self.times.items():
            if (newest := self._version_of(stream)) is None:
                continue
            if time.advance(newest.host.stream(stream), stream in newest.plan.live, now):
                self._site.open.values[f"promise/{stream}"] = str(time.promise_us)
            for version in self._site.versions.values():
                self._promise_of_version(version, stream, time.promise_us)

    def _promise_of_version(self, version: RunningVersion, stream: str, promise_us: int) -> None:
        log = version.made.get(LogName("events", stream, self._site.name, version.number))
        if log is None or version.promise_of(promise_us) <= log.watermark_us:
            return
        for name in version.raise_promise(log.name, version.promise_of(promise_us)):
            self._let_ride(version.made[name])
            self._site.store_made(version.made[name])
        if log.watermark_us == END:
            for kind in ("late", "rejected"):
                other = version.made[LogName(kind, stream, self._site.name, version.number)]
                other.watermark_us = END
                self._site.store_made(other)

    def _let_ride(self, log: MadeLog) -> None:
        """Give the promise of a log to its last rows, if they are not on their way yet."""
        entries = self._site.open.entries
        for at in range(len(entries) - 1, -1, -1):
            if entries[at].log == log.name and entries[at].following == log.end:
                entries[at] = replace(entries[at], watermark=log.watermark_us)
                return

    def _hold(self, now: float) -> None:
        """Hold streams of which too much is kept for readers, or whose rows wait for a decision."""
        for stream in self.times:
            reason = ""
            for version in self._site.versions.values():
                log = version.made.get(LogName("events", stream, self._site.name, version.number))
                if log is not None and (waits := self._waits(version, log, now)):
                    reason = waits
            newest = self._version_of(stream)
            if newest is None or newest.ends_us <= self.times[stream].promise_us < END:
                reason = "no plan reads it here"
            elif any(rows.stream == stream for rows in self.held_rows):
                reason = "it waits for the decision about a plan"
            if reason != self.held.get(stream, ""):
                self.held[stream] = reason
                self._site.do(Hold(stream, reason))

    def _waits(self, version: RunningVersion, log: MadeLog, now: float) -> str:
        """For whom too much of a log is kept; nothing if it is not too much.

        Who waits for the time of this stream will neither take nor forget anything before it goes on.
        """
        settings, time = self._site.settings, self.times[log.name.type]
        selected = [version.made[name] for name in version.selected.get(log.name, ())]
        is_asked = time.until_us > time.promise_us or any(m.asked_us() > m.durable_us for m in (log, *selected))
        for made in (log, *selected):
            for site, reader in made.readers.items() if made.shelf.size > settings.quota else ():
                kept = made.shelf.size_between(reader.committed, made.durable_end)
                waits_for_time = is_asked and now < reader.waited_at + 2 * settings.patience
                if kept > settings.quota and not waits_for_time:
                    return f"{kept:,} bytes wait for {site}"
        if (behind := version.behind_bytes(log.name)) > settings.quota:
            return f"{behind:,} bytes wait for the next batches of version {version.number}"
        buffered = version.buffered_size(log.name)
        if buffered > settings.quota and not is_asked and log.name.type not in version.logs.goes_on:
            return f"{buffered:,} bytes may still be pulled"
        return ""

    def wakes(self, now: float) -> list[float]:
        """When, without rows, there may be more to promise to those who ask."""
        moments = [
            time.wakes_at(newest.host.stream(stream), stream in newest.plan.live, now)
            for stream, time in self.times.items()
            if (newest := self._version_of(stream)) is not None
        ]
        return [moment for moment in moments if moment is not None]


def rows_between(events: pa.RecordBatch, starts_us: int, ends_us: int) -> pa.RecordBatch:
    """The events with times from one to before another."""
    if starts_us == BEGINNING and ends_us == END:
        return events
    times = events.column(TIME).view(pa.int64())
    return events.filter(pc.and_(pc.greater_equal(times, starts_us), pc.less(times, ends_us)))
