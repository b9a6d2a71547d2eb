"""The event store: atomic and complex events by type, time and location (MCEP, section 3.3).

Events of a type lie in segments, each sorted by time, in the order in which they were added. A segment that is not much
larger than the one after it is merged with it, so there are few of them, and an event is copied a logarithmic number of
times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from situ.core.errors import InputError
from situ.core.time import BEGINNING, END
from situ.core.types import TIMESTAMP_ARROW
from situ.kernel.arrays import F64, I64
from situ.kernel.batch import EXTENT, Batch, as_timestamps, concat, one_chunk
from situ.kernel.matching.order import is_sorted
from situ.kernel.state.checks import require_columns, require_event_times, require_sorted
from situ.space.geometry import Shape
from situ.space.pairs import PlacedEvents, Regions, together

#: No event is older.
#: Columns of a stored table besides the events' own: their time and their place.
TIME, X, Y = PLACED = ("_time", "_x", "_y")
_EVICTED = b"evicted_before_us"


@dataclass(frozen=True, slots=True)
class Region:
    """What lies so far from a place to each side, borders included; a round one within `half_x` of it.

    >>> Region(0.0, 0.0, 5.0, 5.0, True).contains(np.array([3.0, 4.0]), np.array([4.0, 4.0])).tolist()
    [True, False]
    """

    x: float
    y: float
    half_x: float
    half_y: float
    is_round: bool

    def contains(
        self, x_min: F64, y_min: F64, x_max: F64 | None = None, y_max: F64 | None = None
    ) -> npt.NDArray[np.bool_]:
        """Which extents are wholly inside, with all of their corners; a place is an extent of one point. NaN is
        nowhere."""
        shape = Shape(self.half_x, self.half_y, self.is_round)
        middle = np.array([self.x]), np.array([self.y])
        corners = [(x_min, y_min)]
        if x_max is not None and y_max is not None:
            corners += [(x_min, y_max), (x_max, y_min), (x_max, y_max)]
        inside: npt.NDArray[np.bool_] = np.logical_and.reduce([shape.holds(x, y, *middle)[0] for x, y in corners])
        return inside


@dataclass(frozen=True, slots=True)
class StoredEvents:
    """Events by time, with their places. Those of equal time stand in the order in which they were added."""

    batch: Batch
    x: F64
    y: F64

    def __len__(self) -> int:
        return len(self.batch)

    def inside(self, region: Region) -> npt.NDArray[np.bool_]:
        """Which events a region holds; it holds a complex event if its whole extent is inside."""
        if EXTENT[0] not in self.batch.columns:
            return region.contains(self.x, self.y)
        return region.contains(*(reals(self.batch.columns[name]) for name in EXTENT))

    def between(self, since_us: int, until_us: int) -> StoredEvents:
        first = int(np.searchsorted(self.batch.times, since_us, side="left"))
        return self.slice(first, max(first, int(np.searchsorted(self.batch.times, until_us, side="right"))))

    def slice(self, first: int, last: int) -> StoredEvents:
        """The rows from `first` to before `last`."""
        columns = {name: column.slice(first, last - first) for name, column in self.batch.columns.items()}
        return StoredEvents(Batch(self.batch.times[first:last], columns), self.x[first:last], self.y[first:last])

    def take(self, rows: I64) -> StoredEvents:
        return StoredEvents(self.batch.take(rows), self.x[rows], self.y[rows])

    def table(self) -> pa.Table:
        """All of it in columns: attributes, `_time`, `_x` and `_y`."""
        placed = {TIME: as_timestamps(self.batch.times), X: pa.array(self.x), Y: pa.array(self.y)}
        return pa.table(self.batch.columns | placed)

    @classmethod
    def of_table(cls, table: pa.Table) -> StoredEvents:
        columns = {name: one_chunk(table.column(name)) for name in table.column_names}
        require_columns(columns, {TIME: TIMESTAMP_ARROW}, whole=True)
        require_columns(columns, {X: pa.float64(), Y: pa.float64()})
        times = columns.pop(TIME).cast(pa.int64()).to_numpy(zero_copy_only=False)
        require_event_times(times)
        require_sorted(times, "times of stored events")
        x, y = (reals(columns.pop(name)) for name in (X, Y))
        return cls(Batch(times, columns), x, y)


@dataclass(frozen=True, slots=True)
class Asking:
    """What a moving subscription can still ask for.

    `earliest_start_us`: no interest begins before it whose history has not been read yet. That is the time that has
    passed for location updates, or the start of an interest that waits for its history. `history_us`: by event type,
    how far back the atomic events of a complex event may lie (mobility/history.py).
    """

    earliest_start_us: int
    lifetime_us: int
    history_us: Mapping[str, int]


def evict_before(asking: Iterable[Asking]) -> dict[str, int]:
    """By event type, the time before which no interest of any subscription can ask for an event any more.

    An interest that begins at s reads from s less the lifetime less the history (MCEP, section 4.2.1), and none begins
    before `earliest_start_us`. Types that nobody asks for are left out.

    >>> evict_before([Asking(100, 30, {"Car": 5, "Lamp": 9}), Asking(100, 0, {"Car": 60})])
    {'Car': 40, 'Lamp': 61}
    """
    before: dict[str, int] = {}
    for one in asking:
        for event_type, history_us in one.history_us.items():
            since_us = one.earliest_start_us - one.lifetime_us - history_us
            before[event_type] = min(before.get(event_type, since_us), since_us)
    return before


class EventStore:
    """Events in memory.

    >>> store = EventStore()
    >>> store.add("Car", Batch(np.array([7, 3]), {"id": pa.array([1, 2])}), np.array([0.0, 9.0]), np.zeros(2))
    >>> store.inside("Car", 0, 9, Region(0.0, 0.0, 5.0, 5.0, False)).columns["id"].to_pylist()
    [1]
    >>> store.evict("Car", 5), len(store.located("Car", 0, 9))
    (1, 1)
    """

    def __init__(self) -> None:
        self._segments: dict[str, list[_Segment]] = {}
        self._evicted_us: dict[str, int] = {}

    def add(self, event_type: str, batch: Batch, x: F64, y: F64) -> None:
        """Events in any order, with the columns that are at hand. A complex event's extent is in its columns (EXTENT);
        its x and y are any point of it. What lies before an eviction is left out."""
        added = in_order(StoredEvents(batch, x, y))
        segments = self._segments.setdefault(event_type, [])
        if segments:
            check_columns(event_type, segments[-1].events.batch.columns, batch.columns)
        added = added.between(self._evicted_us.get(event_type, BEGINNING), END)
        if len(added) or not segments:
            segments.append(_Segment(added))
        while len(segments) > 1 and len(segments[-2]) <= 2 * len(segments[-1]):
            last, before = segments.pop(), segments.pop()
            segments.append(_Segment(merge([before.stored, last.stored])))

    def located(self, event_type: str, since_us: int, until_us: int) -> StoredEvents:
        """Events with a time from `since_us` to `until_us`, both included."""
        return merge([segment.stored.between(since_us, until_us) for segment in self._segments.get(event_type, [])])

    def size(self, event_type: str) -> int:
        """How many events of a type there are."""
        return sum(map(len, self._segments.get(event_type, [])))

    def counts(self, event_type: str, regions: Regions, shape: Shape) -> I64:
        """How many events each region has."""
        counts = np.zeros(len(regions), np.int64)
        for segment, asked in self._asked(event_type, regions):
            counts += segment.placed(shape).counts(asked)
        return counts

    def pairs(self, event_type: str, regions: Regions, shape: Shape) -> Iterator[tuple[StoredEvents, I64, I64]]:
        """The events of regions, segment by segment from the oldest on: events, rows of them, and rows of the regions
        that these lie in."""
        for segment, asked in self._asked(event_type, regions):
            yield segment.events, *segment.placed(shape).pairs(asked)

    def placed(self, event_types: Iterable[str], since_us: int, shape: Shape) -> PlacedEvents:
        """The events of some types from `since_us` on, and perhaps earlier ones, in one grid.

        Where one segment has all of them, that is its index, which is made once.
        """
        concerned = [
            (event_type, segment)
            for event_type in event_types
            for segment in self._segments.get(event_type, [])
            if since_us <= segment.latest_us
        ]
        if len(concerned) == 1:
            ((event_type, segment),) = concerned
            if since_us >= self._evicted_us.get(event_type, BEGINNING):  # nobody counts what has been evicted
                return segment.placed(shape)
        stored = [segment.stored.between(since_us, END) for _, segment in concerned]
        return PlacedEvents.of(*together([(events.batch.times, events.x, events.y) for events in stored]), shape)

    def _asked(self, event_type: str, regions: Regions) -> Iterator[tuple[_Segment, Regions]]:
        """The segments that may hold events of some regions, each with these regions, from the time of
        the last eviction on."""
        since_us = np.maximum(regions.since_us, self._evicted_us.get(event_type, BEGINNING))
        asked = replace(regions, since_us=since_us)
        for segment in self._segments.get(event_type, []):
            times = segment.events.batch.times
            if len(segment) and len(regions) and times[-1] >= since_us.min() and times[0] <= regions.until_us.max():
                yield segment, asked

    def inside(self, event_type: str, since_us: int, until_us: int, region: Region) -> Batch:
        """Events with a time from `since_us` to `until_us` that lie in a region."""
        located = self.located(event_type, since_us, until_us)
        return located.batch.take(located.inside(region))

    def evict(self, event_type: str, before_us: int) -> int:
        """Forget the events before a time, for good; how many there were."""
        evicted_us = max(before_us, self._evicted_us.get(event_type, BEGINNING))
        self._evicted_us[event_type] = evicted_us
        segments = self._segments.get(event_type, [])
        left = [segment.since(evicted_us) for segment in segments]
        gone = sum(map(len, segments)) - sum(map(len, left))
        # One is kept for the columns that the type has.
        self._segments[event_type] = [segment for segment in left if len(segment)] or left[:1]
        return gone

    def tables(self) -> dict[str, pa.Table]:
        """All that is stored, for `from_tables`."""
        return {
            event_type: merge([segment.stored for segment in segments])
            .table()
            .replace_schema_metadata({_EVICTED: str(self._evicted_us.get(event_type, BEGINNING)).encode()})
            for event_type, segments in self._segments.items()
            if segments
        }

    @classmethod
    def from_tables(cls, tables: Mapping[str, pa.Table]) -> EventStore:
        store = cls()
        for event_type, table in tables.items():
            events = StoredEvents.of_table(table)
            store._segments[event_type] = [_Segment(events)]
            store._evicted_us[event_type] = int((table.schema.metadata or {}).get(_EVICTED, BEGINNING))
        return store


@dataclass(slots=True)
class _Segment:
    """Events by time, of which the first `evicted` are forgotten; their index in space is made once."""

    events: StoredEvents
    evicted: int = 0
    _placed: PlacedEvents | None = None

    def __len__(self) -> int:
        return len(self.events) - self.evicted

    @property
    def latest_us(self) -> int:
        """The largest time of its events; BEGINNING if it has none."""
        return int(self.events.batch.times[-1]) if len(self) else BEGINNING

    @property
    def stored(self) -> StoredEvents:
        return self.events.slice(self.evicted, len(self.events))

    def placed(self, shape: Shape) -> PlacedEvents:
        """The events in a grid for regions of a shape, which is always the same one."""
        if self._placed is None:
            self._placed = PlacedEvents.of(self.events.batch.times, self.events.x, self.events.y, shape)
        return self._placed

    def since(self, since_us: int) -> _Segment:
        """Without the events before a time. The memory is given back when half of it is of no use."""
        evicted = max(self.evicted, int(np.searchsorted(self.events.batch.times, since_us, side="left")))
        left = len(self.events) - evicted
        if 2 * left > len(self.events):
            return _Segment(self.events, evicted, self._placed)
        return _Segment(self.events.take(np.arange(evicted, len(self.events))))


def in_order(events: StoredEvents) -> StoredEvents:
    return events if is_sorted(events.batch.times) else events.take(np.argsort(events.batch.times, kind="stable"))


def merge(parts: Sequence[StoredEvents]) -> StoredEvents:
    """Parts that are sorted by time as one; of equal times, earlier parts come first."""
    if not parts:
        return StoredEvents(Batch(np.zeros(0, np.int64), {}), np.zeros(0), np.zeros(0))
    filled = [part for part in parts if len(part)] or [parts[0]]
    if len(filled) == 1:
        return filled[0]
    batch = concat([part.batch for part in filled])
    x, y = np.concatenate([part.x for part in filled]), np.concatenate([part.y for part in filled])
    return in_order(StoredEvents(batch, x, y))


def check_columns(event_type: str, stored: Iterable[str], added: Iterable[str]) -> None:
    if set(stored) != set(added):
        raise InputError(
            f"{event_type} is stored with the columns {sorted(stored)}, and came with {sorted(added)}",
            remedy="Add the same columns of a type each time.",
        )


def reals(column: pa.Array) -> F64:
    """Numbers, with NaN for nulls."""
    values: F64 = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return values
