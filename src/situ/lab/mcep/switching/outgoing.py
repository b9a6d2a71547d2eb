"""Where complex events go: to the operators that read them, each of them once, or to the consumer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from situ.kernel.batch import ORIGINS, Batch, concat
from situ.lab.mcep.switching.buffer import NUMBER, Buffer, Numbering, whole_numbers
from situ.lab.mcep.switching.messages import EventChannel, Heartbeat, Log, Marker, Streamed, SwitchingCosts
from situ.lab.mcep.switching.provenance import Provenance


class ToReaders:
    """The streams of a producer: a range query, whose events have numbers, or an operator, whose events get them.

    `history_us`: how far back the atomic events of its events lie. None: it does not preserve locality, or nothing is
    to be optimised. `log_every_us`: events that readers have already are named in one message for so much time.
    """

    def __init__(
        self, buffer: Buffer, numbering: Numbering | None, provenance: Provenance | None = None, *, optimise: bool,
        history_us: Mapping[str, int] | None, log_every_us: int,
    ) -> None:  # fmt: skip
        self.buffer, self.links = buffer, list[EventChannel]()
        self._numbering, self._provenance, self._optimise = numbering, provenance, optimise
        self._history_us, self._log_every_us = history_us, log_every_us

    def begin(self, marker: Marker) -> None:
        since_us = None
        if self._optimise and self._history_us is not None:
            since_us = max(marker.since_us[stream] + back_us for stream, back_us in self._history_us.items())
        if not self._optimise:
            self.buffer.forget()
        self.buffer.begin(marker.region, since_us)
        if self._numbering is not None:
            self._numbering.begin(self.buffer.before)
        for link in self.links:
            link.send(replace(marker, reuse_since_us=since_us))

    def stream(self, events: Batch) -> None:
        """What readers have already is not streamed: the marker said so, or a log does."""
        if self._numbering is not None:
            numbered = events.columns | {NUMBER: pa.array(self._numbering.numbers(events))}
            events = Batch(events.times, numbered)
        numbers = whole_numbers(events, NUMBER)
        if self._provenance is not None and self._numbering is not None:
            self._provenance.made(numbers, events.columns[ORIGINS])
        is_streamed, reused = self.buffer.has_streamed(numbers), self.buffer.has_reused(numbers)
        self.buffer.now.append(events.take(~reused))
        fresh, again = events.take(~is_streamed), events.take(is_streamed & ~reused)
        for link in self.links:
            if len(fresh):
                link.send(Streamed(fresh))
            for log in self._logs(again):
                link.send(log)

    def _logs(self, again: Batch) -> Sequence[Log]:
        numbers = whole_numbers(again, NUMBER)
        _, begins = np.unique(again.times // self._log_every_us, return_index=True)
        return [Log(logged) for logged in np.split(numbers, begins[1:])] if len(numbers) else []

    def progress(self, before_us: int) -> None:
        for link in self.links:
            link.send(Heartbeat(before_us))


class ToConsumer:
    """Delivers complex events in spatiotemporal order: all of an interest before all of the next, by time within."""

    def __init__(self, lifetime_us: int, counts: SwitchingCosts) -> None:
        self._lifetime_us, self._counts = lifetime_us, counts
        self._marker: Marker | None = None
        self._detected: list[Batch] = []
        self.delivered: list[tuple[int, Batch]] = []

    def begin(self, marker: Marker) -> None:
        """Deliver the detected complex events from the interest's start, less the lifetime, to its end."""
        if self._marker is not None and self._detected:
            detected = concat(self._detected)
            since_us, until_us = self._marker.start_us - self._lifetime_us, marker.start_us
            wanted = (detected.times >= since_us) & (detected.times <= until_us)
            self._counts.overhead += int(np.count_nonzero(detected.times < since_us))
            self.delivered.append((self._marker.number, detected.take(wanted)))
        self._marker, self._detected = marker, []

    def stream(self, events: Batch) -> None:
        self._detected.append(events)

    def progress(self, before_us: int) -> None:
        """Nobody waits for it."""
