"""Questions about time, instead of heart beats: whoever has something undecided asks the origins that hold it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from situ.core.time import BEGINNING, END
from situ.runtime.sites.actions import Send
from situ.runtime.sites.logs import ReadLog
from situ.runtime.sites.messages import Question
from situ.runtime.sites.running_version import RunningVersion

if TYPE_CHECKING:
    from situ.runtime.sites.site import SiteCore


#: A question that stays open is said again after twice the time, so many times; then at that pace.
_MOST_DOUBLED = 6


class Questions:
    """What a site asks others, and its own sources."""

    def __init__(self, site: SiteCore) -> None:
        self._site = site

    def ask(self, now: float) -> None:
        """Ask origins whose promises somebody here, or behind here, waits for; not before it is clear that they do not
        come by themselves."""
        for version in self._site.versions.values():
            self._ask_own_sources(version)
            needed = _needed(version)
            if not needed:
                continue
            reached_us = _reached_us(version)
            for stream, time in self._site.admission.times.items():
                if stream in needed and self._site.name in version.plan.sources.get(stream, ()):
                    until_us, pace_us = needed[stream]
                    if until_us > time.promise_us:
                        time.ask(until_us, pace_us, reached_us)
            for log in version.read.values():
                if log.by_operators and log.name.kind == "events" and log.name.type in needed:
                    self._ask_origin(log, *needed[log.name.type], reached_us, now)

    def _ask_own_sources(self, version: RunningVersion) -> None:
        """Who pulls, elsewhere or here, wants to hear when a range is over."""
        for log in version.made.values():
            time = self._site.admission.times.get(log.name.type)
            if log.pulled is not None and time is not None and (until_us := log.asked_us()) > time.promise_us:
                time.ask(until_us, END, BEGINNING)
        for stream, pulled in version.host.pulled().items():
            if self._site.name in version.plan.sources.get(stream, ()):
                time = self._site.admission.times[stream]
                if (until_us := pulled.next_end(time.promise_us)) > time.promise_us:
                    time.ask(until_us, END, BEGINNING)

    def _ask_origin(self, log: ReadLog, until_us: int, pace_us: int, reached_us: int, now: float) -> None:
        if until_us <= log.received_us:
            return
        if log.lag_us != log.received_us or not log.lag_since:
            log.lag_us, log.lag_since = log.received_us, now
        question = Question(log.name, until_us, pace_us, reached_us)
        if now >= self._due(log, question):
            log.asked_again = log.asked_again + 1 if log.asked == question else 0
            log.asked, log.asked_at = question, now
            position = self._site.conversation.position_in(log)
            self._site.do(Send(log.name.origin, replace(question, position=position)))

    def _due(self, log: ReadLog, question: Question) -> float:
        """When a question is to be said: soon, if none is open; an open one ever more rarely, as it was hardly lost."""
        if not log.is_asked:
            return log.lag_since + self._site.settings.ask
        doubled = min(log.asked_again, _MOST_DOUBLED) if log.asked == question else 0
        return log.asked_at + self._site.settings.repeat * 2**doubled

    def wakes(self) -> list[float]:
        """When it will be clear that a promise does not come by itself, or that a question was lost."""
        moments = []
        for version in self._site.versions.values():
            needed, reached_us = _needed(version), _reached_us(version)
            for log in version.read.values():
                until_us, pace_us = needed.get(log.name.type, (BEGINNING, 0))
                if log.by_operators and log.name.kind == "events" and until_us > log.received_us:
                    moments.append(self._due(log, Question(log.name, until_us, pace_us, reached_us)))
        return moments


def _reached_us(version: RunningVersion) -> int:
    """How far the origin that is farthest has come."""
    return max((at.watermark_us for at in version.fed.values()), default=BEGINNING)


def _needed(version: RunningVersion) -> Mapping[str, tuple[int, int]]:
    asked: dict[str, tuple[int, int]] = {}
    for log in version.made.values():
        if log.name.kind == "events" and (until_us := log.asked_us()) > BEGINNING:
            before = asked.get(log.name.type, (BEGINNING, END))
            asked[log.name.type] = max(until_us, before[0]), min(log.asked_pace_us(), before[1])
    nudged = {log.name.type: log.received_us for log in version.read.values() if log.is_nudged}
    return version.host.undecided(asked, nudged)
