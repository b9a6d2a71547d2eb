"""A moving subscription whose interests share what is found, at the quality that it asks for (RECEP).

What is processed is a region, and not an interest: it begins with one interest, and goes on for as long as others are
served well enough by it. So consumers who follow each other along a road share a few regions, however many they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.memory import MemoryBudget
from situ.core.time import BEGINNING, END
from situ.core.types import to_arrow
from situ.flow.active import Active, in_spatiotemporal_order
from situ.flow.flow import Flow
from situ.flow.inbox import Inbox
from situ.flow.moving import MovingFlow, places_of
from situ.kernel.arrays import F64, I64
from situ.kernel.batch import Batch, concat
from situ.kernel.matching.machine import jit
from situ.kernel.state.checks import (
    FARTHEST,
    numbers,
    require,
    require_between,
    require_columns,
    require_event_times,
    require_sorted,
)
from situ.mobility.interests import Interests
from situ.mobility.moving_program import MovingProgram
from situ.mobility.moving_query import DELIVERED, INTEREST, QUALITY
from situ.reuse.deal import UNDIVIDED, Shards, deal
from situ.reuse.regions import beginning, share
from situ.reuse.totals import Totals
from situ.space.pairs import Regions


@dataclass(frozen=True, slots=True)
class Served:
    """Interests with the keys of the regions that are processed on their behalf, and how well these fit."""

    active: Active
    regions: I64
    precision: F64
    recall: F64

    def __len__(self) -> int:
        return len(self.regions)

    def take(self, rows: np.ndarray) -> Served:
        return Served(self.active.take(rows), self.regions[rows], self.precision[rows], self.recall[rows])

    def still(self, active: Active) -> Served:
        """The same interests, with the ends that they have now."""
        rows = np.searchsorted(self.active.keys, active.keys)
        return Served(active, self.regions[rows], self.precision[rows], self.recall[rows])

    def and_(self, more: Served) -> Served:
        order = np.argsort(np.concatenate([self.active.keys, more.active.keys]))
        regions = np.concatenate([self.regions, more.regions])[order]
        precision, recall = np.append(self.precision, more.precision), np.append(self.recall, more.recall)
        return Served(Active.concat(self.active, more.active), regions, precision[order], recall[order])


@dataclass
class ReusingFlow(MovingFlow):
    """Runs a moving subscription, and lets interests share regions. Regions take the place of interests in the flow of
    operators; `_served` says by which region each open interest is served.

    Of several that divide the work, each hears of all consumers and works for the interests of its `shards`.
    """

    shards: Shards = UNDIVIDED

    def __post_init__(self) -> None:
        super().__post_init__()
        quality = self.query.subscription.quality
        assert quality is not None, "it reuses"
        self._least = quality.precision or 0.0, quality.recall or 0.0
        self._regions_open = self._nobody()
        self._served = Served(self._open, np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
        self._next_region = 0
        self._complex_events = Inbox()  # what open regions have found, for interests to come
        self._going = beginning()
        self.totals = Totals()

    @property
    def _longest_us(self) -> int:
        """How far back before its start an interest looks."""
        return self.query.lifetime_us + max(self.query.before_us.values())

    def _are_here(self, begun: Interests, before: Interests) -> np.ndarray:
        """Which interests that begin now are worked for here: they are dealt out together with those of all consumers
        before, which says what is near to what."""
        if self.shards.count == 1:
            return np.isin(np.zeros(len(begun)), self.shards.here)
        every = Interests.concat([begun, before])
        order = np.lexsort((every.start_us, pc.rank(every.consumer, tiebreaker="dense").to_numpy()))
        shard = np.empty(len(every), np.int64)
        shard[order] = deal(every.x[order], every.y[order], self.shards.count, self._shape.degrees)
        return np.isin(shard[: len(begun)], self.shards.here)

    def advance(self, passed: int) -> Batch:
        """Let time pass up to `passed`; returns what is delivered then, for each consumer in spatiotemporal order."""
        if passed == self._passed:
            return self._nothing
        self._read(passed)
        switch = self._switch(passed)
        complex_events = self._process(self.flow, self._regions_open, self._passed, passed)
        served = self._served.still(Active.concat(switch.ending, switch.lasting))
        delivered = [self._to(served, complex_events)]
        new = _by_start(Active.concat(switch.passing, switch.begun))
        if len(new):
            more, regions = self._shared(new)
            complex_events = concat([*self._complex_events.waiting, complex_events, *self._begun(regions, passed)])
            self._complex_events.waiting.clear()
            delivered.append(self._to(more, complex_events))
            served = served.and_(more)
        self._complex_events.add(complex_events)
        self._end(served, passed)
        self.totals = replace(self.totals, events_read=self.events_read)
        self._passed = passed
        self._forget(passed)
        return in_spatiotemporal_order(concat(delivered))

    def _shared(self, new: Active) -> tuple[Served, Active]:
        """Find the regions that serve new interests, which are sorted by their start; returns these interests as they
        are served, and the regions that are new."""
        interests, open_regions = new.interests, self._regions_open.interests
        asked = Regions(interests.start_us - self._longest_us, interests.end_us, interests.x, interests.y)
        events = self._store.placed(self.streams, int(asked.since_us.min()), self._shape)
        shared = share(
            events,
            open_regions.x,
            open_regions.y,
            open_regions.start_us - self._longest_us,
            asked,
            *self._least,
            self._going,
        )
        own = shared.by - len(open_regions)  # the interest whose region it is; none, if it was there before
        run, first, until = np.full(len(new), -1, np.int64), np.empty(len(new), np.int64), np.empty(len(new), np.int64)
        count = _runs(own, asked.since_us, asked.until_us, run, first, until, np.full(len(new), -1, np.int64))
        first, until = first[:count], until[:count]
        keys = self._next_region + np.arange(count)
        self._next_region += count
        places = own[first]
        regions = Interests(
            pa.nulls(count, interests.consumer.type), np.zeros(count, np.int64), interests.start_us[first], until,
            interests.x[places], interests.y[places],
        )  # fmt: skip
        region_of = np.where(own < 0, np.append(self._regions_open.keys, 0)[np.minimum(shared.by, len(open_regions))],
                      np.append(keys, 0)[run])  # fmt: skip
        covered = int(np.count_nonzero(shared.by != len(open_regions) + np.arange(len(new))))
        self.totals += Totals(
            interests=len(new), covered=covered, regions=count, events_asked=int(shared.sizes.sum()),
            tried=shared.tried, untried=shared.untried, precision=float(shared.precision.sum()),
            recall=float(shared.recall.sum()),
        )  # fmt: skip
        return Served(new, region_of, shared.precision, shared.recall), Active(regions, keys)

    def _begun(self, regions: Active, passed: int) -> Iterator[Batch]:
        """The complex events that new regions find. Regions that have not ended join the open ones."""
        over = regions.interests.end_us != END
        for piece in self._pieces(regions.take(over)):
            yield self._process(self._fresh(), piece, BEGINNING, END)
        for piece in self._pieces(regions.take(~over)):
            flow = self._fresh()
            yield self._process(flow, piece, BEGINNING, passed)
            if passed != END:
                self.flow.put(flow.snapshot())
        self._regions_open = Active.concat(self._regions_open, regions.take(~over))

    def _process(self, flow: Flow, regions: Active, since_us: int, before: int) -> Batch:
        """The complex events that regions find, without those that may lack events from before the region began."""
        complex_events = self._run(flow, regions, since_us, before)
        rows = np.searchsorted(regions.keys, complex_events.columns[INTEREST].to_numpy())
        return complex_events.take(complex_events.times >= regions.interests.start_us[rows] - self.query.lifetime_us)

    def _to(self, served: Served, complex_events: Batch) -> Batch:
        """The complex events of regions, for each interest that they serve: those of the time that it asks for."""
        keys = complex_events.columns[INTEREST].to_numpy()
        order = np.lexsort((complex_events.times, keys))
        interests = served.active.interests
        since = interests.start_us - self.query.lifetime_us
        first, last = np.empty(len(served), np.int64), np.empty(len(served), np.int64)
        _slices(keys[order], complex_events.times[order], served.regions, since, interests.end_us, first, last)
        whose = np.repeat(np.arange(len(served)), last - first)
        into = np.arange(len(whose)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
        batch = complex_events.take(order[first[whose] + into])
        batch.columns.pop(INTEREST)
        values = interests.consumer.take(pa.array(whose)), pa.array(interests.number[whose])
        fits = pa.array(served.precision[whose]), pa.array(served.recall[whose])
        own = dict(zip((*DELIVERED, *QUALITY), (*values, *fits), strict=True))
        return Batch(batch.times, batch.columns | own)

    def _end(self, served: Served, passed: int) -> None:
        """Forget interests that have ended, and regions that serve no one any more."""
        self._served = served.take(served.active.interests.end_us == END)
        self._open = self._served.active
        if passed == END:
            return
        used = np.isin(self._regions_open.keys, self._served.regions)
        if not used.all():
            unused = self._regions_open.keys[~used]
            self._regions_open = self._regions_open.take(used)
            if self._waits_for_time:
                self.flow.take_groups([pa.array(unused)])
            else:
                self._leave(unused, len(self._regions_open))
        self._complex_events.before(passed - self.query.lifetime_us)
        kept = [batch.take(np.isin(batch.columns[INTEREST].to_numpy(), self._regions_open.keys))
                for batch in self._complex_events.waiting]  # fmt: skip
        self._complex_events.waiting = [batch for batch in kept if len(batch)]

    # --- snapshots

    def snapshot(self) -> dict[str, pa.Table]:
        """The state as tables."""
        tables = super().snapshot()
        open_regions, served = self._regions_open, self._served
        regions = {
            "key": open_regions.keys,
            "start_us": open_regions.interests.start_us,
            "x": open_regions.interests.x,
            "y": open_regions.interests.y,
        }
        fits = {"region": served.regions, "precision": served.precision, "recall": served.recall}
        tables["regions"] = pa.table({name: pa.array(values) for name, values in regions.items()})
        tables["served"] = pa.table({name: pa.array(values) for name, values in fits.items()})
        tables["next region"] = pa.table({"key": [self._next_region]})
        tables["going"] = pa.table({"count": self._going})
        if self._complex_events.waiting:
            tables["found"] = self._complex_events.table()
        return tables

    def restore(self, tables: Mapping[str, pa.Table], afresh: bool = False) -> None:
        """Go on from a snapshot. `afresh`: if it is of another program, begin anew instead of refusing it."""
        super().restore(tables, afresh)
        if self._passed == BEGINNING:
            return
        keys = self._keys_at_work(tables, self._open.keys)
        start = numbers(tables["regions"].column("start_us"), np.int64, "times of regions")
        require_event_times(start)
        x, y = places_of({name: tables["regions"].column(name) for name in ("x", "y")})
        consumer = pa.nulls(len(keys), self._open.interests.consumer.type)
        ends = np.full(len(keys), END)
        regions = Interests(consumer, np.zeros(len(keys), np.int64), start, ends, x, y)
        next_region = numbers(tables["next region"].column("key"), np.int64, "numbers of regions")
        require(len(next_region) == 1, "numbers of regions are several")
        require_between(next_region, 0, FARTHEST, "numbers of regions")
        require_between(keys, 0, int(next_region[0]), "numbers of regions")
        going = numbers(tables["going"].column("count"), np.int64, "counts")
        require(len(going) == len(self._going), "counts are others")
        require_between(going, 0, FARTHEST, "counts")
        self._served = self._served_of(tables["served"], keys)
        self._regions_open = Active(regions, keys)
        self._next_region, self._going = int(next_region[0]), going
        if "found" in tables:
            schema = self.program.programs[self.query.name].context.operator.schema
            require_columns({INTEREST: tables["found"].column(INTEREST)}, {INTEREST: pa.int64()}, whole=True)
            self._complex_events.put(tables["found"], {name: to_arrow(type_) for name, type_ in schema.attributes})

    def _keys_at_work(self, tables: Mapping[str, pa.Table], keys: I64) -> I64:
        regions = numbers(tables["regions"].column("key"), np.int64, "numbers of regions")
        require_sorted(regions, "numbers of regions", strictly=True)
        return regions

    def _served_of(self, table: pa.Table, regions: I64) -> Served:
        """By which regions the open interests are served."""
        region = numbers(table.column("region"), np.int64, "numbers of regions")
        precision, recall = (numbers(table.column(name), np.float64, "qualities") for name in ("precision", "recall"))
        require(len(region) == len(self._open) and np.isin(region, regions).all(), "interests are served by no region")
        require(((precision >= 0) & (precision <= 1) & (recall >= 0) & (recall <= 1)).all(), "qualities are none")
        return Served(self._open, region, precision, recall)


def _by_start(new: Active) -> Active:
    return new.take(np.lexsort((new.keys, new.interests.start_us)))


@jit
def _runs(own: I64, since: I64, until: I64, run: I64, first: I64, last: I64, current: I64) -> int:
    """Interests of one region that follow each other without a gap are one run of it: by interest its run, and of each
    run the first interest and the end. Interests come by their start."""
    count = 0
    for k in range(len(own)):
        region = own[k]
        if region < 0:
            continue
        at = current[region]
        if at < 0 or since[k] > last[at]:
            at = count
            current[region], first[at], last[at] = at, k, until[k]
            count += 1
        run[k] = at
        last[at] = max(last[at], until[k])
    return count


@jit
def _slices(keys: I64, times: I64, regions: I64, since: I64, until: I64, first: I64, last: I64) -> None:
    """Where in rows that are by key and time those of a region are that have a time from `since` to `until`."""
    for k in range(len(regions)):
        first[k] = _before(keys, times, regions[k], since[k], False)
        last[k] = max(first[k], _before(keys, times, regions[k], until[k], True))


@jit
def _before(keys: I64, times: I64, key: int, time: int, included: bool) -> int:
    """How many rows come before a time of a key, or up to it."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        earlier = times[middle] < time or (included and times[middle] == time)
        if keys[middle] < key or (keys[middle] == key and earlier):
            low = middle + 1
        else:
            high = middle
    return low


def moving_flow(
    program: MovingProgram, memory: MemoryBudget, threads: int = 1, shards: Shards = UNDIVIDED
) -> MovingFlow:
    """The flow that runs a moving subscription, or some shards of one."""
    if program.query.reuses:
        return ReusingFlow(program, memory, threads, shards=shards)
    return MovingFlow(program, memory, threads)
