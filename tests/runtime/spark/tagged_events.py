"""Results of all kinds, as `detection.events` of a streaming query has them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from situ.core.functions import default
from situ.kernel.operator import contexts_of
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.spark.sinks.result_tables import Tables
from situ.runtime.spark.stages.output import TaggedOutput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GRAPH = resolve(
    parse("""
    stream Car(name string, speed double, ts timestamp) time ts
    subscribe Fast detect Car(speed > 30) as a assign name = a.name, speed = a.speed
    subscribe Twice
      detect Car as a then Car(speed < 0) as b within 1 min
      assign name = length(a.name)
      report timed out
    """)
)
OUTPUT = TaggedOutput.of(contexts_of(GRAPH, default, provenance=False), False, streams=("Car",))
TABLES = Tables(OUTPUT)
LENGTH = OUTPUT.columns["Twice", "name"][0]


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def fast(second: int, name: str, **values: Any) -> dict[str, Any]:
    return {"_kind": "complex event", "_name": "Fast", "_time": at(second), "name": name, "speed": 31.0, **values}


TIMED_OUT = {"_kind": "timed out", "_name": "Twice", "_time": at(9), LENGTH: 3}
REJECTED = {"_kind": "rejected", "_name": "Car", "_reason": "ts is null", "_row": "{}", "_place": "cars.csv:2"}
LATE = {
    "_kind": "late",
    "_name": "Car",
    "_time": at(1),
    "_lateness": timedelta(seconds=5),
    "_row": '{"name": "x"}',
}
FAILED = {"_kind": "failed call", "_name": "Face", "_calls": 3}
ALL_KINDS = [fast(3, "b"), TIMED_OUT, REJECTED, FAILED, LATE, fast(1, "a")]


def tagged(*rows: dict[str, Any]) -> pa.RecordBatch:
    """Rows as `detection.events` has them; what is not said is null."""
    fields = {name: type_ for name, type_ in OUTPUT.fields.items() if name != "_figures"}
    schema = pa.schema(list((fields | dict.fromkeys(("_kind", "_name"), pa.string())).items()))
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)


def events_of(spark: SparkSession, *partitions: list[dict[str, Any]], runs: Path | None = None) -> DataFrame:
    """A tagged table; `runs` gets a line whenever a partition of it is computed."""
    parts = [tagged(*rows) for rows in partitions]
    data = [part.serialize().to_pybytes() for part in parts]
    schema = spark.createDataFrame(pa.Table.from_batches([tagged(*ALL_KINDS)])).schema
    arrow = parts[0].schema

    def compute(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                if runs is not None:
                    with runs.open("a") as file:
                        file.write(f"{number}\n")
                yield pa.ipc.read_record_batch(pa.py_buffer(data[number]), arrow)

    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(compute, schema)
