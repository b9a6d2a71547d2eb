"""How many events a region has, an interest, and both, time by time: all that precision and recall are made of.

A span is judged on the events of all streams that a subscription reads and that some step takes by itself: those that
lie in the region and those that lie in the interest (RECEP, section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from situ.core.time import END
from situ.kernel.arrays import F64, I64
from situ.kernel.matching.machine import inlined, jit, jit_with_memory
from situ.kernel.matching.order import is_sorted
from situ.space.geometry import Shape, is_inside
from situ.space.pairs import PlacedColumns, PlacedEvents, RegionShape, first_from
from situ.space.precision_recall import precision_and_recall


class JudgedColumns(NamedTuple):
    """Events as kernels take them: in a grid, with the number of each event's time among all times that there are, and
    whether it opens a span."""

    placed: PlacedColumns
    opens: npt.NDArray[np.bool_]
    moment: I64
    times_us: I64  # distinct


class Places(NamedTuple):
    """Where regions and interests are, and the first and last column and row of cells that each reaches into."""

    x: F64
    y: F64
    columns: I64  # (places, 2)
    rows: I64  # (places, 2)


class Tally(NamedTuple):
    """Rows by time: how many events of it lie in a region, in an interest and in both, and whether one opens a span."""

    time_us: I64
    in_region: I64
    in_interest: I64
    in_both: I64
    opens: npt.NDArray[np.bool_]

    @classmethod
    def empty(cls, rows: int) -> Tally:
        """Room for so many rows."""
        time_us, in_region, in_interest, in_both = np.zeros((4, rows), np.int64)
        return cls(time_us, in_region, in_interest, in_both, np.zeros(rows, np.bool_))

    def take(self, rows: npt.NDArray[np.generic]) -> Tally:
        return Tally(*(column[rows] for column in self))

    def and_(self, more: Tally) -> Tally:
        return Tally(*(np.concatenate(columns) for columns in zip(self, more, strict=True)))


@dataclass(frozen=True, slots=True)
class SpanEvents:
    """The events by which spans are judged, by time: where they are, and whether each opens a span."""

    times_us: I64
    x: F64
    y: F64
    opens: npt.NDArray[np.bool_]

    @classmethod
    def none(cls) -> SpanEvents:
        return cls(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0, np.bool_))

    @classmethod
    def by_time(cls, parts: Sequence[SpanEvents]) -> SpanEvents:
        """All events of some parts, each of which is by time."""
        columns = zip(*((part.times_us, part.x, part.y, part.opens) for part in (cls.none(), *parts)), strict=True)
        times_us, x, y, opens = map(np.concatenate, columns)
        if is_sorted(times_us):
            return cls(times_us, x, y, opens)
        order = np.argsort(times_us, kind="stable")
        return cls(times_us[order], x[order], y[order], opens[order])

    def take(self, rows: npt.NDArray[np.bool_]) -> SpanEvents:
        return SpanEvents(self.times_us[rows], self.x[rows], self.y[rows], self.opens[rows])

    def since(self, since_us: int) -> SpanEvents:
        """Without the events before a time."""
        first = int(np.searchsorted(self.times_us, since_us))
        return SpanEvents(self.times_us[first:], self.x[first:], self.y[first:], self.opens[first:])

    def in_grid(self, shape: Shape) -> JudgedGrid:
        """The events in the cells of a grid, for regions of a shape."""
        return JudgedGrid.of(self, shape)


@dataclass(frozen=True, slots=True)
class JudgedGrid:
    """Events in the cells of a grid."""

    placed: PlacedEvents
    columns: JudgedColumns
    shape: RegionShape

    @classmethod
    def of(cls, events: SpanEvents, shape: Shape) -> JudgedGrid:
        placed = PlacedEvents.of(events.times_us, events.x, events.y, shape)
        is_new = np.ones(len(events.times_us), np.bool_)
        is_new[1:] = events.times_us[1:] != events.times_us[:-1]
        moment = np.cumsum(is_new) - 1
        columns = JudgedColumns(placed.as_columns, events.opens, moment, events.times_us[is_new])
        return cls(placed, columns, RegionShape.of(shape))

    def places(self, x: F64, y: F64) -> Places:
        """Regions around these middles, as this grid counts places."""
        x, columns, rows = self.placed.reached(x, y)
        return Places(x, np.asarray(y), columns, rows)

    def room(self) -> Tally:
        """Room for the rows of one region and one interest."""
        return Tally.empty(len(self.columns.times_us))

    def tally(self, places: Places, regions: I64, interests: I64, since_us: I64, until_us: I64) -> tuple[I64, Tally]:
        """For pairs of places, of a region and an interest, the rows of a time each, both ends included: the pair that
        a row is of, in order, and the rows."""
        count = np.zeros(len(regions), np.int64)
        rows = _tally(
            self.columns,
            places,
            self.shape,
            regions,
            interests,
            since_us,
            until_us,
            self.room(),
            Tally.empty(64),
            count,
        )
        return np.repeat(np.arange(len(regions)), count), rows

    def figures(
        self,
        places: Places,
        regions: I64,
        interests: I64,
        ends_us: I64,
        offsets: I64,
        begins_us: I64,
        length_us: int,
    ) -> tuple[F64, F64]:
        """Precision and recall of spans, each from its begin on for `length_us`, but not beyond the end of its
        interest. Those of pair k, a region and an interest, stand from offsets[k] to offsets[k + 1], by their begin."""
        precision, recall = np.ones(len(begins_us)), np.ones(len(begins_us))
        _figures(self.columns, places, self.shape, regions, interests, ends_us, offsets, begins_us, length_us,
                 self.room(), precision, recall)  # fmt: skip
        return precision, recall


@inlined
def until_of(begin_us: int, length_us: int, end_us: int) -> int:
    """The last moment of a span of an interest that ends."""
    return end_us if end_us != END and end_us < begin_us + length_us else begin_us + length_us


@jit
def fill(
    region: int, interest: int, since_us: int, until_us: int, events: JudgedColumns, places: Places, shape: RegionShape,
    tally: Tally,
) -> int:  # fmt: skip
    """Write the rows of a region and an interest from one time to another, both included; returns how many."""
    first = int(np.searchsorted(events.times_us, since_us))
    moments = int(np.searchsorted(events.times_us, until_us, side="right")) - first
    for row in range(moments):
        tally.in_region[row], tally.in_interest[row], tally.in_both[row], tally.opens[row] = 0, 0, 0, False
    _count(region, interest, True, first, since_us, until_us, events, places, shape, tally)
    _count(interest, region, False, first, since_us, until_us, events, places, shape, tally)
    count = 0
    for row in range(moments):
        if tally.in_region[row] > 0 or tally.in_interest[row] > 0:
            tally.time_us[count] = events.times_us[first + row]
            tally.in_region[count], tally.in_interest[count] = tally.in_region[row], tally.in_interest[row]
            tally.in_both[count], tally.opens[count] = tally.in_both[row], tally.opens[row]
            count += 1
    return count


@inlined
def _count(
    place: int, other: int, is_region: bool, first: int, since_us: int, until_us: int, events: JudgedColumns,
    places: Places, shape: RegionShape, tally: Tally,
) -> None:  # fmt: skip
    """Count the events of one place: of the region those in both, too; of the interest those that the region lacks."""
    half_x, half_y, is_round, degrees = shape
    placed = events.placed
    x, y, other_x, other_y = places.x[place], places.y[place], places.x[other], places.y[other]
    for row in range(places.rows[place, 0], places.rows[place, 1] + 1):
        for column in range(places.columns[place, 0], places.columns[place, 1] + 1):
            cell = row * placed.columns + column % placed.columns
            in_cell = placed.rows[placed.offsets[cell] : placed.offsets[cell + 1]]
            for k in range(first_from(placed.times_us, in_cell, since_us), len(in_cell)):
                event = in_cell[k]
                if placed.times_us[event] > until_us:
                    break
                event_x, event_y = placed.x[event], placed.y[event]
                if is_inside(event_x, event_y, x, y, half_x, half_y, is_round, degrees):
                    at = events.moment[event] - first
                    in_other = is_inside(event_x, event_y, other_x, other_y, half_x, half_y, is_round, degrees)
                    if is_region:
                        tally.in_region[at] += 1
                        if in_other:
                            tally.in_both[at] += 1
                            tally.in_interest[at] += 1
                        tally.opens[at] |= events.opens[event]
                    elif not in_other:
                        tally.in_interest[at] += 1
                        tally.opens[at] |= events.opens[event]


@jit_with_memory
def _tally(
    events: JudgedColumns, places: Places, shape: RegionShape, regions: I64, interests: I64, since_us: I64,
    until_us: I64, room: Tally, rows: Tally, count: I64,
) -> Tally:  # fmt: skip
    """The rows of all pairs, one pair after the other, and in `count` how many each has. `rows` has some room."""
    used = 0
    for k in range(len(regions)):
        filled = fill(regions[k], interests[k], since_us[k], until_us[k], events, places, shape, room)
        if used + filled > len(rows.time_us):
            rows = _first_rows(rows, used, 2 * (used + filled))
        for row in range(filled):
            rows.time_us[used], rows.in_region[used] = room.time_us[row], room.in_region[row]
            rows.in_interest[used], rows.in_both[used] = room.in_interest[row], room.in_both[row]
            rows.opens[used] = room.opens[row]
            used += 1
        count[k] = filled
    return _first_rows(rows, used, used)


@jit_with_memory
def _first_rows(tally: Tally, rows: int, size: int) -> Tally:
    """The first rows of a tally, with room for so many in all."""
    time_us, in_region = np.empty(size, np.int64), np.empty(size, np.int64)
    in_interest, in_both = np.empty(size, np.int64), np.empty(size, np.int64)
    opens = np.empty(size, np.bool_)
    time_us[:rows], in_region[:rows] = tally.time_us[:rows], tally.in_region[:rows]
    in_interest[:rows], in_both[:rows] = tally.in_interest[:rows], tally.in_both[:rows]
    opens[:rows] = tally.opens[:rows]
    return Tally(time_us, in_region, in_interest, in_both, opens)


@jit
def _figures(
    events: JudgedColumns, places: Places, shape: RegionShape, regions: I64, interests: I64, ends_us: I64, offsets: I64,
    begins_us: I64, length_us: int, room: Tally, precision: F64, recall: F64,
) -> None:  # fmt: skip
    for k in range(len(regions)):
        if offsets[k] == offsets[k + 1]:
            continue
        until_us = until_of(begins_us[offsets[k + 1] - 1], length_us, ends_us[k])
        count = fill(regions[k], interests[k], begins_us[offsets[k]], until_us, events, places, shape, room)
        low, high, in_region, in_interest, in_both = 0, 0, 0, 0, 0
        for span in range(offsets[k], offsets[k + 1]):
            until_us = until_of(begins_us[span], length_us, ends_us[k])
            while high < count and room.time_us[high] <= until_us:
                in_region, in_interest = in_region + room.in_region[high], in_interest + room.in_interest[high]
                in_both, high = in_both + room.in_both[high], high + 1
            while low < high and room.time_us[low] < begins_us[span]:
                in_region, in_interest = in_region - room.in_region[low], in_interest - room.in_interest[low]
                in_both, low = in_both - room.in_both[low], low + 1
            precision[span], recall[span] = precision_and_recall(in_both, in_interest, in_region)
