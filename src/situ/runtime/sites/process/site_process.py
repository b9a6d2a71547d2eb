"""A site at work: its core in one thread, and around it those that receive, commit, send, read and write.

All that happens goes through one queue to the core, and all that is to be done comes from it. Nothing here decides
anything; so what the simulation proves of the core holds for the process.
"""

from __future__ import annotations

import json
import queue
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Any, assert_never

from situ.core.errors import InputError, SituError, StateError
from situ.core.memory import used_bytes
from situ.network.network import Network
from situ.runtime.sites.actions import (
    Answer,
    Append,
    BatchTaken,
    Committed,
    Connected,
    ControlAsked,
    Hold,
    Readable,
    Received,
    Send,
    SendEntry,
    SiteAction,
    SiteEvent,
    Taken,
    Woken,
    WriteEntry,
)
from situ.runtime.sites.actors import delivered_in
from situ.runtime.sites.batches import Offsets
from situ.runtime.sites.deployed_plan import DeployedPlan, PlanError, plan_to_json
from situ.runtime.sites.driven_host import make_driven_host
from situ.runtime.sites.embedded_host import EmbeddedHost, make_embedded_host
from situ.runtime.sites.journal import ForgottenError, Journal, JournalCommit
from situ.runtime.sites.messages import (
    Abort,
    Adapt,
    ChangeDemands,
    ControlAnswer,
    ControlMessage,
    Go,
    LogName,
    PlanQuestion,
    Prepare,
    StatusQuestion,
    StatusReport,
    Transit,
    message_of,
    message_to_parts,
)
from situ.runtime.sites.process.sink_thread import SinkThread
from situ.runtime.sites.process.source_threads import SourceThread
from situ.runtime.sites.process.spark_queries import SparkEngine, SparkQueries
from situ.runtime.sites.settings import Settings
from situ.runtime.sites.sinks.delivering import DeliveringSink
from situ.runtime.sites.sinks.sink import SiteSink
from situ.runtime.sites.site import SiteCore
from situ.runtime.sites.sources.pushed_rows import PushedRows
from situ.runtime.sites.sources.source import SiteSource
from situ.runtime.sites.wire.endpoint import Endpoint
from situ.runtime.sites.wire.frames import Frame, FrameError
from situ.runtime.sites.wire.identity import Identities
from situ.runtime.sites.wire.outgoing import MadeFrame, PeerConnection, SiteAddress
from situ.runtime.sites.wire.producing import NotNowError
from situ.runtime.sites.wire.reading import LogAddress, LogServer

#: The file in a site's directory that says where it listens.
ADDRESS_FILE = "address"
#: The requests of control.
MESSAGE, STOP, ROUND_TRIPS = "message", "stop", "round trips"
#: What only those say who may control sites.
_OF_CONTROL = Prepare | Go | Abort | StatusQuestion | PlanQuestion | Transit | ChangeDemands | Adapt
#: How long an answer of the core may take: a plan is compiled, and Numba may compile, too.
_ANSWER_S = 120.0
#: The name of the source of a stream, where it is no producer that has one itself.
SOURCE = "source"


def _set_event() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@dataclass(frozen=True, slots=True)
class SiteSetup:
    """What a site process is made of. `sources` are the names of the sources that it has of a stream. `open_source` is
    called with a stream, one of these names and the plan that reads it, `open_sink` with the plan, when a plan asks for
    them. `check` says with a SituError why a plan cannot run here. A site alone listens nowhere.
    `spark`: how its operators run on Spark, if they do. Sources are read when `may_read` is set. `actors`: by actor to
    whom this site delivers, what opens the sink at his address. `network`: that of the sites who decide
    where operators run, if they do."""

    name: str
    listen: SiteAddress | None
    addresses: Mapping[str, SiteAddress]
    identities: Identities
    sources: Mapping[str, Sequence[str]]
    open_source: Callable[[str, str, DeployedPlan], SiteSource]
    open_sink: Callable[[DeployedPlan], SiteSink]
    check: Callable[[DeployedPlan], None] = lambda plan: None
    spark: SparkEngine | None = None
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)
    may_read: threading.Event = field(default_factory=_set_event)
    actors: Mapping[str, Callable[[], SiteSink]] = field(default_factory=dict)
    network: Network | None = None


@dataclass(frozen=True, slots=True)
class _Stop:
    """The process is to end: because it was told to, or because of an error."""

    error: Exception | None = None


class SiteProcess:
    """Runs a site until it is told to stop. What is in the journal when it begins is where it goes on."""

    def __init__(self, setup: SiteSetup, journal: Journal, settings: Settings | None = None) -> None:
        self._setup, self._journal = setup, journal
        self._events: queue.SimpleQueue[SiteEvent | _Stop] = queue.SimpleQueue()
        self._commits: queue.SimpleQueue[JournalCommit | None] = queue.SimpleQueue()
        self._answers: dict[int, Future[ControlAnswer]] = {}
        self._numbers = count(1)
        self._outgoing: dict[str, PeerConnection] = {}
        self._sources: dict[tuple[str, str], SourceThread] = {}
        self._sink: SinkThread | None = None
        self._delivered: dict[int, Mapping[str, str]] = {}
        self._version = 0
        self._begun = time.time()
        self._has_ended = False
        self._received = {"frames": 0, "bytes": 0}
        self._links: dict[str, str] = {}
        life = self._begun, secrets.token_hex(8)
        self._site = SiteCore(
            setup.name, journal, self._make_host, setup.sources, *life, settings=settings, network=setup.network
        )
        self._endpoint: Endpoint | None = None
        self._spark: SparkQueries | None = None
        self._readable: dict[int, Offsets] = {}
        if setup.listen is not None:
            where, logs = setup.listen, LogServer(journal, lambda: self._readable) if setup.spark else None
            self._endpoint = Endpoint(
                where.host, where.port, setup.identities, self._receive, self._control, self._open_pushed, logs
            )

    @property
    def address(self) -> SiteAddress:
        """Where it listens; the port is known when it does."""
        assert self._setup.listen is not None
        assert self._endpoint is not None
        return SiteAddress(self._setup.listen.host, self._endpoint.port)

    def _make_host(self, plan: str, site: str) -> EmbeddedHost:
        host = make_driven_host(plan, site) if self._setup.spark else make_embedded_host(plan, site)
        self._setup.check(host.compiled.plan)
        self._require_addresses(host)
        return host

    def _require_addresses(self, host: EmbeddedHost) -> None:
        """PlanError if a plan wants this site to send to one of which it does not know where it is."""
        plan, own = host.compiled.plan, self._setup.name
        next_sites = {plan.way(own, peer)[0] for peer in host.logs().peers(own)}
        next_sites |= {onward[own] for onward in plan.ways.values() if own in onward}
        if unknown := sorted(next_sites - self._setup.addresses.keys()):
            raise PlanError(
                f"{own} is to send to {unknown[0]}, and nobody told it where that is",
                remedy=f"Give {unknown[0]} an `address` in the network file that {own} was started with.",
            )

    # ---- the core's thread

    def run(self) -> None:
        """Returns when the site was told to stop; raises what ends it before."""
        threading.Thread(target=self._commit_all, name="situ-journal", daemon=True).start()
        self._handle(Woken())
        try:
            while not isinstance(event := self._next_event(), _Stop):
                self._handle(event)
            if event.error is not None:
                raise event.error
        finally:
            self._close()

    def stop(self) -> None:
        """Asks the site to end; from any thread."""
        self._events.put(_Stop())

    def _next_event(self) -> SiteEvent | _Stop:
        now = time.time()
        wakes_at = self._site.wakes_at(now)
        try:
            return self._events.get(timeout=None if wakes_at is None else max(wakes_at - now, 0.0))
        except queue.Empty:
            return Woken()

    def _handle(self, event: SiteEvent) -> None:
        actions = self._site.handle(event, time.time())
        newest = self._site.newest
        if newest is not None and newest.number != self._version:
            self._version = newest.number
            self._begin(newest.plan)
        for action in actions:
            self._do(action)
        for words in self._site.news():
            self._setup.say(words)
        if self._setup.spark is not None:
            self._want_queries(self._setup.spark)

    def _want_queries(self, engine: SparkEngine) -> None:
        """Let Spark run the operators of all versions that have some here."""
        plans = {n: plan_to_json(v.plan) for n, v in self._site.versions.items() if v.readable()}
        if plans and self._spark is None:
            logs = LogAddress(self._setup.name, str(self.address), engine.keys)
            self._spark = SparkQueries(engine, logs, self._events.put, self._fail, self._setup.say)
        if self._spark is not None:
            self._spark.want(plans)

    def _begin(self, plan: DeployedPlan) -> None:
        """Opens what a plan needs and is not open yet. What earlier versions need stays open."""
        for site in self._site.relays.neighbours:
            self._connect(site)
        plans = [version.plan for version in self._site.versions.values()]
        self._delivered = {each.version: delivered_in(each.query) for each in plans if each.actors}
        if self._sink is None and any(self._setup.name in (*each.results, *each.actors.values()) for each in plans):
            sink = DeliveringSink(self._actor_of, self._setup.actors, lambda: self._setup.open_sink(plan))
            self._sink = SinkThread(sink, self._journal, self._events.put, self._fail)
        positions = self._site.source_positions()
        for stream in [stream for stream, sites in plan.sources.items() if self._setup.name in sites]:
            for name in self._setup.sources[stream]:
                if (stream, name) not in self._sources:
                    source, position = self._setup.open_source(stream, name, plan), positions.get((stream, name))
                    thread = SourceThread(
                        stream, name, source, position, self._events.put, self._fail, self._setup.may_read
                    )
                    self._sources[stream, name] = thread

    def _actor_of(self, log: LogName) -> str | None:
        """The actor to whom rows of a log are delivered, if to any."""
        return self._delivered.get(log.version, {}).get(log.type) if log.kind == "events" else None

    def _connect(self, site: str) -> None:
        if site in self._outgoing:
            return
        if site not in self._setup.addresses:
            raise StateError(
                f"the plan speaks of site {site!r}, and nobody said where it is",
                remedy="Give it an `address` in the network file.",
            )

        def opened() -> None:
            if self._links.pop(site, ""):
                self._setup.say(f"{site} can be reached again")
            self._events.put(Connected(site))

        def broken(reason: str) -> None:
            if self._links.get(site) != reason:
                self._setup.say(f"waiting for {site}: {reason}")
            self._links[site] = reason

        setup = self._setup
        self._outgoing[site] = PeerConnection(setup.identities, site, setup.addresses[site], opened, broken, self._fail)

    # ---- what the core wants done

    def _do(self, action: SiteAction) -> None:
        match action:
            case Append(commit):
                self._commits.put(commit)
            case Send(to, message):
                self._send(to, lambda: Frame(*message_to_parts(message)))
            case SendEntry(to):
                self._send(to, lambda: self._frame_of(action))
            case WriteEntry():
                assert self._sink is not None
                self._sink.write(action)
            case Answer(number, message):
                if (asked := self._answers.pop(number, None)) is not None:
                    asked.set_result(message)
            case Taken(stream, source, position):
                self._sources[stream, source].taken(position)
            case Hold(stream, reason):
                for thread in self._threads_of(stream):
                    thread.hold(bool(reason))
                if reason:
                    self._setup.say(f"reads no {stream} for now: {reason}")
            case Readable(version, offsets):
                self._readable = self._readable | {version: offsets}
            case BatchTaken(version, number):
                if self._spark is not None:
                    self._spark.taken(version, number)
            case _:
                assert_never(action)

    def _threads_of(self, stream: str) -> list[SourceThread]:
        return [thread for (of, _), thread in self._sources.items() if of == stream]

    def _frame_of(self, entry: SendEntry) -> Frame | None:
        """An entry of a log as a frame; None if it was forgotten meanwhile, because its reader has it already."""
        try:
            rows = self._journal.rows(entry.log, entry.first)
        except ForgottenError:
            return None
        return Frame(*message_to_parts(entry.message(self._setup.name, rows)))

    def _send(self, to: str, make: MadeFrame) -> bool:
        """Whether there was a connection that took it."""
        if to not in self._outgoing and to in self._setup.addresses:
            self._connect(to)
        # A way that somebody wrote on a message may lead nowhere.
        return to in self._outgoing and self._outgoing[to].send(make)

    def _commit_all(self) -> None:
        """In a thread of its own: one commit after the other."""
        while (commit := self._commits.get()) is not None:
            try:
                self._journal.commit(commit)
            except Exception as error:  # whatever it is, nothing may be built upon this commit
                self._fail(error)
                return
            self._events.put(Committed(commit.number))

    def _fail(self, error: Exception) -> None:
        self._events.put(_Stop(error))

    # ---- who talks to the site, in threads of the endpoint

    def _receive(self, peer: str, frame: Frame) -> None:
        message = message_of(frame.header, frame.body)
        if isinstance(message, _OF_CONTROL):
            raise FrameError("sites do not control each other")
        self._received["frames"] += 1
        self._received["bytes"] += len(frame.body)
        if (link := self._outgoing.get(peer)) is not None:
            link.try_now()
        self._events.put(Received(peer, message))  # type: ignore[arg-type]  # answers are refused by the core

    def _open_pushed(self, producer: str, stream: str) -> PushedRows:
        if producer not in self._setup.sources.get(stream, ()):
            raise InputError(f"{self._setup.name} takes no {stream} of producer {producer!r}")
        thread = self._sources.get((stream, producer))
        if thread is None:
            raise NotNowError(f"no plan reads {stream} at {self._setup.name} yet")
        if not isinstance(thread.source, PushedRows):
            raise InputError(f"{stream} is not pushed to {self._setup.name}")
        return thread.source

    def _control(self, name: str, request: dict[str, Any]) -> dict[str, Any]:
        if name == STOP:
            self.stop()
            return {}
        if name == ROUND_TRIPS:
            links = list(self._outgoing.items())
            with ThreadPoolExecutor(max(1, len(links))) as pool:
                seconds = pool.map(lambda link: link[1].round_trip_s(), links)
            return {"seconds": {site: s for (site, _), s in zip(links, seconds, strict=True) if s is not None}}
        if name != MESSAGE:
            raise SituError(f"a site does not know how to {name!r}", remedy="Is this situ as new as that of the site?")
        message = message_of(request)
        if not isinstance(message, _OF_CONTROL):
            raise FrameError(f"{request.get('kind')} is no request")
        header, _ = message_to_parts(self.ask(message))
        return header | ({"process": self.figures()} if isinstance(message, StatusQuestion) else {})

    def ask(self, message: ControlMessage) -> ControlAnswer:
        """What the core answers to a request of control; from any thread but the core's."""
        number = next(self._numbers)
        answer: Future[ControlAnswer] = Future()
        self._answers[number] = answer
        self._events.put(ControlAsked(number, message))
        if self._has_ended:
            raise SituError(f"site {self._setup.name} has ended")
        try:
            return answer.result(_ANSWER_S)
        except TimeoutError:
            raise SituError(f"site {self._setup.name} took too long to answer") from None

    def report(self) -> dict[str, Any]:
        """What the core reports, and under `process` what the process counts."""
        answer = self.ask(StatusQuestion())
        assert isinstance(answer, StatusReport)
        return {**json.loads(answer.report), "process": self.figures()}

    @property
    def has_read_all(self) -> bool:
        """Whether all sources have come to the end of what was there, and it is on disk."""
        return bool(self._sources) and all(source.is_done for source in self._sources.values())

    def figures(self) -> dict[str, Any]:
        """What the process counts, beside what its core knows."""
        return {
            "up_s": round(time.time() - self._begun, 3),
            "memory_bytes": used_bytes(),
            "read": {stream: sum(t.rows for t in self._threads_of(stream)) for stream, _ in self._sources},
            "written": dict(self._sink.rows) if self._sink else {},
            "spark": None if self._setup.spark is None else self._spark.figures() if self._spark else {},
            "received": dict(self._received),
            "refused": dict(self._endpoint.refused) if self._endpoint else {},
            "links": {
                site: {"up": link.is_up, "frames": link.frames, "bytes": link.bytes, "waits": self._links.get(site, "")}
                for site, link in self._outgoing.items()
            },
        }

    def _close(self) -> None:
        self._has_ended = True
        for asked in list(self._answers.values()):
            asked.set_exception(SituError(f"site {self._setup.name} has ended"))
        if self._spark is not None:
            self._spark.close()
        for source in self._sources.values():
            source.close()
        if self._sink is not None:
            self._sink.close()
        for link in self._outgoing.values():
            link.close()
        self._commits.put(None)
        if self._endpoint is not None:
            self._endpoint.close()
