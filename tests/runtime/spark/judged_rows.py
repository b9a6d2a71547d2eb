"""Cars as they come, and what became of them: events and misfits."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from runtime.spark.input_comparison import plain, stream_of
from situ.runtime.spark.inputs.stream_sources import open_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CAR = stream_of("Car(name string, speed double, lane int, ts timestamp) time ts")
AT = "2024-05-01T08:00:00Z"
AT_MICROS = 1_714_550_400_000_000


def car(name: str, **values: Any) -> dict[str, Any]:
    return {"name": name, "speed": 3.5, "lane": 1, "ts": AT} | values


def text(name: str, **values: Any) -> str:
    return json.dumps(car(name, **values))


def split(batches: Iterable[pa.RecordBatch]) -> tuple[list[Any], list[Any]]:
    """The events and the misfits of judged rows."""
    rows = [row for batch in batches for row in plain(pa.Table.from_batches([batch]))]
    events = [{k: v for k, v in row.items() if k != "_misfit"} for row in rows if row["_misfit"] is None]
    return events, [row["_misfit"] for row in rows if row["_misfit"] is not None]


def follow(spark: SparkSession, address: str, work: Path) -> tuple[list[Any], list[Any]]:
    """What has come since the last call with the same `work`."""
    out = work / f"out {len(list(work.glob('out *')))}"
    query = (
        open_stream(spark, address, CAR, work / "Car")
        .rows.writeStream.format("parquet")
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(out))
    )
    query.awaitTermination()
    assert query.exception() is None
    tables = [pq.read_table(file, coerce_int96_timestamp_unit="us") for file in out.glob("*.parquet")]
    events, misfits = split(batch for table in tables for batch in table.to_batches())
    return sorted(events, key=repr), sorted(misfits, key=repr)
