"""What a streaming query says of its micro-batches, and totals over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Protocol

import numpy as np

from situ.runtime.spark.stages.metrics import METRICS


@dataclass(frozen=True, slots=True)
class Counts:
    """What is counted in a micro-batch, and over all of them, in the words of `situ.runtime.spark.stages.metrics`.

    >>> Counts(input=2, late=1) + Counts(input=3)  # doctest: +NORMALIZE_WHITESPACE
    Counts(input=5, candidates=0, complex_events=0, timed_out=0, late=1, rejected=0, failed_calls=0, duplicates=0,
           interests=0, covered=0)
    """

    input: int = 0
    candidates: int = 0
    complex_events: int = 0
    timed_out: int = 0
    late: int = 0
    rejected: int = 0
    failed_calls: int = 0
    duplicates: int = 0
    interests: int = 0
    covered: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Counts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch(Counts):
    """One micro-batch. None: nothing to say, as no shard had work."""

    number: int
    begun: float  # seconds since the epoch
    seconds: float
    state_bytes: int = 0
    largest_shard_bytes: int | None = None
    largest_shard_candidates: int | None = None
    mean_shard_candidates: float | None = None
    slowest_shard_ms: float | None = None
    watermark: float | None = None  # seconds since the epoch
    mean_latency_s: float | None = None
    max_latency_s: float | None = None

    @property
    def skew(self) -> float | None:
        """The candidates of the largest shard, in those of the mean one."""
        if not self.mean_shard_candidates or self.largest_shard_candidates is None:
            return None
        return self.largest_shard_candidates / self.mean_shard_candidates


_OBSERVED = {f.name for f in fields(MicroBatch)} - {"number", "begun", "seconds"}


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


@dataclass
class Totals:
    """Sums over the micro-batches of a run, and the last one that said something."""

    counts: Counts = Counts()
    micro_batches: int = 0
    seconds: float = 0.0
    rule_changes: int = 0
    latency_sum_s: float = 0.0
    max_latency_s: float | None = None
    last: MicroBatch | None = None
    last_with_state: MicroBatch | None = None
    last_with_latency: MicroBatch | None = None
    watermark: float | None = None

    def add(self, batch: MicroBatch) -> None:
        self.counts += batch
        self.micro_batches += 1
        self.seconds += batch.seconds
        self.last = batch
        if batch.largest_shard_bytes is not None:
            self.last_with_state = batch
        if batch.watermark is not None:
            self.watermark = batch.watermark
        if batch.mean_latency_s is not None:
            self.last_with_latency = batch
            self.latency_sum_s += batch.mean_latency_s * batch.complex_events
        if batch.max_latency_s is not None:
            self.max_latency_s = max(batch.max_latency_s, self.max_latency_s or batch.max_latency_s)

    @property
    def mean_latency_s(self) -> float | None:
        found = self.counts.complex_events
        return self.latency_sum_s / found if self.last_with_latency and found else None


class Query(Protocol):
    """The part of a `StreamingQuery` that is asked how far it is."""

    @property
    def lastProgress(self) -> Any: ...

    @property
    def recentProgress(self) -> Any: ...


@dataclass
class ProgressFeed:
    """The micro-batches of a streaming query, each once."""

    query: Query
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
        found = [batch for p in progress if (batch := micro_batch(p)) is not None and batch.number > self.after]
        if found:
            self.after = found[-1].number
        return found
