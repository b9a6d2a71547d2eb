"""One version of a plan at work at a site: its host, the logs that it makes and those that it reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from situ.core.errors import StateError
from situ.core.time import BEGINNING, END
from situ.runtime.sites.actions import BatchMade
from situ.runtime.sites.batches import BatchRecord
from situ.runtime.sites.deployed_plan import DeployedPlan
from situ.runtime.sites.event_counts import EventCounts
from situ.runtime.sites.host import Host, MadeRows
from situ.runtime.sites.journal import Entry, LogPosition, StepRecord
from situ.runtime.sites.logs import SINK, MadeLog, PullState, Reader, ReadLog, TimeBuffer
from situ.runtime.sites.messages import LogName
from situ.runtime.sites.moving_states import parts_of
from situ.runtime.sites.plan_logs import PlanLogs
from situ.runtime.sites.ranges import holds, merged, without
from situ.runtime.sites.rows import read_rows, times_us, write_rows

#: Entries are cut where they would be larger.
ENTRY_BYTES = 4 << 20


@dataclass
class RunningVersion:
    """A version that holds for event times from its plan's `starts_us` to `ends_us`.

    `fresh` has rows of this site's own sources that no step has taken yet, by log; `unread` those that steps have taken
    and operators have not read: they wait for the states of operators that are carried on to here. `fed` says up to
    where operators were given each log that they read. `successor` is the next version, if this site has a part in it.
    `last_batch`: of operators that a query outside drives, the last one that was taken.
    """

    site: str
    plan: DeployedPlan
    host: Host
    ends_us: int = END
    fresh: list[tuple[LogName, pa.RecordBatch]] = field(default_factory=list)
    unread: list[tuple[LogName, pa.RecordBatch]] = field(default_factory=list)
    fed: dict[LogName, LogPosition] = field(default_factory=dict)
    successor: RunningVersion | None = None
    last_batch: BatchRecord = field(default_factory=BatchRecord)

    def __post_init__(self) -> None:
        self.logs: PlanLogs = self.host.logs()
        self.made = {log: MadeLog(log, self._readers(log), self._pulled(log)) for log in self.logs.made_at(self.site)}
        self.read = {
            log: ReadLog(
                log,
                self.site in self.logs.operators[log],
                Reader() if self.is_sink_of(log) else None,
                self._pulled(log),
            )
            for log in self.logs.read_at(self.site)
        }
        #: By log, the selections of its events that are logs, too.
        self.selected: dict[LogName, list[LogName]] = {}
        for log in self.made:
            if log.selection:
                self.selected.setdefault(log.whole, []).append(log)
        self.buffers = {log.whole: TimeBuffer() for log, made in self.made.items() if made.pulled is not None}
        made_here = {name for name, place in self.plan.operators.items() if place.site == self.site}
        given = self.logs.inputs_at(self.site, made_here)
        self._states = [log for log in given if log.kind == "state"]
        self._inputs = [log for log in given if log.kind == "events"]
        self._own_inputs = {log for log in given if log.origin == self.site}
        self._knows_end = False
        self.event_counts = EventCounts(self.logs.conditions, self.host.choose)

    def _pulled(self, log: LogName) -> PullState | None:
        selection = self.logs.selections.get(log)
        return PullState(ranges=((),) * len(selection.pulled)) if selection is not None and selection.pulled else None

    def is_sink_of(self, log: LogName) -> bool:
        """Whether this site wants the events of a log as results."""
        return self.site in self.logs.sinks[log]

    def _readers(self, log: LogName) -> dict[str, Reader]:
        readers = {site: Reader() for site in sorted(self.logs.readers(log) - {self.site})}
        return readers | ({SINK: Reader()} if self.is_sink_of(log) else {})

    @property
    def number(self) -> int:
        return self.plan.version

    def operators_here(self) -> list[str]:
        """The operators that run here."""
        active = {log.type for log in self.logs.operators if log.kind == "events"}
        return [n for n, place in self.plan.operators.items() if place.site == self.site and n in active]

    def carried_on(self) -> dict[str, bool]:
        """The operators here that the next version carries on; whether their states are told while these go on."""
        places = {} if self.successor is None else self.successor.plan.operators
        return {name: place.strategy == "mfgs" for name, place in places.items() if place.carried_from == self.site}

    def missing_states(self) -> list[LogName]:
        """The logs of states that operators here go on with, and that have not come as a whole."""
        return [log for log in self._states if self._taken(log).watermark_us < END]

    @property
    def is_over(self) -> bool:
        """Whether this site will never be asked about it again."""
        return all(log.is_over for log in self.made.values()) and all(log.is_over for log in self.read.values())

    # ---- what this site makes

    def append(self, log: LogName, rows: pa.RecordBatch, watermark_us: int) -> list[Entry]:
        """Number rows of a log that is made here, and what is selected of them, with the promise that holds after
        them."""
        if log.kind == "events":
            self.event_counts.count(log.type, rows, self.made[log].watermark_us if self.made[log].end else BEGINNING)
        entries = self._numbered(self.made[log], rows, watermark_us)
        names = self.selected.get(log, ())
        for name, chosen in zip(names, self._chosen(log, rows, names), strict=True):
            entries += self._numbered(self.made[name], chosen, watermark_us)
        if log in self.buffers:
            for entry in entries:
                if entry.log == log:
                    self.buffers[log].latest[entry.first] = latest_us(read_rows(entry.rows))
        return entries

    def _chosen(self, log: LogName, rows: pa.RecordBatch, names: Sequence[LogName]) -> Sequence[pa.RecordBatch]:
        """What each of the selections has of rows of a log."""
        if not rows.num_rows or not names:
            return [rows] * len(names)
        states = [self.made[name].pulled for name in names]
        asked = [() if state is None else state.ranges for state in states]
        selections = [self.logs.selections[name] for name in names]
        return self.host.choose_each(log.type, rows, list(zip(selections, asked, strict=True)))

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
        if log in self._own_inputs:
            needless.append(self._read_up_to(log))
        return min(needless)

    def needless_of_read(self, log: LogName) -> int:
        """The number of a log of another site before which nothing here needs anything."""
        read = self.read[log]
        needless = read.taken if read.sink is None else min(read.taken, read.sink.committed)
        return min(needless, self._read_up_to(log)) if read.by_operators else needless

    def _read_up_to(self, log: LogName) -> int:
        """The number of a log before which operators here will read nothing again: what waits for a state is still to
        be read, and the last batch of a query that drives them may be done again."""
        return (self.last_batch.since if self.host.driven else self.fed).get(log, LogPosition()).number

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

    def step(self, number: int, now: float, is_decided: bool = True) -> tuple[StepRecord | None, list[Entry]]:
        """Take all that came since the last step: the entries that are to be journalled, those that came first; and
        what operators did, if they were given anything.

        Not `is_decided`: a plan is prepared, and whether it begins is not known here. Then a log that ends may do so
        because another site knows, and operators are not told of it yet.
        """
        entries: list[Entry] = []
        for name in sorted(self.read):
            log = self.read[name]
            for batch, rows in log.pending:
                if rows is not None:
                    entries.append(Entry(name, batch.first, batch.following, batch.watermark, batch.rows))
                    if log.by_operators:
                        self._let_wait(name, rows, len(batch.rows))
            log.pending.clear()
            log.taken, log.taken_us, log.taken_request = log.received, log.received_us, log.received_request
        self.unread += self.fresh
        self.fresh.clear()
        is_waiting = bool(self.missing_states())  # then states alone are read
        read = self._new_positions(is_decided)
        if is_waiting:
            read = {log: position for log, position in read.items() if log.kind == "state"}
        carried_on = {} if is_waiting else self.carried_on()
        if not read and (self._knows_end or not carried_on):
            return None, entries
        if self.host.driven:
            self._run(read, self._in_order(self.unread), ends=False)
            self.unread.clear()
            return None, entries
        inputs = self._in_order(rows for rows in self.unread if rows[0] in read)
        self.unread = [rows for rows in self.unread if rows[0] not in read]
        ends: dict[LogName, tuple[int, int]] = {}
        for made_of in self._run(read, inputs, bool(carried_on)):
            name, version = self._log_of(made_of)
            entries += version.append(name, made_of.rows, made_of.watermark)
            ends[name] = version.made[name].end, version.made[name].watermark_us
            if name in version._own_inputs:
                version.fresh.append((name, made_of.rows))
        return StepRecord(number, self.number, now, read, ends, bool(carried_on)), entries

    def _let_wait(self, name: LogName, rows: pa.RecordBatch, size: int) -> None:
        """Rows of another site's log are to be read by operators here."""
        self.unread.append((name, rows))
        if name.kind == "events":
            self.read[name].waiting.append((latest_us(rows), size))

    def _in_order(self, rows: Iterable[tuple[LogName, pa.RecordBatch]]) -> list[tuple[LogName, pa.RecordBatch]]:
        """Rows as operators are given them: what other sites made, then what this one did."""
        return sorted(rows, key=lambda each: (each[0].origin == self.site, each[0]))

    def _taken(self, log: LogName) -> LogPosition:
        """How far steps have taken a log that operators read."""
        if log in self.read:
            read = self.read[log]
            return LogPosition(read.taken, read.taken_us, read.taken_request)
        return LogPosition(self.made[log].end, self.made[log].watermark_us)

    def _new_positions(self, is_decided: bool) -> dict[LogName, LogPosition]:
        """How far operators are given logs that have gone on since the last step."""
        positions = {}
        for log in (*self._inputs, *self._states):
            position, fed = self._taken(log), self.fed.get(log, LogPosition())
            if position.watermark_us == END and log.kind == "events" and not is_decided:
                position = position._replace(watermark_us=fed.watermark_us)
            if position != fed:
                positions[log] = position
        return positions

    def _run(
        self, read: Mapping[LogName, LogPosition], inputs: Iterable[tuple[LogName, pa.RecordBatch]], ends: bool
    ) -> list[MadeRows]:
        """Let operators read; before that, they begin with their states, and hear that the version ends."""
        self.fed |= read
        events = []
        for log, rows in inputs:
            if log.kind == "state":
                self.host.receive(log.type, parts_of(rows))
            else:
                events.append((log.type, rows))
        if any(self.fed.get(log, LogPosition()).watermark_us < END for log in self._states):
            return []
        if self._states:
            self.host.begin(self.plan.starts_us)
        if ends:
            self._knows_end = True
            self.host.end_at(self.ends_us, self.carried_on())
        return self.host.step(events, self.watermarks(), self.answered())

    def _log_of(self, rows: MadeRows) -> tuple[LogName, RunningVersion]:
        """The log that rows belong to, and whose it is: states are the next version's."""
        version = self
        if rows.kind == "state":
            assert self.successor is not None
            version = self.successor
        return LogName(rows.kind, rows.type, self.site, version.number), version

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
            name, _ = self._log_of(made)
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
        """Do a step again, and hold what it makes against what it made then. States may have their rows in another
        order; what was made then holds."""
        inputs: list[tuple[LogName, pa.RecordBatch]] = []
        for name in step.read:
            inputs += self._journalled(name, step.read[name].number, rows_of)
        for rows in self._run(step.read, self._in_order(inputs), step.ends):
            name, version = self._log_of(rows)
            log, (end, _) = version.made[name], step.made[name]
            stubs = [stub for stub in log.shelf.after(log.end) if stub.following <= end]
            then = [read_rows(rows_of(log.name, stub.first)) for stub in stubs]
            is_same = end - log.end == rows.rows.num_rows and _same_rows(then, rows.rows)
            if name.kind != "state" and not is_same:
                raise self._otherwise(log.name, end - log.end, rows.rows.num_rows)
            log.end = end

    def _journalled(
        self, name: LogName, number: int, rows_of: Callable[[LogName, int], bytes]
    ) -> list[tuple[LogName, pa.RecordBatch]]:
        """What operators have not read of a log, up to a number."""
        shelf = (self.read[name] if name in self.read else self.made[name]).shelf
        stubs = shelf.after(self.fed.get(name, LogPosition()).number)
        return [(name, read_rows(rows_of(name, stub.first))) for stub in stubs if stub.following <= number]

    def read_again(self, rows_of: Callable[[LogName, int], bytes]) -> None:
        """After all steps were done again: what had been taken waits for operators once more."""
        for name in (*self._inputs, *self._states):
            for _, rows in self._journalled(name, self._taken(name).number, rows_of):
                self.unread.append((name, rows))

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
