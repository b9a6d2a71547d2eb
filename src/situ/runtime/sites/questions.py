"""Questions about time, instead of heart beats: whoever has something undecided asks the origins that hold it back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from situ.core.time import BEGINNING
from situ.runtime.sites.actions import Send
from situ.runtime.sites.logs import ReadLog
from situ.runtime.sites.messages import Question
from situ.runtime.sites.running_version import RunningVersion

if TYPE_CHECKING:
    from situ.runtime.sites.site import Site


class Questions:
    """What a site asks others, and its own sources."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def ask(self, now: float) -> None:
        """Ask origins whose promises somebody here, or behind here, waits for; not before it is clear that they do not
        come by themselves."""
        for version in self._site.versions.values():
            needed = _needed(version)
            if not needed:
                continue
            reached_us = max((watermark_us for _, watermark_us in version.fed.values()), default=BEGINNING)
            for stream, time in self._site.admission.times.items():
                if stream in needed and self._site.name in version.plan.sources.get(stream, ()):
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
        due = log.asked_at + self._site.settings.repeat if is_open else log.lag_since + self._site.settings.ask
        if now >= due:
            log.asked_us, log.asked_at = until_us, now
            self._site.do(Send(log.name.origin, Question(log.name, until_us, pace_us, reached_us)))

    def wakes(self) -> list[float]:
        """When it will be clear that a promise does not come by itself, or that a question was lost."""
        settings, moments = self._site.settings, []
        for version in self._site.versions.values():
            needed = _needed(version)
            for log in version.read.values():
                if log.by_operators and needed.get(log.name.type, (BEGINNING, 0))[0] > log.received_us:
                    is_open = log.asked_us > log.received_us
                    moments.append(log.asked_at + settings.repeat if is_open else log.lag_since + settings.ask)
        return moments


def _needed(version: RunningVersion) -> Mapping[str, tuple[int, int]]:
    asked = {log.name.type: log.asked_us() for log in version.made.values() if log.name.kind == "events"}
    return version.host.undecided(asked)
