"""Figures of a streaming query, in its progress: `progress.observedMetrics["situ"]`."""

from __future__ import annotations

from dataclasses import fields

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from situ.reuse.totals import Totals
from situ.runtime.spark.stages.output import CALLS, COMPLEX_EVENT, KINDS, LATE, REJECTED, TIMED_OUT

#: The name under which Spark reports them.
METRICS = "situ"
#: What the names of figures of reuse begin with: the fields of `situ.reuse.totals.Totals` follow.
REUSED = "reuse_"


def observed(rows: DataFrame, reuses: bool) -> DataFrame:
    """The tagged rows; when they are read, Spark counts along. `reuses`: what consumers share is counted, too, which
    takes Spark some milliseconds to plan for each micro-batch."""

    def count(kind: str) -> Column:
        return F.count_if(F.col("_kind") == KINDS.index(kind))

    def figure(name: str) -> Column:
        """Null in all rows that are not figures."""
        return F.col("_figures")[0][name]

    shared = [f.name for f in fields(Totals)] if reuses else []
    return rows.observe(
        METRICS,
        F.coalesce(F.sum(figure("input")), F.lit(0)).alias("input"),
        F.coalesce(F.sum(figure("events")), F.lit(0)).alias("candidates"),
        count(COMPLEX_EVENT).alias("complex_events"),
        count(TIMED_OUT).alias("timed_out"),
        count(LATE).alias("late"),
        count(REJECTED).alias("rejected"),
        F.coalesce(F.sum(CALLS), F.lit(0)).alias("failed_calls"),
        F.coalesce(F.sum(figure("duplicates")), F.lit(0)).alias("duplicates"),
        *(F.coalesce(F.sum(figure("reuse")[name]), F.lit(0)).alias(REUSED + name) for name in shared),
        F.coalesce(F.sum(figure("state_bytes")), F.lit(0)).alias("state_bytes"),
        F.max(figure("state_bytes")).alias("largest_shard_bytes"),
        F.max(figure("events")).alias("largest_shard_candidates"),
        F.avg(figure("events")).alias("mean_shard_candidates"),
        F.max(figure("busy_ms")).alias("slowest_shard_ms"),
        F.min(figure("watermark")).alias("watermark"),
        (F.sum(figure("latency_sum_s")) / F.nullif(F.sum(figure("found")), F.lit(0))).alias("mean_latency_s"),
        F.max(figure("latency_max_s")).alias("max_latency_s"),
    )
