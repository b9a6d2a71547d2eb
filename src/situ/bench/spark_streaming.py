"""The benchmarks' queries as streaming queries on Spark: the clock runs while micro-batches do."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import situ
from situ.bench.measure import Timed, TimeQuery
from situ.bench.workload import FILES, events

#: Files of the stream in one micro-batch: with 8 million events in 8 files, 2 million.
FILES_PER_BATCH = 2
#: Micro-batches before the clock runs: Spark compiles and starts Python in them.
COLD_BATCHES = 1

SCHEMA = "id bigint, key int, type int, value int, ts timestamp"


def time_streaming(spark: SparkSession) -> TimeQuery:
    """Runs queries as streams of micro-batches, in a session. The time is that of all events at the pace of the warm
    micro-batches."""

    def time_query(text: str, directory: Path) -> Timed:
        with tempfile.TemporaryDirectory(prefix="situ-bench-") as work:
            stream = Path(work) / "stream"
            stream.mkdir()
            for file in sorted(directory.glob("*.parquet")):
                (stream / file.name).symlink_to(file)
            _write_last_event(stream)
            source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", FILES_PER_BATCH)
            detection = situ.detect(text, {"Event": source.parquet(str(stream))})
            writer = detection.events.writeStream.format("noop").option("checkpointLocation", f"{work}/checkpoint")
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            batches = [p for p in query.recentProgress if p.numInputRows > 1]  # without the last event's
        matches = sum(p.observedMetrics["situ"].complex_events for p in query.recentProgress)
        warm = batches[COLD_BATCHES:]
        pace = sum(p.durationMs["triggerExecution"] for p in warm) / sum(p.numInputRows for p in warm)
        return Timed(matches, pace / 1e3 * sum(p.numInputRows for p in batches))

    return time_query


def _write_last_event(stream: Path) -> None:
    """An event that no pattern takes, long after all others: time passes them."""
    last = events(10**10, 10**10 + 1, types=1, keys=1)
    columns = last.set_column(2, "type", [[2**30]]).cast(last.schema)
    pq.write_table(columns, stream / f"part-{FILES:03d}.parquet")
