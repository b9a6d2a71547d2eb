"""One version of a plan at work at a site: its host, the logs that it makes and those that it reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from situ.core.errors import StateError
from situ.core.time import BEGINNING, END
from situ.runtime.sites.deployed_plan import DeployedPlan, PlanLogs
from situ.runtime.sites.host import Host, MadeRows
from situ.runtime.sites.journal import Entry, StepRecord
from situ.runtime.sites.logs import SINK, MadeLog, Reader, ReadLog
from situ.runtime.sites.messages import LogName
from situ.runtime.sites.rows import read_rows, times_us, write_rows

#: Entries are cut where they would be larger.
ENTRY_BYTES = 4 << 20


@dataclass
class RunningVersion:
    """A version that holds for event times from its plan's `starts_us` to `ends_us`.

    `fresh` has rows of this site's own sources that its operators have not read yet, by log. `fed` says up to where
    operators were given each log that they read, as (number, watermark).
    """

    site: str
    plan: DeployedPlan
    host: Host
    ends_us: int = END
    fresh: list[tuple[LogName, pa.RecordBatch]] = field(default_factory=list)
    fed: dict[LogName, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.logs: PlanLogs = self.host.logs()
        self.made = {log: MadeLog(log, self._readers(log)) for log in self.logs.made_at(self.site)}
        self.read = {
            log: ReadLog(log, self.site in self.logs.operators[log], Reader() if self._sinks(log) else None)
            for log in self.logs.read_at(self.site)
        }
        self._inputs = sorted(log for log in self.logs.operators if self.site in self.logs.operators[log]
                              and not (log.origin == self.site and log.type in self.plan.operators))  # fmt: skip

        self._own_inputs = {log for log in self._inputs if log.origin == self.site}

    def _sinks(self, log: LogName) -> bool:
        return self.site in self.logs.sinks[log]

    def _readers(self, log: LogName) -> dict[str, Reader]:
        readers = {site: Reader() for site in sorted(self.logs.readers(log) - {self.site})}
        return readers | ({SINK: Reader()} if self._sinks(log) else {})

    @property
    def number(self) -> int:
        return self.plan.version

    @property
    def is_over(self) -> bool:
        """Whether this site will never be asked about it again."""
        return all(log.is_over for log in self.made.values()) and all(log.is_over for log in self.read.values())

    # ---- what this site makes

    def append(self, log: LogName, rows: pa.RecordBatch, watermark_us: int) -> list[Entry]:
        """Number rows of a log that is made here, with the promise that holds after them."""
        made = self.made[log]
        made.watermark_us = max(made.watermark_us, watermark_us)
        pieces = max(1, -(-rows.nbytes // ENTRY_BYTES)) if rows.num_rows else 0
        length = -(-rows.num_rows // pieces) if pieces else 0
        entries = []
        for begin in range(0, rows.num_rows, length or 1):
            piece = rows.slice(begin, length) if pieces > 1 else rows
            first, made.end = made.end, made.end + piece.num_rows
            # What a promise says of later numbers holds after the last piece alone.
            after = made.watermark_us if begin + piece.num_rows == rows.num_rows else BEGINNING
            entries.append(Entry(log, first, made.end, after, write_rows(piece)))
        return entries

    def promise_of(self, stream_promise_us: int) -> int:
        """What a stream's promise means for this version's part of it."""
        if stream_promise_us >= self.ends_us:
            return END
        return max(stream_promise_us, self.plan.starts_us)

    # ---- a step

    def watermarks(self) -> dict[str, int]:
        """By type that operators here read from outside, how far all of its origins have come."""
        lows: dict[str, int] = {}
        for log in self._inputs:
            _, watermark_us = self.fed.get(log, (0, BEGINNING))
            lows[log.type] = min(watermark_us, lows.get(log.type, END))
        return lows

    def step(self, number: int, now: float) -> tuple[StepRecord | None, list[Entry]]:
        """Take all that came since the last step: the entries that are to be journalled, those that came first; and
        what operators did, if they were given anything."""
        entries: list[Entry] = []
        inputs: list[tuple[str, pa.RecordBatch]] = []
        read: dict[LogName, tuple[int, int]] = {}
        for name in sorted(self.read):
            log = self.read[name]
            for batch, rows in log.pending:
                if rows is not None:
                    entries.append(Entry(name, batch.first, batch.following, batch.watermark, batch.rows))
                    if log.by_operators:
                        inputs.append((name.type, rows))
                        log.waiting.append((latest_us(rows), len(batch.rows)))
            log.pending.clear()
            log.taken, log.taken_us = log.received, log.received_us
            if log.by_operators and self.fed.get(name) != (log.taken, log.taken_us):
                read[name] = log.taken, log.taken_us
        for name, made in self.made.items():
            if name in self._own_inputs and self.fed.get(name) != (made.end, made.watermark_us):
                read[name] = made.end, made.watermark_us
        inputs += [(name.type, rows) for name, rows in sorted(self.fresh, key=lambda each: each[0])]
        self.fresh.clear()
        if not read:
            return None, entries
        self.fed |= read
        made_rows = self.host.step(inputs, self.watermarks())
        ends: dict[LogName, tuple[int, int]] = {}
        for made_of in made_rows:
            name = self._log_of(made_of)
            entries += self.append(name, made_of.rows, made_of.watermark)
            ends[name] = self.made[name].end, self.made[name].watermark_us
        return StepRecord(number, self.number, now, read, ends), entries

    def _log_of(self, rows: MadeRows) -> LogName:
        return LogName(rows.kind, rows.type, self.site, self.number)

    # ---- after a restart

    def replay(self, step: StepRecord, rows_of: Callable[[LogName, int], bytes]) -> None:
        """Do a step again, and hold what it makes against what it made then."""
        inputs: list[tuple[str, pa.RecordBatch]] = []
        # In the order of `step`: what other sites made, then what this one did.
        for name in sorted(step.read, key=lambda log: (log.origin == self.site, log)):
            before, _ = self.fed.get(name, (0, BEGINNING))
            number, _ = step.read[name]
            shelf = (self.read[name] if name in self.read else self.made[name]).shelf
            for stub in shelf.after(before):
                if stub.following <= number:
                    inputs.append((name.type, read_rows(rows_of(name, stub.first))))
        self.fed |= step.read
        for rows in self.host.step(inputs, self.watermarks()):
            log = self.made[self._log_of(rows)]
            end, _ = step.made[log.name]
            stubs = [stub for stub in log.shelf.after(log.end) if stub.following <= end]
            then = [read_rows(rows_of(log.name, stub.first)) for stub in stubs]
            if end - log.end != rows.rows.num_rows or not _same_rows(then, rows.rows):
                raise self._otherwise(log.name, end - log.end, rows.rows.num_rows)
            log.end = end

    def _otherwise(self, log: LogName, then: int, now: int) -> StateError:
        functions = ", ".join(function.path for function in self.plan.functions)
        return StateError(
            f"{log.type} made other rows when its inputs were read again ({then} then, {now} now)",
            remedy=f"These functions must give the same for the same arguments: {functions}."
            if functions
            else "Was the journal written by another situ? Start the site with the situ that wrote it.",
        )


def latest_us(rows: pa.RecordBatch) -> int:
    return int(times_us(rows).max(initial=BEGINNING))


def _same_rows(then: Sequence[pa.RecordBatch], now: pa.RecordBatch) -> bool:
    """Whether rows are the same, in whatever order: groups are numbered anew after a restart."""
    if not then:
        return now.num_rows == 0
    joined = pa.Table.from_batches(then)
    again = pa.Table.from_batches([now])
    return bool(joined.equals(again)) or _counted(joined) == _counted(again)


def _counted(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))
