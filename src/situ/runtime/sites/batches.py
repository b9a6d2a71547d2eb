"""Operators that are driven from outside: a query reads the site's logs by offsets, and what it makes of them comes
back batch by batch. Spark's streaming queries work so.

The query keeps the state, and may do its last batch again, with the same offsets, under the same number. So the site
remembers the number of the last batch that it took, and keeps what that one has read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from situ.core.errors import StateError
from situ.runtime.sites.journal import EntryStub, LogPosition
from situ.runtime.sites.messages import LogName

#: How far logs are read; one that is not there is at its beginning.
Offsets: TypeAlias = Mapping[LogName, LogPosition]
#: The entries of a log that have numbers from one to before another.
StubsBetween: TypeAlias = Callable[[LogName, int, int], Sequence[EntryStub]]

_BEGINNING = LogPosition()


class LogRange(NamedTuple):
    """Numbers of a log, from `first` to before `following`."""

    log: LogName
    first: int
    following: int


def offsets_to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Offsets as JSON with sorted keys: the same positions are the same text.

    >>> offsets_to_json({LogName("events", "A", "north", 1): LogPosition(3, 70)})
    {'events/A/north/1': {'number': 3, 'watermark': 70}}
    """
    return {str(log): {"number": at.number, "watermark": at.watermark_us} for log, at in sorted(offsets.items())}


def offsets_of_json(said: Mapping[str, Any]) -> dict[LogName, LogPosition]:
    """The offsets that `offsets_to_json` wrote."""
    return {LogName.parse(log): LogPosition(int(at["number"]), int(at["watermark"])) for log, at in said.items()}


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """The last batch that a site took of a query: its number, and the offsets from which and to which it read."""

    number: int = -1
    since: Offsets = field(default_factory=dict)
    until: Offsets = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps([self.number, offsets_to_json(self.since), offsets_to_json(self.until)])

    @classmethod
    def of_json(cls, text: str) -> BatchRecord:
        number, since, until = json.loads(text)
        return cls(number, offsets_of_json(since), offsets_of_json(until))


def next_offsets(since: Offsets, readable: Offsets, stubs_between: StubsBetween, most_bytes: int) -> Offsets:
    """Up to where the next batch reads: to the end of what is readable, or about `most_bytes` of it."""
    share = most_bytes // max(len(readable), 1)
    return {log: _next_position(log, since, at, stubs_between, share) for log, at in sorted(readable.items())}


def _next_position(
    log: LogName, since: Offsets, readable: LogPosition, stubs_between: StubsBetween, most_bytes: int
) -> LogPosition:
    begin = since.get(log, _BEGINNING)
    if readable.number < begin.number:
        raise StateError(
            f"{log} was read up to {begin.number:,}, and ends with {readable.number:,}",
            remedy="Was the site's directory set back to an old copy? Set it back as a whole, its checkpoint included.",
        )
    size, reached = 0, begin
    for stub in stubs_between(log, begin.number, readable.number):
        size += stub.size
        if size > most_bytes and reached.number > begin.number:
            return reached
        reached = LogPosition(stub.following, max(begin.watermark_us, reached.watermark_us, stub.watermark))
    return LogPosition(readable.number, max(begin.watermark_us, readable.watermark_us))


def parts_of_batch(
    since: Offsets, until: Offsets, stubs_between: StubsBetween, part_bytes: int
) -> list[tuple[LogRange, ...]]:
    """What a batch reads, in parts that are read side by side; at least one, which may be empty.

    StateError if the journal has not all of it any more.
    """
    parts: list[list[LogRange]] = [[]]
    size = 0
    for log, at in sorted(until.items()):
        number = since.get(log, _BEGINNING).number
        for stub in stubs_between(log, number, at.number):
            if stub.first != number:
                raise _gone(log, number)
            if size and size + stub.size > part_bytes:
                parts.append([])
                size = 0
            size += stub.size
            number = stub.following
            if parts[-1] and parts[-1][-1].log == log:
                parts[-1][-1] = parts[-1][-1]._replace(following=number)
            else:
                parts[-1].append(LogRange(log, stub.first, number))
        if number < at.number:
            raise _gone(log, number)
    return list(map(tuple, parts))


def _gone(log: LogName, number: int) -> StateError:
    return StateError(
        f"the query reads {log} from {number:,} on, which the journal does not have",
        remedy="Was its checkpoint set back to an old copy? Set the site's directory back as a whole.",
    )


def watermarks_of(offsets: Offsets, inputs: Iterable[LogName]) -> dict[str, int]:
    """By type, how far all of its origins have come."""
    lows: dict[str, int] = {}
    for log in inputs:
        low = offsets.get(log, _BEGINNING).watermark_us
        lows[log.type] = min(low, lows.get(log.type, low))
    return lows


def promise_of_shards(lows: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """By operator, what all shards promise: the least of what each of them does.

    >>> promise_of_shards([{"Braking": 70}, {"Braking": 40}])
    {'Braking': 40}
    """
    promised: dict[str, int] = {}
    for of_shard in lows:
        for name, low in of_shard.items():
            promised[name] = min(low, promised.get(name, low))
    return promised
