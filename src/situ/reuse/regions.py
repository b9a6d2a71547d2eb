"""Which regions are processed, and which interests they serve, span by span.

A region that is processed for one interest is processed on behalf of others, too, if what they would have read is in it
with the precision and recall that they ask for (RECEP, section 3). When an interest begins, it tries the nearest
regions: the maximum neighbour heuristic (section 4.1.2), on interests. From then on every span is judged when it
closes, on its own events. At the first one that does not suffice, the interest goes its own way, or to another region,
from the begin of that span on: nothing that begins then has been delivered yet.

Decisions fall when spans close, and when interests begin and end, in order of time and consumer, and each depends only
on events up to then. So it does not matter in which pieces events come. What is shared stays within a tile of space, so
it does not matter either how many shards there are.

To judge a region costs little, but not nothing. Where next to nothing comes of it, reuse rests for a while. What counts
is events, not seconds, so that the same input gives the same regions.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from situ.core.time import END
from situ.kernel.arrays import F64, I64
from situ.kernel.matching.machine import inlined, jit, jit_with_memory
from situ.reuse.tallies import JudgedColumns, JudgedGrid, Places, Tally, fill, until_of
from situ.space.geometry import distance_m
from situ.space.pairs import RegionShape
from situ.space.precision_recall import precision_and_recall

#: So many regions are tried for an interest, the nearest ones.
TRIES = 8
#: The area that a region shares with an interest is at least so great a part of what is asked of their events.
AREA = 0.6
#: To judge so many events takes as long as to process one, for the cheapest rule: an average over windows of time.
JUDGED_PER_PROCESSED = 32
#: After so many trials in a tile it is seen whether reuse pays; if not, the next interests go their own ways.
TRIAL, REST = 64, 1024

# The account of a tile: one row of these.
EVENTS_JUDGED, EVENTS_SAVED, TRIALS, INTERESTS_TO_REST = range(4)
# A region: one row of these. Those of a tile that are open are a list.
PLACE, SINCE, TILE, OWNER, CLOSED, SERVES, NEXT, BEFORE = range(8)
# A service of a region to an interest, for the spans that begin from `FROM` on and before `UNTIL`: one row of these.
INTEREST, REGION, FROM, UNTIL = range(4)
# What is counted; and sums over the spans that another one's region served.
COVERED, TRIED, UNTRIED, FALLBACKS = range(4)
SPANS, PRECISION, RECALL = range(3)
_NONE = -1


class SpanRule(NamedTuple):
    """A span lasts from its begin for `length_us`, included. With `every_us` spans are windows, which end right before
    its multiples; with 0, events open them."""

    length_us: int
    every_us: int


class Asked(NamedTuple):
    """Interests: when they begin and end (END: not yet), from when on they read, their turn among those of one time,
    their tile, and the precision and recall that each asks for."""

    start_us: I64
    end_us: I64
    since_us: I64
    turn: I64
    tile: I64
    precision: F64
    recall: F64


class Serving(NamedTuple):
    """Interests that were there before: the region that serves each (-1: it is new), whether that is another one's, and
    where its tally stands."""

    region: I64
    is_covered: npt.NDArray[np.bool_]
    first: I64
    end: I64
    tally: Tally


class _Ground(NamedTuple):
    """The events that are judged, where regions and interests are, of which shape all of them are, and room for a
    tally."""

    events: JudgedColumns
    places: Places
    shape: RegionShape
    room: Tally


class _Turns(NamedTuple):
    """Interests that begin and those that end, each in order of time and turn."""

    begun: I64
    ended: I64


class _Horizon(NamedTuple):
    """How far back before its start an interest reads; up to when spans have been judged before; and up to when all
    events are known."""

    reach_us: int
    judged_us: int
    known_us: int


class _Failed(NamedTuple):
    """By interest, when its first span begins that does not suffice, and how many events of the interest it has."""

    since_us: I64
    events: I64


class _Counted(NamedTuple):
    """What is counted, and sums over spans."""

    counts: I64
    sums: F64


@dataclass(frozen=True, slots=True)
class Decisions:
    """Regions, first those that were open before; services, first those of the interests that were there before; and
    what was counted."""

    regions: I64
    services: I64
    counts: I64
    sums: F64


def decide(
    grid: JudgedGrid, places: Places, open_regions: I64, asked: Asked, serving: Serving, services: I64, account: I64,
    spans: SpanRule, reach_us: int, judged_us: int, known_us: int,
) -> Decisions:  # fmt: skip
    """Decide up to `known_us`, to which all events are known, which regions serve which interests.

    `places` are those of the open regions, and of the interests after them. Up to `judged_us` spans have been judged
    before. An interest that begins at s reads from s - `reach_us` on. `account`, a row for each tile, says how well
    reuse has paid so far, and is brought up to date.
    """
    begun = np.flatnonzero(serving.region == _NONE)
    begun = begun[np.lexsort((asked.turn[begun], asked.start_us[begun]))]
    ended = np.flatnonzero(asked.end_us <= known_us)
    ended = ended[np.lexsort((asked.turn[ended], asked.end_us[ended]))]
    counted = _Counted(np.zeros(4, np.int64), np.zeros(3))
    heads = np.full(len(account), _NONE, np.int64)
    ground, turns = _Ground(grid.columns, places, grid.shape, grid.room()), _Turns(begun, ended)
    horizon = _Horizon(reach_us, judged_us, known_us)
    regions, served = _decide(
        ground, open_regions, heads, asked, turns, serving, services, account, spans, horizon, counted
    )
    return Decisions(regions, served, counted.counts, counted.sums)


@jit_with_memory
def _decide(
    ground: _Ground, open_regions: I64, heads: I64, asked: Asked, turns: _Turns, serving: Serving, before: I64,
    account: I64, spans: SpanRule, horizon: _Horizon, counted: _Counted,
) -> tuple[I64, I64]:  # fmt: skip
    """Go from decision to decision: a span that does not suffice, then an interest that begins, then one that ends."""
    regions, services = _with_room(open_regions), _with_room(before)
    region_count, service_count = len(open_regions), len(before)
    for region in range(region_count):
        _open(region, regions, heads)
    service_of = np.full(len(asked.start_us), _NONE, np.int64)
    service_of[before[:, INTEREST]] = np.arange(service_count)
    failed = _Failed(np.zeros(len(service_of), np.int64), np.zeros(len(service_of), np.int64))
    failures = _judge_served(before, service_of, asked, serving, spans, horizon, failed, counted.sums)
    next_begun, next_ended, ignored = 0, 0, np.zeros(3)
    while True:
        fails_at = failures[0][0] if len(failures) else END
        begins_at = int(asked.start_us[turns.begun[next_begun]]) if next_begun < len(turns.begun) else END
        ends_at = int(asked.end_us[turns.ended[next_ended]]) if next_ended < len(turns.ended) else END
        now_us = min(fails_at, begins_at, ends_at)
        if now_us == END:
            break
        if fails_at == now_us:
            interest = heapq.heappop(failures)[2]
            since_us = failed.since_us[interest]
            services[service_of[interest], UNTIL] = since_us
            _leave(services[service_of[interest], REGION], now_us, regions, heads)
            account[asked.tile[interest], EVENTS_SAVED] -= failed.events[interest]
            counted.counts[FALLBACKS] += 1
        elif begins_at == now_us:
            interest = int(turns.begun[next_begun])
            next_begun += 1
            since_us = asked.since_us[interest]
        else:
            interest = int(turns.ended[next_ended])
            next_ended += 1
            _leave(services[service_of[interest], REGION], now_us, regions, heads)
            continue
        regions, services = _with_room_for(region_count, regions), _with_room_for(service_count, services)
        place = len(open_regions) + interest
        region = _serving(
            interest, place, since_us, now_us, ground, regions, heads, asked, account, spans, counted.counts, ignored
        )
        if region == _NONE:
            region = region_count
            region_count += 1
            _begin(region, interest, place, since_us, now_us, horizon.reach_us, regions, heads, asked)
        else:
            counted.counts[COVERED] += since_us == asked.since_us[interest]
            until_us = min(horizon.known_us, asked.end_us[interest])
            rows = fill(regions[region, PLACE], place, since_us, until_us, ground.events, ground.places, ground.shape,
                        ground.room)  # fmt: skip
            _judge(interest, ground.room, rows, since_us - 1, asked, spans, horizon, failed, counted.sums, failures)
        regions[region, SERVES] += 1
        services[service_count, INTEREST], services[service_count, REGION] = interest, region
        services[service_count, FROM], services[service_count, UNTIL] = since_us, END
        service_of[interest] = service_count
        service_count += 1
    return regions[:region_count].copy(), services[:service_count].copy()


@jit_with_memory
def _judge_served(
    before: I64, service_of: I64, asked: Asked, serving: Serving, spans: SpanRule, horizon: _Horizon, failed: _Failed,
    sums: F64,
) -> list[tuple[int, int, int]]:  # fmt: skip
    """Judge the spans of interests that another one's region serves already; returns a heap of those that do not
    suffice: when each closes, and whose it is."""
    failures: list[tuple[int, int, int]] = [(END, END, END) for _ in range(0)]
    for interest in range(len(service_of)):
        if serving.is_covered[interest]:
            tally = _part(serving.tally, serving.first[interest], serving.end[interest])
            after_us = max(before[service_of[interest], FROM] - 1, horizon.judged_us - spans.length_us)
            rows = len(tally.time_us)
            _judge(interest, tally, rows, after_us, asked, spans, horizon, failed, sums, failures)
    return failures


@jit_with_memory
def _judge(
    interest: int, tally: Tally, rows: int, after_us: int, asked: Asked, spans: SpanRule, horizon: _Horizon,
    failed: _Failed, sums: F64, failures: list[tuple[int, int, int]],
) -> None:  # fmt: skip
    """Judge the spans of an interest that begin after a time; if one does not suffice, a decision is due when it
    closes."""
    fails_at, failed.since_us[interest], failed.events[interest] = _first_failure(
        tally, rows, after_us, horizon.known_us, asked.end_us[interest], asked.precision[interest],
        asked.recall[interest], spans, sums,
    )  # fmt: skip
    if fails_at != END:
        heapq.heappush(failures, (fails_at, int(asked.turn[interest]), interest))


@jit
def _begin(
    region: int, interest: int, place: int, since_us: int, now_us: int, reach_us: int, regions: I64, heads: I64,
    asked: Asked,
) -> None:  # fmt: skip
    """Let an interest be a region. It reads as far back as one that begins now, so that it can serve that; unless its
    interest ends at once."""
    reads_from = since_us if asked.end_us[interest] == now_us else min(since_us, now_us - reach_us)
    regions[region, PLACE], regions[region, SINCE] = place, reads_from
    regions[region, TILE], regions[region, OWNER] = asked.tile[interest], interest
    regions[region, CLOSED], regions[region, SERVES] = END, 0
    _open(region, regions, heads)


@jit_with_memory
def _with_room_for(count: int, rows: I64) -> I64:
    """Rows of which the first `count` are in use, with room for one more."""
    return _with_room(rows) if count == len(rows) else rows


@jit_with_memory
def _with_room(rows: I64) -> I64:
    """The same rows, with room for as many more, and some."""
    larger = np.zeros((2 * len(rows) + 64, rows.shape[1]), np.int64)
    larger[: len(rows)] = rows
    return larger


@inlined
def _part(tally: Tally, first: int, end: int) -> Tally:
    return Tally(
        tally.time_us[first:end], tally.in_region[first:end], tally.in_interest[first:end], tally.in_both[first:end],
        tally.opens[first:end],
    )  # fmt: skip


@jit
def _open(region: int, regions: I64, heads: I64) -> None:
    """Put a region into the list of its tile."""
    head = heads[regions[region, TILE]]
    regions[region, NEXT], regions[region, BEFORE] = head, _NONE
    if head != _NONE:
        regions[head, BEFORE] = region
    heads[regions[region, TILE]] = region


@jit
def _leave(region: int, now_us: int, regions: I64, heads: I64) -> None:
    """Let a region serve one interest less; one that serves nobody any more is closed."""
    regions[region, SERVES] -= 1
    if regions[region, SERVES] > 0:
        return
    regions[region, CLOSED] = now_us
    following, before = regions[region, NEXT], regions[region, BEFORE]
    if following != _NONE:
        regions[following, BEFORE] = before
    if before != _NONE:
        regions[before, NEXT] = following
    else:
        heads[regions[region, TILE]] = following


@jit
def _serving(
    interest: int, place: int, since_us: int, now_us: int, ground: _Ground, regions: I64, heads: I64, asked: Asked,
    account: I64, spans: SpanRule, counts: I64, ignored: F64,
) -> int:  # fmt: skip
    """The nearest region that serves an interest well enough, from `since_us` to now; -1: none, or reuse rests."""
    of_tile = account[asked.tile[interest]]
    if _rests(of_tile):
        counts[UNTRIED] += 1
        return _NONE
    region, away_m = _NONE, 0.0
    for _ in range(TRIES):
        region, away_m = _next_nearest(
            region, away_m, place, since_us, max(asked.precision[interest], asked.recall[interest]), ground.places,
            ground.shape, regions, heads[asked.tile[interest]],
        )  # fmt: skip
        if region == _NONE:
            return _NONE
        counts[TRIED] += 1
        room = ground.room
        rows = fill(regions[region, PLACE], place, since_us, now_us, ground.events, ground.places, ground.shape, room)
        in_region, in_interest, in_both = 0, 0, 0
        for row in range(rows):
            in_region += room.in_region[row]
            in_interest += room.in_interest[row]
            in_both += room.in_both[row]
        of_tile[EVENTS_JUDGED] += in_region
        least_precision, least_recall = asked.precision[interest], asked.recall[interest]
        if not _is_good(in_region, in_interest, in_both, least_precision, least_recall, ignored):
            continue
        fails_at, _, _ = _first_failure(
            room, rows, since_us - 1, now_us, asked.end_us[interest], least_precision, least_recall, spans, ignored
        )
        if fails_at == END:
            of_tile[EVENTS_SAVED] += in_interest
            return region
    return _NONE


@inlined
def _rests(of_tile: I64) -> bool:
    """Whether an interest goes its own way, because reuse has not paid in its tile. It is entered in the account."""
    if of_tile[INTERESTS_TO_REST] > 0:
        of_tile[INTERESTS_TO_REST] -= 1
        return True
    if of_tile[TRIALS] == TRIAL:
        rests = bool(of_tile[EVENTS_JUDGED] > JUDGED_PER_PROCESSED * of_tile[EVENTS_SAVED])
        of_tile[EVENTS_JUDGED], of_tile[EVENTS_SAVED], of_tile[TRIALS] = 0, 0, 0
        of_tile[INTERESTS_TO_REST] = REST - 1 if rests else 0
        return rests
    of_tile[TRIALS] += 1
    return False


@jit
def _next_nearest(
    last: int, away_m: float, place: int, since_us: int, least: float, places: Places, shape: RegionShape, regions: I64,
    head: int,
) -> tuple[int, float]:  # fmt: skip
    """The open region that is nearest to a place after region `last`, which is so far away, and its distance.

    -1: there is none. It has read events from `since_us` on, and the area of both is the same to a share of `least`: of
    the time to come nothing else is known. Of equally near ones the first comes first.
    """
    nearest, nearest_m = _NONE, np.inf
    region = head
    while region != _NONE:
        if regions[region, SINCE] <= since_us:
            other = regions[region, PLACE]
            far_m = distance_m(places.x[other], places.y[other], places.x[place], places.y[place], shape.degrees)
            is_after = far_m > away_m or (far_m == away_m and region > last)
            if (
                is_after
                and (far_m < nearest_m or (far_m == nearest_m and region < nearest))
                and _shared_area(place, other, places, shape) >= AREA * least
            ):
                nearest, nearest_m = region, far_m
        region = regions[region, NEXT]
    return nearest, nearest_m


@inlined
def _shared_area(place: int, other: int, places: Places, shape: RegionShape) -> float:
    """The part of a region's area that another one of the same shape has, too."""
    x, y, other_x, other_y = places.x[place], places.y[place], places.x[other], places.y[other]
    if shape.is_round:
        half = _beside(distance_m(x, y, other_x, other_y, shape.degrees), 2 * shape.half_x)
        return 2 / math.pi * (math.acos(half) - half * math.sqrt(1 - half * half))
    east, north = distance_m(x, y, other_x, y, shape.degrees), distance_m(x, y, x, other_y, shape.degrees)
    return (1 - _beside(east, 2 * shape.half_x)) * (1 - _beside(north, 2 * shape.half_y))


@inlined
def _beside(apart: float, length: float) -> float:
    """The part of its length by which a region lies beside another one, 1 at the most.

    One without length lies beside it wholly, or not at all.
    """
    if apart >= length:
        return 0.0 if apart == 0.0 else 1.0
    return apart / length


@jit
def _first_failure(
    tally: Tally, rows: int, after_us: int, known_us: int, end_us: int, precision: float, recall: float,
    spans: SpanRule, sums: F64,
) -> tuple[int, int, int]:  # fmt: skip
    """Judge the spans of an interest that begin after a time and close by `known_us`, up to the first that does not
    suffice: when it closes, when it begins, and how many events of the interest it has. END: all of them suffice.

    Those that suffice are added to `sums`.
    """
    if spans.every_us > 0:
        return _first_failing_window(tally, rows, after_us, known_us, end_us, precision, recall, spans, sums)
    high, in_region, in_interest, in_both = 0, 0, 0, 0
    for low in range(rows):
        begin_us = tally.time_us[low]
        while high < rows and tally.time_us[high] <= begin_us + spans.length_us:
            in_region, in_interest = in_region + tally.in_region[high], in_interest + tally.in_interest[high]
            in_both, high = in_both + tally.in_both[high], high + 1
        if tally.opens[low] and begin_us > after_us:
            closes_us = until_of(begin_us, spans.length_us, end_us)
            if closes_us > known_us:
                break
            if not _is_good(in_region, in_interest, in_both, precision, recall, sums):
                return closes_us, begin_us, in_interest
        in_region, in_interest = in_region - tally.in_region[low], in_interest - tally.in_interest[low]
        in_both -= tally.in_both[low]
    return END, 0, 0


@jit
def _first_failing_window(
    tally: Tally, rows: int, after_us: int, known_us: int, end_us: int, precision: float, recall: float,
    spans: SpanRule, sums: F64,
) -> tuple[int, int, int]:  # fmt: skip
    """The same for windows, of which those count that have an event, and that end by the end of the interest."""
    over_us = spans.length_us + 1
    window = (after_us + over_us) // spans.every_us + 1
    low, high, in_region, in_interest, in_both = 0, 0, 0, 0, 0
    for row in range(rows):
        window = max(window, tally.time_us[row] // spans.every_us + 1)
        while window * spans.every_us <= tally.time_us[row] + over_us:
            ends_us = window * spans.every_us
            if ends_us - 1 > known_us or ends_us > end_us:
                return END, 0, 0
            while high < rows and tally.time_us[high] < ends_us:
                in_region, in_interest = in_region + tally.in_region[high], in_interest + tally.in_interest[high]
                in_both, high = in_both + tally.in_both[high], high + 1
            while low < high and tally.time_us[low] < ends_us - over_us:
                in_region, in_interest = in_region - tally.in_region[low], in_interest - tally.in_interest[low]
                in_both, low = in_both - tally.in_both[low], low + 1
            if not _is_good(in_region, in_interest, in_both, precision, recall, sums):
                return ends_us - 1, ends_us - over_us, in_interest
            window += 1
    return END, 0, 0


@inlined
def _is_good(in_region: int, in_interest: int, in_both: int, precision: float, recall: float, sums: F64) -> bool:
    """Whether a span suffices; if it does, it is added to the sums."""
    of_region, of_interest = precision_and_recall(in_both, in_interest, in_region)
    if of_region < precision or of_interest < recall:
        return False
    sums[SPANS] += 1
    sums[PRECISION] += of_region
    sums[RECALL] += of_interest
    return True
