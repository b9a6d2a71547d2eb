"""How far complex events that come from elsewhere have come: low watermarks by (type, source)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from situ.core.time import BEGINNING
from situ.kernel.state.checks import numbers, require_times


@dataclass(slots=True)
class Watermarks:
    """The promise of each source of a type that nothing before a time will follow, in microseconds.

    >>> watermarks = Watermarks.of(["Braking"], ["north", "south"])
    >>> watermarks.see("Braking", "north", 70)
    >>> watermarks.see("Braking", "south", 40)
    >>> watermarks.by_type()
    {'Braking': 40}
    """

    by_source: dict[tuple[str, str], int]

    @classmethod
    def of(cls, types: Iterable[str], sources: Iterable[str]) -> Watermarks:
        """No source of any type has promised anything yet."""
        all_sources = list(sources)
        return cls({(type_, source): BEGINNING for type_ in types for source in all_sources})

    def see(self, event_type: str, source: str, time_us: int) -> None:
        """A source promises that no event of the type before a time will follow."""
        self.by_source[event_type, source] = time_us

    def by_type(self) -> dict[str, int]:
        """A type has come as far as the slowest source that gives it."""
        lows: dict[str, int] = {}
        for (event_type, _), time_us in self.by_source.items():
            lows[event_type] = min(time_us, lows.get(event_type, time_us))
        return lows

    def table(self) -> pa.Table:
        """For a snapshot."""
        columns = {
            "type": pa.array([event_type for event_type, _ in self.by_source], pa.string()),
            "source": pa.array([source for _, source in self.by_source], pa.string()),
            "low": pa.array(list(self.by_source.values()), pa.int64()),
        }
        return pa.table(columns)

    def restore(self, table: pa.Table) -> None:
        """Go on from a table; sources that are not known here are left out."""
        times_us = numbers(table.column("low"), np.int64, "watermarks")
        require_times(times_us, "watermarks")
        keys = zip(table.column("type").to_pylist(), table.column("source").to_pylist(), strict=True)
        for key, time_us in zip(keys, times_us.tolist(), strict=True):
            if key in self.by_source:
                self.by_source[key] = time_us
