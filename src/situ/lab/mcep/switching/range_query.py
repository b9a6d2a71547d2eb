"""The range query of one atomic stream: history from the event store, then what arrives (MCEP, section 4.2)."""

from __future__ import annotations

import numpy as np

from situ.kernel.batch import Batch, concat
from situ.lab.mcep.switching.buffer import NUMBER, whole_numbers
from situ.lab.mcep.switching.messages import Marker
from situ.lab.mcep.switching.outgoing import ToReaders
from situ.space.event_store import EventStore, Region


class RangeQuery:
    """Events have the numbers of their arrivals. What arrives while history is streamed is buffered."""

    def __init__(self, stream: str, store: EventStore, outgoing: ToReaders) -> None:
        self.stream, self.outgoing = stream, outgoing
        self._store = store
        self._region: Region | None = None
        self._history: Batch = outgoing.buffer.before
        self._buffered: list[Batch] = []

    def begin(self, marker: Marker, until_us: int) -> None:
        """Another interest: ask the store for its history, but for what readers have already."""
        self.outgoing.begin(marker)
        self._region, self._buffered = marker.region, []
        stored = self._store.inside(self.stream, marker.since_us[self.stream], until_us, marker.region)
        self._history = stored.take(~self.outgoing.buffer.has_reused(whole_numbers(stored, NUMBER)))

    @property
    def history_times_us(self) -> np.ndarray:
        """The times of the historical events that have not been streamed yet."""
        return self._history.times

    def stream_history(self, most: int) -> None:
        """So many historical events, by time."""
        self._send(self._history.take(np.arange(most)))
        self._history = self._history.take(np.arange(most, len(self._history)))

    def arrive(self, events: Batch, x: np.ndarray, y: np.ndarray, *, is_switching: bool) -> None:
        """Live events, by time."""
        assert self._region is not None, "an interest has begun"
        inside = events.take(self._region.contains(x, y))
        if is_switching:
            self._buffered.append(inside)
        else:
            self._send(inside)

    def stream_buffered(self) -> None:
        """History is through: what arrived meanwhile."""
        if self._buffered:
            self._send(concat(self._buffered))
        self._buffered = []

    def _send(self, events: Batch) -> None:
        if len(events):
            self.outgoing.stream(events)
