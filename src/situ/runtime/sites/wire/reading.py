"""A query of a site reads the site's logs over Flight: how far they may be read, in which parts, and the rows.

Only who has the site's own certificate may; without certificates, who is on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from situ.core.errors import InputError, SituError, StateError
from situ.runtime.sites.batches import (
    LogRange,
    Offsets,
    next_offsets,
    offsets_of_json,
    offsets_to_json,
    parts_of_batch,
)
from situ.runtime.sites.journal import Journal
from situ.runtime.sites.messages import LogName
from situ.runtime.sites.wire.identity import Identities
from situ.runtime.sites.wire.outgoing import SiteAddress, client_of, reason_of
from situ.service.certificates import Credentials, identity_of

#: The requests of queries.
OFFSETS, PARTS = "offsets", "parts"
#: What a batch reads at most, and a part of it.
BATCH_BYTES, PART_BYTES = 128 << 20, 8 << 20
_ENTRIES = pa.schema([("type", pa.string()), ("rows", pa.binary())])
_ANSWER_S = 60.0


@dataclass(frozen=True)
class LogServer:
    """Answers queries, in threads of the endpoint. `readable` has, by version, how far logs may be read."""

    journal: Journal
    readable: Callable[[], Mapping[int, Offsets]]

    def answer(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        version = int(request["version"])
        since = offsets_of_json(request["since"])
        if name == OFFSETS:
            readable = self.readable().get(version)
            if readable is None:  # it has not begun here, or is over
                return {"offsets": request["since"]}
            return {"offsets": offsets_to_json(next_offsets(since, readable, self._stubs, BATCH_BYTES))}
        parts = parts_of_batch(since, offsets_of_json(request["until"]), self._stubs, int(request["part_bytes"]))
        return {"parts": [ranges_to_json(part) for part in parts]}

    def rows(self, ranges: tuple[LogRange, ...]) -> Any:
        """The entries of some ranges, as a stream of Flight's."""
        return flight.GeneratorStream(_ENTRIES, self._entries(ranges))

    def _entries(self, ranges: tuple[LogRange, ...]) -> Iterator[pa.RecordBatch]:
        for log, first, following in ranges:
            number = first
            for stub in self._stubs(log, first, following):
                if stub.first == number:
                    number = stub.following
                    rows = self.journal.rows(log, stub.first)
                    yield pa.record_batch([pa.array([log.type]), pa.array([rows], pa.binary())], schema=_ENTRIES)
            if number != following:
                raise StateError(f"the journal has not all of {log} from {first:,} to {following:,}")

    @property
    def _stubs(self) -> Any:
        return self.journal.stubs_between


def ranges_to_json(ranges: tuple[LogRange, ...]) -> list[list[Any]]:
    return [[str(log), first, following] for log, first, following in ranges]


def ranges_of_json(said: Any) -> tuple[LogRange, ...]:
    return tuple(LogRange(LogName.parse(log), int(first), int(following)) for log, first, following in said)


@dataclass(frozen=True, slots=True)
class LogAddress:
    """Where a query finds the site: `keys` is the site's folder of certificates, if it has any."""

    site: str
    address: str
    keys: str = ""

    def _identities(self) -> Identities:
        secret = Credentials.read(Path(self.keys), identity_of(self.site)) if self.keys else None
        return Identities.of(self.site, [self.site], secret)

    def offsets(self, version: int, since: Mapping[str, Any]) -> dict[str, Any]:
        """Up to where the next batch reads, as JSON."""
        return dict(self._ask(OFFSETS, {"version": version, "since": since})["offsets"])

    def parts(self, version: int, since: Mapping[str, Any], until: Mapping[str, Any], part_bytes: int) -> list[Any]:
        """The ranges that the tasks of a batch read, for each of them, as JSON."""
        request = {"version": version, "since": since, "until": until, "part_bytes": part_bytes}
        return list(self._ask(PARTS, request)["parts"])

    def rows(self, ranges: list[Any]) -> Iterator[tuple[str, bytes]]:
        """The type and the rows of each entry in some ranges."""
        ticket = json.dumps({"from": self.site, "ranges": ranges}).encode()
        with self._errors(), client_of(self._identities(), self.site, SiteAddress.parse(self.address)) as client:
            for chunk in client.do_get(flight.Ticket(ticket)):
                yield from zip(*(column.to_pylist() for column in chunk.data.columns), strict=True)

    def _ask(self, name: str, request: dict[str, Any]) -> dict[str, Any]:
        body = json.dumps({"from": self.site, "request": request}).encode()
        with self._errors(), client_of(self._identities(), self.site, SiteAddress.parse(self.address)) as client:
            (result,) = client.do_action(flight.Action(name, body), flight.FlightCallOptions(timeout=_ANSWER_S))
        answer = json.loads(result.body.to_pybytes())
        if "error" in answer:
            told = answer["error"]
            raise StateError(told["cause"], place=told["place"] or None, remedy=told["remedy"])
        return dict(answer["answer"])

    def _errors(self) -> _Errors:
        return _Errors(self)


@dataclass(frozen=True, slots=True)
class _Errors:
    where: LogAddress

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, pa.ArrowException | flight.FlightError | OSError) and not isinstance(error, SituError):
            raise InputError(
                f"site {self.where.site} cannot be read at {self.where.address}: {reason_of(error)}"
            ) from None
