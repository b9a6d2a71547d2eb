"""Which regions are processed, and on behalf of which interests.

A region that is processed for one interest is processed on behalf of others, too, if what they would have read is in it
with the precision and recall that they ask for (RECEP, section 3). That is judged exactly, on the atomic events of the
time that the covered interest asks for; of the time to come, by the area that both regions share. Interests come one
after the other, and try the nearest regions first: the maximum neighbour heuristic (section 4.1.2), on interests.

To judge a region costs little, but not nothing. Where next to nothing comes of it, reuse rests for a while. What counts
is events, not seconds, so that the same input gives the same regions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from situ.core.time import END
from situ.kernel.arrays import F64, I64
from situ.kernel.matching.machine import inlined, jit
from situ.space.geometry import distance_m, is_inside
from situ.space.pairs import PlacedColumns, PlacedEvents, RegionColumns, Regions, RegionShape, first_from
from situ.space.precision_recall import precision_and_recall

#: So many regions are tried for an interest, the nearest ones.
TRIES = 8
#: To judge so many events takes as long as to process one, for the cheapest rule: an average over windows of time.
JUDGED_PER_PROCESSED = 32
#: After so many interests it is seen whether reuse pays; if not, the next ones go their own ways.
TRIAL, REST = 256, 4096


# The account of reuse: one int64 array of these.
EVENTS_JUDGED, EVENTS_SAVED, INTERESTS_SEEN, INTERESTS_TO_REST = range(4)


def beginning() -> I64:
    """An empty account: events judged, events saved, interests seen, interests that still go their own ways."""
    return np.zeros(4, np.int64)


@dataclass(frozen=True, slots=True)
class Shared:
    """For each interest, the region that is processed on its behalf, how well it fits, and how many regions were tried.

    Regions that were open already have the first numbers; the others are those of interests, in order. For `untried`
    interests no region was tried, because reuse did not pay.
    """

    by: I64
    precision: F64
    recall: F64
    sizes: I64  # how many events each interest has
    tried: int
    untried: int


class _Thresholds(NamedTuple):
    """The precision and recall that interests ask for."""

    precision: float
    recall: float


class _CellLists(NamedTuple):
    """Regions in lists, one for each cell that has middles of regions in it."""

    home: I64  # by region: the cell of its middle
    last: I64  # by cell: the region that was entered last; -1: none
    before: I64  # by region: the one that was entered before it in the same cell; -1: none


class _Service(NamedTuple):
    """By interest: how many events it has; and, written, the region that serves it and how well."""

    sizes: I64
    by: I64
    precision: F64
    recall: F64


def share(
    events: PlacedEvents, open_x: F64, open_y: F64, open_since_us: I64, interests: Regions, precision: float,
    recall: float, account: I64,
) -> Shared:  # fmt: skip
    """Find regions for interests, which come by their start.

    A region that is open already serves an interest that asks for nothing before the region was there. `account` says
    how well reuse has paid so far, and is brought up to date.

    >>> from situ.space.geometry import Shape
    >>> ten = np.arange(10)
    >>> events = PlacedEvents.of(ten, ten.astype(float), ten * 0.0, Shape(3.0, 3.0))
    >>> interests = Regions(np.zeros(3, np.int64), np.full(3, 9), np.array([3.0, 4.0, 8.0]), np.zeros(3))
    >>> nothing = np.zeros(0)
    >>> shared = share(events, nothing, nothing, nothing.astype(np.int64), interests, 0.8, 0.8, beginning())
    >>> shared.by.tolist(), shared.recall.round(2).tolist()
    ([0, 0, 2], [1.0, 0.86, 1.0])
    """
    count, cells = len(interests), events.grid.columns * events.grid.rows
    x, y = np.concatenate([open_x, interests.x]), np.concatenate([open_y, interests.y])
    since_us = np.concatenate([open_since_us, interests.since_us])
    until_us = np.concatenate([np.full(len(open_x), END), interests.until_us])
    x, columns, rows = events.reached(x, y)
    regions = RegionColumns(since_us, until_us, x, y, columns, rows)
    lists = _CellLists(events.grid.cells(x, y), np.full(cells, -1, np.int64), np.empty(len(x), np.int64))
    service = _Service(events.counts(interests), np.empty(count, np.int64), np.ones(count), np.ones(count))
    tried, untried = _share(
        len(open_x), events.as_columns, regions, RegionShape.of(events.shape), _Thresholds(precision, recall), lists,
        account, service,
    )  # fmt: skip
    return Shared(service.by, service.precision, service.recall, service.sizes, int(tried), int(untried))


@inlined
def _shared_area(region: int, other: int, regions: RegionColumns, shape: RegionShape) -> float:
    """The part of a region's area that another one of the same shape has, too."""
    x, y, other_x, other_y = regions.x[region], regions.y[region], regions.x[other], regions.y[other]
    if shape.is_round:
        half = _part(distance_m(x, y, other_x, other_y, shape.degrees), 2 * shape.half_x)
        return 2 / math.pi * (math.acos(half) - half * math.sqrt(1 - half * half))
    east, north = distance_m(x, y, other_x, y, shape.degrees), distance_m(x, y, x, other_y, shape.degrees)
    return (1 - _part(east, 2 * shape.half_x)) * (1 - _part(north, 2 * shape.half_y))


@inlined
def _part(apart: float, length: float) -> float:
    """The part of its length by which a region lies beside another one, 1 at the most.

    One without length lies beside it wholly, or not at all.
    """
    if apart >= length:
        return 0.0 if apart == 0.0 else 1.0
    return apart / length


@jit
def _share(
    open_regions: int, events: PlacedColumns, regions: RegionColumns, shape: RegionShape, least: _Thresholds,
    lists: _CellLists, account: I64, service: _Service,
) -> tuple[int, int]:  # fmt: skip
    """Write for each interest which region serves it: the nearest that is good enough, or its own.

    Returns how many regions were tried, and for how many interests none was.
    """
    tried, untried = 0, 0
    for region in range(open_regions):
        _enter(region, lists)
    for interest in range(len(service.by)):
        own = open_regions + interest
        service.by[interest] = own
        if _rests(account):
            untried += 1
            _enter(own, lists)
            continue
        region, away_m = -1, 0.0
        for _ in range(TRIES):
            region, away_m = _next_nearest(own, region, away_m, regions, shape, lists, events.columns)
            if region < 0:
                break
            tried += 1
            processed, both = _judge(region, own, events, regions, shape)
            account[EVENTS_JUDGED] += processed
            precision, recall = precision_and_recall(both, service.sizes[interest], processed)
            if regions.until_us[own] == END:  # of the time to come, the regions say how much they share
                to_come = _shared_area(region, own, regions, shape)
                precision, recall = min(precision, to_come), min(recall, to_come)
            if precision >= least.precision and recall >= least.recall:
                service.by[interest], service.precision[interest], service.recall[interest] = region, precision, recall
                account[EVENTS_SAVED] += service.sizes[interest]
                break
        if service.by[interest] == own:
            _enter(own, lists)
    return tried, untried


@inlined
def _enter(region: int, lists: _CellLists) -> None:
    """Put a region into the list of its cell."""
    cell = lists.home[region]
    lists.before[region], lists.last[cell] = lists.last[cell], region


@inlined
def _rests(account: I64) -> bool:
    """Whether an interest goes its own way, because reuse has not paid. It is entered in the account."""
    if account[INTERESTS_TO_REST] > 0:
        account[INTERESTS_TO_REST] -= 1
        return True
    if account[INTERESTS_SEEN] == TRIAL:
        rests = bool(account[EVENTS_JUDGED] > JUDGED_PER_PROCESSED * account[EVENTS_SAVED])
        account[EVENTS_JUDGED], account[EVENTS_SAVED], account[INTERESTS_SEEN] = 0, 0, 0
        account[INTERESTS_TO_REST] = REST - 1 if rests else 0
        return rests
    account[INTERESTS_SEEN] += 1
    return False


@inlined
def _judge(region: int, own: int, events: PlacedColumns, regions: RegionColumns, shape: RegionShape) -> tuple[int, int]:
    """How many events a region has in the time that an interest asks for; and how many of them its own region has."""
    half_x, half_y, is_round, degrees = shape
    x, y, own_x, own_y = regions.x[region], regions.y[region], regions.x[own], regions.y[own]
    processed, both = 0, 0
    for row in range(regions.rows[region, 0], regions.rows[region, 1] + 1):
        for column in range(regions.columns[region, 0], regions.columns[region, 1] + 1):
            cell = row * events.columns + column % events.columns
            in_cell = events.rows[events.offsets[cell] : events.offsets[cell + 1]]
            for k in range(first_from(events.times_us, in_cell, regions.since_us[own]), len(in_cell)):
                event = in_cell[k]
                if events.times_us[event] > regions.until_us[own]:
                    break
                event_x, event_y = events.x[event], events.y[event]
                if is_inside(event_x, event_y, x, y, half_x, half_y, is_round, degrees):
                    processed += 1
                    both += is_inside(event_x, event_y, own_x, own_y, half_x, half_y, is_round, degrees)
    return processed, both


@jit
def _next_nearest(
    own: int, last: int, away_m: float, regions: RegionColumns, shape: RegionShape, lists: _CellLists, width: int
) -> tuple[int, float]:
    """The region that is nearest to an interest's own after region `last`, which is so far away, and its distance.

    -1: there is none. Of equally near ones the first comes first. `width` is the number of columns of cells.
    """
    half_x, half_y, is_round, degrees = shape
    x, y = regions.x[own], regions.y[own]
    nearest, nearest_m = -1, np.inf
    high = len(lists.last) // width - 1
    left, right = regions.columns[own, 0], regions.columns[own, 1]
    if not degrees:
        left, right = min(left, width - 1), max(right, 0)  # regions outside lie in the nearest cells
    for row in range(min(regions.rows[own, 0], high), max(regions.rows[own, 1], 0) + 1):
        for column in range(left, right + 1):
            region = lists.last[row * width + column % width]
            while region >= 0:
                region_x, region_y = regions.x[region], regions.y[region]
                if regions.since_us[region] <= regions.since_us[own] and is_inside(
                    region_x, region_y, x, y, half_x, half_y, is_round, degrees
                ):
                    far_m = distance_m(region_x, region_y, x, y, degrees)
                    is_after = far_m > away_m or (far_m == away_m and region > last)
                    if is_after and (far_m < nearest_m or (far_m == nearest_m and region < nearest)):
                        nearest, nearest_m = region, far_m
                region = lists.before[region]
    return nearest, nearest_m
