"""Whether the promise of a quality was kept: precision and recall of every span, from raw events.

It shares no code with what decides. Interests are told from the drivers' rows, regions from the names on results, and
events are counted by masks. A span that has a result alone, and was delivered none, was served by the region that
serves the ones beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from situ.bench.sharing_drivers import THRESHOLD, Tables
from situ.core.errors import SituError
from situ.kernel.arrays import F64, I64

HALF_M, EVERY_S, LEAVE_AFTER_S = 250.0, 10, 30
WINDOW_S, WITHIN_S, SLOW = 10, 5, 3.0
#: Figures that differ by more than this are others.
NEAR = 1e-9


@dataclass(frozen=True, slots=True)
class DriverInterest:
    """Where a driver's square is, from one second to another, both included."""

    x: float
    y: float
    start_s: int
    end_s: int


@dataclass(frozen=True, slots=True)
class PromiseKept:
    """Spans that were looked at, those of them that are below what was asked, spans whose results say something else
    than what was counted, and spans between two regions, either of which may have served."""

    spans: int = 0
    below: int = 0
    wrong: int = 0
    between: int = 0

    def __add__(self, other: PromiseKept) -> PromiseKept:
        return PromiseKept(
            self.spans + other.spans, self.below + other.below, self.wrong + other.wrong, self.between + other.between
        )


def interests_of(drivers: pa.Table) -> dict[tuple[str, int], DriverInterest]:
    """By driver and number. A driver is heard of every second until he leaves; a square stays where it is as long as
    he does."""
    interests = {}
    for name in drivers["vehicle"].unique().to_pylist():
        rows = drivers.filter(pc.equal(drivers["vehicle"], name))
        seconds = (rows["time_us"].to_numpy() // 1_000_000).tolist()
        places = list(zip(rows["x"].to_pylist(), rows["y"].to_pylist(), strict=True))
        begun: list[tuple[int, tuple[float, float]]] = []
        for second, place in zip(seconds, places, strict=True):
            if not begun or (second - begun[-1][0] >= EVERY_S and place != begun[-1][1]):
                begun.append((second, place))
        ends = [*(second for second, _ in begun[1:]), seconds[-1] + LEAVE_AFTER_S]
        for number, ((start_s, (x, y)), end_s) in enumerate(zip(begun, ends, strict=True), 1):
            interests[name, number] = DriverInterest(x, y, start_s, end_s)
    return interests


class RawEvents:
    """Vehicles second by second."""

    def __init__(self, vehicles: pa.Table) -> None:
        self._seconds = vehicles["time_us"].to_numpy() // 1_000_000
        self._x, self._y = vehicles["x"].to_numpy(), vehicles["y"].to_numpy()
        self._slow = vehicles["speed"].to_numpy() < SLOW
        self._vehicle = vehicles["vehicle"].combine_chunks().dictionary_encode().indices.to_numpy()

    def counts(self, interest: DriverInterest, region: DriverInterest, since_s: int, until_s: int) -> I64:
        """By second, events in the interest, in the region and in both."""
        rows = slice(*np.searchsorted(self._seconds, [since_s, until_s + 1]))
        seconds = self._seconds[rows] - since_s
        mine, theirs = (self._inside(place, rows) for place in (interest, region))
        length = until_s - since_s + 1
        return np.stack([np.bincount(seconds[mask], minlength=length) for mask in (mine, theirs, mine & theirs)])

    def openings(self, interest: DriverInterest, since_s: int) -> I64:
        """The seconds at which a vehicle is slow in an interest and is there again in time: alone, that is a result."""
        rows = slice(*np.searchsorted(self._seconds, [since_s, interest.end_s + 1]))
        inside = np.flatnonzero(self._inside(interest, rows)) + rows.start
        inside = inside[np.lexsort((self._seconds[inside], self._vehicle[inside]))]
        seconds, vehicle = self._seconds[inside], self._vehicle[inside]
        is_again = (vehicle[1:] == vehicle[:-1]) & (seconds[1:] - seconds[:-1] <= WITHIN_S)
        is_again &= seconds[1:] >= interest.start_s
        opened: I64 = np.unique(seconds[:-1][is_again & self._slow[inside[:-1]]])
        return opened

    def _inside(self, place: DriverInterest, rows: slice) -> npt.NDArray[np.bool_]:
        near_x, near_y = np.abs(self._x[rows] - place.x) <= HALF_M, np.abs(self._y[rows] - place.y) <= HALF_M
        return np.asarray(near_x & near_y)


def figures_of(counts: I64, since_s: int, begins_s: I64, lasts_s: I64) -> tuple[F64, F64]:
    """Precision and recall of spans from one second to another, both included, by the counts of each second."""
    sums = np.concatenate([np.zeros((3, 1), np.int64), np.cumsum(counts, axis=1)], axis=1)
    mine, theirs, both = sums[:, lasts_s + 1 - since_s] - sums[:, begins_s - since_s]
    precision = np.where(theirs > 0, both / np.maximum(theirs, 1), 1.0)
    recall = np.where(mine > 0, both / np.maximum(mine, 1), 1.0)
    return precision, recall


@dataclass(frozen=True, slots=True)
class SpanResults:
    """The spans of an interest with a result, by their begin: figures, and whose region it was."""

    begins_s: I64
    precision: F64
    recall: F64
    region: I64  # of `regions`
    regions: tuple[tuple[str, int], ...]


def kept(name: str, found: pa.Table, tables: Tables) -> PromiseKept:
    """Hold the results of one of the subscriptions of `TOLD` against the raw events."""
    judged = _windows_kept if name == "Cars" else _openings_kept
    interests, events = interests_of(tables["Driver"]), RawEvents(tables["Vehicle"])
    everywhere = [*interests.values()]
    results = _by_interest(name, found)
    total = PromiseKept()
    for key, interest in interests.items():
        of_interest = results.pop(key, _NONE)
        places = [interests[region] for region in of_interest.regions]
        total += judged(interest, of_interest, places, events)
        if judged is _openings_kept and not places:
            total += _silence_kept(interest, everywhere, events)
    if results:
        raise SituError(f"results of {next(iter(results))}, who has no such interest", remedy="This is a bug in situ.")
    return total


def _by_interest(name: str, found: pa.Table) -> dict[tuple[str, int], SpanResults]:
    """Results by interest; those of one span that say the same are one."""
    times_s = found["_time"].cast(pa.int64()).to_numpy() // 1_000_000
    begins_s = times_s - WINDOW_S if name == "Cars" else found["begin"].to_numpy() // 1_000_000
    columns = [found[column].to_pylist() for column in
               ("consumer", "interest", "precision", "recall", "region_consumer", "region_interest")]  # fmt: skip
    spans: dict[tuple[str, int], set[tuple[int, float, float, str, int]]] = {}
    for begin_s, consumer, number, *said in zip(begins_s.tolist(), *columns, strict=True):
        spans.setdefault((consumer, number), set()).add((begin_s, *said))
    return {key: _results(sorted(of_interest)) for key, of_interest in spans.items()}


def _results(spans: list[tuple[int, float, float, str, int]]) -> SpanResults:
    named = [(consumer, number) for *_, consumer, number in spans]
    regions = tuple(dict.fromkeys(named))
    begins_s, precision, recall = (np.array([span[k] for span in spans]) for k in range(3))
    return SpanResults(begins_s, precision, recall, np.array([regions.index(one) for one in named], int), regions)


_NONE = _results([])


def _windows_kept(
    interest: DriverInterest, results: SpanResults, places: list[DriverInterest], events: RawEvents
) -> PromiseKept:
    """Windows that end while the interest lasts. One with an event in the interest has a result, if its region has a
    share of it at all."""
    since_s = interest.start_s - WINDOW_S
    total = PromiseKept()
    for region, place in enumerate(places):
        begins_s = results.begins_s[results.region == region]
        counts = events.counts(interest, place, since_s, interest.end_s)
        total += _results_kept(results, region, counts, since_s, begins_s + WINDOW_S - 1)
    ends_s = np.arange(-(-interest.start_s // WINDOW_S) * WINDOW_S, interest.end_s + 1, WINDOW_S)
    sums = np.append(0, np.cumsum(events.counts(interest, interest, since_s, interest.end_s)[0]))
    has_events = sums[ends_s - since_s] > sums[ends_s - WINDOW_S - since_s]
    missing = np.setdiff1d(ends_s[has_events] - WINDOW_S, results.begins_s)
    twice = len(results.begins_s) - len(np.unique(results.begins_s))
    return total + PromiseKept(len(missing), below=len(missing), wrong=twice)


def _openings_kept(
    interest: DriverInterest, results: SpanResults, places: list[DriverInterest], events: RawEvents
) -> PromiseKept:
    """Spans that a slow vehicle opens; the end of an interest cuts them. One that has a result alone and was given none
    was served by the region of the result before or after it: if these are two, one of them suffices."""
    since_s = interest.start_s - WITHIN_S
    missing = np.setdiff1d(events.openings(interest, since_s), results.begins_s)
    if not places:
        return PromiseKept()
    at, last = np.searchsorted(results.begins_s, missing), len(results.begins_s) - 1
    beside = results.region[np.minimum(at, last)], results.region[np.maximum(at - 1, 0)]
    total, good_of = PromiseKept(), dict[int, list[bool]]()
    for region, place in enumerate(places):
        counts = events.counts(interest, place, since_s, interest.end_s)
        lasts_s = np.minimum(results.begins_s[results.region == region] + WITHIN_S, interest.end_s)
        total += _results_kept(results, region, counts, since_s, lasts_s)
        begins_s = missing[(beside[0] == region) | (beside[1] == region)]
        precision, recall = figures_of(counts, since_s, begins_s, np.minimum(begins_s + WITHIN_S, interest.end_s))
        for begin_s, good in zip(begins_s.tolist(), _suffices(precision, recall).tolist(), strict=True):
            good_of.setdefault(begin_s, []).append(good)
    below, between = sum(not any(good) for good in good_of.values()), sum(len(good) > 1 for good in good_of.values())
    twice = len(results.begins_s) - len(np.unique(results.begins_s))
    return total + PromiseKept(len(good_of), below, twice, between)


def _silence_kept(interest: DriverInterest, everywhere: list[DriverInterest], events: RawEvents) -> PromiseKept:
    """The spans of an interest that was delivered nothing, and has a result alone: somebody's region suffices."""
    since_s = interest.start_s - WITHIN_S
    begins_s = events.openings(interest, since_s)
    is_good = np.zeros(len(begins_s), np.bool_)
    for place in everywhere if len(begins_s) else ():
        if max(abs(place.x - interest.x), abs(place.y - interest.y)) < 2 * HALF_M and place is not interest:
            counts = events.counts(interest, place, since_s, interest.end_s)
            lasts_s = np.minimum(begins_s + WITHIN_S, interest.end_s)
            is_good |= _suffices(*figures_of(counts, since_s, begins_s, lasts_s))
    return PromiseKept(len(begins_s), below=int(np.count_nonzero(~is_good)))


def _results_kept(results: SpanResults, region: int, counts: I64, since_s: int, lasts_s: I64) -> PromiseKept:
    """The spans with a result from one region: whether they suffice, and whether what they say is so."""
    mine = results.region == region
    precision, recall = figures_of(counts, since_s, results.begins_s[mine], lasts_s)
    differs = (np.abs(precision - results.precision[mine]) > NEAR) | (np.abs(recall - results.recall[mine]) > NEAR)
    below = np.count_nonzero(~_suffices(precision, recall))
    return PromiseKept(int(mine.sum()), below=int(below), wrong=int(differs.sum()))


def _suffices(precision: F64, recall: F64) -> npt.NDArray[np.bool_]:
    suffices: npt.NDArray[np.bool_] = (precision >= THRESHOLD) & (recall >= THRESHOLD)
    return suffices
