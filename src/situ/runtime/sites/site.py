"""The core of a site: it is told events, decides, and says what is to be done. No clock, no socket, no file, no thread.

1. What comes (rows of sources, batches of other sites' logs) waits for a **step**, in which operators read it.
2. Steps are collected into a **commit**; there is one at a time, and what comes meanwhile is the next one.
3. Only what is committed is sent, promised or acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from situ.core.errors import SituError
from situ.core.time import BEGINNING, END
from situ.kernel.state.snapshot import pack
from situ.runtime.sites.actions import (
    Append,
    Asked,
    Committed,
    Connected,
    Hold,
    Received,
    RowsRead,
    Send,
    SendEntry,
    SiteAction,
    SiteEvent,
    Taken,
    Woken,
    WriteEntry,
    Written,
)
from situ.runtime.sites.controls import Controls, KnownVersion
from situ.runtime.sites.host import HostMaker
from situ.runtime.sites.journal import Entry, Journal, JournalCommit, StepRecord
from situ.runtime.sites.logs import SINK, MadeLog, Reader, ReadLog, Shelf, finished
from situ.runtime.sites.messages import (
    Batch,
    Hello,
    LogName,
    MessageError,
    Position,
    Probe,
    Question,
    Refusal,
)
from situ.runtime.sites.peers import Peer, lives_to_json, reason_to_refuse
from situ.runtime.sites.recovery import recover, state_tables
from situ.runtime.sites.rows import TIME, checked_rows
from situ.runtime.sites.running_version import RunningVersion
from situ.runtime.sites.source_times import SourceState, StreamTime
from situ.runtime.sites.status import status_of


@dataclass(frozen=True, slots=True)
class Settings:
    """Sizes in bytes, times in seconds.

    `credit`: what may be sent of a log before a reader has journalled it. `step`: what waits makes a step although the
    disk is busy. `snapshot`: the state is written when so much was journalled since (or as much as the state is
    large). `quota`: a source is held when so much of its log is kept for readers. `waiting`: a log that is ahead of
    time gets no credit when so much of it waits. `repeat`: what was not answered is said again. `ask`: who waits for
    time asks after so long.
    """

    credit: int = 16 << 20
    step: int = 1 << 20
    snapshot: int = 64 << 20
    quota: int = 2 << 30
    waiting: int = 512 << 20
    repeat: float = 1.0
    ask: float = 0.02


@dataclass(slots=True)
class OpenCommit:
    """What the next commit will have. `values` are worth a commit; `later` wait for one that is made anyway. `after`:
    what is done when it is on disk."""

    entries: list[Entry] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    values: dict[str, str | None] = field(default_factory=dict)
    later: dict[str, str | None] = field(default_factory=dict)
    after: list[SiteAction] = field(default_factory=list)
    forgotten: dict[LogName, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InFlight:
    """A commit that the disk is busy with, and what it makes durable."""

    commit: JournalCommit
    made: Mapping[LogName, tuple[int, int]]
    read: Mapping[LogName, tuple[int, int]]
    after: Sequence[SiteAction]
    known: KnownVersion


class Site:
    """A site at work. `sources` has, by stream, the names of this site's sources of it; `word` is any that no other
    life of this site has."""

    def __init__(
        self,
        name: str,
        journal: Journal,
        make_host: HostMaker,
        sources: Mapping[str, Sequence[str]],
        now: float,
        word: str,
        settings: Settings | None = None,
    ) -> None:
        self.name, self.settings, self.make_host = name, settings or Settings(), make_host
        state = recover(name, journal, make_host, now)
        self.versions: dict[int, RunningVersion] = state.versions
        self.times = {
            stream: StreamTime(
                {source: state.sources.get((stream, source), SourceState(seen_at=now)) for source in names},
                state.promises.get(stream, BEGINNING),
            )
            for stream, names in sources.items()
        }
        self.lives = [*state.lives, state.new_life(word)]
        self.peer_lives = state.peer_lives
        self.peers: dict[str, Peer] = {}
        self.commits, self.steps = state.commits, state.steps
        self.open = OpenCommit(values={"lives": lives_to_json(self.lives)})
        self.controls = Controls(self, state.known, state.prepared)
        self.flying: InFlight | None = None
        self.durable_known = state.known
        self.since_snapshot, self.snapshot_size = state.since_snapshot, state.snapshot_size
        self.held_rows: list[RowsRead] = []
        self.held: dict[str, str] = {}
        self.introduced = False
        self.refusals = 0
        self.counts = {"late": 0, "rejected": 0, "admitted": 0, "unread": 0}
        self._actions: list[SiteAction] = []
        self._acknowledge: set[LogName] = set()
        self.meet()

    @property
    def life(self) -> str:
        return self.lives[-1].word

    @property
    def newest(self) -> RunningVersion | None:
        return self.versions[max(self.versions)] if self.versions else None

    def do(self, action: SiteAction) -> None:
        """Have something done."""
        self._actions.append(action)

    def source_positions(self) -> dict[tuple[str, str], str]:
        """Where sources go on, in their own words; those that have not begun are left out."""
        return {
            (stream, source): state.position
            for stream, time in self.times.items()
            for source, state in time.sources.items()
            if state.position
        }

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to do: all that was begun has ended, here and at all readers."""
        return bool(self.versions) and not self.flying and all(version.is_over for version in self.versions.values())

    def status(self) -> dict[str, Any]:
        """How the site is, as JSON."""
        return status_of(self)

    # ---- events

    def handle(self, event: SiteEvent, now: float) -> list[SiteAction]:
        """Hear of an event, and say what is to be done."""
        match event:
            case Received(sender, message):
                self._receive(sender, message, now)
            case Asked(number, message):
                self.controls.asked(number, message)
            case RowsRead():
                self.held_rows.append(event)
            case Committed(number):
                self._committed(number, now)
            case Written(log, following):
                self._written(log, following)
            case Connected(site):
                self._say_hello(site, now)
            case Woken():
                pass
            case _:
                assert_never(event)
        self._work(now)
        actions, self._actions = self._actions, []
        return actions

    def _work(self, now: float) -> None:
        self._admit(now)
        self._promise(now)
        if self.flying is None or self._pending_size() >= self.settings.step:
            self._step(now)
        if self.flying is None:
            self._commit()
        if self.introduced:
            self._serve(now)
            self._ask(now)

    # ---- messages

    def _receive(self, sender: str, message: object, now: float) -> None:
        try:
            match message:
                case Hello():
                    self._hello(sender, message, now)
                case Batch():
                    self._batch(sender, message, now)
                case Position():
                    self._position(sender, message, now)
                case Probe(log):
                    self._probe(sender, log)
                case Question():
                    self._question(sender, message)
                case Refusal(reason):
                    self._peer(sender).refused_by = reason
                case _:
                    raise MessageError(f"{type(message).__name__} is no message between sites")
        except MessageError:
            self.refusals += 1

    def _peer(self, site: str) -> Peer:
        if site not in self.peers:
            raise MessageError(f"{site} has nothing to say to {self.name}")
        return self.peers[site]

    def meet(self) -> None:
        """Know the sites that the versions speak of."""
        for version in self.versions.values():
            for site in sorted(version.logs.peers(self.name)):
                self.peers.setdefault(site, Peer())

    def _say_hello(self, site: str, now: float, answer: bool = True) -> None:
        if not self.introduced or site not in self.peers:
            return
        known = self.durable_known
        self.do(Send(site, Hello(tuple(self.lives), known.version, known.digest, known.starts_us, answer)))
        if answer:
            self.peers[site].hello_at = now

    def _hello(self, sender: str, hello: Hello, now: float) -> None:
        peer = self._peer(sender)
        positions = {str(log.name): log.committed for log in self._read_logs() if log.name.origin == sender
                     and log.committed_us != END}  # fmt: skip
        peer.refused = reason_to_refuse(sender, self.peer_lives.get(sender, ""), hello, positions)
        if peer.refused:
            self.do(Send(sender, Refusal(peer.refused)))
            return
        word = hello.lives[-1].word
        if self.peer_lives.get(sender) != word:
            self.peer_lives[sender] = word
            self.open.later[f"peer/{sender}"] = word
        is_new = peer.life != word
        peer.life, peer.version = word, hello.version
        if is_new:  # what it said in an earlier life may be more than it has
            for version in self.versions.values():
                for made in version.made.values():
                    if sender in made.readers:
                        made.readers[sender] = Reader(heard_at=now)
        self.controls.heard_version(hello.version, hello.digest, hello.starts_us)
        if not hello.answer:
            peer.greeted = True
        else:
            self._say_hello(sender, now, answer=False)
        if is_new or hello.answer:
            for log in self._read_logs():
                if log.name.origin == sender:
                    self.do(Send(sender, self._position_in(log, again=True)))

    def _read_logs(self) -> list[ReadLog]:
        return [log for version in self.versions.values() for log in version.read.values()]

    def _read_log(self, sender: str, name: LogName) -> ReadLog | None:
        """The log that a site sent something of; None if it is over here, or has not begun."""
        if name.origin != sender:
            raise MessageError(f"{sender} is not where {name} is made")
        version = self.versions.get(name.version)
        if version is None:
            if name.version < min(self.versions, default=1):
                self.do(Send(sender, finished(name, self.life)))
            return None
        if name not in version.read:
            raise MessageError(f"{self.name} does not read {name}")
        return version.read[name]

    def _batch(self, sender: str, batch: Batch, now: float) -> None:
        peer = self._peer(sender)
        if peer.life != batch.life:
            if not peer.refused and (peer.hello_at is None or now >= peer.hello_at + self.settings.repeat):
                self._say_hello(sender, now)
            return
        log = self._read_log(sender, batch.log)
        if log is None:
            return
        if log.lacks(batch):
            log.early.setdefault(batch.first, batch)
            log.missing_since = now if log.missing_since is None else log.missing_since
            return
        following: Batch | None = batch
        while following is not None:
            if log.is_new(following):
                self._accept(log, following)
            following = log.early.pop(log.received, None)
        log.early = {first: each for first, each in log.early.items() if first > log.received}
        log.missing_since = now if log.early else None

    def _accept(self, log: ReadLog, batch: Batch) -> None:
        """Take a batch that follows what has come, if it is what it says."""
        rows = None
        if batch.following > batch.first:
            schema = self.versions[batch.log.version].host.schema(batch.log.kind, batch.log.type)
            rows = checked_rows(batch.rows, schema, batch.following - batch.first, bool(batch.filter))
        log.pending.append((batch, rows))
        log.received, log.received_us = batch.following, max(log.received_us, batch.watermark)

    def _made_log(self, sender: str, name: LogName) -> tuple[MadeLog, Reader] | None:
        version = self.versions.get(name.version)
        if version is None or name not in version.made:
            return None
        log = version.made[name]
        if sender not in log.readers:
            raise MessageError(f"{sender} does not read {name}")
        return log, log.readers[sender]

    def _position(self, sender: str, position: Position, now: float) -> None:
        if (of_log := self._made_log(sender, position.log)) is None:
            return
        (log, reader), peer = of_log, self._peer(sender)
        if position.life != peer.life or position.committed < reader.committed:
            return  # of another life, or overtaken
        gone = log.shelf.begin(log.durable_end)
        if position.received < gone:
            peer.refused = f"{sender} was set back: it wants {log.name} from {position.received} on, which it had"
            self.do(Send(sender, Refusal(peer.refused)))
            return
        if position.committed > reader.committed or position.watermark > reader.watermark_us:
            reader.heard_at = now
        reader.committed = max(reader.committed, min(position.committed, log.durable_end))
        reader.watermark_us = max(reader.watermark_us, position.watermark)
        reader.sent = max(reader.sent, reader.committed)
        reader.credit = position.credit
        if position.again:
            reader.sent = max(reader.committed, min(position.received, log.durable_end))
            reader.told_us = position.watermark

    def _probe(self, sender: str, name: LogName) -> None:
        if (log := self._read_log(sender, name)) is not None:
            self.do(Send(sender, self._position_in(log, again=True)))

    def _question(self, sender: str, question: Question) -> None:
        if (of_log := self._made_log(sender, question.log)) is None:
            return
        log, reader = of_log
        reader.question = question
        reader.told_us = (
            min(reader.told_us, log.durable_us - 1) if question.until_us <= log.durable_us else reader.told_us
        )
        if log.name.kind == "events" and log.name.type in self.times:
            self.times[log.name.type].ask(question.until_us, question.pace_us, question.reached_us)

    def _position_in(self, log: ReadLog, again: bool = False) -> Position:
        return log.position(self.life, self._credit(log), again)

    def _credit(self, log: ReadLog) -> int:
        """What may be sent beyond what is journalled; nothing of a log that is ahead while much of it waits."""
        lows = self.versions[log.name.version].watermarks()
        passed_us = min(lows.values(), default=END)
        is_ahead = log.by_operators and log.taken_us > passed_us
        return 0 if is_ahead and log.waiting_size(passed_us) > self.settings.waiting else self.settings.credit

    # ---- rows of sources

    def _admit(self, now: float) -> None:
        """Judge rows of sources, once and in order; those of a source wait while it is not decided which version they
        belong to."""
        waiting: list[RowsRead] = []
        for rows in self.held_rows:
            of_same_source = any((w.stream, w.source) == (rows.stream, rows.source) for w in waiting)
            if of_same_source or not self._take(rows, now):
                waiting.append(rows)
        self.held_rows = waiting
        self._hold()

    def _take(self, read: RowsRead, now: float) -> bool:
        version, time = self.newest, self.times.get(read.stream)
        if time is None or read.source not in time.sources:
            raise SituError(f"{self.name} has no source {read.source!r} of {read.stream}")
        if version is None:
            return False
        source = time.sources[read.source]
        if read.rows is not None:
            limit_us = max(time.promise_us, BEGINNING)
            admitted = version.host.admit(read.stream, read.rows, source.latest_us, limit_us, round(now * 1e6))
            if admitted.latest_us >= time.limit_us:
                return False
            source.latest_us = admitted.latest_us
            self._file(read.stream, admitted.events, admitted.late, admitted.rejected)
        source.position, source.ended, source.seen_at = read.position, read.ended, now
        self.open.values[f"source/{read.stream}/{read.source}"] = source.to_json()
        self.open.after.append(Taken(read.stream, read.source, read.position))
        return True

    def _file(self, stream: str, events: pa.RecordBatch, late: pa.RecordBatch, rejected: pa.RecordBatch) -> None:
        """Put admitted rows into the logs of the versions that hold for their times, others into the newest one's."""
        newest = self.versions[max(self.versions)]
        for kind, rows in (("late", late), ("rejected", rejected)):
            self.counts[kind] += rows.num_rows
            log = LogName(kind, stream, self.name, newest.number)  # type: ignore[arg-type]
            if rows.num_rows and log in newest.made:
                self.open.entries += newest.append(log, rows, BEGINNING)
        filed = 0
        for version in self.versions.values():
            log = LogName("events", stream, self.name, version.number)
            mine = rows_between(events, version.plan.starts_us, version.ends_us)
            if mine.num_rows and log in version.made:
                part = mine.select(version.host.schema("events", stream).names)
                self.open.entries += version.append(log, part, BEGINNING)
                filed += part.num_rows
                if self.name in version.logs.operators[log]:
                    version.fresh.append((log, part))
        self.counts["admitted"] += filed
        self.counts["unread"] += events.num_rows - filed

    def _promise(self, now: float) -> None:
        """Promise about own streams what can be promised now."""
        newest = self.newest
        for stream, time in self.times.items():
            if newest is None or self.name not in newest.plan.sources.get(stream, ()) or not time.sources:
                continue
            if time.advance(newest.host.stream(stream), stream in newest.plan.live, now):
                self.open.values[f"promise/{stream}"] = str(time.promise_us)
            for version in self.versions.values():
                self._promise_of_version(version, stream, time.promise_us)

    def _promise_of_version(self, version: RunningVersion, stream: str, promise_us: int) -> None:
        log = version.made.get(LogName("events", stream, self.name, version.number))
        if log is None or version.promise_of(promise_us) <= log.watermark_us:
            return
        log.watermark_us = version.promise_of(promise_us)
        for entry in reversed(self.open.entries):  # it rides on the last rows, if they are not on their way yet
            if entry.log == log.name and entry.following == log.end:
                at = self.open.entries.index(entry)
                self.open.entries[at] = replace(entry, watermark=log.watermark_us)
                break
        self.open.values[f"made/{log.name}"] = f"{log.end} {log.watermark_us}"
        if log.watermark_us == END:
            for kind in ("late", "rejected"):
                other = version.made[LogName(kind, stream, self.name, version.number)]
                if promise_us == END or version is not self.newest:
                    other.watermark_us = END
                    self.open.values[f"made/{other.name}"] = f"{other.end} {END}"

    def _hold(self) -> None:
        """Hold streams of which too much is kept for readers, or whose rows wait for a decision."""
        for stream in self.times:
            reason = ""
            for version in self.versions.values():
                log = version.made.get(LogName("events", stream, self.name, version.number))
                if log is not None and log.shelf.size > self.settings.quota:
                    slowest = min(log.readers, key=lambda site: log.readers[site].committed, default=SINK)
                    reason = f"{log.shelf.size:,} bytes wait for {slowest}"
            if any(rows.stream == stream for rows in self.held_rows):
                reason = "it waits for the decision about a plan"
            if reason != self.held.get(stream, ""):
                self.held[stream] = reason
                self.do(Hold(stream, reason))

    # ---- steps and commits

    def _pending_size(self) -> int:
        came = sum(len(batch.rows) for log in self._read_logs() for batch, _ in log.pending)
        return came + sum(rows.nbytes for version in self.versions.values() for _, rows in version.fresh)

    def _step(self, now: float) -> None:
        for version in self.versions.values():
            before = {name: (log.taken, log.taken_us) for name, log in version.read.items()}
            record, entries = version.step(self.steps + 1, now)
            self.open.entries += entries
            if record is not None:
                self.steps += 1
                self.open.steps.append(record)
                for name, (end, watermark_us) in record.made.items():
                    self.open.values[f"made/{name}"] = f"{end} {watermark_us}"
            for name, log in version.read.items():
                if before[name] != (log.taken, log.taken_us):
                    self.open.values[f"read/{name}"] = f"{log.taken} {log.taken_us}"
            for name in sorted({entry.log for entry in self.open.entries if entry.log in version.made}):
                log_ = version.made[name]
                self.open.values[f"made/{name}"] = f"{log_.end} {log_.watermark_us}"

    def _commit(self) -> None:
        """Give all that waits to the disk."""
        self._let_go()
        if not (self.open.entries or self.open.steps or self.open.values or self.open.after):
            return
        self.commits += 1
        opened, self.open = self.open, OpenCommit()
        snapshot, steps = None, opened.steps
        forgotten = opened.forgotten
        size = sum(len(entry.rows) for entry in opened.entries)
        if self.since_snapshot + size > max(self.settings.snapshot, self.snapshot_size):
            snapshot, steps = pack(state_tables(self.versions.values())), []
            forgotten = forgotten | self._forgettable()
            self.snapshot_size, self.since_snapshot = len(snapshot), 0
        values = opened.values | opened.later | {"counted": f"{self.commits} {self.steps}"}
        commit = JournalCommit(self.commits, opened.entries, steps, values, snapshot, forgotten)
        self.since_snapshot += size
        made = {name: (log.end, log.watermark_us) for v in self.versions.values() for name, log in v.made.items()}
        read = {log.name: (log.taken, log.taken_us) for log in self._read_logs()}
        self.flying = InFlight(commit, made, read, opened.after, self.controls.known)
        self.do(Append(commit))

    def _forgettable(self) -> dict[LogName, int]:
        """What no reader, no sink and no replay needs any more, once a snapshot is written."""
        forgettable = {}
        for version in self.versions.values():
            for name, log in version.made.items():
                forgettable[name] = log.acknowledged()
            for name, read in version.read.items():
                forgettable[name] = read.taken if read.sink is None else min(read.taken, read.sink.committed)
        return {name: before for name, before in forgettable.items() if before}

    def _let_go(self) -> None:
        """Forget versions that are over, but the newest."""
        for number in sorted(self.versions)[:-1]:
            version = self.versions[number]
            if not version.is_over or self.flying is not None:
                return
            del self.versions[number]
            self.open.values[f"plan/{number}"] = None
            for kind, logs in (("made", version.made), ("read", version.read)):
                for name in logs:
                    self.open.values |= {f"{kind}/{name}": None, f"sink/{name}": None}
                    self.open.forgotten[name] = END

    def _committed(self, number: int, now: float) -> None:
        flying = self.flying
        if flying is None or flying.commit.number != number:
            raise SituError(f"commit {number} was told, and another one is on its way")
        self.flying = None
        shelves = self._shelves()
        for entry in flying.commit.entries:
            if entry.log in shelves:
                shelves[entry.log].stubs.append(entry.stub)
        for name, before in flying.commit.forgotten.items():
            if name in shelves:
                shelves[name].forget(before)
        for version in self.versions.values():
            for name, log in version.made.items():
                log.durable_end, log.durable_us = flying.made.get(name, (log.durable_end, log.durable_us))
            for name, read in version.read.items():
                position = flying.read.get(name, (read.committed, read.committed_us))
                if position != (read.committed, read.committed_us):
                    read.committed, read.committed_us = position
                    self._acknowledge.add(name)
        self._actions += flying.after
        if flying.known != self.durable_known:
            self.durable_known = flying.known
            self._begun(flying.known.version, now)
        self.introduced = True
        for name in sorted(self._acknowledge):
            if name.version in self.versions:
                read = self.versions[name.version].read[name]
                self.do(Send(name.origin, self._position_in(read)))
        self._acknowledge.clear()

    def _begun(self, number: int, now: float) -> None:
        """A version has begun: say so to all, and to those whose logs it reads that this site is there."""
        self.meet()
        for site in self.peers:
            self._say_hello(site, now)
        for log in self.versions[number].read.values() if number in self.versions else ():
            if self.peers[log.name.origin].life:
                self.do(Send(log.name.origin, self._position_in(log, again=True)))

    def _shelves(self) -> dict[LogName, Shelf]:
        shelves = {name: log.shelf for version in self.versions.values() for name, log in version.made.items()}
        return shelves | {log.name: log.shelf for log in self._read_logs()}

    # ---- what goes out

    def _serve(self, now: float) -> None:
        """Send what is durable to readers and sinks that may have it, and remind those that are silent."""
        for site, peer in self.peers.items():
            if not peer.greeted and (peer.hello_at is None or now >= peer.hello_at + self.settings.repeat):
                self._say_hello(site, now)
        for version in self.versions.values():
            for log in version.made.values():
                for site, reader in log.readers.items():
                    if site == SINK:
                        self._write(log.name, log.shelf, log.durable_end, reader)
                    elif self._is_ready(site):
                        self._send(log, site, reader, now)
            for read in version.read.values():
                if read.missing_since is not None and now >= read.missing_since + self.settings.ask:
                    read.missing_since = now + self.settings.repeat
                    self.do(Send(read.name.origin, self._position_in(read, again=True)))
                if read.sink is not None:
                    self._write(read.name, read.shelf, read.committed, read.sink)

    def _is_ready(self, site: str) -> bool:
        """Whether a site may be sent to: it knows this site's present life, and neither refuses the other."""
        peer = self.peers[site]
        return peer.greeted and not peer.refused and not peer.refused_by

    def _send(self, log: MadeLog, site: str, reader: Reader, now: float) -> None:
        for stub in list(log.sendable(reader)):
            if reader.sent == reader.committed:
                reader.heard_at = now
            reader.sent, reader.told_us = stub.following, max(reader.told_us, stub.watermark)
            self.do(SendEntry(site, log.name, self.life, stub.first, stub.following, stub.watermark))
        if (promise_us := log.promise_for(reader)) is not None:
            if promise_us == END and reader.told_us < END:
                reader.heard_at = now
            reader.told_us = promise_us
            self.do(Send(site, Batch(log.name, self.life, log.durable_end, log.durable_end, promise_us)))
        if reader.question is not None and reader.told_us >= reader.question.until_us:
            reader.question = None
        if log.owes(reader) and now >= reader.heard_at + self.settings.repeat:
            reader.heard_at = now
            self.do(Send(site, Probe(log.name)))

    def _write(self, name: LogName, shelf: Shelf, durable_end: int, sink: Reader) -> None:
        """Give the sink as much as it may have before it has written what it was given."""
        outstanding = sink.outstanding(shelf)
        for stub in shelf.after(sink.sent):
            if stub.following > durable_end or (outstanding and outstanding + stub.size > self.settings.credit):
                return
            outstanding += stub.size
            sink.sent = stub.following
            self.do(WriteEntry(name, stub.first, stub.following, stub.watermark))

    def _written(self, name: LogName, following: int) -> None:
        version = self.versions.get(name.version)
        if version is None:
            return
        sink = version.read[name].sink if name in version.read else version.made[name].readers[SINK]
        assert sink is not None
        sink.committed, sink.sent = max(sink.committed, following), max(sink.sent, following)
        if name in version.made and version.made[name].durable_end == sink.committed:
            sink.watermark_us = version.made[name].durable_us
        self.open.later[f"sink/{name}"] = str(sink.committed)

    # ---- questions about time

    def _ask(self, now: float) -> None:
        """Ask origins whose promises somebody here, or behind here, waits for; not before it is clear that they do not
        come by themselves."""
        for version in self.versions.values():
            asked = {log.name.type: log.asked_us() for log in version.made.values() if log.name.kind == "events"}
            needed = version.host.undecided(asked)
            if not needed:
                continue
            lows = version.watermarks()
            reached_us = max(lows.values(), default=BEGINNING)
            for stream, time in self.times.items():
                if stream in needed and self.name in version.plan.sources.get(stream, ()):
                    until_us, pace_us = needed[stream]
                    if until_us > time.promise_us:
                        time.ask(until_us, pace_us, reached_us)
            for log in version.read.values():
                if log.by_operators and log.name.type in needed:
                    self._ask_origin(log, *needed[log.name.type], reached_us, now)

    def _ask_origin(self, log: ReadLog, until_us: int, pace_us: int, reached_us: int, now: float) -> None:
        if until_us <= log.received_us:
            return
        if log.lag_us != log.received_us or not log.lag_since:
            log.lag_us, log.lag_since = log.received_us, now
        is_open = log.asked_us > log.received_us
        due = log.asked_at + self.settings.repeat if is_open else log.lag_since + self.settings.ask
        if now >= due:
            log.asked_us, log.asked_at = until_us, now
            self.do(Send(log.name.origin, Question(log.name, until_us, pace_us, reached_us)))

    def wakes_at(self, now: float) -> float | None:
        """When, if nothing else happens, the site wants to be woken."""
        moments: list[float] = []
        repeat = self.settings.repeat
        if not self.introduced:
            return None
        moments += [
            peer.hello_at + repeat
            for peer in self.peers.values()
            if not peer.greeted and peer.hello_at is not None and not peer.refused
        ]
        for version in self.versions.values():
            for log in version.made.values():
                moments += [reader.heard_at + repeat for site, reader in log.readers.items()
                            if site != SINK and log.owes(reader) and self._is_ready(site)]  # fmt: skip
            newest = version.number == max(self.versions)
            for stream, time in self.times.items():
                if newest and self.name in version.plan.sources.get(stream, ()):
                    at = time.wakes_at(version.host.stream(stream), stream in version.plan.live, now)
                    moments += [] if at is None else [at]
            moments += [read.missing_since + self.settings.ask for read in version.read.values()
                        if read.missing_since is not None]  # fmt: skip
            asked = {log.name.type: log.asked_us() for log in version.made.values() if log.name.kind == "events"}
            for type_, (until_us, _) in version.host.undecided(asked).items():
                for read in version.read.values():
                    if read.name.type == type_ and read.by_operators and until_us > read.received_us:
                        is_open = read.asked_us > read.received_us
                        moments.append(read.asked_at + repeat if is_open else read.lag_since + self.settings.ask)
        return max(min(moments), now) if moments else None


def rows_between(events: pa.RecordBatch, starts_us: int, ends_us: int) -> pa.RecordBatch:
    """The events with times from one to before another."""
    if starts_us == BEGINNING and ends_us == END:
        return events
    times = events.column(TIME).view(pa.int64())
    return events.filter(pc.and_(pc.greater_equal(times, starts_us), pc.less(times, ends_us)))
