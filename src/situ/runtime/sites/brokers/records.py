"""What a broker measures of itself, and tells others: EdgeCEP's records of flow volumes (section III-C.3).

A broker counts the events that it makes, those among them that pass what tasks ask of single events, and those that it
reads of others. Volumes are these counts over event time, between two of its own looks at them; so nobody's clock
matters.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from situ.core.time import BEGINNING, END
from situ.runtime.sites.messages import MessageError

if TYPE_CHECKING:
    from situ.runtime.sites.running_version import RunningVersion

#: A volume is measured over so many looks at most: what changes is noticed after as many.
_LOOKS = 8


@dataclass(frozen=True, slots=True)
class CountedEvents:
    """One look at what a broker has counted under a version, up to an event time. `passing` is by the type that is read
    and `Operator.alias`, `read` by type and origin."""

    version: int
    reached_us: int
    made: Mapping[str, int]
    passing: Mapping[tuple[str, str], int]
    read: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class Volumes:
    """Events per second of event time: `made` here by type, and `read` here by type and origin. `shares`: of the events
    of a type that are made here, how many pass what `Operator.alias` asks of single ones."""

    made: Mapping[str, float]
    shares: Mapping[str, float]
    read: Mapping[str, Mapping[str, float]]


def sample_of(version: RunningVersion) -> CountedEvents:
    """What a version has counted by now, up to the latest event time that it knows of."""
    counted = version.event_counts.to_json()
    made = {log.type: made.end for log, made in version.made.items() if log.kind == "events" and not log.selection}
    passing = {(type_, alias): n for type_, count in counted.items() for alias, n in count["passing"].items()}
    read: dict[tuple[str, str], int] = {}
    for log, of_log in version.read.items():
        if log.kind == "events":
            read[log.type, log.origin] = read.get((log.type, log.origin), 0) + of_log.taken
    times = [count["latest_us"] for count in counted.values() if count["latest_us"] is not None]
    times += [of_log.taken_us for of_log in version.read.values() if of_log.taken_us < END]
    return CountedEvents(version.number, max(times, default=BEGINNING), made, passing, read)


class Meter:
    """Turns looks at counts into volumes. With another version it begins anew."""

    def __init__(self) -> None:
        self._samples: deque[CountedEvents] = deque(maxlen=_LOOKS)

    def add(self, sample: CountedEvents) -> bool:
        """Take a look; whether time has passed since the last one."""
        if self._samples and self._samples[-1].version != sample.version:
            self._samples.clear()
        last_us = self._samples[-1].reached_us if self._samples else BEGINNING
        if not last_us < sample.reached_us < END:
            return False
        self._samples.append(sample)
        return len(self._samples) > 1

    @property
    def volumes(self) -> Volumes | None:
        """What flows, from the oldest look to the last one; None before there are two."""
        if len(self._samples) < 2:
            return None
        first, last = self._samples[0], self._samples[-1]
        seconds = (last.reached_us - first.reached_us) / 1e6
        made = {type_: last.made[type_] - first.made.get(type_, 0) for type_ in last.made}
        passing = {key: last.passing[key] - first.passing.get(key, 0) for key in last.passing}
        read: dict[str, dict[str, float]] = {}
        for (type_, origin), events in last.read.items():
            read.setdefault(type_, {})[origin] = (events - first.read.get((type_, origin), 0)) / seconds
        return Volumes(
            {type_: events / seconds for type_, events in made.items()},
            {alias: min(1.0, n / made[type_]) for (type_, alias), n in passing.items() if made.get(type_)},
            read,
        )


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """What a broker floods. `epoch` grows from one life of it to the next, `number` within one. `version` is the newest
    one that it has heard has begun; `latest_us` the largest event time that its sources have handed on."""

    broker: str
    epoch: int
    number: int
    version: int = 0
    latest_us: int = BEGINNING
    volumes: Volumes | None = field(default=None)

    @property
    def age(self) -> tuple[int, int]:
        """Of two records of a broker, the one with the larger age is newer."""
        return self.epoch, self.number

    def to_json(self) -> str:
        volumes = self.volumes
        said = None if volumes is None else [volumes.made, volumes.shares, volumes.read]
        return json.dumps([self.broker, self.epoch, self.number, self.version, self.latest_us, said])

    @classmethod
    def of_json(cls, text: str) -> BrokerRecord:
        """The record that a text says; MessageError if it says none.

        >>> record = BrokerRecord("b1", 3, 7, 2, 5_000_000, Volumes({"A": 2.5}, {"S.a": 0.5}, {"B": {"b2": 1.0}}))
        >>> BrokerRecord.of_json(record.to_json()) == record
        True
        >>> BrokerRecord.of_json('["b1", 1, 2, 3, 4, [{"A": -1}, {}, {}]]')
        Traceback (most recent call last):
        situ.runtime.sites.messages.MessageError: flood: the record is none.
        """
        try:
            match json.loads(text):
                case [str(broker), int(epoch), int(number), int(version), int(latest_us), said] if (
                    min(epoch, number, version) >= 0 and BEGINNING <= latest_us <= END
                ):
                    return cls(broker, epoch, number, version, latest_us, None if said is None else _volumes(said))
        except (ValueError, RecursionError):
            pass
        raise MessageError("flood: the record is none")


def _volumes(said: Any) -> Volumes:
    match said:
        case [dict(made), dict(shares), dict(read)] if all(isinstance(each, dict) for each in read.values()):
            return Volumes(_amounts(made), _amounts(shares, 1.0), {type_: _amounts(of) for type_, of in read.items()})
        case _:
            raise ValueError


def _amounts(said: dict[str, Any], most: float = 1e15) -> dict[str, float]:
    for value in said.values():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most or math.isnan(value):
            raise ValueError
    return {name: float(value) for name, value in said.items()}
