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

import numpy as np

from situ.kernel.arrays import F64, I64, NO_DEADLINE
from situ.kernel.matching.machine import inlined, jit
from situ.space.geometry import distance_m, is_inside
from situ.space.pairs import PlacedEvents, Regions, first_from

#: So many regions are tried for an interest, the nearest ones.
TRIES = 8
#: To judge so many events takes as long as to process one, for the cheapest rule: an average over windows of time.
JUDGED_PER_PROCESSED = 32
#: After so many interests it is seen whether reuse pays; if not, the next ones go their own ways.
TRIAL, REST = 256, 4096


def beginning() -> I64:
    """How reuse goes: events judged, events saved, interests seen, interests that still go their own ways."""
    return np.zeros(4, np.int64)


@dataclass(frozen=True, slots=True)
class Shared:
    """For each interest, the region that is processed on its behalf, how well it fits, and how many regions were
    tried. Regions that were there already have the first numbers; the others are those of interests, in order. Some
    interests went their own ways, because reuse did not pay."""

    by: I64
    precision: F64
    recall: F64
    sizes: I64  # how many events each interest has
    tried: int
    untried: int


def share(
    events: PlacedEvents, known_x: F64, known_y: F64, since_known_us: I64, asked: Regions, precision: float,
    recall: float, going: I64,
) -> Shared:  # fmt: skip
    """Regions for interests, which come by their start. A known region serves an interest that asks for nothing before
    it was there. `going` says how reuse goes, and is brought up to date.

    >>> from situ.space.geometry import Shape
    >>> ten = np.arange(10)
    >>> events = PlacedEvents.of(ten, ten.astype(float), ten * 0.0, Shape(3.0, 3.0))
    >>> asked = Regions(np.zeros(3, np.int64), np.full(3, 9), np.array([3.0, 4.0, 8.0]), np.zeros(3))
    >>> nothing = np.zeros(0)
    >>> shared = share(events, nothing, nothing, nothing.astype(np.int64), asked, 0.8, 0.8, beginning())
    >>> shared.by.tolist(), shared.recall.round(2).tolist()
    ([0, 0, 2], [1.0, 0.86, 1.0])
    """
    known, count = len(known_x), len(asked)
    x, y = np.concatenate([known_x, asked.x]), np.concatenate([known_y, asked.y])
    since = np.concatenate([since_known_us, asked.since_us])
    by, shares = np.empty(count, np.int64), np.ones((count, 2))
    sizes = events.counts(asked)
    shape, grid = events.shape, events.grid
    x, columns, rows = events.reached(x, y)
    tried, untried = _share(
        known, x, y, since, asked.since_us, asked.until_us, sizes, events.times_us, events.x, events.y, events.rows,
        events.offsets, grid.columns, columns, rows, shape.half_x, shape.half_y, shape.is_round, shape.degrees,
        precision, recall, TRIES, grid.cells(x, y), np.full(grid.columns * grid.rows, -1, np.int64),
        np.empty(len(x), np.int64), going, by, shares,
    )  # fmt: skip
    return Shared(by, shares[:, 0].copy(), shares[:, 1].copy(), sizes, int(tried), int(untried))


@inlined
def _shared_area(
    x: float, y: float, other_x: float, other_y: float, half_x: float, half_y: float, is_round: bool, degrees: bool
) -> float:
    """The part of a region that another one of the same shape has, too."""
    if is_round:
        half = _part(distance_m(x, y, other_x, other_y, degrees), 2 * half_x)
        return 2 / math.pi * (math.acos(half) - half * math.sqrt(1 - half * half))
    east, north = distance_m(x, y, other_x, y, degrees), distance_m(x, y, x, other_y, degrees)
    return (1 - _part(east, 2 * half_x)) * (1 - _part(north, 2 * half_y))


@inlined
def _part(apart: float, length: float) -> float:
    """Which part of its length a region lies beside another one, 1 at the most. One without length does so wholly, or
    not at all."""
    if apart >= length:
        return 0.0 if apart == 0.0 else 1.0
    return apart / length


@jit
def _share(
    known: int, x: F64, y: F64, since: I64, asked_since: I64, asked_until: I64, sizes: I64, times: I64, event_x: F64,
    event_y: F64, by_cell: I64, offsets: I64, width: int, columns: I64, rows: I64, half_x: float, half_y: float,
    is_round: bool, degrees: bool, precision: float, recall: float, tries: int, homes: I64, head: I64, following: I64,
    going: I64, by: I64, shares: F64,
) -> tuple[int, int]:  # fmt: skip
    """How many regions were tried, and how many interests went without. Regions lie in lists, by the cell of their
    middle: `head` has the last one of a cell, and `following` has that before it."""
    tried, untried = 0, 0
    for one in range(known):
        following[one], head[homes[one]] = head[homes[one]], one
    for k in range(len(by)):
        asked = known + k
        by[k] = asked
        last, away = -1, 0.0
        rests = _rests(going)
        untried += rests
        for _ in range(0 if rests else tries):
            last, away = _next_nearest(
                asked, last, away, x, y, since, asked_since[k], columns, rows, width, half_x, half_y, is_round, degrees,
                head, following,
            )  # fmt: skip
            if last < 0:
                break
            one, tried = last, tried + 1
            processed, both = 0, 0
            for row in range(rows[one, 0], rows[one, 1] + 1):
                for column in range(columns[one, 0], columns[one, 1] + 1):
                    cell = row * width + column % width
                    some = by_cell[offsets[cell] : offsets[cell + 1]]
                    for n in range(first_from(times, some, asked_since[k]), len(some)):
                        event = some[n]
                        if times[event] > asked_until[k]:
                            break
                        at_x, at_y = event_x[event], event_y[event]
                        if is_inside(at_x, at_y, x[one], y[one], half_x, half_y, is_round, degrees):
                            processed += 1
                            both += is_inside(at_x, at_y, x[asked], y[asked], half_x, half_y, is_round, degrees)
            going[0] += processed
            precise = both / processed if processed else 1.0
            complete = both / sizes[k] if sizes[k] else 1.0
            if asked_until[k] == NO_DEADLINE:  # of the time to come, the regions say how much they share
                to_come = _shared_area(x[one], y[one], x[asked], y[asked], half_x, half_y, is_round, degrees)
                precise, complete = min(precise, to_come), min(complete, to_come)
            if precise >= precision and complete >= recall:
                by[k], shares[k, 0], shares[k, 1] = one, precise, complete
                going[1] += sizes[k]
                break
        if by[k] == asked:
            following[asked], head[homes[asked]] = head[homes[asked]], asked
    return tried, untried


@inlined
def _rests(going: I64) -> bool:
    """Whether an interest goes its own way, because reuse has not paid."""
    if going[3] > 0:
        going[3] -= 1
        return True
    if going[2] == TRIAL:
        rests = bool(going[0] > JUDGED_PER_PROCESSED * going[1])
        going[0], going[1], going[2], going[3] = 0, 0, 0, REST - 1 if rests else 0
        return rests
    going[2] += 1
    return False


@jit
def _next_nearest(
    asked: int, last: int, away: float, x: F64, y: F64, since: I64, asked_since: int, columns: I64, rows: I64,
    width: int, half_x: float, half_y: float, is_round: bool, degrees: bool, head: I64, following: I64,
) -> tuple[int, float]:  # fmt: skip
    """The region that is nearest to an interest after the one before, and how far away it is; -1: there is none. Of
    equally near ones the first comes first."""
    best, nearest = -1, np.inf
    high = len(head) // width - 1
    left, right = columns[asked, 0], columns[asked, 1]
    if not degrees:
        left, right = min(left, width - 1), max(right, 0)  # regions outside lie in the nearest cells
    for row in range(min(rows[asked, 0], high), max(rows[asked, 1], 0) + 1):
        for column in range(left, right + 1):
            one = head[row * width + column % width]
            while one >= 0:
                if since[one] <= asked_since and is_inside(
                    x[one], y[one], x[asked], y[asked], half_x, half_y, is_round, degrees
                ):
                    far = distance_m(x[one], y[one], x[asked], y[asked], degrees)
                    after = far > away or (far == away and one > last)
                    if after and (far < nearest or (far == nearest and one < best)):
                        best, nearest = one, far
                one = following[one]
    return best, nearest
