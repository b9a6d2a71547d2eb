"""A moving subscription at work: the interests of many consumers side by side, on one flow of operators.

Interests are group keys (mobility/moving_query.py), and a switch is a change of keys. When time has passed a location
update that begins R_i+1, everything before it has come. R_i reads the rest of its events, and then the end of time for
it alone: that is the marker of MCEP's section 4.2, which tells every operator, inputs first, that nothing follows.
R_i+1 starts afresh with its history from the event store. Live events wait there until then, so none is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.errors import StateError
from situ.core.memory import MemoryBudget
from situ.core.time import BEGINNING, END
from situ.core.types import to_arrow
from situ.flow.active import Active, Switch, in_spatiotemporal_order
from situ.flow.consumers import Consumers
from situ.flow.flow import Flow
from situ.flow.inbox import CARRIED, Inbox, distinct
from situ.flow.port import Port
from situ.graph.query import Stream
from situ.kernel.arrays import F64, I64
from situ.kernel.batch import (
    ORIGINS,
    Batch,
    Calls,
    concat,
    in_total_order,
    one_chunk,
)
from situ.kernel.matching.order import are_among
from situ.kernel.operator import ORIGIN_LIST, Conditions, no_events
from situ.kernel.state.checks import (
    FARTHEST,
    numbers,
    require,
    require_between,
    require_columns,
    require_sorted,
    require_times,
)
from situ.kernel.state.snapshot import digest_of, with_digest
from situ.lang.unparse import unparse_expression
from situ.mobility.interests import BASIC, Interests, Updates, interests_of
from situ.mobility.monitor import quality_interests
from situ.mobility.moving_program import MovingProgram, place_of
from situ.mobility.moving_query import DELIVERED, INTEREST, ORDER
from situ.space.event_store import PLACED, Asking, EventStore, StoredEvents, evict_before, reals
from situ.space.geometry import Shape
from situ.space.pairs import Regions

#: So many pairs of an event and an interest are read at once.
PAIRS_AT_ONCE = 2_000_000
#: Quality is judged on the events of so much time at least.
RECENT_US = 10_000_000
#: Groups that have ended are removed from the flow when they are more than this part of those that are open.
LEAVING_AT_MOST = 0.5
#: What a test says of an event is a column of the event store.
_TEST = "_test "
#: Whether a consumer leaves with a location update.
LEAVES = "_leaves"
_SO_FAR = ("passed", "next_key", "next_order")


@dataclass
class MovingFlow:
    """Runs a moving subscription: events and location updates are added, and `advance` gives the complex events that
    consumers are sent."""

    program: MovingProgram
    memory: MemoryBudget = field(default_factory=MemoryBudget.of_process)
    threads: int = 1
    failed_calls: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.query, self.streams = self.program.query, self.program.streams
        readers = {
            name: tuple(program.context.operator.name for program in self.program.readers(name))
            for name in self.streams
        }
        self._ports = {name: Port(name, readers[name], None) for name in self.streams}
        self.flow = self._fresh()
        self._tests = {name: self.program.tests(name) for name in self.streams}
        self._shape = Shape.of(self.query.around, self.query.focal.degrees)
        self._events = {name: Inbox() for name in self.streams}
        self._updates = Inbox()
        self._store = EventStore()
        self._leave_after_us = self.query.subscription.leave_after_us
        self._consumers = Consumers(self._nobody(), leave_after_us=self._leave_after_us)  # all that it hears of
        self._open = self._nobody()  # the interests that it works for
        self._leaving = np.zeros(0, np.int64)  # the keys of groups that have ended, and are still in the flow
        self._next_order = 0
        self.events_read = 0  # once for each interest that reads it
        self._passed = BEGINNING
        delivering = self.program.programs[self.query.name].context
        self._nothing = no_events(replace(delivering, operator=self.query.delivered))

    def _fresh(self) -> Flow:
        return Flow(
            self.program.programs,
            list(self._ports.values()),
            self.threads,
            failed_calls=self.failed_calls,
            memory=self.memory,
        )

    def _nobody(self) -> Active:
        stream, attribute = self.query.consumer
        nothing, nowhere = np.zeros(0, np.int64), np.zeros(0)
        (type_,) = (a.type for a in self.query.streams[stream].attributes if a.name == attribute)
        consumer = pa.array([], to_arrow(type_))
        least = np.zeros((0, 2)) if any(self.program.thresholds) else None
        return Active(Interests(consumer, nothing, nothing, nothing, nowhere, nowhere, least), nothing)

    # --- what comes

    def add(self, stream: str, batch: Batch) -> None:
        """Add events of a stream, which wait until time has passed them."""
        if stream in self.streams:
            self._events[stream].add(batch)

    def add_updates(self, batch: Batch) -> None:
        """Add events of the stream in which consumers say where they are."""
        columns = sorted(self.program.updates_read())
        batch.require(columns)
        updates = Batch(batch.times, {name: batch.columns[name] for name in columns})
        if (conditions := self.program.leaves_if) is not None:
            functions = self.program.programs[self.query.name].context.functions
            mask = updates.mask(conditions, Calls(functions=functions, errors=self.failed_calls))
            updates.columns[LEAVES] = pa.array(np.ones(len(batch), np.bool_) if mask is None else mask)
        self._updates.add(Batch(updates.times, updates.columns))

    # --- a step

    def advance(self, passed: int) -> Batch:
        """Let time pass up to `passed`; returns what is delivered then, for each consumer in spatiotemporal order."""
        if passed == self._passed:
            return self._nothing
        self._read(passed)
        switch = self._switch(passed)
        complex_events = [self._deliver(self._fresh(), piece, BEGINNING, END) for piece in self._pieces(switch.passing)]
        begun = list(self._pieces(switch.begun))
        joining = begun if self._may_join and len(begun) == 1 else []
        complex_events.append(self._deliver_together(switch, joining, passed))
        if len(switch.ending) and passed != END:
            complex_events += self._ended(switch.ending)
        for piece in begun if not joining else ():
            flow = self._fresh()
            complex_events.append(self._deliver(flow, piece, BEGINNING, passed))
            if passed != END:
                self.flow.put(flow.snapshot())
        self._open = Active.concat(switch.lasting, switch.begun)
        self._passed = passed
        self._forget(passed)
        return in_spatiotemporal_order(concat(complex_events))

    @cached_property
    def _may_join(self) -> bool:
        """Whether new interests may read their history in the flow of the others: groups of a pattern do not know of
        each other. Windows do: they close for all groups at once."""
        return all(program.context.operator.rule.kind is None for program in self.program.programs.values())

    def _deliver_together(self, switch: Switch, joining: list[Active], passed: int) -> Batch:
        """What interests find in one flow: those that were there read the events that have come since the last step,
        and those that join them read all of their history."""
        active = Active.concat(switch.ending, switch.lasting, *joining)
        is_new = are_among(active.keys, joining[0].keys) if joining else np.zeros(len(active), np.bool_)
        return self._deliver(self.flow, active, np.where(is_new, BEGINNING, self._passed), passed)

    @cached_property
    def _waits_for_time(self) -> bool:
        """Whether time alone decides some complex events, so that a group may give one without reading an event."""
        return any(program.waits_for_time for program in self.program.programs.values())

    def _ended(self, ending: Active) -> list[Batch]:
        """Let interests that have ended leave the flow; returns the complex events that the end of time decides."""
        if not self._waits_for_time:
            self._leave(ending.keys, len(self._open))
            return []
        state = self.flow.take_groups([pa.array(ending.keys)])
        if not self.query.complete:
            return []
        flow = self._fresh()
        flow.put(state)
        return [self._delivered(flow.advance(END)[self.query.name].events, ending)]

    def _leave(self, keys: I64, count: int) -> None:
        """Let groups that read nothing any more leave the flow, which has `count` groups that do.

        To remove one costs as much as to go through the state of all, so many are removed at once. Until then they
        give nothing: no event comes for them, and time alone decides nothing.
        """
        self._leaving = np.append(self._leaving, keys)
        if len(self._leaving) > LEAVING_AT_MOST * count:
            self._remove_leaving()

    def _remove_leaving(self) -> None:
        if len(self._leaving):
            self.flow.take_groups([pa.array(self._leaving)])
            self._leaving = np.zeros(0, np.int64)

    def _read(self, passed: int) -> None:
        """Put the events that time has passed into the event store."""
        for name, inbox in self._events.items():
            if (ready := inbox.before(passed)) is not None:
                self._keep(name, ready)

    def _keep(self, name: str, batch: Batch) -> None:
        """Store the events that some rule may take, in their total order, with what tests say of each."""
        stream, ties = self.streams[name], self.program.ties(name)
        batch, _ = distinct(batch, stream)
        functions = self.program.programs[self.query.name].context.functions
        calls = Calls(functions=functions, errors=self.failed_calls)
        masks = {conditions: batch.mask(conditions, calls) for conditions in self._tests[name]}
        if () not in masks:
            batch = batch.take(np.logical_or.reduce([mask for mask in masks.values() if mask is not None]))
        batch = batch.take(in_total_order(batch, ties))
        wanted = sorted(self.program.columns_read(name, self._tests[name]))
        batch.require(wanted)
        columns = {column: batch.columns[column] for column in wanted}
        columns |= {spelt(c): pa.array(batch.masks[c]) for c in self._tests[name] if c}
        columns[ORDER] = pa.array(np.arange(self._next_order, self._next_order + len(batch)))
        self._next_order += len(batch)
        x, y = (reals(batch.columns[place]) for place in place_of(stream))
        self._store.add(name, Batch(batch.times, columns), x, y)

    def _switch(self, passed: int) -> Switch:
        """The interests that location updates before `passed` begin, and those that they end."""
        nobody = self._nobody()
        before = self._consumers.last.interests
        updates, leaves = self._updates_before(passed)
        condition = self.query.subscription.update or BASIC
        changes = self._consumers.changes(
            updates, leaves, condition, lambda heard: self._interests(heard, passed), passed
        )
        if changes is None:
            return Switch(nobody, nobody, nobody, self._open)
        ended = are_among(self._open.keys, changes.ended.keys)
        ending = changes.ended.take(are_among(changes.ended.keys, self._open.keys))
        begun = Active.concat(changes.passing, changes.begun)
        here = begun.keys[self._are_here(begun.interests, before)]
        passing, beginning = (new.take(are_among(new.keys, here)) for new in (changes.passing, changes.begun))
        return Switch(ending, passing, beginning, self._open.take(~ended))

    def _updates_before(self, passed: int) -> tuple[Updates, npt.NDArray[np.bool_]]:
        """The location updates that time has passed, and with which of them consumers leave."""
        ready = self._updates.before(passed)
        if ready is None:
            return self._nobody().interests.updates(), np.zeros(0, np.bool_)
        x, y = (reals(ready.columns[place]) for place in place_of(self.query.focal))
        consumer = ready.columns[self.query.consumer[1]].cast(self._consumers.last.interests.consumer.type)
        leaves = np.zeros(len(ready), np.bool_)
        if LEAVES in ready.columns:
            leaves = ready.columns[LEAVES].to_numpy(zero_copy_only=False)
        least = None
        if any(self.program.thresholds):
            asked = (np.ones(len(ready)) if name is None else reals(ready.columns[name])
                     for name in self.program.thresholds)  # fmt: skip
            least = np.stack(list(asked), axis=1)
            least[~((least >= 0) & (least <= 1))] = 1.0
        return Updates(consumer, ready.times, x, y, least), leaves

    def _are_here(self, begun: Interests, before: Interests) -> np.ndarray:
        """Which interests that begin now are worked for here, beside those of all consumers before."""
        return np.ones(len(begun), np.bool_)

    def _interests(self, updates: Updates, passed: int) -> Interests:
        """The interests of updates, by the subscription's update condition, on events before `passed`."""
        update, quality = self.query.subscription.update or BASIC, self.query.subscription.quality
        if update.when != "quality":
            return interests_of(updates, update, self._shape.degrees)
        assert quality is not None, "resolved: it says how good is good enough"
        stored = [self._store.located(name, BEGINNING, passed - 1) for name in self.streams]
        events = [(of_stream.batch.times, of_stream.x, of_stream.y) for of_stream in stored]
        least = float(quality.precision or 0.0), float(quality.recall or 0.0)
        shape = self._shape
        return quality_interests(
            updates, events, shape.half_x, shape.half_y, shape.is_round, self._recent_us, *least, shape.degrees
        )

    @property
    def _recent_us(self) -> int:
        """How long events are recent, on which quality is judged: as far as the subscription looks back, and 10 s at
        least."""
        return max(self.query.lifetime_us + max(self.query.before_us.values()), RECENT_US)

    def _regions(self, name: str, active: Active, since_us: int | I64) -> Regions:
        """The regions of space and time in which interests read events of a stream, from `since_us` on."""
        interests = active.interests
        begin = interests.start_us - self.query.lifetime_us - self.query.before_us[name]
        return Regions(np.maximum(begin, since_us), interests.end_us, interests.x, interests.y)

    def _pieces(self, active: Active) -> Iterator[Active]:
        """Cut interests into pieces, each of which reads its history at once: about PAIRS_AT_ONCE pairs."""
        if not len(active):
            return
        if len(active) * sum(map(self._store.size, self.streams)) <= PAIRS_AT_ONCE:
            yield active  # if each of them reads all that there is
            return
        counts = np.zeros(len(active), np.int64)
        for name in self.streams:
            counts += self._store.counts(name, self._regions(name, active, BEGINNING), self._shape)
        piece = (np.cumsum(counts) - counts) // PAIRS_AT_ONCE
        for rows in np.split(np.arange(len(active)), np.flatnonzero(np.diff(piece)) + 1):
            yield active.take(rows)

    def _run(self, flow: Flow, active: Active, since_us: int | I64, before: int) -> Batch:
        """Let interests read the events that they have not read yet; returns all complex events that they find."""
        for name, port in self._ports.items():
            for batch in self._events_of(name, active, since_us):
                flow.add(port, batch)
        return flow.advance(before)[self.query.name].events

    def _events_of(self, name: str, active: Active, since_us: int | I64) -> Iterator[Batch]:
        """The events of a stream from `since_us` on, once for each interest that reads them."""
        for stored, events, interests in self._store.pairs(name, self._regions(name, active, since_us), self._shape):
            self.events_read += len(events)
            yield self._for_readers(name, stored, events, active.keys[interests])

    def _for_readers(self, name: str, stored: StoredEvents, events: I64, keys: I64) -> Batch:
        """Stored events, each with the key of the interest that reads it, and with what tests say of it."""
        batch = stored.batch.view(events)
        batch.columns[INTEREST] = pa.array(keys)
        for conditions in filter(None, self._tests[name]):
            batch.masks[conditions] = batch.column(spelt(conditions)).to_numpy(zero_copy_only=False)
        return batch

    def _deliver(self, flow: Flow, active: Active, since_us: int | I64, before: int) -> Batch:
        """Let interests read the events that they have not read yet; returns the complex events that are delivered."""
        return self._delivered(self._run(flow, active, since_us, before), active)

    def _delivered(self, complex_events: Batch, active: Active) -> Batch:
        """The complex events that are delivered: their time lies between the start of their interest, less the
        lifetime, and its end."""
        row = np.searchsorted(active.keys, complex_events.columns[INTEREST].to_numpy())
        interests = active.interests
        since = interests.start_us[row] - self.query.lifetime_us
        wanted = np.flatnonzero((complex_events.times >= since) & (complex_events.times <= interests.end_us[row]))
        batch, row = complex_events.take(wanted), row[wanted]
        values = interests.consumer.take(pa.array(row)), pa.array(interests.number[row])
        return Batch(batch.times, batch.columns | dict(zip(DELIVERED, values, strict=True)))

    def _forget(self, passed: int) -> None:
        """Evict the events that no interest can ask for any more, since none begins before `passed` from now on."""
        if passed == END:
            return
        for name, before_us in evict_before(self._asking(passed)).items():
            self._store.evict(name, before_us)

    def _asking(self, passed: int) -> list[Asking]:
        """What can still be asked for."""
        asking = [Asking(passed, self.query.lifetime_us, self.query.before_us)]
        update = self.query.subscription.update
        if update is not None and update.when == "quality":
            asking.append(Asking(passed, 0, dict.fromkeys(self.streams, self._recent_us)))
        return asking

    # --- snapshots

    def snapshot(self) -> dict[str, pa.Table]:
        """The state as tables."""
        self._remove_leaving()
        tables = {f"flow/{name}": table for name, table in self.flow.snapshot().items()}
        tables |= {f"store/{name}": table for name, table in self._store.tables().items()}
        tables |= {f"events/{name}": inbox.table() for name, inbox in self._events.items() if inbox.waiting}
        if self._updates.waiting:
            tables["updates"] = self._updates.table()
        last, keys = self._consumers.last.interests, self._consumers.last.keys
        numbers = {"key": keys, "number": last.number, "start_us": last.start_us, "x": last.x, "y": last.y,
                   "heard_us": self._consumers.heard_us}  # fmt: skip
        if last.least is not None:
            numbers |= {"precision": last.least[:, 0], "recall": last.least[:, 1]}
        columns = {"consumer": last.consumer, "here": pa.array(are_among(keys, self._open.keys))}
        tables["known"] = pa.table(columns | {name: pa.array(values) for name, values in numbers.items()})
        so_far = pa.table({name: [value] for name, value in zip(_SO_FAR, self._so_far(), strict=True)})
        tables["so far"] = with_digest(so_far, self.program.digest)
        return tables

    def _so_far(self) -> tuple[int, int, int]:
        return self._passed, self._consumers.next_key, self._next_order

    def restore(self, tables: Mapping[str, pa.Table], afresh: bool = False) -> None:
        """Go on from a snapshot. `afresh`: if it is of another program, begin anew instead of refusing it."""
        if digest_of(tables["so far"]) != self.program.digest:
            if afresh:
                return
            raise StateError(
                f"the snapshot's state of {self.query.name} is of another program",
                remedy=f"Let it start afresh: changed=['{self.query.name}']. Or use the query of the snapshot.",
            )
        so_far = [numbers(tables["so far"].column(name), np.int64, "counts") for name in _SO_FAR]
        require(all(len(values) == 1 for values in so_far), "time has come to several places")
        passed, next_key, next_order = (int(values[0]) for values in so_far)
        require_times(so_far[0], "times")
        require_between(np.concatenate(so_far[1:]), 0, FARTHEST, "counts of interests and events")
        last, here = self._last_of(tables["known"], passed, next_key)
        of_flow, stored = under("flow/", tables), under("store/", tables)
        _require_interests(of_flow, self._keys_at_work(tables, last.keys[here]))
        for name, table in stored.items():
            self._require_stored(name, table)
        self.flow.restore(of_flow)
        self._store = EventStore.from_tables(stored)
        for name, table in under("events/", tables).items():
            self._events[name].put(table, _types_of(self.streams[name]), self._tests[name])
        if "updates" in tables:
            self._updates.put(tables["updates"], _types_of(self.query.focal) | {LEAVES: pa.bool_()})
            if LEAVES in tables["updates"].column_names:
                require_columns({LEAVES: tables["updates"].column(LEAVES)}, {LEAVES: pa.bool_()}, whole=True)
        heard_us = numbers(tables["known"].column("heard_us"), np.int64, "times of consumers")
        require_between(heard_us, 1 - FARTHEST, passed, "times of consumers")
        self._consumers = Consumers(last, next_key, heard_us, self._leave_after_us)
        self._open = last.take(here)
        self._passed, self._next_order = passed, next_order

    def _last_of(self, table: pa.Table, passed: int, next_key: int) -> tuple[Active, np.ndarray]:
        """The open interests of all consumers, one for each, and which of them are worked for here."""
        nobody = self._nobody().interests
        columns = {name: one_chunk(table.column(name)) for name in table.column_names}
        require_columns(columns, {"consumer": nobody.consumer.type, "here": pa.bool_()}, whole=True)
        require(len(columns["consumer"].unique()) == len(columns["consumer"]), "a consumer has two interests")
        key, number, start = (numbers(columns[name], np.int64, "interests") for name in ("key", "number", "start_us"))
        x, y = places_of(columns)
        require_between(key, 0, next_key, "numbers of interests")
        require_sorted(key, "numbers of interests", strictly=True)
        require_between(number, 1, FARTHEST, "numbers of interests")
        require_between(start, 1 - FARTHEST, passed, "times of interests")
        ends = np.full(len(key), END)
        least = None
        if nobody.least is not None:
            asked = [numbers(columns[name], np.float64, "thresholds") for name in ("precision", "recall")]
            least = np.stack(asked, axis=1)
            require(((least >= 0) & (least <= 1)).all(), "thresholds are none")
        last = Active(Interests(columns["consumer"], number, start, ends, x, y, least), key)
        return last, columns["here"].to_numpy(zero_copy_only=False)

    def _keys_at_work(self, tables: Mapping[str, pa.Table], keys: I64) -> I64:
        """The keys that groups of the flow may have, if these are the interests that are worked for here."""
        return keys

    def _require_stored(self, name: str, table: pa.Table) -> None:
        """StateError, unless stored events have the columns that `_keep` gives them."""
        columns = {column: one_chunk(table.column(column)) for column in table.column_names}
        read = self.program.columns_read(name, self._tests[name])
        tests = [spelt(conditions) for conditions in self._tests[name] if conditions]
        require({*columns} == {*read, *tests, ORDER, *PLACED}, f"stored events of {name} have other columns")
        require_columns(columns, {test: pa.bool_() for test in tests} | {ORDER: pa.int64()}, whole=True)
        types = {n: type_ for n, type_ in (_types_of(self.streams[name]) | CARRIED).items() if n in columns}
        require_columns(columns, types)
        if ORIGINS in columns:
            require_columns(columns, {ORIGINS: ORIGIN_LIST}, whole=True)


def _require_interests(tables: Mapping[str, pa.Table], keys: I64) -> None:
    """StateError, unless all state is that of some interests: what others find, nobody could be given."""
    for name, table in tables.items():
        # INTEREST is the first group key of every rule, and an attribute of every event.
        named = [column for column in ("key 0", f"group.{INTEREST}", INTEREST) if column in table.column_names]
        for column in named[:1]:
            mine = pc.all(pc.is_in(table.column(column), pa.array(keys)), min_count=0)
            require(mine.as_py(), f"{name} has state of interests that are not there")


def places_of(columns: Mapping[str, pa.Array]) -> tuple[F64, F64]:
    """Where interests or regions of a snapshot are; StateError if one is nowhere."""
    x, y = (numbers(columns[name], np.float64, "places") for name in ("x", "y"))
    require((np.isfinite(x) & np.isfinite(y)).all(), "places are none")
    return x, y


def _types_of(stream: Stream) -> dict[str, pa.DataType]:
    return {attribute.name: to_arrow(attribute.type) for attribute in stream.attributes}


def spelt(conditions: Conditions) -> str:
    return _TEST + " and ".join(map(unparse_expression, conditions))


def under(prefix: str, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The tables whose names begin so, under the rest of their names."""
    return {name[len(prefix) :]: table for name, table in tables.items() if name.startswith(prefix)}
