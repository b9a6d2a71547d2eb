"""Ways between sites: what is sent to a site that is not joined to this one is handed on by others, and all that
crosses a link is counted.

A plan says for each site that is written to which site comes next on the way there. Whoever sends writes the whole way
on the message, so that a relay needs to know nothing: it hands on, without a journal, and forgets. What several sites
read crosses a link once; the relay at which their ways part makes copies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from situ.network.network import Network
from situ.runtime.sites.actions import Send, SendEntry, SiteAction
from situ.runtime.sites.messages import (
    BrokerAnswer,
    BrokerRequest,
    Echo,
    Flood,
    Hello,
    LogBatch,
    LogName,
    MessageError,
    MonitorAnswer,
    MonitorQuestion,
    PeerMessage,
    Position,
    Probe,
    PullRequest,
    Question,
    Refusal,
    Relayed,
    Way,
)
from situ.runtime.sites.ways import way_in

if TYPE_CHECKING:
    from situ.runtime.sites.site import SiteCore


@dataclass(slots=True)
class LinkCounts:
    """What was sent over a link, apart by what it is: events one by one, all else by messages.

    `repeats` are events that were sent before, because nobody knew whether they had come; `promises` are batches
    without events, which say how far time has come; `greetings` all that sites say of themselves, `decisions` what
    brokers and coordinators say about what they know and decide.
    """

    events: int = 0
    repeats: int = 0
    requests: int = 0
    questions: int = 0
    promises: int = 0
    acknowledgements: int = 0
    greetings: int = 0
    decisions: int = 0

    def count(self, message: PeerMessage) -> None:
        match message:
            case Relayed(message=inner):
                self.count(inner)
            case LogBatch(first=first, following=following, is_repeat=is_repeat):
                self.count_rows(following - first, is_repeat)
            case PullRequest():
                self.requests += 1
            case Question() | Probe():
                self.questions += 1
            case Position():
                self.acknowledgements += 1
            case Hello() | Refusal():
                self.greetings += 1
            case Flood() | BrokerRequest() | BrokerAnswer() | MonitorQuestion() | MonitorAnswer() | Echo():
                self.decisions += 1

    def count_rows(self, rows: int, is_repeat: bool) -> None:
        self.promises += rows == 0
        if is_repeat:
            self.repeats += rows
        else:
            self.events += rows


class Relays:
    """A site's part in the ways of its plans. `sent` is by the site at the other end of a link. `network`: that of
    sites that decide among themselves where operators run, and so also speak with those to whom no plan has a way."""

    def __init__(self, site: SiteCore, network: Network | None = None) -> None:
        self._site, self._network = site, network
        self.sent: defaultdict[str, LinkCounts] = defaultdict(LinkCounts)

    def way_to(self, to: str, version: int | None = None) -> Way:
        """The sites on the way to one, that one included, as a version says; or the newest one that knows a way; or
        the network."""
        for number in sorted(self._site.versions, reverse=True) if version is None else (version,):
            plan = self._site.versions[number].plan if number in self._site.versions else None
            if plan is not None and self._site.name in plan.ways.get(to, {}):
                return plan.way(self._site.name, to)
        network, newest = self._network, self._site.newest
        if network is None or to not in network.names:
            return (to,)
        if network.brokers is None and (newest is None or not newest.plan.ways):
            return (to,)  # all are joined to each other
        return way_in(network, self._site.name, to)

    @property
    def neighbours(self) -> list[str]:
        """The sites to which this one sends, as an end of a way or as a relay."""
        sites = {self.way_to(peer)[0] for peer in self._site.peers}
        for version in self._site.versions.values():
            sites |= {onward[self._site.name] for onward in version.plan.ways.values() if self._site.name in onward}
        return sorted(sites)

    def receive(self, sender: str, relayed: Relayed) -> PeerMessage | None:
        """Hand a message on; what it says, if it is for this site, too."""
        if relayed.origin == self._site.name or len({*relayed.onward}) < len(relayed.onward):
            raise MessageError(f"{sender} hands on what goes round in circles")
        for to, onward in _by_next(relayed.onward).items():
            self._site.do(Send(to, replace(relayed, onward=onward)))
        if () not in relayed.onward:
            return None
        if isinstance(relayed.message, LogBatch) and sender != self._last_before(relayed.origin, relayed.message.log):
            raise MessageError(f"{sender} is not on the way from {relayed.origin} to {self._site.name}")
        return relayed.message

    def _last_before(self, origin: str, log: LogName) -> str:
        """The site from which what an origin says of a log must come."""
        version = self._site.versions.get(log.version)
        if version is None:
            return origin
        return (origin, *version.plan.way(origin, self._site.name))[-2]

    def routed(self, actions: Sequence[SiteAction]) -> list[SiteAction]:
        """Actions as the shell does them: each message goes to the next site on its way, an entry that several read
        goes there once."""
        routed: list[SiteAction] = []
        entries: dict[SendEntry, int] = {}
        for action in actions:
            if isinstance(action, Send) and not isinstance(action.message, Relayed):
                log = getattr(action.message, "log", None)
                to, *onward = self.way_to(action.to, None if log is None else log.version)
                message = Relayed(self._site.name, (tuple(onward),), action.message) if onward else action.message
                action = Send(to, message)
            elif isinstance(action, SendEntry):
                to, *onward = self.way_to(action.to, action.log.version)
                key = replace(action, to=to)
                if key in entries:
                    before = routed[entries[key]]
                    assert isinstance(before, SendEntry)
                    routed[entries[key]] = replace(before, onward=(*(before.onward or ((),)), tuple(onward)))
                    continue
                entries[key] = len(routed)
                action = replace(key, onward=(tuple(onward),) if onward else ())
            routed.append(action)
        for action in routed:
            self._count(action)
        return routed

    def _count(self, action: SiteAction) -> None:
        if isinstance(action, Send):
            self.sent[action.to].count(action.message)
        elif isinstance(action, SendEntry):
            self.sent[action.to].count_rows(action.following - action.first, action.is_repeat)


def _by_next(onward: Sequence[Way]) -> dict[str, tuple[Way, ...]]:
    """Ways that go on, by the site that is next on them."""
    following: defaultdict[str, list[Way]] = defaultdict(list)
    for way in onward:
        if way:
            following[way[0]].append(way[1:])
    return {to: tuple(ways) for to, ways in following.items()}
