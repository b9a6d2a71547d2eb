"""The atomic events of all streams, in the order in which they arrive: by time, then by stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from situ.core.errors import SituError
from situ.graph.query import Stream
from situ.io.rows.conform import Conformed
from situ.kernel.arrays import I64
from situ.kernel.batch import EXTENT, Batch, one_chunk, without_duplicates
from situ.lab.mcep.switching.buffer import NUMBER
from situ.space.event_store import EventStore, StoredEvents, reals


@dataclass(frozen=True, slots=True)
class Arrivals:
    """`streams`: events by time, with the numbers of their arrivals. `times_us`: the time of each arrival."""

    streams: Mapping[str, StoredEvents]
    numbers: Mapping[str, I64]
    times_us: I64

    def __len__(self) -> int:
        return len(self.times_us)

    def until(self, time_us: int) -> int:
        """How many events have arrived when all up to a time have."""
        return int(np.searchsorted(self.times_us, time_us, side="right"))

    def store(self, store: EventStore, first: int, end: int) -> None:
        """Put the arrivals from `first` to before `end` into the event store; none at all (0, 0), so that it knows the
        columns."""
        for name, events in self.streams.items():
            begin, stop = np.searchsorted(self.numbers[name], [first, end])
            if begin < stop or end == 0:
                arrived = events.take(np.arange(begin, stop))
                store.add(name, arrived.batch, arrived.x, arrived.y)


def located(stream: Stream, rows: Conformed) -> StoredEvents:
    """A stream's events by time, each once, with their places."""
    if stream.degrees:
        raise SituError(
            f"{stream.name} has its places in degrees, and operator graphs are switched in the plane only",
            remedy="Give its places in metres.",
        )
    order = np.argsort(rows.times, kind="stable")
    columns = {name: one_chunk(rows.events.column(name)) for name in rows.events.column_names}
    batch = Batch(rows.times, columns).take(order)
    if stream.unique is not None:
        ties = (stream.order,) if stream.order else tuple(attribute.name for attribute in stream.attributes)
        batch, _ = without_duplicates(batch, stream.unique, ties)
    assert stream.location is not None, "resolved: every stream of a moving subscription has a location"
    return StoredEvents(batch, *(reals(batch.columns[name]) for name in stream.location))


def arrivals_of(streams: Mapping[str, StoredEvents]) -> Arrivals:
    """
    >>> car = StoredEvents(Batch(np.array([5, 9]), {"id": pa.array([1, 2])}), np.zeros(2), np.zeros(2))
    >>> lamp = StoredEvents(Batch(np.array([6]), {"id": pa.array([7])}), np.zeros(1), np.zeros(1))
    >>> {name: numbers.tolist() for name, numbers in arrivals_of({"Car": car, "Lamp": lamp}).numbers.items()}
    {'Car': [0, 2], 'Lamp': [1]}
    """
    times = np.concatenate([events.batch.times for events in streams.values()] or [np.zeros(0, np.int64)])
    order = np.argsort(times, kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    bounds = np.cumsum([0, *(len(events) for events in streams.values())])
    numbers = {name: number[bounds[k] : bounds[k + 1]] for k, name in enumerate(streams)}
    return Arrivals({name: _numbered(events, numbers[name]) for name, events in streams.items()}, numbers, times[order])


def _numbered(events: StoredEvents, numbers: I64) -> StoredEvents:
    """Events as streams have them: with their extent, which is their place, and their number."""
    places = dict(zip(EXTENT, (events.x, events.y, events.x, events.y), strict=True))
    columns = events.batch.columns | {n: pa.array(values, from_pandas=True) for n, values in places.items()}
    return StoredEvents(Batch(events.batch.times, columns | {NUMBER: pa.array(numbers)}), events.x, events.y)
