"""Which events an interest reads: a join of events and regions in space and time.

Nothing is compared with everything. Events lie in the cells of a grid, in each cell by time; a region is compared with
those of the few cells that it reaches into, between the times that it asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.kernel.matching.machine import jit, jit_with_memory
from situ.kernel.matching.order import counting_order
from situ.space.geometry import Shape, is_inside

#: A grid has at most so many cells for each event: places far out do not make it large.
CELLS_PER_EVENT = 4
#: Of regions: x as the grid counts it, and the first and last column and row of cells that each reaches into.
Reached: TypeAlias = tuple[F64, I64, I64]
#: A part of a cell, so that rounding leaves nothing out.
ROUNDING = 1e-6
#: Numbers of cells beyond this are not exact, and no grid has as many.
FARTHEST_CELL = 2**53


#: The events of a stream, sorted by time: times, x and y.
Located: TypeAlias = tuple[I64, F64, F64]


def together(streams: Sequence[Located]) -> Located:
    """The events of several streams by time."""
    if not streams:
        return np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
    times, x, y = (np.concatenate(columns) for columns in zip(*streams, strict=True))
    order = np.argsort(times, kind="stable")
    return times[order], x[order], y[order]


@dataclass(frozen=True, slots=True)
class Regions:
    """Regions of one shape around their middles; from `since_us` to `until_us`, both included."""

    since_us: I64
    until_us: I64
    x: F64
    y: F64

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: I64 | slice) -> Regions:
        return Regions(self.since_us[rows], self.until_us[rows], self.x[rows], self.y[rows])


class RegionShape(NamedTuple):
    """A `Shape`, as kernels take it."""

    half_x: float
    half_y: float
    is_round: bool
    degrees: bool

    @classmethod
    def of(cls, shape: Shape) -> RegionShape:
        """The same shape."""
        return cls(shape.half_x, shape.half_y, shape.is_round, shape.degrees)


class PlacedColumns(NamedTuple):
    """Events that lie in the cells of a grid, as kernels take them. Cell c has rows[offsets[c]:offsets[c + 1]]."""

    times_us: I64
    x: F64
    y: F64
    rows: I64  # by cell, then by time
    offsets: I64
    columns: int  # of cells, in a row of the grid


class RegionColumns(NamedTuple):
    """Regions of one shape, as kernels take them, with the cells that they reach into."""

    since_us: I64
    until_us: I64
    x: F64
    y: F64
    columns: I64  # (regions, 2): the first and the last column of cells
    rows: I64  # (regions, 2)


@dataclass(frozen=True, slots=True)
class _Grid:
    """Cells from (`x`, `y`) on; on the earth, the last column is beside the first."""

    x: float
    y: float
    width: float
    height: float
    columns: int
    rows: int

    def cells(self, x: F64, y: F64) -> I64:
        """The cell of each place; of one outside, the nearest."""
        column = np.clip((x - self.x) / self.width, 0, self.columns - 1).astype(np.int64)
        return np.clip((y - self.y) / self.height, 0, self.rows - 1).astype(np.int64) * self.columns + column


@dataclass(frozen=True, slots=True)
class PlacedEvents:
    """Events by time, in a grid of cells. Those without a place (NaN) are in no region.

    >>> ten = np.arange(10)
    >>> placed = PlacedEvents.of(ten, ten.astype(float), ten * 0.0, Shape(2.0, 2.0))
    >>> events, _ = placed.pairs(Regions(np.array([2]), np.array([7]), np.array([5.0]), np.array([0.0])))
    >>> events.tolist()
    [3, 4, 5, 6, 7]
    """

    times_us: I64
    x: F64
    y: F64
    shape: Shape
    grid: _Grid
    rows: I64  # by cell, then by time
    offsets: I64  # of each cell in `rows`

    @classmethod
    def of(cls, times_us: I64, x: F64, y: F64, shape: Shape) -> PlacedEvents:
        """`times_us` are sorted."""
        placed = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        grid = _grid(x[placed], y[placed], shape)
        if shape.degrees:
            x = (x + 180.0) % 360.0 - 180.0
        cells = grid.cells(x[placed], y[placed])
        count = grid.columns * grid.rows
        offsets = np.concatenate([[0], np.cumsum(np.bincount(cells, minlength=count))]).astype(np.int64)
        return cls(times_us, x, y, shape, grid, placed[counting_order(cells, count)], offsets)

    def counts(self, regions: Regions) -> I64:
        """How many events each region has."""
        return self._counts(regions, self.reached(regions.x, regions.y))

    def _counts(self, regions: Regions, reached: Reached) -> I64:
        counts = np.zeros(len(regions), np.int64)
        self._join(regions, reached, counts, np.empty(0, np.int64))
        return counts

    def pairs(self, regions: Regions) -> tuple[I64, I64]:
        """The rows of events and of the regions that they lie in, by region, and of one region by time."""
        reached = self.reached(regions.x, regions.y)
        counts = self._counts(regions, reached)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        events = np.empty(offsets[-1], np.int64)
        self._join(regions, reached, offsets[:-1].copy(), events)
        _sort_each(events, offsets)
        return events, np.repeat(np.arange(len(regions)), counts)

    def reached(self, x: F64, y: F64) -> Reached:
        """For regions around these middles: x as the grid counts it, and the first and last column and row of cells."""
        grid, shape = self.grid, self.shape
        x = (x + 180.0) % 360.0 - 180.0 if shape.degrees else x
        reach_x, reach_y = shape.reach(y)
        columns, rows = _reached(x - grid.x, reach_x, grid.width), _reached(y - grid.y, reach_y, grid.height)
        if shape.degrees:
            columns[:, 1] = np.minimum(columns[:, 1], columns[:, 0] + grid.columns - 1)  # once around
        else:
            columns = np.stack([np.maximum(columns[:, 0], 0), np.minimum(columns[:, 1], grid.columns - 1)], axis=1)
        rows = np.stack([np.maximum(rows[:, 0], 0), np.minimum(rows[:, 1], grid.rows - 1)], axis=1)
        return x, columns, rows

    @property
    def as_columns(self) -> PlacedColumns:
        """The events as kernels take them."""
        return PlacedColumns(self.times_us, self.x, self.y, self.rows, self.offsets, self.grid.columns)

    def _join(self, regions: Regions, reached: Reached, at: I64, events: I64) -> None:
        x, columns, rows = reached
        of_regions = RegionColumns(regions.since_us, regions.until_us, x, regions.y, columns, rows)
        _join(self.as_columns, of_regions, RegionShape.of(self.shape), at, events, len(events) > 0)


def _grid(x: F64, y: F64, shape: Shape) -> _Grid:
    """Cells that are as large as a region, or larger where these would be too many."""
    most = CELLS_PER_EVENT * len(x) + 1
    reach_x, reach_y = shape.reach(np.zeros(1))
    width, height = (max(2 * float(reach[0]), 1e-9) for reach in (reach_x, reach_y))
    left, low = (float(values.min()) if len(values) else 0.0 for values in (x, y))
    wide, high = (float(values.max()) - first if len(values) else 0.0 for values, first in ((x, left), (y, low)))
    if shape.degrees:
        left, wide = -180.0, 360.0
    while True:
        columns, rows = wide // width + 1, high // height + 1
        if shape.degrees:
            columns = max(wide // width, 1)
        if columns * rows <= most:
            return _Grid(left, low, wide / columns if shape.degrees else width, height, int(columns), int(rows))
        width, height = 2 * width, 2 * height


@jit_with_memory
def _reached(middle: F64, reach: F64, size: float) -> I64:
    """The first and the last column (or row) of cells that each region reaches into; cell 0 if it is nowhere."""
    cells = np.zeros((len(middle), 2), np.int64)
    for region in range(len(middle)):
        first = np.floor((middle[region] - reach[region]) / size - ROUNDING)
        last = np.floor((middle[region] + reach[region]) / size + ROUNDING)
        if not np.isnan(first):
            cells[region, 0] = min(max(first, -FARTHEST_CELL), FARTHEST_CELL)
        if not np.isnan(last):
            cells[region, 1] = min(max(last, -FARTHEST_CELL), FARTHEST_CELL)
    return cells


@jit
def _join(events: PlacedColumns, regions: RegionColumns, shape: RegionShape, at: I64, joined: I64, write: bool) -> None:
    """Count the events of each region in `at`, or write them into `joined` from there on, cell by cell."""
    half_x, half_y, is_round, degrees = shape
    for region in range(len(regions.x)):
        x, y, until_us = regions.x[region], regions.y[region], regions.until_us[region]
        for row in range(regions.rows[region, 0], regions.rows[region, 1] + 1):
            for column in range(regions.columns[region, 0], regions.columns[region, 1] + 1):
                cell = row * events.columns + column % events.columns
                in_cell = events.rows[events.offsets[cell] : events.offsets[cell + 1]]
                for k in range(first_from(events.times_us, in_cell, regions.since_us[region]), len(in_cell)):
                    event = in_cell[k]
                    if events.times_us[event] > until_us:
                        break
                    if is_inside(events.x[event], events.y[event], x, y, half_x, half_y, is_round, degrees):
                        if write:
                            joined[at[region]] = event
                        at[region] += 1


@jit_with_memory
def _sort_each(events: I64, offsets: I64) -> None:
    """Sort the events of each region: cells give them by cell, and by time only within a cell."""
    for region in range(len(offsets) - 1):
        events[offsets[region] : offsets[region + 1]].sort()


@jit
def first_from(times: I64, rows: I64, since: int) -> int:
    """The place of the first of these events, which are sorted by time, that is not before `since`."""
    low, high = 0, len(rows)
    while low < high:
        middle = (low + high) // 2
        if times[rows[middle]] < since:
            low = middle + 1
        else:
            high = middle
    return low
