"""A world for sites: their messages take time, get lost, come twice or in another order; disks are slow; processes are
killed between any two things that they do. Everything happens at a simulated time, and all chance comes from one seed.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import assert_never

import pyarrow as pa

from situ.core.errors import SituError
from situ.io.rows.conform import Conformed
from situ.network.network import Network
from situ.runtime.sites.actions import (
    Answer,
    Append,
    BatchTaken,
    Committed,
    ControlAsked,
    Hold,
    Readable,
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
from situ.runtime.sites.batches import Offsets
from situ.runtime.sites.deployed_plan import plan_to_json
from situ.runtime.sites.deployment import Deployment
from situ.runtime.sites.driven_host import make_driven_host
from situ.runtime.sites.embedded_host import make_embedded_host
from situ.runtime.sites.host import HostMaker
from situ.runtime.sites.journal import JournalCommit, MemoryJournal
from situ.runtime.sites.messages import ControlAnswer, LogName, PeerMessage, Relayed, message_of, message_to_parts
from situ.runtime.sites.rows import read_rows
from situ.runtime.sites.settings import Settings
from situ.runtime.sites.simulation.simulated_query import SimulatedCheckpoint, SimulatedQuery, States
from situ.runtime.sites.site import SiteCore
from situ.runtime.sites.status import status_of

#: How likely it is, while there are kills, that a process is killed after an action that it wanted done.
KILLED_BETWEEN_ACTIONS = 0.01
#: And that it is killed while its disk writes.
KILLED_WHILE_WRITING = 0.1


class SimulationError(SituError):
    """Sites did what they never may."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong until `until_s`: chances for a message, and times in seconds.

    `kills` and `cuts` are how often, in all, a process is killed and two sites are cut off from each other. The disks
    of a share of sites, `slow_disks`, take ten times as long.
    """

    delay_s: tuple[float, float] = (0.001, 0.01)
    commit_s: tuple[float, float] = (0.001, 0.005)
    slow_disks: float = 0.0
    loss: float = 0.0
    repeat: float = 0.0
    kills: int = 0
    cuts: int = 0
    until_s: float = 10.0


@dataclass(slots=True)
class SimulatedSource:
    """Pieces of rows that a source reads, one after the other; its position is the number of the next one. `due` are
    the times at which they are there; without it they are read as fast as it goes."""

    pieces: Sequence[Conformed]
    pause_s: float
    ends: bool = True
    due: Sequence[float] = ()
    next: int = 0
    under_way: bool = False
    ended: bool = False


@dataclass
class SimulatedSite:
    """A machine: what survives a kill is the journal, the sink's rows, and what sources have."""

    name: str
    sources: dict[tuple[str, str], SimulatedSource]
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    site: SiteCore | None = None
    lives: int = 0
    written: dict[LogName, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    held: set[str] = field(default_factory=set)
    wakes_at: float | None = None
    committing: JournalCommit | None = None
    idle_wakes: int = 0
    checkpoints: dict[int, SimulatedCheckpoint] = field(default_factory=dict)
    readable: dict[int, Offsets] = field(default_factory=dict)
    at_work: dict[int, SimulatedQuery] = field(default_factory=dict)
    made: dict[int, States] = field(default_factory=dict)


class World:
    """Sites, and everything around them. `run` goes on until all is over, or it is clear that it never will be."""

    def __init__(
        self,
        names: Sequence[str],
        sources: Mapping[tuple[str, str, str], Sequence[Conformed]],
        seed: int,
        faults: Faults = Faults(),
        settings: Settings | None = None,
        make_host: HostMaker = make_embedded_host,
        latency_s: Callable[[str, str], float] = lambda a, b: 0.0,
        make_site: type[SiteCore] = SiteCore,
        pause_s: float = 0.01,
        bounded: bool = True,
        due: Mapping[tuple[str, str, str], Sequence[float]] | None = None,
        watch: Callable[[str, JournalCommit], None] = lambda site, commit: None,
        check: Callable[[SimulatedSite], None] = lambda machine: None,
        on_link: Callable[[str, str, PeerMessage], None] = lambda sender, to, message: None,
        spark: Collection[str] = (),
        network: Network | None = None,
        clocks_off_s: Mapping[str, float] | None = None,
        bytes_per_s: float | None = None,
    ) -> None:
        self.random = random.Random(seed)
        self.faults, self.settings, self.make_host, self.latency_s = faults, settings, make_host, latency_s
        self.make_site, self.watch, self.check, self.network = make_site, watch, check, network
        #: How many bytes a way from one site to another carries, and until when it is busy with those before.
        self.bytes_per_s, self._busy_until = bytes_per_s, defaultdict[tuple[str, str], float](float)
        #: Told of every message that a site sends over one of its links, what it hands on for others among them.
        self.on_link = on_link
        #: The sites that a link joins, of brokers; None where all are joined to each other.
        links = () if network is None or network.brokers is None else network.links
        self.joined = {frozenset((link.a, link.b)) for link in links} or None
        #: By site whose clock is off, by how much.
        self.clocks_off_s = clocks_off_s or {}
        #: The sites whose operators run on Spark; batches that were done again; and how many of them were known.
        self.spark, self.batches_failed, self.batches_known = spark, 0, 0
        self.now = 1_000.0
        self.begun_at = self.now
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self.cut: set[frozenset[str]] = set()
        self.slow = {name for name in names if self.random.random() < faults.slow_disks}
        self.sites = {name: SimulatedSite(name, {}) for name in names}
        for (site, stream, source), pieces in sources.items():
            self.sites[site].sources[stream, source] = SimulatedSource(
                pieces, pause_s, bounded, (due or {}).get((site, stream, source), ())
            )
        self.answers: dict[int, Callable[[ControlAnswer], None]] = {}
        self.handled = 0
        self.messages: dict[str, int] = defaultdict(int)
        self.deployments: list[Deployment] = []
        for name in names:
            self._start(name)
        self._plan_faults()

    # ---- time

    def at(self, time: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (time, next(self._numbers), action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self.at(self.now + seconds, action)

    def run(self, limit_s: float = 3600.0) -> None:
        """Let everything happen until all sites are done; SimulationError if that does not happen in time."""
        until = self.begun_at + limit_s
        while self._queue:
            time, _, action = heapq.heappop(self._queue)
            self.now = max(self.now, time)
            if self.now > until:
                break
            action()
            if self.is_over:
                return
        if not self.is_over:
            raise SimulationError(f"time does not go on: {self._stuck()}")

    def run_for(self, seconds: float) -> None:
        """Let everything happen that happens within some time."""
        until = self.now + seconds
        while self._queue and self._queue[0][0] <= until:
            time, _, action = heapq.heappop(self._queue)
            self.now = max(self.now, time)
            action()
        self.now = until

    @property
    def is_over(self) -> bool:
        """Whether nobody has anything left to do."""
        return all(deployment.is_over for deployment in self.deployments) and all(
            machine.site is not None
            and machine.site.is_over
            and all(source.ended and not source.under_way for source in machine.sources.values())
            for machine in self.sites.values()
            if any(machine.name in deployment.plan.sites for deployment in self.deployments)
        )

    def _stuck(self) -> str:
        told = [deployment.words() for deployment in self.deployments if not deployment.is_over]
        for machine in self.sites.values():
            if machine.site is None:
                told.append(f"{machine.name} is down")
            elif not machine.site.is_over:
                told.append(str(status_of(machine.site)))
        return "\n".join(told)[:6000]

    # ---- faults

    def _plan_faults(self) -> None:
        faults, pick = self.faults, self.random
        for _ in range(faults.kills):
            name = pick.choice(sorted(self.sites))
            self.after(pick.uniform(0, faults.until_s), lambda name=name: self.kill(name))  # type: ignore[misc]
        for _ in range(faults.cuts if len(self.sites) > 1 else 0):
            pair = frozenset(pick.sample(sorted(self.sites), 2))
            begin = pick.uniform(0, faults.until_s)
            self.after(begin, lambda pair=pair: self.cut.add(pair))  # type: ignore[misc]
            self.after(begin + pick.uniform(0, 5), lambda pair=pair: self.cut.discard(pair))  # type: ignore[misc]

    @property
    def _is_stormy(self) -> bool:
        return self.now < self.begun_at + self.faults.until_s

    def kill(self, name: str) -> None:
        """End a process; a commit that its disk is busy with is written or not. It starts again after a while."""
        machine = self.sites[name]
        if machine.site is None:
            return
        if machine.committing is not None and self.random.random() < 0.5:
            self._write(machine, machine.committing)
        machine.site, machine.committing, machine.wakes_at = None, None, None
        machine.readable.clear()
        machine.at_work.clear()
        machine.made.clear()
        self.after(self.random.uniform(0.01, 1.0), lambda: self._start(name))

    def _start(self, name: str) -> None:
        machine = self.sites[name]
        machine.lives += 1
        machine.held.clear()
        by_stream: dict[str, list[str]] = defaultdict(list)
        for stream, source in machine.sources:
            by_stream[stream].append(source)
        word = f"{name}{machine.lives}"
        machine.site = self.make_site(
            name,
            machine.journal,
            self._host_maker(name),
            by_stream,
            self._now_at(name),
            word,
            self.settings,
            self.network,
        )
        positions = machine.site.source_positions()
        for key, reading in machine.sources.items():
            reading.next = int(positions.get(key, "0"))
            reading.under_way, reading.ended = False, machine.site.admission.times[key[0]].sources[key[1]].ended
            self._read_on(machine, key)
        self.handle(name, Woken())

    def _now_at(self, name: str) -> float:
        """What the clock of a site shows."""
        return self.now + self.clocks_off_s.get(name, 0.0)

    def _host_maker(self, name: str) -> HostMaker:
        return make_driven_host if name in self.spark else self.make_host

    # ---- what sites do

    def handle(self, name: str, event: SiteEvent) -> None:
        """Tell a site of an event, and do what it says. It may be killed in between."""
        machine = self.sites[name]
        if machine.site is None:
            return
        self.handled += 1
        for action in machine.site.handle(event, self._now_at(name)):
            self._do(machine, action)
            if self.faults.kills and self._is_stormy and self.random.random() < KILLED_BETWEEN_ACTIONS:
                self.kill(name)
            if machine.site is None:
                return
        self.check(machine)
        wakes_at = machine.site.wakes_at(self._now_at(name))
        wakes_at = None if wakes_at is None else wakes_at - self._now_at(name) + self.now
        if wakes_at is not None and wakes_at <= self.now and isinstance(event, Woken):
            machine.idle_wakes += 1
            if machine.idle_wakes > 100:
                raise SimulationError(f"{name} wants to be woken again and again: {status_of(machine.site)}")
        else:
            machine.idle_wakes = 0
        if wakes_at is not None and (machine.wakes_at is None or wakes_at < machine.wakes_at):
            machine.wakes_at = wakes_at
            self.at(wakes_at, lambda life=machine.lives, at=wakes_at: self._wake(name, life, at))  # type: ignore[misc]

    def _wake(self, name: str, life: int, at: float) -> None:
        machine = self.sites[name]
        if machine.lives == life and machine.wakes_at == at:
            machine.wakes_at = None
            self.handle(name, Woken())

    def _do(self, machine: SimulatedSite, action: SiteAction) -> None:
        match action:
            case Append(commit):
                self._commit(machine, commit)
            case Send(to, message):
                self._send(machine.name, to, message)
            case SendEntry(to, log, first=first):
                self._send(machine.name, to, action.message(machine.name, machine.journal.rows(log, first)))
            case WriteEntry(log, first, following):
                self._sink(machine, log, first, following)
            case Answer(number, message):
                if number in self.answers:
                    self.after(self.random.uniform(*self.faults.delay_s), lambda: self._answered(number, message))
            case Taken(stream, source):
                self._read_on_later(machine, (stream, source))
            case Hold(stream, reason):
                machine.held.add(stream) if reason else machine.held.discard(stream)
                for key in machine.sources:
                    if key[0] == stream:
                        self._read_on(machine, key)
            case Readable(version, offsets):
                machine.readable[version] = offsets
                self._trigger(machine, version)
            case BatchTaken(version, number):
                self._after_batch(machine, version, number)
            case _:
                assert_never(action)

    def _commit(self, machine: SimulatedSite, commit: JournalCommit) -> None:
        machine.committing = commit
        life = machine.lives

        def done() -> None:
            if machine.lives == life and machine.site is not None and machine.committing is commit:
                self._write(machine, commit)
                machine.committing = None
                self.handle(machine.name, Committed(commit.number))

        is_slow = self._is_stormy and machine.name in self.slow
        seconds = self.random.uniform(*self.faults.commit_s) * (10 if is_slow else 1)
        self.after(seconds, done)
        if self.faults.kills and self._is_stormy and self.random.random() < KILLED_WHILE_WRITING:
            self.after(self.random.uniform(0, seconds), lambda: self._kill_life(machine, life))

    def _kill_life(self, machine: SimulatedSite, life: int) -> None:
        if machine.lives == life:
            self.kill(machine.name)

    def _write(self, machine: SimulatedSite, commit: JournalCommit) -> None:
        machine.journal.commit(commit)
        self.watch(machine.name, commit)

    def _send(self, sender: str, to: str, message: PeerMessage) -> None:
        inner = message.message if isinstance(message, Relayed) else message
        self.messages[type(inner).__name__] += 1
        self.on_link(sender, to, inner)
        pair = frozenset((sender, to))
        if self.joined is not None and pair not in self.joined:
            return
        if pair in self.cut or (self._is_stormy and self.random.random() < self.faults.loss):
            return
        copies = 2 if self._is_stormy and self.random.random() < self.faults.repeat else 1
        header, body = message_to_parts(message)
        for _ in range(copies):
            delay = self.latency_s(sender, to) + self.random.uniform(*self.faults.delay_s)
            if self.bytes_per_s is not None:
                begin = max(self.now, self._busy_until[sender, to])
                self._busy_until[sender, to] = begin + len(body) / self.bytes_per_s
                delay += self._busy_until[sender, to] - self.now
            self.after(delay, lambda: self.handle(to, Received(sender, message_of(header, body))))  # type: ignore[arg-type]

    def _sink(self, machine: SimulatedSite, log: LogName, first: int, following: int) -> None:
        rows = machine.journal.rows(log, first)
        if machine.written[log].setdefault(first, rows) != rows:
            raise SimulationError(f"{machine.name} was given other rows for {log} from {first} on")
        life = machine.lives

        def written() -> None:
            if machine.lives == life:
                self.handle(machine.name, Written(log, following))

        self.after(self.random.uniform(*self.faults.delay_s), written)

    # ---- queries of sites that run on Spark

    def _trigger(self, machine: SimulatedSite, version: int) -> None:
        """Let the query of a version begin a batch soon, if it does nothing now and there is something to read."""
        if version in machine.at_work or machine.site is None or version not in machine.site.versions:
            return
        query = SimulatedQuery(
            plan_to_json(machine.site.versions[version].plan),
            machine.name,
            1 + (version + len(machine.name)) % 3,
            machine.checkpoints.setdefault(version, SimulatedCheckpoint()),
            machine.journal,
            self.random,
        )
        machine.at_work[version] = query
        life = machine.lives

        def begin() -> None:
            if machine.lives != life or machine.site is None:
                return
            if not query.plan_batch(machine.readable[version]):
                del machine.at_work[version]
                return
            self.after(self.random.choice([0.0, 0.01, 0.3]), done)

        def done() -> None:
            if machine.lives != life or machine.site is None or version not in machine.site.versions:
                return
            batch, states = query.make_batch()
            if self.faults.kills and self._is_stormy and self.random.random() < 0.2:  # a worker was killed
                self.batches_failed += 1
                self.after(self.random.uniform(0, 0.1), done)
                return
            self.batches_known += batch.number <= machine.site.versions[version].last_batch.number
            machine.made[version] = states
            self.handle(machine.name, batch)

        self.after(self.random.choice([0.0, 0.01, 0.1]), begin)

    def _after_batch(self, machine: SimulatedSite, version: int, number: int) -> None:
        """Spark notes that a batch is done after the site has it; in between, all may be killed."""
        life = machine.lives

        def commit() -> None:
            if machine.lives == life and machine.site is not None:
                machine.at_work.pop(version).commit(number, machine.made.pop(version))
                self._trigger(machine, version)

        self.after(self.random.choice([0.0, 0.02, 0.3]), commit)

    # ---- sources

    def _read_on_later(self, machine: SimulatedSite, key: tuple[str, str]) -> None:
        machine.sources[key].under_way = False
        self._read_on(machine, key)

    def _read_on(self, machine: SimulatedSite, key: tuple[str, str]) -> None:
        source = machine.sources[key]
        is_dry = not source.ends and source.next == len(source.pieces)
        if source.under_way or source.ended or is_dry or key[0] in machine.held:
            return
        source.under_way = True
        life = machine.lives

        def read() -> None:
            if machine.lives != life or machine.site is None:
                return
            if source.next < len(source.pieces):
                piece, source.next = source.pieces[source.next], source.next + 1
                is_last = source.ends and source.next == len(source.pieces)
                source.ended = is_last and self.random.random() < 0.5  # some say so with their last rows
                self.handle(machine.name, RowsRead(*key, piece, str(source.next), source.ended))
            elif source.ends:
                source.ended = True
                self.handle(machine.name, RowsRead(*key, None, str(source.next), ended=True))

        if source.next < len(source.due):
            self.at(max(source.due[source.next], self.now), read)
        else:
            self.after(self.random.uniform(0, source.pause_s), read)

    # ---- plans

    def deploy(self, deployment: Deployment, retry_s: float = 0.5) -> None:
        """Carry the messages of a deployment until it is over."""
        self.deployments.append(deployment)
        self._tell(deployment, retry_s)

    def _tell(self, deployment: Deployment, retry_s: float) -> None:
        if deployment.is_over:
            return
        for site, message in deployment.outbox().items():
            number = next(self._numbers)
            phase = deployment.phase

            def hear(answer: ControlAnswer, site: str = site, phase: str = phase) -> None:
                if deployment.phase == phase:
                    deployment.hear(site, answer)
                    if deployment.phase != phase:
                        self._tell(deployment, retry_s)

            self.answers[number] = hear
            self.after(
                self.random.uniform(*self.faults.delay_s),
                lambda site=site, number=number, message=message: self.handle(site, ControlAsked(number, message)),  # type: ignore[misc]
            )
        phase_told = deployment.phase

        def tell_again() -> None:
            if deployment.phase == phase_told:
                self._tell(deployment, retry_s)

        self.after(retry_s, tell_again)

    def _answered(self, number: int, answer: ControlAnswer) -> None:
        if (hear := self.answers.pop(number, None)) is not None:
            hear(answer)

    # ---- what came of it

    def results(self) -> dict[LogName, pa.Table]:
        """What sinks have, by log."""
        found: dict[LogName, pa.Table] = {}
        for machine in self.sites.values():
            for log, entries in machine.written.items():
                found[log] = pa.Table.from_batches([read_rows(entries[first]) for first in sorted(entries)])
        return found
