"""The benchmarks' queries on Spark: the clock runs from Parquet files on disk to rows that Spark hands to a sink."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from situ.bench.measure import Timed, TimeQuery
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.spark.detect import detect_inputs
from situ.runtime.spark.inputs.own_files import open_files


def time_on_spark(spark: SparkSession) -> TimeQuery:
    """Runs queries in a session."""

    def time_query(text: str, directory: Path) -> Timed:
        start = time.perf_counter()
        graph = resolve(parse(text, "benchmark"))
        (stream,) = graph.streams
        detection = detect_inputs(graph, {stream.name: open_files(spark, directory, stream)})
        matches = Observation()
        events = detection.events.observe(matches, F.count(F.lit(1)).alias("rows"))
        events.write.format("noop").mode("overwrite").save()
        return Timed(matches.get["rows"], time.perf_counter() - start)

    return time_query
