"""What brokers know of each other: each floods its record to all that are at most `radius` links away (EdgeCEP, Problem
Definition 2). A record that is not renewed is forgotten: its broker is away."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from situ.runtime.sites.brokers.records import BrokerRecord
from situ.runtime.sites.messages import Flood, MessageError


@dataclass(frozen=True, slots=True)
class _Heard:
    record: BrokerRecord
    at: float
    hops: int


class Flooding:
    """The records that a broker has heard. `patience`: one that was not renewed for so many seconds is forgotten, by
    the clock of whoever hears."""

    def __init__(self, broker: str, neighbours: Collection[str], radius: int, patience: float) -> None:
        self._broker, self._neighbours, self._radius, self._patience = broker, frozenset(neighbours), radius, patience
        self._heard: dict[str, _Heard] = {}

    def tell(self, record: BrokerRecord) -> Iterator[tuple[str, Flood]]:
        """What is said to whom of this broker's own record."""
        if self._radius > 0:
            yield from ((site, Flood(record.to_json(), self._radius - 1)) for site in sorted(self._neighbours))

    def hear(self, sender: str, flood: Flood, now: float) -> Iterator[tuple[str, Flood]]:
        """Take a record, and hand it on to all but the sender, if it is new or was heard over a longer way before.
        MessageError if it is none, or does not come from a neighbour."""
        if sender not in self._neighbours:
            raise MessageError(f"{sender} floods, and no link joins it with {self._broker}")
        if not 0 <= flood.hops < self._radius:
            raise MessageError(f"{sender} floods further than brokers see")
        record = BrokerRecord.of_json(flood.record)
        before = self._heard.get(record.broker)
        is_known = before is not None and (before.record.age, before.hops) >= (record.age, flood.hops)
        if record.broker == self._broker or is_known:
            return
        is_newer = before is None or before.record.age < record.age
        self._heard[record.broker] = _Heard(record, now if is_newer or before is None else before.at, flood.hops)
        if flood.hops > 0:
            onward = Flood(flood.record, flood.hops - 1)
            yield from ((site, onward) for site in sorted(self._neighbours - {sender, record.broker}))

    def records(self, now: float) -> dict[str, BrokerRecord]:
        """By broker in view, its record."""
        self._heard = {name: heard for name, heard in self._heard.items() if now < heard.at + self._patience}
        return {name: heard.record for name, heard in self._heard.items()}
