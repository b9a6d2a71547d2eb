"""What a site says to others, and hears from them: who they are, batches of logs, positions in them.

Whatever is sent is durable here. What another site says of an earlier life of itself, or says twice, changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from situ.core.time import BEGINNING, END
from situ.runtime.sites.actions import Send, SendEntry
from situ.runtime.sites.logs import SINK, MadeLog, PullState, Reader, ReadLog, finished
from situ.runtime.sites.messages import (
    BrokerAnswer,
    BrokerRequest,
    Echo,
    Flood,
    Hello,
    Incarnation,
    LogBatch,
    LogName,
    MessageError,
    MonitorAnswer,
    MonitorQuestion,
    Position,
    Probe,
    PullRequest,
    Question,
    Refusal,
    Relayed,
)
from situ.runtime.sites.peers import Peer, reason_to_refuse
from situ.runtime.sites.ranges import without
from situ.runtime.sites.rows import checked_rows

if TYPE_CHECKING:
    from situ.runtime.sites.running_version import RunningVersion
    from situ.runtime.sites.site import SiteCore


#: A request that is not answered is said again after twice the time, so many times; then at that pace.
_MOST_DOUBLED = 6
#: Those who pull are asked what they need when what is kept for them is this part of the quota.
_MUCH = 4


class Conversation:
    """A site's part in what sites say to each other. `introduced`: this life of the site is durable, so it may say who
    it is. `peer_lives` are those in which others were read last."""

    def __init__(self, site: SiteCore, lives: list[Incarnation], peer_lives: dict[str, str]) -> None:
        self._site, self.lives, self.peer_lives = site, lives, peer_lives
        self.peers: dict[str, Peer] = {}
        self.introduced = False
        self.refusals = 0

    @property
    def life(self) -> str:
        return self.lives[-1].word

    # ---- what comes

    def hear(self, sender: str, message: object, now: float) -> None:
        """A message came from a site to which this one is joined."""
        try:
            if not isinstance(message, Relayed):
                self._receive(sender, message, now)
            elif (own := self._site.relays.receive(sender, message)) is not None:
                self._receive(message.origin, own, now)
        except MessageError:
            self.refusals += 1

    def _receive(self, sender: str, message: object, now: float) -> None:
        match message:
            case Hello():
                self._hello(sender, message, now)
            case LogBatch():
                self._batch(sender, message, now)
            case Position():
                self._position(sender, message, now)
            case PullRequest():
                self._request(sender, message, now)
            case Probe(log):
                self._probe(sender, log)
            case Question():
                self._question(sender, message, now)
            case Refusal(reason):
                self._peer(sender).refused_by = reason
            case Flood() | BrokerRequest() | BrokerAnswer() | MonitorQuestion() | MonitorAnswer() | Echo():
                if self._site.coordinator is None:
                    raise MessageError(f"{self._site.name} knows no network, and so no coordinator")
                self._site.coordinator.hear(sender, message, now)
            case _:
                raise MessageError(f"{type(message).__name__} is no message between sites")

    def _peer(self, site: str) -> Peer:
        if site not in self.peers:
            raise MessageError(f"{site} has nothing to say to {self._site.name}")
        return self.peers[site]

    def meet(self) -> None:
        """Know the sites that the versions speak of."""
        for version in self._site.versions.values():
            for site in sorted(version.logs.peers(self._site.name)):
                self.peers.setdefault(site, Peer())

    def say_hello(self, site: str, now: float, answer: bool = True) -> None:
        if not self.introduced or site not in self.peers:
            return
        known = self._site.durable_known
        of_site = [log for log in self._site.read_logs() if log.name.origin == site]
        positions = tuple(self.position_in(log, again=True) for log in of_site)
        plan = known.version, known.digest, known.starts_us
        self._site.do(Send(site, Hello(tuple(self.lives), *plan, answer, positions)))
        if answer:
            self.peers[site].hello_at = now

    def _greet(self, site: str, now: float) -> None:
        """Ask a site who it is, unless that was asked lately, or it is refused."""
        peer = self.peers[site]
        if not peer.refused and (peer.hello_at is None or now >= peer.hello_at + self._site.settings.repeat):
            self.say_hello(site, now)

    def _hello(self, sender: str, hello: Hello, now: float) -> None:
        # Whoever has not heard that a version is over may still speak of it.
        peer = self.peers.setdefault(sender, Peer())
        word = hello.lives[-1].word
        if word in peer.past_lives:
            return  # overtaken by the hello of a later life
        positions = {str(log.name): log.committed for log in self._site.read_logs() if log.name.origin == sender
                     and log.committed_us != END}  # fmt: skip
        peer.refused = reason_to_refuse(sender, self.peer_lives.get(sender, ""), hello, positions)
        if peer.refused:
            self._site.do(Send(sender, Refusal(peer.refused)))
            return
        if self.peer_lives.get(sender) != word:
            self.peer_lives[sender] = word
            self._site.open.later[f"peer/{sender}"] = word
        is_new = peer.life != word
        peer.life, peer.past_lives = word, frozenset(life.word for life in hello.lives[:-1])
        if is_new:  # what it said in an earlier life may be more than it has
            for version in self._site.versions.values():
                for made in version.made.values():
                    if sender in made.readers:
                        ever = made.readers[sender].sent_ever
                        made.readers[sender] = Reader(sent_ever=ever, heard_at=now)
        self._site.controls.heard_version(hello.version, hello.digest, hello.starts_us)
        for position in hello.positions:
            self._position(sender, position, now)
        if is_new or hello.answer:
            for log in self._site.read_logs():
                if log.name.origin == sender:
                    log.asked, log.requested = None, PullState()  # it may have forgotten what it was asked
        if not hello.answer:
            peer.greeted = True
        else:
            self.say_hello(sender, now, answer=False)

    def _read_log(self, sender: str, name: LogName) -> ReadLog | None:
        """The log that a site sent something of; None if it is over here, or has not begun."""
        if name.origin != sender:
            raise MessageError(f"{sender} is not where {name} is made")
        version = self._site.versions.get(name.version)
        if version is None:
            if name.version < min(self._site.versions, default=1):
                self._site.do(Send(sender, finished(name, self.life)))
            return None
        if name not in version.read:
            raise MessageError(f"{self._site.name} does not read {name}")
        return version.read[name]

    def _batch(self, sender: str, batch: LogBatch, now: float) -> None:
        peer = self._peer(sender)
        if batch.log.origin != sender:
            raise MessageError(f"{sender} is not where {batch.log} is made")
        if peer.life != batch.life:
            self._greet(sender, now)
            return
        log = self._read_log(sender, batch.log)
        if log is None:
            return
        if log.lacks(batch):
            if not log.early or log.early_size + len(batch.rows) <= self._site.settings.credit:
                log.early.setdefault(batch.first, batch)
            log.missing_since = now if log.missing_since is None else log.missing_since
            return
        following: LogBatch | None = batch
        while following is not None:
            if log.is_new(following):
                self._accept(log, following)
            following = log.early.pop(log.received, None)
        log.early = {first: each for first, each in log.early.items() if first > log.received}
        log.missing_since = now if log.early else None

    def _accept(self, log: ReadLog, batch: LogBatch) -> None:
        """Take a batch that follows what has come, if it is what it says."""
        if batch.request > (0 if log.pulled is None else log.pulled.number):
            raise MessageError(f"{batch.log} answers request {batch.request}, which was not made")
        rows = None
        if batch.following > batch.first:
            schema = self._site.versions[batch.log.version].host.schema(batch.log.kind, batch.log.type)
            rows = checked_rows(batch.rows, schema, batch.following - batch.first)
        log.pending.append((batch, rows))
        log.received, log.received_us = batch.following, max(log.received_us, batch.watermark)
        log.received_request = max(log.received_request, batch.request)

    def _made_log(self, sender: str, name: LogName) -> tuple[MadeLog, Reader] | None:
        version = self._site.versions.get(name.version)
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
        if position.life != peer.life:
            self._greet(sender, now)
            return
        if position.committed < reader.committed:
            return  # overtaken
        gone = log.shelf.begin(log.durable_end)
        if position.received < gone:
            peer.refused = f"{sender} was set back: it wants {log.name} from {position.received} on, which it had"
            self._site.do(Send(sender, Refusal(peer.refused)))
            return
        if position.committed > reader.committed or position.watermark > reader.watermark_us:
            reader.heard_at = now
        reader.committed = max(reader.committed, min(position.committed, log.durable_end))
        reader.watermark_us = max(reader.watermark_us, position.watermark)
        reader.request = max(reader.request, position.request)
        reader.sent = max(reader.sent, reader.committed)
        reader.credit = position.credit
        reader.waited_at = -math.inf if position.credit else now
        if position.again:
            reader.sent = max(reader.committed, min(position.received, log.durable_end))
            reader.told_us, reader.told_request = position.watermark, position.request

    def _request(self, sender: str, request: PullRequest, now: float) -> None:
        """Somebody pulls: what is there, and was not asked for before, is his."""
        if (of_log := self._made_log(sender, request.log)) is None:
            return
        if request.position is not None:
            self._position(sender, request.position, now)
        log, reader = of_log
        pulled, site = log.pulled, self._site
        if pulled is None or len(request.ranges) != len(pulled.ranges):
            raise MessageError(f"{sender} is pushed what it gets of {request.log}")
        if request.number == pulled.number and request.forget_us > pulled.forget_us:
            log.pulled = asked_for = replace(pulled, forget_us=request.forget_us)
        elif request.number > pulled.number:
            for asked, before in zip(request.ranges, pulled.ranges, strict=True):
                gone = [first for first, _ in without(asked, before) if first < pulled.forget_us]
                if gone:
                    reason = f"{sender} pulls {request.log} from {gone[0]} on, which it said it would not need"
                    self.peers[sender].refused = reason
                    site.do(Send(sender, Refusal(reason)))
                    raise MessageError(reason)
            asked_for = PullState(request.number, max(request.forget_us, pulled.forget_us), request.ranges)
            version = site.versions[request.log.version]
            site.open.entries += version.answer(request.log, asked_for, site.kept_rows(request.log.whole))
            site.store_made(log)
        else:  # it may have been answered before, and that was lost
            reader.told_request = min(reader.told_request, request.number - 1)
            return
        site.open.values[f"pull/{log.name}"] = asked_for.to_json()

    def _probe(self, sender: str, name: LogName) -> None:
        if (log := self._read_log(sender, name)) is not None:
            log.is_nudged = True
            self._site.do(Send(sender, self.position_in(log, again=True)))

    def _question(self, sender: str, question: Question, now: float) -> None:
        if (of_log := self._made_log(sender, question.log)) is None:
            return
        if question.position is not None:
            self._position(sender, question.position, now)
        log, reader = of_log
        is_repeated = reader.question is not None and reader.question.until_us == question.until_us
        reader.question = question
        may_be_lost = is_repeated and reader.watermark_us < reader.told_us
        if may_be_lost or question.until_us <= log.durable_us:  # then what was told before is told once more
            reader.told_us = BEGINNING
        if log.name.kind == "events" and log.name.type in self._site.admission.times:
            self._site.admission.times[log.name.type].ask(question.until_us, question.pace_us, question.reached_us)

    def position_in(self, log: ReadLog, again: bool = False) -> Position:
        """What is said of a log to its origin now."""
        log.told, log.tell_at = log.position(self.life, self._credit(log), again), None
        return log.told

    def acknowledge(self, log: ReadLog, now: float) -> None:
        """Tell the origin of a log what is durable here; soon, so that one word may do for what comes meanwhile."""
        if log.must_be_told(self._site.settings.credit):
            self._site.do(Send(log.name.origin, self.position_in(log)))
        elif log.tell_at is None:
            log.tell_at = now + self._site.settings.acknowledge

    def _credit(self, log: ReadLog) -> int:
        """What may be sent beyond what is journalled; nothing of a log that is ahead while much of it waits."""
        version, settings = self._site.versions[log.name.version], self._site.settings
        if version.behind_bytes(log.name) > settings.waiting:
            return 0
        passed_us = version.host.passed_us(log.name.type) if log.by_operators else END
        is_ahead = log.by_operators and log.taken_us > passed_us
        return 0 if is_ahead and log.waiting_size(passed_us) > settings.waiting else settings.credit

    def begun(self, now: float) -> None:
        """A version has begun: say so to all, with positions in the logs of theirs that it reads."""
        self.meet()
        for site in self.peers:
            self.say_hello(site, now)

    # ---- what goes out

    def serve(self, now: float) -> None:
        """Send what is durable to readers and sinks that may have it, and remind those that are silent."""
        for site, peer in self.peers.items():
            if not peer.greeted:
                self._greet(site, now)
        for version in self._site.versions.values():
            for log in version.made.values():
                for site, reader in log.readers.items():
                    if site == SINK:
                        self._site.write(log.name, log.shelf, log.durable_end, reader)
                    elif self._is_ready(site):
                        self._send(log, site, reader, now)
                if log.name in version.buffers:
                    version.forget_buffered(log.name, self._site.latest_in)
                    self._nudge(version, log.name, now)
            for read in version.read.values():
                if read.pulled is not None:
                    self._pull(read, now)
                if read.tell_at is not None and now >= read.tell_at:
                    self._site.do(Send(read.name.origin, self.position_in(read)))
                if read.missing_since is not None and now >= read.missing_since + self._site.settings.ask:
                    read.missing_since = now + self._site.settings.repeat
                    self._site.do(Send(read.name.origin, self.position_in(read, again=True)))
                if read.sink is not None:
                    self._site.write(read.name, read.shelf, read.committed, read.sink)

    def _is_ready(self, site: str) -> bool:
        """Whether a site may be sent to: it knows this site's present life, and neither refuses the other."""
        peer = self.peers[site]
        return peer.greeted and not peer.refused and not peer.refused_by

    def _send(self, log: MadeLog, site: str, reader: Reader, now: float) -> None:
        end, request = log.durable_end, log.durable_request
        for stub in list(log.sendable(reader)):
            if reader.sent == reader.committed:
                reader.heard_at = now
            rides_us, answered = log.promise_after(stub)
            reader.sent, reader.told_us = stub.following, max(reader.told_us, rides_us)
            reader.told_request = max(reader.told_request, answered)
            is_repeat, reader.sent_ever = stub.first < reader.sent_ever, max(reader.sent_ever, stub.following)
            numbers = stub.first, stub.following
            self._site.do(SendEntry(site, log.name, self.life, *numbers, rides_us, answered, is_repeat))
        if (promise_us := log.promise_for(reader)) is not None:
            ends_range = log.pulled is not None and log.pulled.ends_between(reader.told_us, promise_us)
            if (promise_us == END and reader.told_us < END) or ends_range or request > reader.told_request:
                reader.heard_at = now
            reader.told_us, reader.told_request = max(reader.told_us, promise_us), request
            self._site.do(Send(site, LogBatch(log.name, self.life, end, end, promise_us, request)))
        if reader.question is not None and reader.told_us >= reader.question.until_us:
            reader.question = None
        if log.owes(reader) and now >= reader.heard_at + self._site.settings.patience:
            reader.heard_at = now
            self._site.do(Send(site, Probe(log.name)))

    def _nudge(self, version: RunningVersion, name: LogName, now: float) -> None:
        """Where much is kept that may be pulled, tell those who pull how far time has come, and ask how they are: they
        may need little of it any more, and only rare events would let them say so."""
        if not self._keeps_much(version, name):
            return
        for log, site, reader in self._pulling(version, name):
            if now >= reader.nudged_at + self._site.settings.repeat:
                reader.nudged_at, reader.told_us = now, max(reader.told_us, log.durable_us)
                end, request = log.durable_end, log.durable_request
                self._site.do(Send(site, LogBatch(log.name, self.life, end, end, log.durable_us, request)))
                self._site.do(Send(site, Probe(log.name)))

    def _keeps_much(self, version: RunningVersion, name: LogName) -> bool:
        return version.buffered_size(name) * _MUCH > self._site.settings.quota

    def _pulling(self, version: RunningVersion, name: LogName) -> list[tuple[MadeLog, str, Reader]]:
        """Who pulls of a log, and has been sent all that he asked for."""
        logs = [version.made[selected] for selected in version.selected[name]]
        return [
            (log, site, reader)
            for log in logs
            if log.pulled is not None and not log.is_pulled_no_more
            for site, reader in log.readers.items()
            if self._is_ready(site) and reader.sent == log.durable_end
        ]

    def _pull(self, read: ReadLog, now: float) -> None:
        """Ask for what operators here pull, as far as the origin does not know, or has not answered."""
        pulled = read.pulled
        assert pulled is not None
        is_unknown = pulled.number > read.requested.number
        frees = read.is_nudged and pulled.forget_us > read.requested.forget_us
        if not (is_unknown or frees or now >= self._asks_again_at(read)):
            return
        read.requested_again = 0 if is_unknown else read.requested_again + 1
        read.requested, read.requested_at, read.is_nudged = pulled, now, False
        self._site.do(Send(read.name.origin, replace(read.request(), position=self.position_in(read))))

    def _asks_again_at(self, read: ReadLog) -> float:
        """When a request that was not answered is to be said again."""
        if read.pulled is None or read.pulled.number <= read.received_request:
            return math.inf
        return read.requested_at + self._site.settings.repeat * 2 ** min(read.requested_again, _MOST_DOUBLED)

    def wakes(self) -> list[float]:
        """When something that was not answered is to be said again."""
        repeat, moments = self._site.settings.repeat, []
        for peer in self.peers.values():
            if not peer.greeted and peer.hello_at is not None and not peer.refused:
                moments.append(peer.hello_at + repeat)
        for version in self._site.versions.values():
            for log in version.made.values():
                for site, reader in log.readers.items():
                    if site != SINK and log.owes(reader) and self._is_ready(site):
                        moments.append(reader.heard_at + self._site.settings.patience)
                if log.name in version.buffers and self._keeps_much(version, log.name):
                    moments += [reader.nudged_at + repeat for _, _, reader in self._pulling(version, log.name)]
            for read in version.read.values():
                if read.missing_since is not None:
                    moments.append(read.missing_since + self._site.settings.ask)
                if (again_at := self._asks_again_at(read)) < math.inf:
                    moments.append(again_at)
                if read.tell_at is not None:
                    moments.append(read.tell_at)
        return moments
