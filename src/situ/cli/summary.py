"""What a run has read and found, the same for both engines."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from situ.runtime.embedded import Output


@dataclass(slots=True)
class Summary:
    """What a run has read and found so far; `first` holds the first complex events of each subscription."""

    limit: int
    events: int = 0
    rejected: int = 0
    late: int = 0
    timed_out: int = 0
    complex_events: Counter[str] = field(default_factory=Counter)
    first: dict[str, pa.Table] = field(default_factory=dict)
    failed_calls: Counter[str] = field(default_factory=Counter)
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    out: Path | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "events": self.events,
            "rejected": self.rejected,
            "late": self.late,
            "complex_events": dict(self.complex_events),
            "timed_out": self.timed_out,
            "failed_calls": dict(self.failed_calls),
            "seconds": round(self.seconds, 3),
            "warnings": list(self.warnings),
            "out": str(self.out) if self.out else None,
        }

    def add(self, output: Output) -> None:
        """Counts one piece of the embedded engine's output, and keeps its first complex events."""
        self.events += output.events
        self.rejected += _rows(output.rejected)
        self.late += _rows(output.late)
        self.timed_out += _rows(output.timed_out)
        self.failed_calls.update(output.failed_calls)
        for name, table in output.complex_events.items():
            self.complex_events[name] += table.num_rows
            self.keep_first(name, table)

    def keep_first(self, name: str, table: pa.Table) -> None:
        """Keeps those of a subscription's complex events that are among the first of all that came so far."""
        if table.num_rows and self.limit:
            known = [self.first[name]] if name in self.first else []
            self.first[name] = earliest(pa.concat_tables([*known, table]), self.limit)


def _rows(tables: dict[str, pa.Table]) -> int:
    return sum(table.num_rows for table in tables.values())


def earliest(table: pa.Table, limit: int) -> pa.Table:
    """The first rows by time; of equal times, by the other columns from left to right: null, then smaller values.

    So the rows do not depend on how an engine came by them.

    >>> earliest(pa.table({"lane": ["b", None, "a"], "_time": [1, 1, 2]}), 2).to_pydict()
    {'lane': [None, 'b'], '_time': [1, 1]}
    """
    if limit <= 0:
        return table.slice(0, 0)
    times = table.column("_time").cast(pa.int64()).to_numpy()
    if len(times) > limit:  # few rows are sorted, and no others kept in memory
        last = np.partition(times, limit - 1)[limit - 1]
        table = table.filter(pa.array(times <= last))
    keys: list[pa.ChunkedArray] = []
    for name in ["_time", *(name for name in table.column_names if name != "_time")]:
        column = table.column(name)
        if column.null_count:
            keys.append(column.is_valid())
        if pa.types.is_floating(column.type):
            keys.append(pc.is_nan(column))  # after the numbers; Arrow puts it wherever it puts null
        if not pa.types.is_null(column.type):
            keys.append(column)
    numbered = {str(number): key for number, key in enumerate(keys)}
    order = pc.sort_indices(pa.table(numbered), sort_keys=[(number, "ascending") for number in numbered])
    return table.take(order.slice(0, limit))
