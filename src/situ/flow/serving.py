"""Regions that serve interests, and which of them serves whom: as columns, and as tables of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from situ.core.time import END
from situ.flow.active import Active
from situ.flow.moving import places_of
from situ.kernel.arrays import I64
from situ.kernel.batch import one_chunk
from situ.kernel.matching.machine import jit
from situ.kernel.state.checks import (
    FARTHEST,
    numbers,
    require,
    require_between,
    require_columns,
    require_event_times,
    require_times,
)
from situ.mobility.interests import Interests
from situ.reuse.tallies import Tally


@dataclass(frozen=True, slots=True)
class ServingRegions:
    """Regions with the numbers by which operators know them, which ascend: as interests of those who began them, from
    the time from which on they read events. `owners` are the keys of the interests that began them."""

    active: Active
    owners: I64

    def __len__(self) -> int:
        return len(self.owners)

    @property
    def keys(self) -> I64:
        return self.active.keys

    def take(self, rows: np.ndarray) -> ServingRegions:
        return ServingRegions(self.active.take(rows), self.owners[rows])

    @property
    def are_open(self) -> npt.NDArray[np.bool_]:
        is_open: npt.NDArray[np.bool_] = self.active.interests.end_us == END
        return is_open

    def and_(self, more: ServingRegions) -> ServingRegions:
        """All of them, in order of their numbers."""
        owners = np.concatenate([self.owners, more.owners])
        order = np.argsort(np.concatenate([self.keys, more.keys]))
        return ServingRegions(Active.concat(self.active, more.active), owners[order])

    def table(self) -> pa.Table:
        """They as a table of a snapshot."""
        began = self.active.interests
        columns = {"key": self.keys, "owner": self.owners, "number": began.number, "since_us": began.start_us,
                   "until_us": began.end_us, "x": began.x, "y": began.y}  # fmt: skip
        return to_table(columns).append_column("consumer", began.consumer)

    @classmethod
    def of(cls, table: pa.Table, next_region: int, next_interest: int, consumers: pa.DataType) -> ServingRegions:
        """Those of a table; StateError if it is damaged. Numbers of regions and interests are below the next ones."""
        keys, owners, number = (whole_numbers(table, name) for name in ("key", "owner", "number"))
        since_us, until_us = whole_numbers(table, "since_us"), whole_numbers(table, "until_us")
        require_between(keys, 0, next_region, "numbers of regions")
        require_between(number, 1, FARTHEST, "numbers of interests")
        require_between(owners, 0, next_interest, "numbers of interests")
        require_event_times(since_us)
        require_times(until_us, "times of regions")
        x, y = places_of({name: table.column(name) for name in ("x", "y")})
        consumer = one_chunk(table.column("consumer"))
        require_columns({"consumer": consumer}, {"consumer": consumers}, whole=True)
        return cls(Active(Interests(consumer, number, since_us, until_us, x, y), keys), owners)


@dataclass(frozen=True, slots=True)
class Services:
    """Which region serves which interest, by their keys, for the spans that begin from `since_us` on and before
    `until_us`; END: until the interest ends."""

    interests: I64
    regions: I64
    since_us: I64
    until_us: I64

    def __len__(self) -> int:
        return len(self.regions)

    @classmethod
    def none(cls) -> Services:
        return cls(*(np.zeros(0, np.int64) for _ in range(4)))

    def take(self, rows: np.ndarray) -> Services:
        return Services(self.interests[rows], self.regions[rows], self.since_us[rows], self.until_us[rows])

    def and_(self, more: Services) -> Services:
        """All of them, by interest and begin."""
        pairs = zip(*((s.interests, s.regions, s.since_us, s.until_us) for s in (self, more)), strict=True)
        both = Services(*(np.concatenate(pair) for pair in pairs))
        return both.take(np.lexsort((both.since_us, both.interests)))

    def table(self) -> pa.Table:
        """They as a table of a snapshot."""
        return to_table({"interest": self.interests, "region": self.regions, "since_us": self.since_us,
                         "until_us": self.until_us})  # fmt: skip

    @classmethod
    def of(cls, table: pa.Table, open_interests: I64, regions: ServingRegions) -> Services:
        """Those of a table; StateError if it is damaged. Each open interest is served by one region just now."""
        services = cls(*(whole_numbers(table, name) for name in ("interest", "region", "since_us", "until_us")))
        current = services.take(services.until_us == END)
        open_regions = regions.keys[regions.are_open]
        require(np.array_equal(current.interests, open_interests), "an interest is served by no region")
        require(np.isin(current.regions, open_regions).all(), "an interest is served by no region")
        require(np.isin(services.interests, open_interests).all(), "a region serves nobody")
        require_event_times(services.since_us)
        require_times(services.until_us, "times of services")
        require(np.isin(open_regions, current.regions).all(), "a region serves nobody")
        require(np.isin(services.regions, regions.keys).all(), "an interest is served by no region")
        return services


def to_table(columns: Mapping[str, np.ndarray]) -> pa.Table:
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def whole_numbers(table: pa.Table, name: str) -> I64:
    """A column of whole numbers; StateError if there are others in it."""
    return numbers(table.column(name), np.int64, f"numbers in {name}")


def tally_of(table: pa.Table) -> Tally:
    """A tally that was written to a table; StateError if it is damaged."""
    time_us, *counts = (whole_numbers(table, name) for name in Tally._fields[:-1])
    in_region, in_interest, in_both = counts
    for count in counts:
        require_between(count, 0, FARTHEST, "counts of events")
    opens = one_chunk(table.column("opens"))
    require_columns({"opens": opens}, {"opens": pa.bool_()}, whole=True)
    return Tally(time_us, in_region, in_interest, in_both, opens.to_numpy(zero_copy_only=False))


@jit
def slices(keys: I64, times: I64, regions: I64, since: I64, until: I64, first: I64, last: I64) -> None:
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
