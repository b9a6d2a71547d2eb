"""Where the time of a benchmark's query goes: seconds by `place: hop`, of one more run."""

from __future__ import annotations

from pathlib import Path

from situ.core.hops import Stopwatch
from situ.io.files.by_suffix import open_source
from situ.lang.parse import parse
from situ.lang.resolve import resolve


def embedded_hops(text: str, directory: Path) -> dict[str, float]:
    """The hops of a run on the embedded engine."""
    from situ.runtime.embedded import Engine

    graph = resolve(parse(text, "benchmark"))
    (stream,) = graph.streams
    watch = Stopwatch()
    for _ in watch.through(Engine(graph).run({stream.name: open_source(directory, stream)}), "handing on"):
        pass
    return {f"embedded: {hop}": seconds for hop, seconds in watch.seconds.items()}


def spark_hops(text: str, directory: Path) -> dict[str, float]:
    """The hops of all tasks of a run on Spark, in the session that is there."""
    from pyspark.sql import functions as F

    from situ.runtime.spark.detect import detect_inputs
    from situ.runtime.spark.inputs.own_files import open_files
    from situ.runtime.spark.session.session import borrowed_session
    from situ.runtime.spark.stages.output import HOP, KINDS, SECONDS, TIMING

    graph = resolve(parse(text, "benchmark"))
    (stream,) = graph.streams
    with borrowed_session() as spark:
        detection = detect_inputs(graph, {stream.name: open_files(spark, directory, stream)}, timed=True)
        timed = detection.found.filter(F.col("_kind") == KINDS.index(TIMING))
        rows = timed.groupBy(HOP).agg(F.sum(SECONDS).alias(SECONDS)).collect()
    return {row[HOP]: row[SECONDS] for row in rows}
