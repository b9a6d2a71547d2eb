"""The last complex events of a query that runs on, for a person who watches."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from situ.runtime.sites.sinks.sink import NumberedRows


@dataclass(frozen=True)
class RecentEvents:
    """Complex events of a subscription in some micro-batches: how many, and the last of them."""

    count: int
    last: pa.Table


class Recent(Protocol):
    """Where complex events go that are only shown."""

    @property
    def limit(self) -> int:
        """How many of each subscription are kept."""
        ...

    def take(self) -> dict[str, RecentEvents]:
        """Takes out all complex events that came since the last call, by subscription."""
        ...


class RecentMemory:
    """A sink in this process that counts complex events, and keeps the last of each subscription."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._changing = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._last: dict[str, pa.Table] = {}

    def write(self, results: NumberedRows) -> None:
        name = results.log.type
        if results.log.kind != "events":
            return
        with self._changing:
            earlier = self._last.get(name)
            same = earlier is not None and earlier.schema == results.rows.schema
            self._last[name] = latest([earlier, results.rows] if same else [results.rows], self.limit)
            self._counts[name] += results.rows.num_rows

    def close(self) -> None:
        """Nothing is open."""

    def take(self) -> dict[str, RecentEvents]:
        with self._changing:
            taken = {name: RecentEvents(self._counts[name], table) for name, table in self._last.items()}
            self._counts.clear()
            self._last.clear()
        return taken


def latest(tables: list[pa.Table], limit: int) -> pa.Table:
    """The last rows by time, in order.

    >>> latest([pa.table({"n": [1, 2], "_time": [5, 7]}), pa.table({"n": [3], "_time": [6]})], 2).to_pydict()
    {'n': [3, 2], '_time': [6, 7]}
    """
    joined = pa.concat_tables(tables)
    order = pc.sort_indices(joined, sort_keys=[("_time", "ascending")])
    return joined.take(order[max(len(order) - limit, 0) :])
