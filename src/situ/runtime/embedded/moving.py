"""Moving subscriptions on bounded input: interests, the events that each reads, and plain detection by interest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from situ.graph.operators import OperatorGraph
from situ.graph.query import Query, Stream, Subscription
from situ.io.conform import Conformed
from situ.kernel.arrays import F64, I64
from situ.mobility.history import history_us
from situ.mobility.interests import BASIC, Interests, Updates, half_sizes, interests_of
from situ.mobility.keyed import INTEREST, keyed_by_interest
from situ.mobility.pairs import pairs

#: Interests are detected together until they read so many events; none depends on another.
PAIRS_AT_ONCE = 4_000_000

#: Runs a plain query on tables that are in memory, and gives one table per output.
RunPlain = Callable[[Query, Mapping[str, pa.Table]], dict[str, pa.Table]]


@dataclass(frozen=True, slots=True)
class _Located:
    """A stream's events by time, with their places."""

    stream: Stream
    events: pa.Table
    times_us: I64
    x: F64
    y: F64


def detect_moving(
    graph: OperatorGraph, subscription: Subscription, events: Mapping[str, Conformed], run: RunPlain
) -> Iterator[pa.Table]:
    """The complex events of a moving subscription: for every consumer, those of its interests one after the other, and
    of one interest by time (spatiotemporal order; MCEP, section 3.1). `_consumer` and `_interest` say whose they are.
    """
    assert subscription.around is not None, "it moves"
    assert subscription.consumer is not None, "resolved: somebody moves"
    streams = {stream.name: stream for stream in graph.streams}
    focal = _located(streams[subscription.around.focal], events[subscription.around.focal])
    consumers = focal.events.column(subscription.consumer[1]).combine_chunks()
    updates = Updates(consumers, focal.times_us, focal.x, focal.y)
    interests = interests_of(updates, subscription.update or BASIC)
    query = keyed_by_interest(graph, subscription.name)
    history = history_us(graph, subscription.name)
    located = {name: _located(streams[name], events[name]) for name in history}
    lifetime_us = subscription.lifetime_us or 0
    for part in _parts(interests, sum(len(read.times_us) for read in located.values())):
        tables = {
            name: _read_by(read, interests, part, subscription, lifetime_us + history[name])
            for name, read in located.items()
        }
        yield _delivered(run(query, tables)[subscription.name], interests, lifetime_us)


def _located(stream: Stream, conformed: Conformed) -> _Located:
    order = np.argsort(conformed.times, kind="stable")
    events = conformed.events.take(pa.array(order))
    assert stream.location is not None, "resolved: every stream of a moving subscription has a location"
    x, y = (events.column(name).cast(pa.float64()).to_numpy() for name in stream.location)
    return _Located(stream, events, conformed.times[order], x, y)


def _parts(interests: Interests, events: int) -> Iterator[I64]:
    """Interests in pieces, so that even if each read all events there would not be too many pairs at a time."""
    size = max(1, PAIRS_AT_ONCE // max(1, events))
    for begin in range(0, len(interests), size):
        yield np.arange(begin, min(begin + size, len(interests)))


def _read_by(read: _Located, interests: Interests, part: I64, subscription: Subscription, before_us: int) -> pa.Table:
    """A stream's events, once for each interest that reads them."""
    assert subscription.around is not None
    half_x, half_y, is_round = half_sizes(subscription.around)
    rows, which = pairs(
        read.times_us, read.x, read.y, interests.start_us[part] - before_us, interests.end_us[part],
        interests.x[part], interests.y[part], half_x, half_y, is_round,
    )  # fmt: skip
    return read.events.take(pa.array(rows)).append_column(INTEREST, pa.array(part[which]))


def _delivered(found: pa.Table, interests: Interests, lifetime_us: int) -> pa.Table:
    """Of an interest's complex events, those from its start less the lifetime to the start of the next one."""
    row = found.column(INTEREST).to_numpy()
    times = found.column("_time").cast(pa.int64()).to_numpy()
    wanted = np.flatnonzero((times >= interests.start_us[row] - lifetime_us) & (times <= interests.end_us[row]))
    wanted = wanted[np.lexsort((times[wanted], row[wanted]))]
    found = found.take(pa.array(wanted)).drop_columns([INTEREST])
    found = found.append_column("_consumer", interests.consumer.take(pa.array(row[wanted])))
    return found.append_column("_interest", pa.array(interests.number[row[wanted]]))
