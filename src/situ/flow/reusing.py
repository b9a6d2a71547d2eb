"""A moving subscription whose interests share what is found, at the quality that it asks for (RECEP).

What is processed is a region, and not an interest: it begins with one interest, and goes on for as long as it serves
one well enough. So consumers who follow each other along a road share a few regions, however many they are. Which
regions serve whom is decided before anything is processed, on the places of events alone (reuse/regions.py). A complex
event belongs to the span that its first event opens, or to its window; it waits until spans of its time have closed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.memory import MemoryBudget
from situ.core.time import BEGINNING, END
from situ.core.types import to_arrow
from situ.flow.active import Active, Switch, in_spatiotemporal_order
from situ.flow.inbox import Inbox
from situ.flow.moving import MovingFlow, spelt
from situ.flow.serving import Services, ServingRegions, slices, tally_of, to_table, whole_numbers
from situ.kernel.arrays import F64, I64
from situ.kernel.batch import Batch, concat
from situ.kernel.matching.order import are_among
from situ.kernel.operator import Conditions
from situ.kernel.program.pattern_program import PatternProgram
from situ.kernel.state.checks import (
    FARTHEST,
    require,
    require_between,
    require_columns,
    require_event_times,
    require_sorted,
)
from situ.mobility.interests import Interests
from situ.mobility.moving_program import MovingProgram
from situ.mobility.moving_query import BEGIN, DELIVERED, FOUND_IN, INTEREST, QUALITY
from situ.reuse import regions as decided
from situ.reuse.regions import Asked, Decisions, Serving, SpanRule, decide
from situ.reuse.tallies import JudgedGrid, Places, SpanEvents, Tally
from situ.reuse.tiles import UNDIVIDED, Shards, shards_of, tiles_of
from situ.reuse.totals import Totals
from situ.space.event_store import Asking, StoredEvents
from situ.space.pairs import Regions

#: Long before every event.
_LONG_AGO = -FARTHEST


@dataclass
class ReusingFlow(MovingFlow):
    """Runs a moving subscription, and lets interests share regions. Regions take the place of interests in the flow of
    operators; `_services` says by which regions each open interest is served.

    Of several that divide the work, each hears of all consumers and works for the tiles of its `shards`.
    """

    shards: Shards = UNDIVIDED

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.query.spans is not None, "it reuses"
        self._spans = self.query.spans
        self._rule = SpanRule(self._spans.length_us, self._spans.every_us or 0)
        self._opening = self._conditions_that_open()
        self._regions_open = ServingRegions(self._nobody(), np.zeros(0, np.int64))
        self._regions_closed = self._regions_open  # of which somebody has not got everything yet
        self._next_region = 0
        self._services = Services.none()
        self._delivered_us = np.zeros(0, np.int64)  # by open interest, up to when it has got what there is
        self._tally, self._tally_of = Tally.empty(0), np.zeros(0, np.int64)  # of covered interests, by their keys
        self._judged = SpanEvents.none()
        self._tiles, self._accounts = np.zeros(0, np.int64), np.zeros((0, 4), np.int64)
        self._complex_events = Inbox()  # what regions have found, and somebody may still get
        self.totals = Totals()

    @property
    def _reach_us(self) -> int:
        """How long before its start an interest reads events."""
        return self.query.lifetime_us + self._spans.length_us + (self._spans.every_us is not None)

    def _conditions_that_open(self) -> dict[str, set[Conditions]]:
        """By stream, what the first step of the correlating rule asks of an event that opens a span."""
        program = self.program.programs[self._spans.step]
        opening: dict[str, set[Conditions]] = {name: set() for name in self.streams}
        if isinstance(program, PatternProgram):
            for case in program.cases:
                for start in case.program.automaton.starts:
                    test = case.program.conditions.tests[case.program.code.state_test[start.state]]
                    opening[test.event_type].add(test.conditions)
        return opening

    def _are_here(self, begun: Interests, before: Interests) -> np.ndarray:
        """Which interests that begin now are worked for here: those of the tiles of its shards."""
        tiles = tiles_of(begun.x, begun.y, self._shape)
        return np.isin(shards_of(tiles, self.shards.count), self.shards.here)

    # --- a step

    def advance(self, passed: int) -> Batch:
        """Let time pass up to `passed`; returns what is delivered then, for each consumer in spatiotemporal order."""
        if passed == self._passed:
            return self._nothing
        self._read(passed)
        switch = self._switch(passed)
        active = Active.concat(switch.ending, switch.lasting, switch.passing, switch.begun)
        grid = self._judged.in_grid(self._shape)
        regions_x = np.append(self._regions_open.active.interests.x, active.interests.x)
        regions_y = np.append(self._regions_open.active.interests.y, active.interests.y)
        places = grid.places(regions_x, regions_y)
        regions, services = self._decide(active, grid, places, passed)
        complex_events = concat([*self._complex_events.waiting, *self._found(regions, passed)])
        self._complex_events.waiting = [complex_events] if len(complex_events) else []
        regions = self._regions_closed.and_(regions)
        until_us = self._due_until(active, regions, services, passed)
        delivered = self._nothing
        if len(complex_events):
            delivered = self._to_interests(active, regions, services, until_us, grid, complex_events)
        self._end(active, regions, services, until_us, passed)
        self._count(switch, active, grid, passed)
        self._passed = passed
        self._forget(passed)
        return delivered

    def _read(self, passed: int) -> None:
        """Put the events that time has passed into the event store, and let spans be judged by them."""
        super()._read(passed)
        self._judged = SpanEvents.by_time([self._judged, self._stored_since(self._passed)])

    def _stored_since(self, since_us: int) -> SpanEvents:
        """Where the stored events of all streams are that some step takes, from a time on, and which of them open
        spans."""
        parts = []
        for name in self.streams:
            stored = self._store.located(name, since_us, END)
            opens = _fulfil(stored, self._opening[name])
            events = SpanEvents(stored.batch.times, stored.x, stored.y, opens)
            taken = self.program.taken(name)
            parts.append(events if () in taken else events.take(_fulfil(stored, taken)))
        return SpanEvents.by_time(parts)

    # --- who is served by which region

    def _decide(self, active: Active, grid: JudgedGrid, places: Places, passed: int) -> tuple[ServingRegions, Services]:
        """Decide which regions serve which interests up to `passed`; returns all regions of this step, with their ends,
        and all services that may still deliver something."""
        interests, before = active.interests, self._regions_open
        known_us = passed - 1
        is_current = self._services.until_us == END
        current = self._services.take(is_current)
        region_of = np.full(len(active), -1, np.int64)
        rows = np.searchsorted(active.keys, current.interests)
        region_of[rows] = np.searchsorted(before.keys, current.regions)
        is_covered = np.zeros(len(active), np.bool_)
        is_covered[rows] = before.owners[region_of[rows]] != current.interests
        self._extend_tally(active, grid, places, region_of, np.flatnonzero(is_covered), known_us)
        first = np.searchsorted(self._tally_of, active.keys)
        end = np.searchsorted(self._tally_of, active.keys, side="right")
        serving = Serving(region_of, is_covered, first, end, self._tally)
        start_us, tiles = interests.start_us, tiles_of(interests.x, interests.y, self._shape)
        tiles_of_regions = tiles_of(before.active.interests.x, before.active.interests.y, self._shape)
        self._add_tiles(np.concatenate([tiles, tiles_of_regions]))
        turn = pc.rank(interests.consumer, tiebreaker="dense").to_numpy().astype(np.int64)
        precision, recall = self._least(interests)
        asked = Asked(
            start_us, interests.end_us, start_us - self._reach_us, turn, np.searchsorted(self._tiles, tiles), precision,
            recall,
        )  # fmt: skip
        regions = np.zeros((len(before), 8), np.int64)
        regions[:, decided.PLACE], regions[:, decided.SINCE] = np.arange(len(before)), before.active.interests.start_us
        regions[:, decided.TILE], regions[:, decided.CLOSED] = np.searchsorted(self._tiles, tiles_of_regions), END
        regions[:, decided.SERVES] = np.bincount(region_of[rows], minlength=len(before))
        services = np.stack([rows, region_of[rows], current.since_us, current.until_us], axis=1)
        judged_us = _LONG_AGO if self._passed == BEGINNING else self._passed - 1
        decisions = decide(
            grid, places, regions, asked, serving, services, self._accounts, self._rule, self._reach_us, judged_us,
            known_us,
        )  # fmt: skip
        self._enter(decisions, region_of)
        regions_now = self._regions_of(decisions, active)
        made = decisions.services
        served = Services(
            active.keys[made[:, decided.INTEREST]], regions_now.keys[made[:, decided.REGION]],
            made[:, decided.FROM], made[:, decided.UNTIL],
        )  # fmt: skip
        is_new = np.concatenate([np.zeros(len(current), np.bool_), np.ones(len(made) - len(current), np.bool_)])
        self._tally_anew(active, regions_now, served.take(is_new), made[is_new], grid, places, decisions, known_us)
        return regions_now, self._services.take(~is_current).and_(served)

    def _extend_tally(
        self, active: Active, grid: JudgedGrid, places: Places, region_of: I64, covered: I64, known_us: int
    ) -> None:
        """Add the events that have come since the last step to the tallies of interests that are covered."""
        since_us = np.full(len(covered), self._passed)
        until_us = np.minimum(active.interests.end_us[covered], known_us)
        pair, rows = grid.tally(places, region_of[covered], len(self._regions_open) + covered, since_us, until_us)
        self._add_to_tally(active.keys[covered][pair], rows)

    def _add_to_tally(self, keys: I64, rows: Tally) -> None:
        keys = np.concatenate([self._tally_of, keys])
        order = np.argsort(keys, kind="stable")
        self._tally, self._tally_of = self._tally.and_(rows).take(order), keys[order]

    def _tally_anew(
        self, active: Active, regions: ServingRegions, new: Services, made: I64, grid: JudgedGrid, places: Places,
        decisions: Decisions, known_us: int,
    ) -> None:  # fmt: skip
        """Leave out of the tallies what no span needs any more, and begin those of interests that another one's region
        serves from now on."""
        since_us = known_us - self._rule.length_us + 1
        open_keys = active.keys[active.interests.end_us == END]
        stays = are_among(self._tally_of, open_keys) & ~are_among(self._tally_of, np.sort(new.interests))
        stays &= self._tally.time_us >= since_us
        self._tally, self._tally_of = self._tally.take(stays), self._tally_of[stays]
        is_needed = are_among(new.interests, open_keys) & (new.until_us == END)
        is_needed &= regions.owners[np.searchsorted(regions.keys, new.regions)] != new.interests
        if known_us == END - 1 or not is_needed.any():
            return
        needed, made = new.take(is_needed), made[is_needed]
        pair, rows = grid.tally(
            places,
            decisions.regions[made[:, decided.REGION], decided.PLACE],
            len(self._regions_open) + made[:, decided.INTEREST],
            np.maximum(needed.since_us, since_us),
            np.full(len(needed), known_us),
        )
        self._add_to_tally(needed.interests[pair], rows)

    def _add_tiles(self, tiles: I64) -> None:
        """Open accounts for tiles that have none."""
        new = np.setdiff1d(tiles, self._tiles)
        if len(new):
            order = np.argsort(np.concatenate([self._tiles, new]))
            self._accounts = np.concatenate([self._accounts, np.zeros((len(new), 4), np.int64)])[order]
            self._tiles = np.concatenate([self._tiles, new])[order]

    def _least(self, interests: Interests) -> tuple[F64, F64]:
        """The precision and recall that interests ask for."""
        quality = self.query.subscription.quality
        assert quality is not None, "it reuses"
        precision, recall = (
            interests.least[:, column].copy() if isinstance(asked, str) and interests.least is not None
            else np.full(len(interests), float(asked or 0.0))
            for column, asked in enumerate((quality.precision, quality.recall))
        )  # fmt: skip
        return precision, recall

    def _enter(self, decisions: Decisions, region_of: I64) -> None:
        """Add what was decided to the totals."""
        counts, sums = decisions.counts, decisions.sums
        self.totals += Totals(
            interests=int(np.count_nonzero(region_of < 0)), covered=int(counts[decided.COVERED]),
            regions=len(decisions.regions) - len(self._regions_open), tried=int(counts[decided.TRIED]),
            untried=int(counts[decided.UNTRIED]), fallbacks=int(counts[decided.FALLBACKS]),
            spans=int(sums[decided.SPANS]), precision=float(sums[decided.PRECISION]),
            recall=float(sums[decided.RECALL]),
        )  # fmt: skip

    def _regions_of(self, decisions: Decisions, active: Active) -> ServingRegions:
        """All regions of a step: those that were open, and new ones after them."""
        before = self._regions_open
        new = decisions.regions[len(before) :]
        keys = self._next_region + np.arange(len(new))
        self._next_region += len(new)
        began = active.interests.take(new[:, decided.OWNER])
        begun = replace(began, start_us=new[:, decided.SINCE])
        every = Interests.concat([before.active.interests, begun])
        every = replace(every, end_us=decisions.regions[:, decided.CLOSED])
        owners = np.concatenate([before.owners, active.keys[new[:, decided.OWNER]]])
        return ServingRegions(Active(every, np.concatenate([before.keys, keys])), owners)

    # --- what regions find

    def _regions(self, name: str, active: Active, since_us: int | I64) -> Regions:
        """The regions of space and time that read events of a stream, from `since_us` on."""
        regions = active.interests
        return Regions(np.maximum(regions.start_us, since_us), regions.end_us, regions.x, regions.y)

    def _found(self, regions: ServingRegions, passed: int) -> Iterator[Batch]:
        """The complex events that regions find up to `passed`. Regions that are closed leave the flow."""
        is_new = np.arange(len(regions)) >= len(self._regions_open)
        is_closed = regions.active.interests.end_us != END
        # A region that begins and is closed in one step leaves no state; but a flow of its own costs more than that.
        is_passing = is_new & is_closed & (self._waits_for_time or not self._may_join)
        for piece in self._pieces(regions.active.take(is_passing)):
            yield self._run(self._fresh(), piece, BEGINNING, END)
        begun = list(self._pieces(regions.active.take(is_new & ~is_passing)))
        joining = begun if self._may_join and len(begun) == 1 else []
        together = regions.active.take(~is_passing if joining else ~is_new)
        since_us = np.where(together.keys >= regions.keys[is_new].min(initial=END), BEGINNING, self._passed)
        yield self._run(self.flow, together, since_us, passed)
        for piece in begun if not joining else ():
            flow = self._fresh()
            yield self._run(flow, piece, BEGINNING, passed)
            if passed != END:
                self.flow.put(flow.snapshot())
        closed = regions.keys[is_closed & ~is_passing]
        if passed != END and len(closed):
            if self._waits_for_time:
                self.flow.take_groups([pa.array(closed)])
            else:
                self._leave(closed, int(np.count_nonzero(~is_closed)))

    # --- what is delivered

    def _due_until(self, active: Active, regions: ServingRegions, services: Services, passed: int) -> I64:
        """By interest, the time up to which complex events are due: all of an interest that has ended. One that another
        one's region serves waits until spans that begin by then have closed, so that events come in order."""
        current = services.take(services.until_us == END)
        is_own = np.zeros(len(active), np.bool_)
        own = regions.owners[np.searchsorted(regions.keys, current.regions)] == current.interests
        is_own[np.searchsorted(active.keys, current.interests[own])] = True
        certain_us = passed if self.query.delivered.rule.kind is not None else passed - 1
        if passed == END or self._spans.every_us is not None:
            due = np.full(len(active), END if passed == END else certain_us)
        else:
            due = np.where(is_own, certain_us, passed - 1 - self._rule.length_us)
        return np.where(
            active.interests.end_us != END, active.interests.end_us, np.maximum(due, self._got_until(active))
        )

    def _got_until(self, active: Active) -> I64:
        """By interest, up to when it has got what there is."""
        got = active.interests.start_us - self.query.lifetime_us - 1
        got[are_among(active.keys, self._open.keys)] = self._delivered_us[are_among(self._open.keys, active.keys)]
        return got

    def _to_interests(
        self, active: Active, regions: ServingRegions, services: Services, until_us: I64, grid: JudgedGrid,
        complex_events: Batch,
    ) -> Batch:  # fmt: skip
        """The complex events that are due, for each interest those of the spans that its regions serve, in order."""
        keys = complex_events.columns[INTEREST].to_numpy()
        order = np.lexsort((complex_events.times, keys))
        of_interest = np.searchsorted(active.keys, services.interests)
        since_us = self._got_until(active)[of_interest] + 1
        first, last = np.empty(len(services), np.int64), np.empty(len(services), np.int64)
        slices(keys[order], complex_events.times[order], services.regions, since_us, until_us[of_interest], first, last)
        service = np.repeat(np.arange(len(services)), last - first)
        into = np.arange(len(service)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
        rows = order[first[service] + into]
        begins_us = self._begins(complex_events)[rows]
        mine = (begins_us >= services.since_us[service]) & (begins_us < services.until_us[service])
        service, rows, begins_us = service[mine], rows[mine], begins_us[mine]
        precision, recall = self._figures(active, regions, services, service, begins_us, grid)
        region = np.searchsorted(regions.keys, services.regions[service])
        interests, owners = active.interests, regions.active.interests
        whose = of_interest[service]
        batch = complex_events.take(rows)
        batch.columns.pop(BEGIN, None)
        batch.columns[INTEREST] = pa.array(active.keys[whose])
        own = (interests.consumer.take(pa.array(whose)), pa.array(interests.number[whose]), pa.array(precision),
               pa.array(recall), owners.consumer.take(pa.array(region)), pa.array(owners.number[region]))  # fmt: skip
        columns = batch.columns | dict(zip((*DELIVERED, *QUALITY, *FOUND_IN), own, strict=True))
        return in_spatiotemporal_order(Batch(batch.times, columns))

    def _begins(self, complex_events: Batch) -> I64:
        """When the spans of complex events begin."""
        if self._spans.every_us is not None:
            return complex_events.times - self._rule.length_us - 1
        begins: I64 = complex_events.columns[BEGIN].cast(pa.int64()).to_numpy(zero_copy_only=False)
        return begins

    def _figures(
        self,
        active: Active,
        regions: ServingRegions,
        services: Services,
        service: I64,
        begins_us: I64,
        grid: JudgedGrid,
    ) -> tuple[F64, F64]:
        """Precision and recall of the spans of some services that begin at these times."""
        precision, recall = np.ones(len(service)), np.ones(len(service))
        region = np.searchsorted(regions.keys, services.regions)
        is_shared = (regions.owners[region] != services.interests)[service]
        if not is_shared.any():
            return precision, recall
        asked = np.flatnonzero(is_shared)
        asked = asked[np.lexsort((begins_us[asked], service[asked]))]
        used, offsets = np.unique(service[asked], return_index=True)
        interest = np.searchsorted(active.keys, services.interests[used])
        of_regions, of_interests = regions.active.interests, active.interests
        places = grid.places(
            np.append(of_regions.x[region[used]], of_interests.x[interest]),
            np.append(of_regions.y[region[used]], of_interests.y[interest]),
        )
        precision[asked], recall[asked] = grid.figures(
            places, np.arange(len(used)), len(used) + np.arange(len(used)), of_interests.end_us[interest],
            np.append(offsets, len(asked)), begins_us[asked], self._rule.length_us,
        )  # fmt: skip
        return precision, recall

    def _end(self, active: Active, regions: ServingRegions, services: Services, until_us: I64, passed: int) -> None:
        """Forget interests that have ended, regions that are closed, and what nobody will get."""
        is_open = active.interests.end_us == END
        self._open, self._delivered_us = active.take(is_open), until_us[is_open]
        self._regions_open = regions.take(regions.are_open)
        if passed == END:
            return
        services = services.take(are_among(services.interests, self._open.keys))
        got_us = self._delivered_us[np.searchsorted(self._open.keys, services.interests)]
        # What a service that is over may still deliver begins before its end.
        is_due = (services.until_us == END) | (services.until_us > got_us - self._rule.length_us - 1)
        self._services = services.take(is_due)
        self._regions_closed = regions.take(
            ~regions.are_open & are_among(regions.keys, np.sort(self._services.regions))
        )
        needed = np.sort(np.append(self._regions_closed.keys, self._regions_open.keys))
        self._complex_events.before(passed - max(self.query.lifetime_us, self._rule.length_us + 1))
        kept = [batch.take(are_among(batch.columns[INTEREST].to_numpy(), needed))
                for batch in self._complex_events.waiting]  # fmt: skip
        self._complex_events.waiting = [batch for batch in kept if len(batch)]

    def _count(self, switch: Switch, active: Active, grid: JudgedGrid, passed: int) -> None:
        """Count the events that interests would have read by themselves in this step."""
        interests = active.interests
        is_new = are_among(active.keys, np.sort(np.append(switch.passing.keys, switch.begun.keys)))
        since_us = np.where(is_new, interests.start_us - self._reach_us, self._passed)
        until_us = np.minimum(interests.end_us, passed - 1)
        asked = int(grid.placed.counts(Regions(since_us, until_us, interests.x, interests.y)).sum())
        self.totals = replace(self.totals, events_asked=self.totals.events_asked + asked, events_read=self.events_read)

    def _forget(self, passed: int) -> None:
        super()._forget(passed)
        if passed != END:
            self._judged = self._judged.since(passed - self._kept_us)

    @property
    def _kept_us(self) -> int:
        """How long events are kept: for interests that begin, and for spans of which something is still to be
        delivered."""
        return max(self._reach_us, 2 * (self._rule.length_us + 1))

    def _asking(self, passed: int) -> list[Asking]:
        return [Asking(passed, 0, dict.fromkeys(self.streams, self._kept_us))]

    # --- snapshots

    def snapshot(self) -> dict[str, pa.Table]:
        """The state as tables."""
        tables = super().snapshot()
        tables["regions"] = self._regions_closed.and_(self._regions_open).table()
        tables["services"] = self._services.table()
        tables["delivered"] = to_table({"until_us": self._delivered_us})
        tables["tally"] = to_table({"interest": self._tally_of} | self._tally._asdict())
        tables["tiles"] = to_table({"tile": self._tiles} | {str(n): self._accounts[:, n] for n in range(4)})
        tables["next region"] = pa.table({"key": [self._next_region]})
        if self._complex_events.waiting:
            tables["found"] = self._complex_events.table()
        return tables

    def restore(self, tables: Mapping[str, pa.Table], afresh: bool = False) -> None:
        """Go on from a snapshot. `afresh`: if it is of another program, begin anew instead of refusing it."""
        super().restore(tables, afresh)
        if self._passed == BEGINNING:
            return
        self._judged = self._stored_since(BEGINNING).since(self._passed - self._kept_us)
        next_region = whole_numbers(tables["next region"], "key")
        require(len(next_region) == 1, "numbers of regions are several")
        require_between(next_region, 0, FARTHEST, "numbers of regions")
        self._next_region = int(next_region[0])
        consumers = self._open.interests.consumer.type
        regions = ServingRegions.of(tables["regions"], self._next_region, self._consumers.next_key, consumers)
        self._regions_open, self._regions_closed = regions.take(regions.are_open), regions.take(~regions.are_open)
        self._services = Services.of(tables["services"], self._open.keys, regions)
        self._delivered_us = whole_numbers(tables["delivered"], "until_us")
        require(len(self._delivered_us) == len(self._open), "what was delivered is to others")
        require_event_times(self._delivered_us)
        self._tally_of, self._tally = whole_numbers(tables["tally"], "interest"), tally_of(tables["tally"])
        require_sorted(self._tally_of, "tallies of interests")
        require(are_among(self._tally_of, self._open.keys).all(), "a tally is of nobody")
        self._tiles = whole_numbers(tables["tiles"], "tile")
        require_sorted(self._tiles, "tiles", strictly=True)
        self._accounts = np.stack([whole_numbers(tables["tiles"], str(n)) for n in range(4)], axis=1)
        require_between(self._accounts.reshape(-1), -FARTHEST, FARTHEST, "counts")
        if "found" in tables:
            schema = self.program.programs[self.query.name].context.operator.schema
            require_columns({INTEREST: tables["found"].column(INTEREST)}, {INTEREST: pa.int64()}, whole=True)
            self._complex_events.put(tables["found"], {name: to_arrow(type_) for name, type_ in schema.attributes})

    def _keys_at_work(self, tables: Mapping[str, pa.Table], keys: I64) -> I64:
        regions, until_us = whole_numbers(tables["regions"], "key"), whole_numbers(tables["regions"], "until_us")
        require_sorted(regions, "numbers of regions", strictly=True)
        open_regions: I64 = regions[until_us == END]
        return open_regions


def _fulfil(stored: StoredEvents, asked: Collection[Conditions]) -> npt.NDArray[np.bool_]:
    """Which stored events fulfil one of several conditions, by what tests have said of them."""
    fulfil = np.zeros(len(stored), np.bool_)
    for conditions in asked if len(stored) else ():
        fulfil |= stored.batch.columns[spelt(conditions)].to_numpy(zero_copy_only=False) if conditions else True
    return fulfil


def moving_flow(
    program: MovingProgram, memory: MemoryBudget, threads: int = 1, shards: Shards = UNDIVIDED
) -> MovingFlow:
    """The flow that runs a moving subscription, or some shards of one."""
    if program.query.reuses:
        return ReusingFlow(program, memory, threads, shards=shards)
    return MovingFlow(program, memory, threads)
