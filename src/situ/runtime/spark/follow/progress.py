"""What a streaming query says of its micro-batches, and totals over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Protocol

import numpy as np

from situ.reuse.totals import Totals
from situ.runtime.spark.stages.metrics import METRICS, REUSED
from situ.service.figures import MicroBatch

_OBSERVED = {f.name for f in fields(MicroBatch)} - {"number", "begun", "seconds", "reuse"}


def micro_batch(progress: Mapping[str, Any]) -> MicroBatch | None:
    """A micro-batch from a `StreamingQueryProgress`; None where Spark only says that it waits for data.

    >>> found = micro_batch({
    ...     "batchId": 3, "timestamp": "2026-03-01T10:00:00.000Z",
    ...     "durationMs": {"addBatch": 200, "triggerExecution": 250},
    ...     "observedMetrics": {"situ": {"input": 7, "watermark": "2026-03-01 09:59:58.5", "mean_latency_s": None}},
    ... })
    >>> found.number, found.seconds, found.input, found.begun - found.watermark
    (3, 0.25, 7, 1.5)
    """
    durations = progress["durationMs"]
    if "addBatch" not in durations:
        return None
    observed = _values((progress["observedMetrics"] or {}).get(METRICS, {}))
    figures = {name: value for name, value in observed.items() if name in _OBSERVED and value is not None}
    if "watermark" in figures:
        figures["watermark"] = _seconds(figures["watermark"])
    figures["reuse"] = Totals(**{f.name: observed.get(REUSED + f.name, 0) for f in fields(Totals)})
    begun = datetime.fromisoformat(progress["timestamp"]).timestamp()
    seconds = durations["triggerExecution"] / 1e3
    return MicroBatch(number=progress["batchId"], begun=begun, seconds=seconds, **figures)


def _values(row: Any) -> Mapping[str, Any]:
    """The metrics by their names. Spark Connect gives a row as its values beside its schema."""
    values: Mapping[str, Any] = row if isinstance(row, Mapping) else row.asDict()
    if {*values} != {"values", "schema"}:
        return values
    named = zip(values["schema"]["fields"], values["values"], strict=True)
    return {field["name"]: _from_json(value, field["type"]) for field, value in named}


def _from_json(value: Any, type_: object) -> Any:
    """A value as JSON has it: times are milliseconds there, and microseconds here."""
    return value * 1000 if type_ == "timestamp" and isinstance(value, int) else value


def _seconds(watermark: object) -> float:
    """Seconds since the epoch of a time as Spark may give it: microseconds, a text, or Python's."""
    match watermark:
        case int():
            return watermark / 1e6
        case datetime():
            return watermark.timestamp()
        case _:
            return _text_to_seconds(str(watermark))


def _text_to_seconds(text: str) -> float:
    """Seconds since the epoch. The clock of an old checkpoint may have come past the year 9999, where Python's calendar
    ends, and the clock can only be put back by a query that runs.

    >>> _text_to_seconds("2026-03-01 10:00:00.5"), _text_to_seconds("11476-08-15 05:20:00")
    (1772359200.5, 300000000000.0)
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return float(np.datetime64(text, "us").astype(np.int64)) / 1e6
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


class ProgressingQuery(Protocol):
    """The part of a `StreamingQuery` that is asked how far it is."""

    @property
    def lastProgress(self) -> Any: ...

    @property
    def recentProgress(self) -> Any: ...


@dataclass
class ProgressFeed:
    """The micro-batches of a streaming query, each once."""

    query: ProgressingQuery
    after: int = -1
    _looked_at: str = ""

    def new(self) -> list[MicroBatch]:
        """Those that ended since the last call. Spark remembers a hundred: ask often enough."""
        last = self.query.lastProgress
        if last is None or last["batchId"] <= self.after or last["timestamp"] == self._looked_at:
            return []
        self._looked_at = last["timestamp"]
        # To ask for all that Spark remembers takes a hundred times as long as to ask for one.
        progress = [last] if last["batchId"] == self.after + 1 else self.query.recentProgress
        new_batches = [batch for p in progress if (batch := micro_batch(p)) is not None and batch.number > self.after]
        if new_batches:
            self.after = new_batches[-1].number
        return new_batches
