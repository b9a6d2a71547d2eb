"""The events that the interests of a moving subscription read, as a source: slice by slice of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from situ.core.time import LIMIT
from situ.graph.operators import OperatorGraph
from situ.graph.query import Around, Stream, Subscription
from situ.io.conform import REJECTED, Conformed
from situ.io.source import Chunk
from situ.kernel.arrays import F64, I64
from situ.kernel.batch import Batch, as_timestamps, without_duplicates
from situ.mobility.history import history_us
from situ.mobility.interests import BASIC, Interests, Updates, half_sizes, interests_of
from situ.mobility.keyed import CONSUMER, DELIVERED, KEYS, NUMBER, SINCE, UNTIL, by_interest
from situ.mobility.pairs import pairs

#: So many events are joined with the interests at a time.
EVENTS_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class Located:
    """A stream's events by time, each once, with their places."""

    events: pa.Table
    times_us: I64
    x: F64
    y: F64


def interest_sources(
    graph: OperatorGraph, subscription: Subscription, rows: Mapping[str, Conformed]
) -> dict[str, InterestSource]:
    """What a moving subscription reads, under the names that `moving_to_plain` gives it."""
    assert subscription.around is not None, "it moves"
    assert subscription.consumer is not None, "resolved: somebody moves"
    streams = {stream.name: stream for stream in graph.streams}
    focal = located(streams[subscription.around.focal], rows[subscription.around.focal])
    consumers = focal.events.column(subscription.consumer[1]).combine_chunks()
    updates = Updates(consumers, focal.times_us, focal.x, focal.y)
    interests = interests_of(updates, subscription.update or BASIC)
    lifetime_us = subscription.lifetime_us or 0
    return {
        by_interest(name, subscription.name): InterestSource(
            located(streams[name], rows[name]), interests, subscription.around, lifetime_us, before_us
        )
        for name, before_us in history_us(graph, subscription.name).items()
    }


def located(stream: Stream, rows: Conformed) -> Located:
    order = np.argsort(rows.times, kind="stable")
    events = rows.events.take(pa.array(order))
    batch = Batch(rows.times[order], {name: events.column(name).combine_chunks() for name in events.column_names})
    if stream.unique is not None:
        ties = (stream.order,) if stream.order else tuple(attribute.name for attribute in stream.attributes)
        batch, _ = without_duplicates(batch, stream.unique, ties)
    assert stream.location is not None, "resolved: every stream of a moving subscription has a location"
    x, y = (batch.columns[name].cast(pa.float64()).to_numpy(zero_copy_only=False) for name in stream.location)
    return Located(pa.table(dict(batch.columns)), batch.times, x, y)


@dataclass(frozen=True, slots=True)
class InterestSource:
    """Events, once for each interest that reads them. An interest reads from its start, less the lifetime, less
    `before_us`, until the next one begins."""

    read: Located
    interests: Interests
    around: Around
    lifetime_us: int
    before_us: int

    @property
    def rows(self) -> None:
        return None  # to know costs as much as to read

    def chunks(self) -> Iterator[Chunk]:
        times = self.read.times_us
        begin = 0
        while begin < len(times) or begin == 0:
            end = min(begin + EVENTS_AT_ONCE, len(times))
            end = int(np.searchsorted(times, times[end - 1], side="right")) if end else 0  # all of a time together
            yield InterestChunk(self, begin, end)
            if end == len(times):
                return
            begin = end


@dataclass(frozen=True, slots=True)
class InterestChunk:
    """The events of a slice of time. Pairs are found when they are read, and not kept: all chunks are known at once."""

    source: InterestSource
    begin: int
    end: int

    @property
    def rows(self) -> int:
        return self.end - self.begin

    @property
    def time_range(self) -> tuple[int, int] | None:
        times = self.source.read.times_us[self.begin : self.end]
        return (int(times[0]), int(times[-1])) if len(times) else None

    def _pairs(self) -> tuple[I64, I64]:
        """Rows of events and of interests, by time."""
        source, some = self.source, slice(self.begin, self.end)
        since_us = source.interests.start_us - source.lifetime_us - source.before_us
        events, interests = pairs(
            source.read.times_us[some], source.read.x[some], source.read.y[some], since_us,
            source.interests.end_us, source.interests.x, source.interests.y, *half_sizes(source.around),
        )  # fmt: skip
        order = np.argsort(events, kind="stable")
        return events[order] + self.begin, interests[order]

    def read(self, columns: Sequence[str]) -> Conformed:
        events, interests = self._pairs()
        own = self.source.read.events.select([name for name in columns if name not in KEYS]).take(pa.array(events))
        table = {name: own.column(name).combine_chunks() for name in own.column_names}
        table |= {name: self._key(name, interests) for name in columns if name in KEYS}
        ordered = pa.table({name: table[name] for name in columns})
        return Conformed(ordered, self.source.read.times_us[events], REJECTED.empty_table())

    def _key(self, name: str, interests: I64) -> pa.Array:
        known = self.source.interests
        if name == CONSUMER:
            return known.consumer.take(pa.array(interests))
        if name == NUMBER:
            return pa.array(known.number[interests])
        assert name in (SINCE, UNTIL), name
        times = known.start_us - self.source.lifetime_us if name == SINCE else np.minimum(known.end_us, LIMIT - 1)
        return as_timestamps(times[interests])


def in_spatiotemporal_order(delivered: pa.Table) -> pa.Table:
    """For every consumer, all of an interest before all of the next, and by time within (MCEP, section 3.1)."""
    keys = [(name, "ascending") for name in (*DELIVERED, "_time")]
    return delivered.sort_by(keys)
