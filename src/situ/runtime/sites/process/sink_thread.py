"""The sink of a site at work: a thread that writes results, as many at once as have come meanwhile."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pyarrow as pa

from situ.core.errors import SituError
from situ.runtime.sites.actions import WriteEntry, Written
from situ.runtime.sites.journal import Journal
from situ.runtime.sites.messages import LogName
from situ.runtime.sites.rows import read_rows
from situ.runtime.sites.sinks.sink import NumberedRows, SiteSink, result_table

#: Rows that are written at once, about.
_ROWS = 1 << 20


class SinkThread:
    """Writes entries of logs to a sink, in order, and tells what is written. `failed` is told what ends it."""

    def __init__(
        self,
        sink: SiteSink,
        journal: Journal,
        tell: Callable[[Written], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._sink, self._journal, self._tell, self._failed = sink, journal, tell, failed
        self._entries: queue.SimpleQueue[WriteEntry | None] = queue.SimpleQueue()
        self.rows: dict[str, int] = {}
        self._thread = threading.Thread(target=self._run, name="situ-sink", daemon=True)
        self._thread.start()

    def write(self, entry: WriteEntry) -> None:
        self._entries.put(entry)

    def close(self) -> None:
        self._entries.put(None)
        self._thread.join(10.0)
        self._sink.close()

    def _run(self) -> None:
        try:
            while entries := self._next_entries():
                for log, of_log in _by_log(entries):
                    tables = [result_table(log, read_rows(self._journal.rows(log, e.first))) for e in of_log]
                    rows = NumberedRows(log, of_log[0].first, pa.concat_tables(tables))
                    self._sink.write(rows)
                    self.rows[str(log)] = self.rows.get(str(log), 0) + rows.rows.num_rows
                    self._tell(Written(log, of_log[-1].following))
        except (SituError, OSError, pa.ArrowException) as error:
            self._failed(error)

    def _next_entries(self) -> list[WriteEntry]:
        """What has come; waits for something. Nothing: it is to end."""
        entry = self._entries.get()
        entries: list[WriteEntry] = []
        with suppress(queue.Empty):
            while entry is not None:
                entries.append(entry)
                if sum(e.following - e.first for e in entries) >= _ROWS:
                    break
                entry = self._entries.get_nowait()
        if entry is None and entries:
            self._entries.put(None)
        return entries


def _by_log(entries: list[WriteEntry]) -> Iterator[tuple[LogName, list[WriteEntry]]]:
    """Entries of each log, which follow one another without a gap."""
    by_log: dict[LogName, list[WriteEntry]] = {}
    for entry in entries:
        of_log = by_log.setdefault(entry.log, [])
        if of_log and of_log[-1].following != entry.first:
            yield entry.log, of_log
            by_log[entry.log] = of_log = []
        of_log.append(entry)
    yield from by_log.items()
