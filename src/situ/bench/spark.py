"""The benchmarks' queries on Spark: the clock runs from Parquet files on disk to rows that Spark hands to a sink."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from situ.bench.measure import Timed, TimeQuery
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.spark.detect import Detection, detect, detect_inputs
from situ.runtime.spark.inputs.own_files import open_files


def time_on_spark(spark: SparkSession) -> TimeQuery:
    """Runs queries in a session, on files as `situ run` opens them."""

    def time_query(text: str, directory: Path) -> Timed:
        start = time.perf_counter()
        graph = resolve(parse(text, "benchmark"))
        (stream,) = graph.streams
        return _until_written(detect_inputs(graph, {stream.name: open_files(spark, directory, stream)}), start)

    return time_query


def time_on_dataframe(spark: SparkSession) -> TimeQuery:
    """Runs queries in a session, on the DataFrame that Spark makes of the files."""

    def time_query(text: str, directory: Path) -> Timed:
        start = time.perf_counter()
        return _until_written(detect(text, spark.read.parquet(str(directory))), start)

    return time_query


def _until_written(detection: Detection, start: float) -> Timed:
    """All rows into a sink that drops them."""
    matches = Observation()
    events = detection.events.observe(matches, F.count(F.lit(1)).alias("rows"))
    events.write.format("noop").mode("overwrite").save()
    return Timed(matches.get["rows"], time.perf_counter() - start)
