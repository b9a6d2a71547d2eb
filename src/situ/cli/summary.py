"""What a run has read and found, the same for both engines."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from situ.flow.earliest import earliest
from situ.lang.demands import JudgedDemand
from situ.reuse.totals import Totals

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
    reuse: dict[str, Totals] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    demands: tuple[JudgedDemand, ...] = ()
    timing: dict[str, float] | None = None  # where it is asked for, seconds by `place: hop`, of all tasks
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
            "reuse": {name: totals.to_json() for name, totals in self.reuse.items()},
            "seconds": round(self.seconds, 3),
            "demands": [demand.to_json() for demand in self.demands],
            "warnings": list(self.warnings),
            "out": str(self.out) if self.out else None,
        } | ({} if self.timing is None else {"timing": {hop: round(s, 3) for hop, s in self.timing.items()}})

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

    def shared(self, name: str, totals: Totals) -> None:
        """Adds what was shared for a subscription."""
        self.reuse[name] = self.reuse.get(name, Totals()) + totals

    def keep_first(self, name: str, table: pa.Table) -> None:
        """Keeps those of a subscription's complex events that are among the first of all that came so far."""
        if table.num_rows and self.limit:
            earlier = [self.first[name]] if name in self.first else []
            self.first[name] = earliest(pa.concat_tables([*earlier, table]), self.limit)


def _rows(tables: dict[str, pa.Table]) -> int:
    return sum(table.num_rows for table in tables.values())
