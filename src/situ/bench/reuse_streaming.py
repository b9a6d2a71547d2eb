"""Consumers who share, as a streaming query on Spark: wall time of warm micro-batches, and what comes out."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from situ.bench.sharing_drivers import Tables, second_by_second
from situ.runtime.spark.detect import Detection, detect
from situ.runtime.spark.stages.output import COMPLEX_EVENT

_COLUMNS = "time_us bigint, vehicle string, x double, y double"
SCHEMAS = {"Vehicle": f"{_COLUMNS}, speed double, acceleration double, lane string", "Driver": _COLUMNS}


def write_pieces(tables: Tables, seconds: int, directory: Path) -> int:
    """A file for each stream and micro-batch of so many seconds of the trace; returns how many micro-batches."""
    pieces = list(second_by_second(tables, seconds))
    for number, piece in enumerate(pieces):
        for name, table in piece.items():
            path = directory / name / f"{number:04}.parquet"
            path.parent.mkdir(exist_ok=True)
            pq.write_table(table, path)
            os.utime(path, (1_700_000_000 + number,) * 2)
    return len(pieces)


def _streams(spark: SparkSession, directory: Path) -> dict[str, DataFrame]:
    reader = spark.readStream.option("maxFilesPerTrigger", 1)
    return {name: reader.schema(schema).parquet(str(directory / name)) for name, schema in SCHEMAS.items()}


def _run(detection: Detection, checkpoint: str, out: Path | None = None) -> Any:
    """Runs a streaming query to the end of the files; returns it, stopped."""
    writer = detection.events.writeStream.format("noop" if out is None else "parquet")
    writer = writer if out is None else writer.option("path", str(out))
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def micro_batch_ms(spark: SparkSession, text: str, directory: Path, shards: int, cold: int) -> list[int]:
    """The milliseconds of micro-batches but the first ones, each with the files of one number."""
    with tempfile.TemporaryDirectory(prefix="situ-bench-") as checkpoint:
        query = _run(detect(text, _streams(spark, directory), shards=shards), checkpoint)
        batches = [progress for progress in query.recentProgress if progress.numInputRows]
    return [progress.durationMs["triggerExecution"] for progress in batches[cold:]]


def streamed(spark: SparkSession, text: str, directory: Path, shards: int) -> dict[str, pa.Table]:
    """What subscriptions find in the files, micro-batch by micro-batch."""
    with tempfile.TemporaryDirectory(prefix="situ-bench-") as work:
        out = Path(work) / "out"
        detection = detect(text, _streams(spark, directory), shards=shards)
        _run(detection, f"{work}/checkpoint", out)
        rows = spark.read.parquet(str(out)).toArrow()
    found = {}
    for operator in detection.output.operators:
        is_mine = pc.and_(pc.equal(rows["_name"], operator.name), pc.equal(rows["_kind"], COMPLEX_EVENT))
        mine = rows.filter(is_mine)
        columns = {name: detection.output.columns[operator.name, name][0] for name in operator.schema.names}
        found[operator.name] = pa.table(
            {name: mine[column] for name, column in columns.items()} | {"_time": mine["_time"]}
        )
    return found
