"""An operator that pulls: it has some of the events of its later inputs, and decides each match by itself.

PaNORAMA, section 6; `protocol.py` has the pull windows, and the proof that events in them suffice. Matches of such an
operator do not depend on each other. So it does not wait until its pulled inputs are complete up to a time, which would
make every result a window late. It knows of each input at which times all events have come that can matter (its
**covered** times): all before the watermark, if the input is pushed; of the ranges whose request is answered those
before the watermark, if it is pulled. A match is final when its events are there, and

1. those that a plain `then` takes lie in the covered times of their inputs, and so do the times between them and the
   events before them: nothing can stand in between that has not come. `then each` and `and` take every combination,
   whatever else comes;
2. those of a `unique` stream lie in its covered times: all copies have come.

No final match is found twice: it was final before if it was so by the covered times of the last step, and all its
events had come then. The operator's promise is the least of the watermarks of pushed inputs and of what combinations
with windows that are not covered can still make.

An operator that is pushed all of its inputs, in one step, decides its matches in the same way. It need not wait until
all origins have passed the time of an event, and has nobody to ask.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from situ.core.memory import MemoryBudget
from situ.core.time import BEGINNING, END
from situ.flow.clock import ONLY_SOURCE
from situ.flow.flow import Flow
from situ.flow.inbox import Inbox
from situ.flow.nodes import attribute_types
from situ.flow.port import Port
from situ.graph.operators import Operator
from situ.graph.query import Stream
from situ.kernel.arrays import I64
from situ.kernel.batch import ORIGINS, Batch, Calls, concat
from situ.kernel.compile import RuleProgram
from situ.kernel.operator import Context, no_events, origins_of
from situ.placement.from_graph import planned
from situ.placement.plan import Steps
from situ.placement.problem import Kind
from situ.runtime.sites.deployed_plan import OperatorPlace, PlanError
from situ.runtime.sites.protocol import Pulled, Windows, pull_windows, union
from situ.runtime.sites.ranges import Ranges, edges, merged
from situ.runtime.sites.selections import Filter, filter_of, rows_that_pass

#: Events that are pushed are forgotten when time has passed them. Where it does not pass by itself, those who hold it
#: back are asked when so many events are held, or so many ranges asked for, from longer ago than so many windows.
_MANY_EVENTS, _MANY_RANGES, _LONG_WINDOWS = 4_000, 64, 4


def decides_one_by_one(operator: Operator, place: OperatorPlace) -> bool:
    """Whether a plan lets an operator decide its matches one by one: it has steps, and the operator can take them."""
    return bool(place.steps) and (len(place.steps) > 1 or planned(operator, {}).can_pull)


def steps_in_numbers(operator: Operator, steps: tuple[tuple[str, ...], ...]) -> Steps:
    """The steps of an operator by numbers of its inputs; PlanError if it cannot take its inputs so."""
    shape = planned(operator, {})
    named = [event for step in steps for event in step]
    if sorted(named) != sorted(dict.fromkeys(shape.events)) or not all(steps):
        raise PlanError(
            f"the steps of {operator.name} do not take each of its inputs once: {', '.join(named) or 'none'}",
            remedy=f"Its inputs are {', '.join(dict.fromkeys(shape.events))}.",
        )
    if len(steps) > 1 and not shape.can_pull:
        raise PlanError(
            f"{operator.name} cannot pull, but its plan has {len(steps)} steps",
            remedy="Only a SEQ or AND of different event types within a window can; give others one step.",
        )
    if len(steps) == 1:
        return (tuple(range(len(shape.events))),)
    return tuple(tuple(shape.events.index(event) for event in step) for step in steps)


def pulled_shape(context: Context) -> Pulled:
    """What pull windows depend on: the operator's kind, its window, and the order of events of equal time.

    Where an attribute that types share decides before the types do, events of equal time may come in any order; then
    windows include the time itself.
    """
    shape = planned(context.operator, {})
    within = context.operator.rule.cases[0].within
    assert within is not None, "an operator that can pull has a window"
    ranks = tuple(context.inputs[event].rank for event in shape.events)
    return Pulled(shape.kind is Kind.SEQ, within.micros, tuple(range(len(ranks))) if context.shared_order else ranks)


@dataclass(frozen=True, slots=True)
class CoveredTime:
    """The times at which all events of an input have come that can matter: those before `before_us`; of a pulled
    input, those of them that lie in ranges."""

    before_us: int = BEGINNING
    ranges: Ranges | None = None

    def holds(self, times_us: I64, from_us: I64 | None) -> npt.NDArray[np.bool_]:
        """Which times are covered; with `from_us`, only if all times from there on are."""
        covered = times_us < self.before_us
        if self.ranges is None:
            return covered
        if not self.ranges:
            return np.zeros(len(times_us), np.bool_)
        first, last = edges(self.ranges)
        at = np.searchsorted(first, times_us, side="right") - 1
        covered &= (at >= 0) & (last[np.maximum(at, 0)] >= times_us)
        return covered if from_us is None else covered & (first[np.maximum(at, 0)] <= np.minimum(from_us, times_us))

    def first_open(self, first_us: I64) -> I64:
        """For the beginnings of windows, the first time from there on that is not covered."""
        if not self.ranges:
            return first_us if self.ranges is not None else np.maximum(first_us, self.before_us)
        first, last = edges(self.ranges)
        at = np.searchsorted(first, first_us, side="right") - 1
        inside = (at >= 0) & (last[np.maximum(at, 0)] >= first_us)
        reach = np.where(inside, last[np.maximum(at, 0)] + 1, first_us)
        return np.maximum(first_us, np.minimum(reach, self.before_us))


@dataclass
class PulledOperator:
    """One operator with the events that it has. `ranged` are the inputs that come in the ranges that are asked for;
    `streams` those that are streams, in which copies may be told apart. The program has provenance."""

    program: RuleProgram
    steps: Steps
    ranged: frozenset[int]
    streams: Mapping[str, Stream]
    failed_calls: Counter[str]
    memory: MemoryBudget
    low_us: int = BEGINNING
    needed: dict[str, Ranges] = field(default_factory=dict)
    undecided: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.context = self.program.context
        shape = planned(self.context.operator, {})
        self.events = shape.events
        self.shape = pulled_shape(self.context)
        self._takes_next = [
            n > 0 and not shape.each[n - 1] if self.shape.ordered else False for n in range(len(self.events))
        ]
        copied = [event for event in self.events if event in self.streams and self.streams[event].unique is not None]
        self.filters: dict[str, Filter] = {
            event: None if event in copied else filter_of(self.program, event) for event in self.events
        }
        #: Matches are certain as soon as their events have come.
        self._decides_at_once = not copied and not any(self._takes_next)
        self._ports = [Port(event, (self.name,), self.streams.get(event)) for event in dict.fromkeys(self.events)]
        self.held = {event: Inbox() for event in self.events}
        self._covered = {
            event: CoveredTime(ranges=() if n in self.ranged else None) for n, event in enumerate(self.events)
        }
        self._calls = Calls(functions=self.context.functions, errors=self.failed_calls)

    @property
    def name(self) -> str:
        return self.context.operator.name

    @property
    def pulled(self) -> dict[str, Filter]:
        """The types that come in ranges, with what is asked of their events."""
        return {self.events[number]: self.filters[self.events[number]] for number in self.ranged}

    @property
    def forget_us(self) -> int:
        """No event before this time is of use any more."""
        return self.low_us if self.low_us == END else max(self.low_us - self.shape.window_us, BEGINNING)

    def step(self, arrived: Mapping[str, Batch], covered: Mapping[str, CoveredTime]) -> Batch:
        """Take what has come, and the times that are covered now; the complex events that are certain."""
        old = {event: sum(map(len, inbox.waiting)) for event, inbox in self.held.items()}
        came: list[I64] = []
        for event, batch in arrived.items():
            wanted = rows_that_pass(self.filters[event], batch, self._calls)
            self.held[event].add(wanted)
            came += [wanted.times] if len(wanted) else []
        before, self._covered = self._covered, dict(covered)
        if not came and before == self._covered:
            return no_events(self.context)
        batches = {event: concat(inbox.waiting) if inbox.waiting else None for event, inbox in self.held.items()}
        self.undecided = {}
        made = no_events(self.context)
        if came or not self._decides_at_once:
            made = self._certain(batches, old, before, np.concatenate([_NONE, *came]))
        self._look_ahead({event: batch.times if batch is not None else _NONE for event, batch in batches.items()})
        for event, held in batches.items():
            self.held[event] = Inbox()
            if held is not None:
                of_use = held.times >= self.forget_us
                self.held[event].add(held if of_use.all() else held.take(of_use))
        return made

    # ---- matches

    def _certain(
        self, batches: Mapping[str, Batch | None], old: Mapping[str, int], before: Mapping[str, CoveredTime], came: I64
    ) -> Batch:
        """The matches that are final now, and were not before; `came` are the times of events that are new."""
        inputs = {event: self._numbered(event, batch) for event, batch in batches.items() if batch is not None}
        if self._decides_at_once:  # a match that is new has an event that is new
            since, until = int(came.min()) - self.shape.window_us, int(came.max()) + self.shape.window_us
            near = {event: (batch.times >= since) & (batch.times <= until) for event, batch in inputs.items()}
            inputs = {event: batch.take(near[event]) for event, batch in inputs.items() if near[event].any()}
        if len(inputs) < len(self.events):
            return no_events(self.context)
        flow = Flow({self.name: self.program}, self._ports, failed_calls=self.failed_calls, memory=self.memory)
        for port in self._ports:
            flow.add(port, inputs[port.type])
        matches = flow.advance(END)[self.name].events
        if not len(matches):
            return matches
        rows = self._rows_of(matches)
        times = {event: inputs_times[rows[event]] for event, inputs_times in _times(batches).items()}
        final = self._final(times, self._covered)
        was_there = np.logical_and.reduce([rows[event] < old[event] for event in self.events])
        for event in self.events if not final.all() else ():
            waits = times[event][~final & (times[event] >= self._covered[event].before_us)]
            if len(waits):
                self.undecided[event] = int(waits.max()) + 1
        new = final & ~(was_there & self._final(times, before))
        return matches if new.all() else matches.take(new)

    def _numbered(self, event: str, batch: Batch) -> Batch:
        """Events, each the origin of itself by its number."""
        origins = origins_of(event, ONLY_SOURCE, batch.times, np.arange(len(batch)))
        return Batch(batch.times, batch.columns | {ORIGINS: origins}, batch.load)

    def _rows_of(self, matches: Batch) -> dict[str, I64]:
        """For each input, the number of the event that each match has of it."""
        atoms = matches.columns[ORIGINS].flatten()
        types = atoms.field("stream").dictionary_encode()
        codes = types.indices.to_numpy(zero_copy_only=False)
        rows = atoms.field("row").to_numpy(zero_copy_only=False)
        return {event: rows[codes == code] for code, event in enumerate(types.dictionary.to_pylist())}

    def _final(self, times: Mapping[str, I64], covered: Mapping[str, CoveredTime]) -> npt.NDArray[np.bool_]:
        final: npt.NDArray[np.bool_] = np.ones(len(times[self.events[0]]), np.bool_)
        for number, event in enumerate(self.events):
            since = None
            if self._takes_next[number]:
                ranks = self.shape.ranks
                since = times[self.events[number - 1]] + int(ranks[number] < ranks[number - 1])
            elif event not in self.streams or self.streams[event].unique is None:
                continue
            final &= covered[event].holds(times[event], since)
        return final

    # ---- what is still to come

    def _look_ahead(self, times: Mapping[str, I64]) -> None:
        """What is needed of pulled inputs, and the promise: no match that is not final is earlier."""
        low = min((c.before_us for c in self._covered.values() if c.ranges is None), default=END)
        needed: dict[str, Ranges] = {}
        for place, step in enumerate(self.steps):
            earlier = [number for before in self.steps[:place] for number in before]
            for number in step:
                if number not in self.ranged:
                    continue
                windows = self._windows(earlier, times, number)
                event = self.events[number]
                needed[event] = tuple(zip(*(part.tolist() for part in union(windows)), strict=True))
                slots_before = sum(other < number for other in earlier)
                low = min(low, self._open_from(windows, slots_before, len(earlier), self._covered[event]))
        self.needed, self.low_us = needed, max(low, self.low_us)
        self._ask_to_forget([held for held in times.values() if len(held)])

    def _ask_to_forget(self, times: list[I64]) -> None:
        """Wait for the time of pushed inputs that lets too much be held."""
        is_much = sum(map(len, times)) > _MANY_EVENTS or sum(map(len, self.needed.values())) > _MANY_RANGES
        if not is_much:
            return
        latest, oldest = max(int(held.max()) for held in times), min(int(held.min()) for held in times)
        long_us = _LONG_WINDOWS * self.shape.window_us
        until_us = latest - long_us // 2
        for event, covered in self._covered.items() if latest - oldest > long_us else ():
            if covered.ranges is None and covered.before_us < until_us:
                self.undecided[event] = max(until_us, self.undecided.get(event, until_us))

    def _windows(self, earlier: list[int], times: Mapping[str, I64], pulled: int) -> Windows:
        """The pull windows of an input, by the events that have come of earlier ones."""
        of_earlier = [times[self.events[number]] for number in earlier]
        since = min((int(t.min()) for t in of_earlier if len(t)), default=0)  # nanoseconds since the epoch are too many
        local = [t - since for t in of_earlier]
        windows = pull_windows(self.shape, earlier, local, [t * 1000 for t in local], pulled)
        return Windows(windows.first_us + since, windows.last_us + since, windows.known_ns)

    def _open_from(self, windows: Windows, slots_before: int, slots: int, covered: CoveredTime) -> int:
        """The time before which no match will be that needs more of these windows than is covered: that of the last
        event of the combination that opens one, or that of the first event that may still come."""
        open_us = covered.first_open(np.maximum(windows.first_us, self.forget_us))
        is_open = open_us <= windows.last_us
        if not is_open.any():
            return END
        at_least = open_us[is_open]
        if not self.shape.ordered or slots_before == 0:  # such a window begins W before the last event
            at_least = np.maximum(at_least, windows.first_us[is_open] + self.shape.window_us)
        elif slots_before < slots:  # it ends with an event of the combination
            at_least = np.maximum(at_least, windows.last_us[is_open])
        return int(at_least.min())

    # ---- state

    def snapshot(self) -> dict[str, pa.Table]:
        """Its state as tables."""
        tables = {f"{_HELD}{self.name}/{event}": inbox.table() for event, inbox in self.held.items() if inbox.waiting}
        said = {
            "low": self.low_us,
            "covered": {event: [covered.before_us, covered.ranges] for event, covered in self._covered.items()},
            "needed": self.needed,
            "undecided": self.undecided,
        }
        return tables | {f"{_STATE}{self.name}": pa.table({"state": [json.dumps(said)]})}

    def restore(self, tables: dict[str, pa.Table]) -> None:
        """Go on from a snapshot, whose tables are taken out of `tables`."""
        said: dict[str, Any] = json.loads(tables.pop(f"{_STATE}{self.name}").column("state")[0].as_py())
        self.low_us, self.undecided = (
            int(said["low"]),
            {event: int(until) for event, until in said["undecided"].items()},
        )
        self.needed = {event: _ranges(ranges) for event, ranges in said["needed"].items()}
        self._covered = {
            event: CoveredTime(int(before), None if ranges is None else _ranges(ranges))
            for event, (before, ranges) in said["covered"].items()
        }
        for event, inbox in self.held.items():
            if (table := tables.pop(f"{_HELD}{self.name}/{event}", None)) is not None:
                inbox.put(table, attribute_types(self.context, event), self.filters[event] or ())


_NONE = np.zeros(0, np.int64)
_HELD, _STATE = "held/", "pulling/"


def _times(batches: Mapping[str, Batch | None]) -> dict[str, I64]:
    return {event: _NONE if batch is None else batch.times for event, batch in batches.items()}


def _ranges(stated: list[list[int]]) -> Ranges:
    return merged((int(first), int(last)) for first, last in stated)
