"""One version of a plan at work at a site: its host, the logs that it makes and those that it reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from situ.core.errors import StateError
from situ.core.time import BEGINNING, END
from situ.runtime.sites.actions import BatchMade
from situ.runtime.sites.batches import BatchRecord
from situ.runtime.sites.deployed_plan import DeployedPlan
from situ.runtime.sites.host import Host, MadeRows
from situ.runtime.sites.journal import Entry, LogPosition, StepRecord
from situ.runtime.sites.logs import SINK, MadeLog, PullState, Reader, ReadLog, TimeBuffer
from situ.runtime.sites.messages import LogName
from situ.runtime.sites.plan_logs import PlanLogs
from situ.runtime.sites.ranges import holds, merged, without
from situ.runtime.sites.rows import read_rows, times_us, write_rows
from situ.runtime.sites.tallies import Tallies

#: Entries are cut where they would be larger.
ENTRY_BYTES = 4 << 20


@dataclass
class RunningVersion:
    """A version that holds for event times from its plan's `starts_us` to `ends_us`.

    `fresh` has rows of this site's own sources that its operators have not read yet, by log. `fed` says up to where
    operators were given each log that they read. `last_batch`: of operators that a query outside drives, the last one
    that was taken.
    """

    site: str
    plan: DeployedPlan
    host: Host
    ends_us: int = END
    fresh: list[tuple[LogName, pa.RecordBatch]] = field(default_factory=list)
    fed: dict[LogName, LogPosition] = field(default_factory=dict)
    last_batch: BatchRecord = field(default_factory=BatchRecord)

    def __post_init__(self) -> None:
        self.logs: PlanLogs = self.host.logs()
        self.made = {log: MadeLog(log, self._readers(log), self._pulled(log)) for log in self.logs.made_at(self.site)}
        self.read = {
            log: ReadLog(
                log, self.site in self.logs.operators[log], Reader() if self._sinks(log) else None, self._pulled(log)
            )
            for log in self.logs.read_at(self.site)
        }
        #: By log, the selections of its events that are logs, too.
        self.selected: dict[LogName, list[LogName]] = {}
        for log in self.made:
            if log.selection:
                self.selected.setdefault(log.whole, []).append(log)
        self.buffers = {log.whole: TimeBuffer() for log, made in self.made.items() if made.pulled is not None}
        self._inputs = self.logs.inputs_at(self.site, self.plan.operators)
        self.tallies = Tallies(self.logs.conditions, self.host.choose)
        self._own_inputs = {log for log in self._inputs if log.origin == self.site}

    def _pulled(self, log: LogName) -> PullState | None:
        selection = self.logs.selections.get(log)
        return PullState(ranges=((),) * len(selection.pulled)) if selection is not None and selection.pulled else None

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
        """Number rows of a log that is made here, and what is selected of them, with the promise that holds after
        them."""
        if log.kind == "events":
            self.tallies.count(log.type, rows, self.made[log].watermark_us if self.made[log].end else BEGINNING)
        entries = self._numbered(self.made[log], rows, watermark_us)
        for name in self.selected.get(log, ()):
            pulled = self.made[name].pulled
            ranges = () if pulled is None else pulled.ranges
            chosen = self.host.choose(log.type, rows, self.logs.selections[name], ranges) if rows.num_rows else rows
            entries += self._numbered(self.made[name], chosen, watermark_us)
        if log in self.buffers:
            for entry in entries:
                if entry.log == log:
                    self.buffers[log].latest[entry.first] = latest_us(read_rows(entry.rows))
        return entries

    def _numbered(self, made: MadeLog, rows: pa.RecordBatch, watermark_us: int) -> list[Entry]:
        made.watermark_us = max(made.watermark_us, watermark_us)
        if made.pulled is not None and rows.num_rows:
            made.latest_us = max(made.latest_us, latest_us(rows))
        pieces = max(1, -(-rows.nbytes // ENTRY_BYTES)) if rows.num_rows else 0
        length = -(-rows.num_rows // pieces) if pieces else 0
        entries = []
        for begin in range(0, rows.num_rows, length or 1):
            piece = rows.slice(begin, length) if pieces > 1 else rows
            first, made.end = made.end, made.end + piece.num_rows
            # What a promise says of later numbers holds after the last piece alone.
            after = made.watermark_us if begin + piece.num_rows == rows.num_rows else BEGINNING
            entries.append(Entry(made.name, first, made.end, after, write_rows(piece)))
        return entries

    def answer(self, log: LogName, asked: PullState, buffered: Iterable[bytes]) -> list[Entry]:
        """Take a request: what is there of what it asks for, and was not asked for before, and from now on what
        comes. `buffered` are the rows of the log that is pulled, all that may be asked for."""
        made, selection = self.made[log], self.logs.selections[log]
        assert made.pulled is not None
        before = made.pulled.ranges
        new = merged(pair for now, then in zip(asked.ranges, before, strict=True) for pair in without(now, then))
        chosen = []
        for data in buffered if new else ():
            rows = read_rows(data)
            times = times_us(rows)
            if not holds(new, times).any():
                continue
            wanted = self.host.choose(log.type, rows, selection, asked.ranges, unless=before)
            if wanted.num_rows:
                chosen.append(wanted)
        made.pulled = asked
        if not chosen:
            return []
        return self._numbered(made, pa.Table.from_batches(chosen).combine_chunks().to_batches()[0], made.watermark_us)

    def raise_promise(self, log: LogName, watermark_us: int) -> list[LogName]:
        """Promise more about a log that is made here, and about what is selected of it; all these logs."""
        names = [log, *self.selected.get(log, ())]
        for name in names:
            self.made[name].watermark_us = max(self.made[name].watermark_us, watermark_us)
        return names

    def forget_buffered(self, log: LogName, latest_in: Callable[[LogName, int], int]) -> None:
        """Let go of what no reader will pull any more of a log."""
        states = [self.made[name].pulled for name in self.selected[log]]
        before_us = min(state.forget_us for state in states if state is not None)
        self.buffers[log].forget(self.made[log].shelf, before_us, lambda first: latest_in(log, first))

    def buffered_size(self, log: LogName) -> int:
        """Bytes of a log that are kept because somebody may pull them."""
        if log not in self.buffers:
            return 0
        return self.made[log].shelf.size_between(self.buffers[log].needless, self.made[log].durable_end)

    def needless(self, log: LogName) -> int:
        """The number of a log made here before which nobody needs anything."""
        needless = [self.made[log].acknowledged()]
        if log in self.buffers:
            needless.append(self.buffers[log].needless)
        if self.host.driven and log in self._own_inputs:
            needless.append(self.last_batch.since.get(log, LogPosition()).number)
        return min(needless)

    def needless_of_read(self, log: LogName) -> int:
        """The number of a log of another site before which nothing here needs anything."""
        read = self.read[log]
        needless = read.taken if read.sink is None else min(read.taken, read.sink.committed)
        if self.host.driven and read.by_operators:  # the last batch may be done again
            needless = min(needless, self.last_batch.since.get(log, LogPosition()).number)
        return needless

    def behind_bytes(self, log: LogName) -> int:
        """Bytes of a log that the query which drives the operators here has not read yet."""
        if not self.host.driven or log not in self._inputs:
            return 0
        shelf = (self.read[log] if log in self.read else self.made[log]).shelf
        return shelf.size_between(self.last_batch.until.get(log, LogPosition()).number, END)

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
            low = self.fed.get(log, LogPosition()).watermark_us
            lows[log.type] = min(low, lows.get(log.type, END))
        return lows

    def answered(self) -> dict[str, int]:
        """By type that operators here pull, the last request that all of its origins have answered."""
        answered: dict[str, int] = {}
        for log in self._inputs:
            if log in self.read and self.read[log].pulled is not None:
                request = self.fed.get(log, LogPosition()).request
                answered[log.type] = min(request, answered.get(log.type, request))
        return answered

    def step(self, number: int, now: float) -> tuple[StepRecord | None, list[Entry]]:
        """Take all that came since the last step: the entries that are to be journalled, those that came first; and
        what operators did, if they were given anything."""
        entries: list[Entry] = []
        inputs: list[tuple[str, pa.RecordBatch]] = []
        read: dict[LogName, LogPosition] = {}
        for name in sorted(self.read):
            log = self.read[name]
            for batch, rows in log.pending:
                if rows is not None:
                    entries.append(Entry(name, batch.first, batch.following, batch.watermark, batch.rows))
                    if log.by_operators:
                        inputs.append((name.type, rows))
                        log.waiting.append((latest_us(rows), len(batch.rows)))
            log.pending.clear()
            log.taken, log.taken_us, log.taken_request = log.received, log.received_us, log.received_request
            if log.by_operators and self.fed.get(name) != (log.taken, log.taken_us, log.taken_request):
                read[name] = LogPosition(log.taken, log.taken_us, log.taken_request)
        for name, made in self.made.items():
            if name in self._own_inputs and self.fed.get(name) != (made.end, made.watermark_us, 0):
                read[name] = LogPosition(made.end, made.watermark_us)
        inputs += [(name.type, rows) for name, rows in sorted(self.fresh, key=lambda each: each[0])]
        self.fresh.clear()
        if not read:
            return None, entries
        self.fed |= read
        made_rows = self.host.step(inputs, self.watermarks(), self.answered())
        if self.host.driven:
            return None, entries
        ends: dict[LogName, tuple[int, int]] = {}
        for made_of in made_rows:
            name = self._log_of(made_of)
            entries += self.append(name, made_of.rows, made_of.watermark)
            ends[name] = self.made[name].end, self.made[name].watermark_us
        return StepRecord(number, self.number, now, read, ends), entries

    def _log_of(self, rows: MadeRows) -> LogName:
        return LogName(rows.kind, rows.type, self.site, self.number)

    # ---- operators that a query outside drives

    def readable(self) -> dict[LogName, LogPosition]:
        """Up to where a query may read the logs of operators here: what is durable."""
        positions = {}
        for name in self._inputs:
            if name in self.read:
                positions[name] = LogPosition(self.read[name].committed, self.read[name].committed_us)
            else:
                positions[name] = LogPosition(self.made[name].durable_end, self.made[name].durable_us)
        return positions

    def take_batch(self, batch: BatchMade) -> tuple[list[Entry], set[LogName]]:
        """What a query made in a batch: the entries that are to be journalled, and the logs that have come further.
        Nothing, if the batch was taken before."""
        if not self.host.driven:
            raise StateError(f"version {self.number} runs in {self.site} itself, and takes no batches")
        last = self.last_batch
        if (batch.number, batch.since, batch.until) == (last.number, last.since, last.until):
            return [], set()
        if batch.number != last.number + 1 or batch.since != last.until:
            raise StateError(
                f"{self.site} has taken {last.number + 1} batches of version {self.number}, and is given batch "
                f"{batch.number}, which does not follow them",
                remedy="Checkpoint and journal belong together: was one of them set back, or taken from another site?",
            )
        self.last_batch = BatchRecord(batch.number, batch.since, batch.until)
        self.host.count(batch.figures)
        entries: list[Entry] = []
        grown: set[LogName] = set()
        for made in batch.made:
            name = self._log_of(made)
            entries += self.append(name, made.rows, made.watermark)
            grown |= {name, *self.raise_promise(name, made.watermark)}
        return entries, grown

    def catch_up(self, rows_of: Callable[[LogName, int], bytes]) -> None:
        """After a restart, tell the host how far inputs have come: there is nothing to be done again."""
        inputs: list[tuple[str, pa.RecordBatch]] = []
        for name, at in self.readable().items():
            shelf = (self.read[name] if name in self.read else self.made[name]).shelf
            for stub in shelf.after(self.fed.get(name, LogPosition()).number):
                inputs.append((name.type, read_rows(rows_of(name, stub.first))))
            self.fed[name] = at
        self.host.step(inputs, self.watermarks(), {})

    # ---- after a restart

    def replay(self, step: StepRecord, rows_of: Callable[[LogName, int], bytes]) -> None:
        """Do a step again, and hold what it makes against what it made then."""
        inputs: list[tuple[str, pa.RecordBatch]] = []
        # In the order of `step`: what other sites made, then what this one did.
        for name in sorted(step.read, key=lambda log: (log.origin == self.site, log)):
            before, number = self.fed.get(name, LogPosition()).number, step.read[name].number
            shelf = (self.read[name] if name in self.read else self.made[name]).shelf
            for stub in shelf.after(before):
                if stub.following <= number:
                    inputs.append((name.type, read_rows(rows_of(name, stub.first))))
        self.fed |= step.read
        for rows in self.host.step(inputs, self.watermarks(), self.answered()):
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
