"""Figures of a query that runs on: those of a micro-batch, and totals over them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from situ.lang.demands import JudgedDemand
from situ.reuse.totals import Totals


@dataclass(frozen=True, slots=True)
class StreamCounts:
    """What is counted in a micro-batch, and over all of them, in the words of `situ.runtime.spark.stages.metrics`.
    `reuse` is what consumers have shared, of all subscriptions that ask for a quality.

    >>> counts = StreamCounts(input=2, reuse=Totals(interests=4)) + StreamCounts(input=3, reuse=Totals(interests=1))
    >>> counts.input, counts.reuse.interests
    (5, 5)
    """

    input: int = 0
    candidates: int = 0
    complex_events: int = 0
    timed_out: int = 0
    late: int = 0
    rejected: int = 0
    failed_calls: int = 0
    duplicates: int = 0
    reuse: Totals = field(default_factory=Totals)

    def __add__(self, other: StreamCounts) -> StreamCounts:
        return StreamCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(StreamCounts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch(StreamCounts):
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


@dataclass
class StreamTotals:
    """Sums over the micro-batches of a run, the last one that said something, and the demands that can be measured
    in one process."""

    counts: StreamCounts = StreamCounts()
    micro_batches: int = 0
    seconds: float = 0.0
    rule_changes: int = 0
    latency_sum_s: float = 0.0
    max_latency_s: float | None = None
    last: MicroBatch | None = None
    last_with_state: MicroBatch | None = None
    last_with_latency: MicroBatch | None = None
    watermark: float | None = None
    demands: tuple[JudgedDemand, ...] = ()

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
        complex_events = self.counts.complex_events
        return self.latency_sum_s / complex_events if self.last_with_latency and complex_events else None
