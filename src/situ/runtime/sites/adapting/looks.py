"""What a site says of itself when the coordinator looks (TCEP's monitors), and what is known from several looks."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from situ.core.time import BEGINNING, END
from situ.flow.latency import ResultSeen, latency_us
from situ.runtime.sites.brokers.records import CountedEvents, Meter, Volumes, sample_of
from situ.runtime.sites.messages import MessageError

if TYPE_CHECKING:
    from situ.runtime.sites.site import SiteCore

#: So many results of a subscription are asked about at once.
MOST_TIMES = 64
#: Counts are taken between the last look and the one so many before.
_LOOKS = 4


@dataclass(frozen=True, slots=True)
class Look:
    """A site at a moment of its own clock, `at_us`.

    `life` is a word for this run of its process; `version` the newest that it knows; `sent` the messages that are no
    events, to other sites, in this life; `found` complex events of subscriptions, `results` the last of them;
    `reached` when sources here had come to times that were asked for; `state_bytes` those of operators;
    `round_trips_us` the ways to neighbours and back; `unfinished` what of the newest version is still on its way.
    """

    site: str
    life: str
    at_us: int
    version: int
    latest_us: int
    counted: CountedEvents | None = None
    sent: int = 0
    found: Mapping[str, int] = field(default_factory=dict)
    results: Mapping[str, tuple[ResultSeen, ...]] = field(default_factory=dict)
    reached: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    state_bytes: Mapping[str, int] = field(default_factory=dict)
    round_trips_us: Mapping[str, int] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()

    def to_json(self) -> str:
        counted = self.counted
        return json.dumps(
            {
                "site": self.site,
                "life": self.life,
                "at_us": self.at_us,
                "version": self.version,
                "latest_us": self.latest_us,
                "counted": None
                if counted is None
                else [
                    counted.version,
                    counted.reached_us,
                    dict(counted.made),
                    [[*key, count] for key, count in counted.passing.items()],
                    [[*key, count] for key, count in counted.read.items()],
                ],
                "sent": self.sent,
                "found": dict(self.found),
                "results": {name: [[r.time_us, r.at_us] for r in results] for name, results in self.results.items()},
                "reached": [[time_us, list(at_us)] for time_us, at_us in self.reached.items()],
                "state_bytes": dict(self.state_bytes),
                "round_trips_us": dict(self.round_trips_us),
                "unfinished": list(self.unfinished),
            }
        )

    @classmethod
    def of_json(cls, text: str) -> Look:
        """The look that a text says; MessageError if it says none.

        >>> look = Look("hall", "x", 7, 1, 5, CountedEvents(1, 5, {"A": 2}, {("A", "S.a"): 1}, {("B", "yard"): 3}),
        ...     results={"S": (ResultSeen(3, 4),)}, reached={3: (2,)})
        >>> Look.of_json(look.to_json()) == look
        True
        >>> Look.of_json('{"site": "hall"}')
        Traceback (most recent call last):
        situ.runtime.sites.messages.MessageError: a site says how it is, and says it wrongly.
        """
        try:
            said = json.loads(text)
            return cls(
                _text(said["site"]),
                _text(said["life"]),
                _whole(said["at_us"]),
                _whole(said["version"]),
                _whole(said["latest_us"]),
                None if said["counted"] is None else _counted(*said["counted"]),
                _whole(said["sent"]),
                _counts(said["found"]),
                {
                    _text(name): tuple(ResultSeen(_whole(t), _whole(at)) for t, at in results)
                    for name, results in said["results"].items()
                },
                {_whole(time_us): tuple(map(_whole, at_us)) for time_us, at_us in said["reached"]},
                _counts(said["state_bytes"]),
                _counts(said["round_trips_us"]),
                tuple(map(_text, said["unfinished"])),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise MessageError("a site says how it is, and says it wrongly") from None


def _counted(version: Any, reached_us: Any, made: Any, passing: Any, read: Any) -> CountedEvents:
    return CountedEvents(
        _whole(version),
        _whole(reached_us),
        _counts(made),
        {(_text(type_), _text(alias)): _whole(count) for type_, alias, count in passing},
        {(_text(type_), _text(origin)): _whole(count) for type_, origin, count in read},
    )


def _counts(said: Any) -> dict[str, int]:
    return {_text(name): _whole(count) for name, count in said.items()}


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not BEGINNING <= value <= END:
        raise ValueError(value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value


def look_at(
    site: SiteCore, now: float, latest_us: int, times: tuple[int, ...], round_trips_us: Mapping[str, int]
) -> Look:
    """How a site is now, by its own clock."""
    newest, monitor = site.newest, site.monitor
    sent = sum(
        c.requests + c.questions + c.promises + c.acknowledgements + c.greetings + c.decisions
        for c in site.relays.sent.values()
    )
    return Look(
        site.name,
        site.conversation.life,
        round(now * 1e6),
        site.durable_known.version,
        latest_us,
        None if newest is None else sample_of(newest),
        sent,
        dict(monitor.counts),
        {name: tuple(results) for name, results in monitor.results.items()},
        {time_us: tuple(at_us) for time_us, at_us in monitor.reached.at(times).items() if at_us},
        {} if newest is None else dict(newest.host.state_bytes()),
        round_trips_us,
        _unfinished(site),
    )


def _unfinished(site: SiteCore) -> tuple[str, ...]:
    """What of the newest version is on its way here; or all, while the version before is not over."""
    newest = site.newest
    if newest is None:
        return ()
    if any(version.number < newest.number and not version.is_over for version in site.versions.values()):
        return tuple(newest.plan.operators)
    finishing = [name for name, place in newest.plan.operators.items() if place.finished_at == site.name
                 and any(log.kind == "events" and log.type == name and made.watermark_us < END
                         for log, made in newest.made.items())]  # fmt: skip
    return tuple(dict.fromkeys([*finishing, *(log.type for log in newest.missing_states())]))


@dataclass
class KnownSite:
    """What the coordinator knows of a site from its looks: the last one and a few before it, what it has counted
    meanwhile, and how far its clock is ahead, as in NTP from the quickest answer of all."""

    look: Look
    heard_at: float
    earlier: tuple[Look, ...] = ()
    ahead_us: int = 0
    round_trip_us: int = 1 << 62
    meter: Meter = field(default_factory=Meter)

    @classmethod
    def of(cls, look: Look, asked_at: float, now: float, known: KnownSite | None) -> KnownSite:
        """What is known after an answer to a question asked at some time."""
        round_trip_us = round((now - asked_at) * 1e6)
        ahead_us = look.at_us - round((asked_at + now) * 5e5)
        if known is None or known.look.life != look.life:
            site = cls(look, now, (), ahead_us, round_trip_us)
        else:
            # A little is added each time, so that clocks that drift are followed.
            best = min((known.round_trip_us * 9 // 8 + 1, known.ahead_us), (round_trip_us, ahead_us))
            earlier = (*known.earlier, known.look)[-_LOOKS:]
            site = cls(look, now, earlier, best[1], best[0], known.meter)
        if look.counted is not None:
            site.meter.add(look.counted)
        return site

    @property
    def before(self) -> Look | None:
        """The look that the last one is compared with: some periods ago, so that a few messages more matter little."""
        return self.earlier[0] if self.earlier else None

    @property
    def volumes(self) -> Volumes | None:
        return self.meter.volumes

    def by_coordinator_us(self, at_us: int) -> int:
        """A moment of the site's clock, by that of the coordinator."""
        return at_us - self.ahead_us


def latencies_us(
    known: Mapping[str, KnownSite], times: Collection[int], origins: Collection[str] | None = None
) -> dict[str, list[int]]:
    """By subscription, how late results were whose event times all sources have been asked about: after the last of
    them, or after the last at some sites."""
    latencies: dict[str, list[int]] = {}
    for at in known.values():
        for subscription, results in at.look.results.items():
            for result in (each for each in results if each.time_us in times):
                reached = [
                    site.by_coordinator_us(at_us)
                    for name, site in known.items()
                    if origins is None or name in origins
                    for at_us in site.look.reached.get(result.time_us, ())
                ]
                seen = ResultSeen(result.time_us, at.by_coordinator_us(result.at_us))
                if (late_us := latency_us(seen, reached)) is not None:
                    latencies.setdefault(subscription, []).append(late_us)
    return latencies
