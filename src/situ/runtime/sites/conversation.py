"""What a site says to others, and hears from them: who they are, batches of logs, positions in them.

Whatever is sent is durable here. What another site says of an earlier life of itself, or says twice, changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from situ.core.time import BEGINNING, END
from situ.runtime.sites.actions import Send, SendEntry
from situ.runtime.sites.logs import SINK, MadeLog, Reader, ReadLog, finished
from situ.runtime.sites.messages import (
    Hello,
    Incarnation,
    LogBatch,
    LogName,
    MessageError,
    Position,
    Probe,
    Question,
    Refusal,
)
from situ.runtime.sites.peers import Peer, reason_to_refuse
from situ.runtime.sites.rows import checked_rows

if TYPE_CHECKING:
    from situ.runtime.sites.site import SiteCore


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

    def receive(self, sender: str, message: object, now: float) -> None:
        try:
            match message:
                case Hello():
                    self._hello(sender, message, now)
                case LogBatch():
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
        self._site.do(Send(site, Hello(tuple(self.lives), known.version, known.digest, known.starts_us, answer)))
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
                        made.readers[sender] = Reader(heard_at=now)
        self._site.controls.heard_version(hello.version, hello.digest, hello.starts_us)
        if not hello.answer:
            peer.greeted = True
        else:
            self.say_hello(sender, now, answer=False)
        if is_new or hello.answer:
            for log in self._site.read_logs():
                if log.name.origin == sender:
                    log.asked = None  # it has forgotten what it was asked
                    self._site.do(Send(sender, self.position_in(log, again=True)))

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
        rows = None
        if batch.following > batch.first:
            schema = self._site.versions[batch.log.version].host.schema(batch.log.kind, batch.log.type)
            rows = checked_rows(batch.rows, schema, batch.following - batch.first, bool(batch.filter))
        log.pending.append((batch, rows))
        log.received, log.received_us = batch.following, max(log.received_us, batch.watermark)

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
        reader.sent = max(reader.sent, reader.committed)
        reader.credit = position.credit
        if position.again:
            reader.sent = max(reader.committed, min(position.received, log.durable_end))
            reader.told_us = position.watermark

    def _probe(self, sender: str, name: LogName) -> None:
        if (log := self._read_log(sender, name)) is not None:
            self._site.do(Send(sender, self.position_in(log, again=True)))

    def _question(self, sender: str, question: Question) -> None:
        if (of_log := self._made_log(sender, question.log)) is None:
            return
        log, reader = of_log
        is_repeated = reader.question is not None and reader.question.until_us == question.until_us
        reader.question = question
        may_be_lost = is_repeated and reader.watermark_us < reader.told_us
        if may_be_lost or question.until_us <= log.durable_us:  # then what was told before is told once more
            reader.told_us = BEGINNING
        if log.name.kind == "events" and log.name.type in self._site.admission.times:
            self._site.admission.times[log.name.type].ask(question.until_us, question.pace_us, question.reached_us)

    def position_in(self, log: ReadLog, again: bool = False) -> Position:
        return log.position(self.life, self._credit(log), again)

    def _credit(self, log: ReadLog) -> int:
        """What may be sent beyond what is journalled; nothing of a log that is ahead while much of it waits."""
        passed_us = self._site.versions[log.name.version].host.passed_us(log.name.type) if log.by_operators else END
        is_ahead, settings = log.by_operators and log.taken_us > passed_us, self._site.settings
        return 0 if is_ahead and log.waiting_size(passed_us) > settings.waiting else settings.credit

    def begun(self, number: int, now: float) -> None:
        """A version has begun: say so to all, and to those whose logs it reads that this site is there."""
        self.meet()
        for site in self.peers:
            self.say_hello(site, now)
        for log in self._site.versions[number].read.values() if number in self._site.versions else ():
            if self.peers[log.name.origin].life:
                self._site.do(Send(log.name.origin, self.position_in(log, again=True)))

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
            for read in version.read.values():
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
        for stub in list(log.sendable(reader)):
            if reader.sent == reader.committed:
                reader.heard_at = now
            reader.sent, reader.told_us = stub.following, max(reader.told_us, stub.watermark)
            self._site.do(SendEntry(site, log.name, self.life, stub.first, stub.following, stub.watermark))
        if (promise_us := log.promise_for(reader)) is not None:
            if promise_us == END and reader.told_us < END:
                reader.heard_at = now
            reader.told_us = promise_us
            self._site.do(Send(site, LogBatch(log.name, self.life, log.durable_end, log.durable_end, promise_us)))
        if reader.question is not None and reader.told_us >= reader.question.until_us:
            reader.question = None
        if log.owes(reader) and now >= reader.heard_at + self._site.settings.repeat:
            reader.heard_at = now
            self._site.do(Send(site, Probe(log.name)))

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
                        moments.append(reader.heard_at + repeat)
            for read in version.read.values():
                if read.missing_since is not None:
                    moments.append(read.missing_since + self._site.settings.ask)
        return moments
