"""The core of a site: it is told events, decides, and says what is to be done. No clock, no socket, no file, no thread.

1. What comes (rows of sources, batches of other sites' logs) waits for a **step**, in which operators read it.
2. Steps are collected into a **commit**; there is one at a time, and what comes meanwhile is the next one.
3. Only what is committed is sent, promised or acknowledged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, assert_never

from situ.core.errors import SituError
from situ.core.time import BEGINNING, END
from situ.kernel.state.snapshot import pack
from situ.network.network import Network
from situ.runtime.sites.actions import (
    Append,
    BatchMade,
    BatchTaken,
    Committed,
    Connected,
    ControlAsked,
    Readable,
    Received,
    RowsRead,
    SiteAction,
    SiteEvent,
    Woken,
    WriteEntry,
    Written,
)
from situ.runtime.sites.adapting.coordinator import TransitionCoordinator
from situ.runtime.sites.admission import Admission
from situ.runtime.sites.batches import Offsets
from situ.runtime.sites.controls import Controls, KnownVersion
from situ.runtime.sites.conversation import Conversation
from situ.runtime.sites.host import HostMaker
from situ.runtime.sites.journal import Entry, Journal, JournalCommit, LogPosition, StepRecord
from situ.runtime.sites.logs import SINK, MadeLog, PullState, Reader, ReadLog, Shelf
from situ.runtime.sites.messages import LogName
from situ.runtime.sites.monitor import SiteMonitor
from situ.runtime.sites.peers import lives_to_json
from situ.runtime.sites.questions import Questions
from situ.runtime.sites.recovery import recover, state_tables
from situ.runtime.sites.relays import Relays
from situ.runtime.sites.rows import read_rows
from situ.runtime.sites.running_version import RunningVersion, latest_us
from situ.runtime.sites.settings import Settings
from situ.runtime.sites.source_times import SourceState, StreamTime
from situ.runtime.sites.status import status_of

if TYPE_CHECKING:
    from situ.runtime.sites.brokers.coordinator import Coordinator


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
    made: Mapping[LogName, LogPosition]
    read: Mapping[LogName, LogPosition]
    pulled: Mapping[LogName, PullState]
    after: Sequence[SiteAction]
    known: KnownVersion


class SiteCore:
    """A site at work. `sources` has, by stream, the names of this site's sources of it; `word` is any that no other
    life of this site has. In a `network` it has a part in what is decided about where operators run."""

    def __init__(
        self,
        name: str,
        journal: Journal,
        make_host: HostMaker,
        sources: Mapping[str, Sequence[str]],
        now: float,
        word: str,
        settings: Settings | None = None,
        network: Network | None = None,
    ) -> None:
        self.name, self.settings, self.make_host = name, settings or Settings(), make_host
        self._journal = journal
        state = recover(name, journal, make_host, now)
        self.versions: dict[int, RunningVersion] = state.versions
        times = {
            stream: StreamTime(
                {source: state.sources.get((stream, source), SourceState(seen_at=now)) for source in names},
                state.promises.get(stream, BEGINNING),
            )
            for stream, names in sources.items()
        }
        self.commits, self.steps = state.commits, state.steps
        lives = [*state.lives, state.new_life(word)]
        self.open = OpenCommit(values={"lives": lives_to_json(lives)})
        self.conversation = Conversation(self, lives, state.peer_lives)
        self.relays = Relays(self, network)
        self.monitor = SiteMonitor()
        self.admission = Admission(self, times)
        self.questions = Questions(self)
        self.controls = Controls(self, state.known, state.prepared, state.deployments)
        self.flying: InFlight | None = None
        self.durable_known = state.known
        self.since_snapshot, self.snapshot_size = state.since_snapshot, state.snapshot_size
        self._actions: list[SiteAction] = []
        self._acknowledge: set[LogName] = set()
        self._readable: dict[int, Offsets] = {}
        self.coordinator = None if network is None else _coordinator(self, network, journal.values().get("adapting"))
        self.conversation.meet()

    @property
    def newest(self) -> RunningVersion | None:
        return self.versions[max(self.versions)] if self.versions else None

    @property
    def peers(self) -> Collection[str]:
        """The sites that this one speaks with."""
        return self.conversation.peers

    def do(self, action: SiteAction) -> None:
        """Have something done."""
        self._actions.append(action)

    def source_positions(self) -> dict[tuple[str, str], str]:
        """Where sources go on, in their own words; those that have not begun are left out."""
        return {
            (stream, source): state.position
            for stream, time in self.admission.times.items()
            for source, state in time.sources.items()
            if state.position
        }

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to do: all that was begun has ended, here and at all readers."""
        return bool(self.versions) and not self.flying and all(version.is_over for version in self.versions.values())

    def read_logs(self) -> list[ReadLog]:
        """The logs of other sites that this one reads, of all versions."""
        return [log for version in self.versions.values() for log in version.read.values()]

    def status(self) -> dict[str, Any]:
        """How the site is, as JSON."""
        return status_of(self)

    def news(self) -> list[str]:
        """What was decided since somebody asked, for the log."""
        if self.coordinator is None:
            return []
        news, self.coordinator.news = self.coordinator.news, []
        return news

    # ---- events

    def handle(self, event: SiteEvent, now: float) -> list[SiteAction]:
        """Hear of an event, and say what is to be done."""
        match event:
            case Received(sender, message):
                self.conversation.hear(sender, message, now)
            case ControlAsked(number, message):
                self.controls.asked(number, message)
            case RowsRead():
                self.admission.add(event)
            case Committed(number):
                self._committed(number, now)
            case Written(log, following):
                self._written(log, following)
            case Connected(site):
                for peer in self.peers:
                    if self.relays.way_to(peer)[0] == site:
                        self.conversation.say_hello(peer, now)
            case BatchMade():
                self._take_batch(event)
            case Woken():
                pass
            case _:
                assert_never(event)
        self._work(now)
        actions, self._actions = self._actions, []
        if self.coordinator is not None:
            actions = self.coordinator.intercept(actions)
        return self.relays.routed(actions)

    def _work(self, now: float) -> None:
        self.admission.admit(now)
        self.admission.promise(now)
        if self.flying is None or self._pending_size() >= self.settings.step:
            self._step(now)
        if self.flying is None:
            self._commit()
        if self.conversation.introduced:
            self.conversation.serve(now)
            self.questions.ask(now)
            if self.coordinator is not None:
                self.coordinator.work(now)
                if self.flying is None:
                    self._commit()  # what it has decided

    # ---- steps and commits

    def _pending_size(self) -> int:
        came = sum(len(batch.rows) for log in self.read_logs() for batch, _ in log.pending)
        return came + sum(rows.nbytes for version in self.versions.values() for _, rows in version.fresh)

    def _step(self, now: float) -> None:
        for version in self.versions.values():
            before = {name: (log.taken, log.taken_us, log.taken_request) for name, log in version.read.items()}
            is_decided = self.controls.prepared is None or version.ends_us < END
            record, entries = version.step(self.steps + 1, now, is_decided)
            self.open.entries += entries
            self.monitor.made(version, entries, self.commits + 1)
            if record is not None:
                self.steps += 1
                self.open.steps.append(record)
                for name in record.made:
                    of_version = self.versions[name.version]
                    for log in (name, *of_version.selected.get(name, ())):
                        self.store_made(of_version.made[log])
            for name, read in version.read.items():
                if before[name] != (read.taken, read.taken_us, read.taken_request):
                    self.open.values[f"read/{name}"] = f"{read.taken} {read.taken_us} {read.taken_request}"
            for name in sorted({entry.log for entry in self.open.entries if entry.log in version.made}):
                self.store_made(version.made[name])

    def store_made(self, log: MadeLog) -> None:
        """Let the next commit have how far a log that is made here has come."""
        self.open.values[f"made/{log.name}"] = f"{log.end} {log.watermark_us}"

    def kept_rows(self, log: LogName) -> Iterator[bytes]:
        """The rows of all entries of a log that is made here, as far as they are kept."""
        version = self.versions[log.version]
        for stub in version.made[log].shelf.after(version.needless(log)):
            yield self._journal.rows(log, stub.first)
        for entries in (self.flying.commit.entries if self.flying is not None else (), self.open.entries):
            yield from (entry.rows for entry in entries if entry.log == log)

    def latest_in(self, log: LogName, first: int) -> int:
        """The largest time in an entry that the journal has."""
        return latest_us(read_rows(self._journal.rows(log, first)))

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
        made = {
            name: LogPosition(log.end, log.watermark_us, log.request)
            for version in self.versions.values()
            for name, log in version.made.items()
        }
        read = {log.name: LogPosition(log.taken, log.taken_us, log.taken_request) for log in self.read_logs()}
        self.flying = InFlight(commit, made, read, self._pulled(), opened.after, self.controls.known)
        self.do(Append(commit))

    def _pulled(self) -> dict[LogName, PullState]:
        """What is pulled of each log of another site, as the operators say now."""
        return {
            name: state
            for version in self.versions.values()
            for type_, state in version.host.pulled().items()
            for name, log in version.read.items()
            if log.pulled is not None and name.type == type_
        }

    def _forgettable(self) -> dict[LogName, int]:
        """What no reader, no sink and no replay needs any more, once a snapshot is written."""
        forgettable = {}
        for version in self.versions.values():
            for name in version.made:
                forgettable[name] = version.needless(name)
            for name in version.read:
                forgettable[name] = version.needless_of_read(name)
        return {name: before for name, before in forgettable.items() if before}

    def _let_go(self) -> None:
        """Forget versions that are over, but the newest."""
        for number in sorted(self.versions)[:-1]:
            version = self.versions[number]
            if not version.is_over or self.flying is not None:
                return
            del self.versions[number]
            self._readable.pop(number, None)
            self.open.values |= {f"plan/{number}": None, f"ends/{number}": None, f"batch/{number}": None}
            for kind, logs in (("made", version.made), ("read", version.read)):
                for name in logs:
                    self.open.values |= {f"{kind}/{name}": None, f"sink/{name}": None, f"pull/{name}": None}
                    self.open.forgotten[name] = END

    def _committed(self, number: int, now: float) -> None:
        flying = self.flying
        if flying is None or flying.commit.number != number:
            raise SituError(f"commit {number} was told, and another one is on its way")
        self.flying = None
        self.monitor.committed(number, now)
        shelves = self._shelves()
        for entry in flying.commit.entries:
            if entry.log in shelves:
                shelves[entry.log].add(entry.stub)
        for name, before in flying.commit.forgotten.items():
            if name in shelves:
                shelves[name].forget(before)
        for version in self.versions.values():
            for name, log in version.made.items():
                if name in flying.made:
                    log.durable_end, log.durable_us, log.durable_request = flying.made[name]
            for name, read in version.read.items():
                position = LogPosition(read.committed, read.committed_us, read.committed_request)
                after = flying.read.get(name, position)
                if after != position:
                    if read.is_worth_telling(after.number, after.watermark_us):
                        self._acknowledge.add(name)
                    read.committed, read.committed_us, read.committed_request = after
                read.pulled = flying.pulled.get(name, read.pulled)
        self._actions += flying.after
        if flying.known != self.durable_known:
            self.durable_known = flying.known
            self.conversation.begun(now)
        self.conversation.introduced = True
        for name in sorted(self._acknowledge):
            if name.version in self.versions:
                self.conversation.acknowledge(self.versions[name.version].read[name], now)
        self._acknowledge.clear()
        self._tell_readable()

    def _shelves(self) -> dict[LogName, Shelf]:
        shelves = {name: log.shelf for version in self.versions.values() for name, log in version.made.items()}
        return shelves | {log.name: log.shelf for log in self.read_logs()}

    # ---- operators that a query outside drives

    def _take_batch(self, batch: BatchMade) -> None:
        """Take what a query made, unless it was taken before; it hears of it when that is durable."""
        version = self.versions.get(batch.version)
        if version is None:
            return  # it is over, and so is the query
        entries, grown = version.take_batch(batch)
        if grown:
            self.open.entries += entries
            self.monitor.made(version, entries, self.commits + 1)
            self.open.values[f"batch/{batch.version}"] = version.last_batch.to_json()
            for name in sorted(grown):
                self.store_made(version.made[name])
            # Those who have no credit because much was not read yet are told again.
            self._acknowledge |= {n for n, log in version.read.items() if log.told is not None and not log.told.credit}
        self.open.after.append(BatchTaken(batch.version, batch.number))

    def _tell_readable(self) -> None:
        """Say what queries may read now."""
        for number, version in self.versions.items():
            if version.host.driven and (offsets := version.readable()) != self._readable.get(number):
                self._readable[number] = offsets
                self.do(Readable(number, offsets))

    # ---- sinks

    def write(self, name: LogName, shelf: Shelf, durable_end: int, sink: Reader) -> None:
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

    def wakes_at(self, now: float) -> float | None:
        """When, if nothing else happens, the site wants to be woken."""
        if not self.conversation.introduced:
            return None
        moments = [*self.conversation.wakes(), *self.admission.wakes(now), *self.questions.wakes()]
        moments += [] if self.coordinator is None else self.coordinator.wakes()
        return max(min(moments), now) if moments else None


def _coordinator(site: SiteCore, network: Network, journalled: str | None) -> Coordinator | TransitionCoordinator:
    """What decides where operators run: brokers among themselves, or one site. Only brokers import the planner at once:
    a site that is killed is to be back soon."""
    if network.brokers is None:
        return TransitionCoordinator(site, network, journalled)
    from situ.runtime.sites.brokers.coordinator import Coordinator

    return Coordinator(site, network)
