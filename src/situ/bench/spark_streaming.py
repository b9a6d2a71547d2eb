"""The benchmarks' queries as streaming queries on Spark: the clock runs while micro-batches do.

Files are read as `situ run --follow` reads them.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from situ.bench.measure import Timed, TimeQuery
from situ.bench.workload import FILES, events
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.spark.detect import detect_rows
from situ.runtime.spark.inputs.stream_files import files_to_rows

#: Files of the stream in one micro-batch: with 8 million events in 8 files, 2 million.
FILES_PER_BATCH = 2
#: Micro-batches before the clock runs: Spark compiles and starts Python in them.
COLD_BATCHES = 1
#: Micro-batches without rows that are measured, after as many that are not.
EMPTY_BATCHES = 20

SCHEMA = "id bigint, key int, type int, value int, ts timestamp"


def time_streaming(spark: SparkSession) -> TimeQuery:
    """Runs queries as streams of micro-batches, in a session. The time is that of all events at the pace of the warm
    micro-batches."""

    def time_query(text: str, directory: Path) -> Timed:
        with tempfile.TemporaryDirectory(prefix="situ-bench-") as work:
            stream = Path(work) / "stream"
            stream.mkdir()
            files = sorted(directory.glob("*.parquet"))
            for file in files:
                (stream / file.name).symlink_to(file)
            _write_last_event(stream)
            batch_bytes = max(file.stat().st_size for file in files) * FILES_PER_BATCH
            query = _run(spark, text, Path(work), batch_bytes)
        progress = [(p.observedMetrics["situ"], p.durationMs["triggerExecution"]) for p in query.recentProgress]
        matches = sum(figures.complex_events for figures, _ in progress)
        batches = [(figures.input, ms) for figures, ms in progress if figures.input > 1]  # without the last event's
        warm = batches[COLD_BATCHES:]
        pace = sum(ms for _, ms in warm) / sum(rows for rows, _ in warm)
        return Timed(matches, pace / 1e3 * sum(rows for rows, _ in batches))

    return time_query


def empty_micro_batch_ms(spark: SparkSession, text: str) -> float:
    """How long a micro-batch takes whose file has no rows, after one that has some."""
    with tempfile.TemporaryDirectory(prefix="situ-bench-") as work:
        stream = Path(work) / "stream"
        stream.mkdir()
        some = events(0, 1000, types=3, keys=10)
        pq.write_table(some, stream / "part-000.parquet")
        for number in range(1, 2 * EMPTY_BATCHES + 1):
            pq.write_table(some.slice(0, 0), stream / f"part-{number:03d}.parquet")
        query = _run(spark, text, Path(work), batch_bytes=1)
    durations = [p.durationMs["triggerExecution"] for p in query.recentProgress]
    return statistics.median(durations[-EMPTY_BATCHES:])


def _run(spark: SparkSession, text: str, work: Path, batch_bytes: int) -> StreamingQuery:
    """A query over the files in `work/stream`, which has ended."""
    graph = resolve(parse(text, "benchmark"))
    (stream,) = graph.streams
    rows = files_to_rows(spark, work / "stream", stream, work / "source", batch_bytes)
    detection = detect_rows(graph, {stream.name: rows})
    writer = detection.events.writeStream.format("noop").option("checkpointLocation", str(work / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def _write_last_event(stream: Path) -> None:
    """An event that no pattern takes, long after all others: time passes them."""
    last = events(10**10, 10**10 + 1, types=1, keys=1)
    columns = last.set_column(2, "type", [[2**30]]).cast(last.schema)
    pq.write_table(columns, stream / f"part-{FILES:03d}.parquet")
