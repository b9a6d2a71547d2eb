"""Three definitions in a chain on a trace: Spark gives what the embedded engine gives. Cases and random queries are in
`tests/conformance`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from situ.runtime.embedded import Engine
from situ.runtime.spark.detect import detect

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


def tagged(events: pa.Table, kind: str, name: str) -> pa.Table:
    return events.filter(pc.and_(pc.equal(events["_kind"], kind), pc.equal(events["_name"], name)))


@pytest.mark.storm
def test_three_definitions_in_a_chain_on_half_of_a_trace(spark: SparkSession) -> None:
    query = (ROOT / "examples/traffic/traffic.situ").read_text()
    path = str(ROOT / "examples/traffic/vehicles.parquet")
    first = spark.read.parquet(path).where("time_s < 600")
    detection = detect(query, {"Vehicle": first}, show_definitions=True)
    assert len(detection.plan.stages) > 1
    events = detection.events.toArrow()
    rows = pq.read_table(path, filters=[("time_s", "<", 600)])
    outputs = list(Engine(query, show_definitions=True).run({"Vehicle": rows}))
    for name in detection.names:
        found_rows = tagged(events, "complex event", name)
        of_spark = pa.table(
            {
                a: found_rows[detection.output.columns[name, a][0]]
                for a in outputs[0].complex_events[name].column_names
                if not a.startswith("_")
            }
            | {"_time": found_rows["_time"], "_x_min": found_rows["_x_min"]}
        )
        whole = pa.concat_tables([output.complex_events[name] for output in outputs]).select(of_spark.column_names)
        assert whole.num_rows > 0
        assert as_rows(of_spark) == as_rows(whole)


def as_rows(table: pa.Table) -> list[tuple[object, ...]]:
    columns = [[round(v, 9) if isinstance(v, float) else v for v in column.to_pylist()] for column in table.columns]
    return sorted(zip(*columns, strict=True), key=repr)
