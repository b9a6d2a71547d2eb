"""The execution environment of one operator: it reads streams, switches at markers, and streams what comes out.

MCEP, sections 4.1, 4.2.2 and 5.2. The operator is the kernel's. For every interest it starts afresh; at the end of one
it is told that nothing more will come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

import numpy as np
import pyarrow as pa

from situ.core.time import BEGINNING, END
from situ.flow.inbox import Inbox
from situ.kernel.arrays import I64
from situ.kernel.batch import ORIGINS, Batch, concat
from situ.kernel.operator import Chosen, Context, RunningOperator, no_events
from situ.kernel.state.groups import GroupIndex
from situ.lab.fresh_operator import fresh_operator
from situ.lab.mcep.switching.buffer import NUMBER, as_origins, whole_numbers
from situ.lab.mcep.switching.messages import EventChannel, Heartbeat, Kept, Marker, Received, Streamed, SwitchingCosts
from situ.lab.mcep.switching.provenance import Provenance
from situ.lab.mcep.switching.steps import Steps, are_independent, steps_of, with_windows


@dataclass(frozen=True, slots=True)
class CompletedSteps:
    """Steps that were done for an interest: what each read, and the rows of `events` that came of it."""

    index: GroupIndex
    rows: I64
    offsets: I64
    events: Batch


class Outgoing(Protocol):
    """Where an operator's complex events go: to the operators that read them, or to the consumer."""

    def begin(self, marker: Marker) -> None:
        """All that follows is of another interest."""

    def stream(self, events: Batch) -> None:
        """Complex events by time."""

    def progress(self, before_us: int) -> None:
        """No event before this time will follow."""


class ChannelInput:
    """One stream that an operator reads: what waits, up to when it is known, and whether a marker stands there."""

    def __init__(self, link: EventChannel) -> None:
        self.link = link
        self.marker: Marker | None = None
        self.begin()

    def begin(self) -> None:
        self.inbox, self.read = Inbox(), list[Batch]()
        self.before_us = BEGINNING
        self.marker = None

    def take_in(self) -> None:
        """Read messages up to the next marker."""
        while self.marker is None and (message := self.link.receive()) is not None:
            self._take(message)

    def _take(self, message: Received) -> None:
        match message:
            case Streamed(events) | Kept(events):
                self.inbox.add(self._named(events))
            case Heartbeat(before_us):
                self.before_us = before_us
            case Marker():
                self.marker = message
            case _:
                assert_never(message)

    def _named(self, events: Batch) -> Batch:
        """Events as their own origins, so that the kernel names selections by the events that were read."""
        numbers = whole_numbers(events, NUMBER)
        return Batch(events.times, events.columns | {ORIGINS: as_origins(self.link.producer, events.times, numbers)})

    def ready(self, before_us: int) -> Batch | None:
        events = self.inbox.before(before_us)
        if events is not None:
            self.read.append(events)
        return events


class OperatorHost:
    """`complete`: an operator goes on for the old interest until markers stand on all its streams, and to its end;
    otherwise (best effort) it ceases at the first one."""

    def __init__(
        self, context: Context, inputs: Sequence[EventChannel], outgoing: Outgoing, counts: SwitchingCosts,
        provenance: Provenance | None = None, *, optimise: bool, complete: bool,
    ) -> None:  # fmt: skip
        self._context, self._counts, self._provenance = with_windows(context), counts, provenance
        self._name = context.operator.name
        self._inputs = {link.producer: ChannelInput(link) for link in inputs}
        self._outgoing = outgoing
        self._complete = complete
        self._reuses = optimise and are_independent(self._context)
        self._done: CompletedSteps | None = None
        self._running: RunningOperator | None = None
        self._is_first_pass = True
        self._reused = 0
        self._processed_us = BEGINNING
        self._produced: list[Batch] = []
        self._number = 0

    def work(self) -> None:
        """Read what has come, and process what is certain. At markers, switch."""
        for input_ in self._inputs.values():
            input_.take_in()
        markers = [input_.marker for input_ in self._inputs.values() if input_.marker is not None]
        if len(markers) == len(self._inputs):
            self._switch(markers[0])
            self.work()
        elif self._running is not None and (self._complete or not markers):
            self._process(min(input_.before_us for input_ in self._inputs.values()))

    def _switch(self, marker: Marker) -> None:
        """MCEP, section 4.2.2: end the old interest, hand the marker on, forget, start afresh."""
        if self._running is not None:
            if self._complete or marker.is_end:
                self._process(END)
            self._finish()
        self._outgoing.begin(marker)
        for input_ in self._inputs.values():
            input_.begin()
        self._running, self._is_first_pass = self._fresh(), True
        self._processed_us, self._produced, self._number = BEGINNING, [], marker.number

    def _fresh(self, chosen: Chosen | None = None) -> RunningOperator:
        return fresh_operator(self._context, chosen)

    # --- correlation steps

    def _process(self, before_us: int) -> None:
        if before_us <= self._processed_us:
            return
        ready = {name: input_.ready(before_us) for name, input_ in self._inputs.items()}
        inputs = {name: batch for name, batch in ready.items() if batch is not None}
        if self._is_first_pass and self._done is not None:
            events, low_us = self._catch_up(inputs, before_us, self._done)
        else:
            assert self._running is not None, "an interest has begun"
            produced = self._running.process(inputs, before_us)
            events, low_us = produced.events, produced.low_watermark
        self._is_first_pass, self._processed_us = False, before_us
        if len(events):
            self._produced.append(events)
            self._outgoing.stream(events)
        self._outgoing.progress(low_us)

    def _catch_up(self, inputs: Mapping[str, Batch], before_us: int, done: CompletedSteps) -> tuple[Batch, int]:
        """The history of an interest. Steps that are closed, and were done before with the same events, are reused."""
        steps = steps_of(self._context, inputs)
        codes = done.index.numbers(steps.contents(np.arange(len(steps))), len(steps))
        closed = (steps.closes_us < before_us) | (before_us == END)
        is_done = closed & (codes < len(done.rows))
        remaining = self._fresh(steps.chosen(~is_done))
        produced = remaining.process(inputs, before_us)
        self._running = self._fresh()  # from now on, all steps are done
        self._running.put(remaining.snapshot())
        self._reused = int(np.count_nonzero(is_done))
        reused = _results(steps, np.flatnonzero(is_done), done, codes)
        events = concat([produced.events, reused])
        return events.take(np.argsort(events.times, kind="stable")), produced.low_watermark

    def _finish(self) -> None:
        """Count the steps of the interest, and keep what the next one may reuse."""
        inputs = {name: concat(input_.read) for name, input_ in self._inputs.items() if input_.read}
        steps = steps_of(self._context, inputs)
        self._counts.steps_run[self._name] += len(steps) - self._reused
        self._counts.steps_reused[self._name] += self._reused
        self._reused = 0
        self._done = self._to_reuse(steps) if self._reuses else None
        if self._provenance is not None:
            self._provenance.selected(self._name, self._number, steps.events, steps.offsets)

    def _to_reuse(self, steps: Steps) -> CompletedSteps:
        events = concat([no_events(self._context), *self._produced])
        owner = steps.rows_of(whole_numbers(events, "_selection"), events.columns[ORIGINS])
        offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(steps)))])
        # With best effort, steps that were still open have not been done.
        rows = np.flatnonzero((steps.closes_us < self._processed_us) | (self._processed_us == END))
        index = GroupIndex()
        index.numbers(steps.contents(rows), len(rows))
        return CompletedSteps(index, rows, offsets, events.take(np.argsort(owner, kind="stable")))


def _results(steps: Steps, rows: I64, done: CompletedSteps, codes: I64) -> Batch:
    """The complex events of steps that were done for the interest before, under the numbers of these steps."""
    old = done.rows[codes[rows]]
    counts = np.diff(done.offsets)[old]
    events = np.repeat(done.offsets[old] - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    batch = done.events.take(events)
    batch.columns["_selection"] = pa.array(np.repeat(steps.number[rows], counts))
    return batch
