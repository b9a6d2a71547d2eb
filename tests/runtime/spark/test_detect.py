"""Spark gives what the embedded engine and the oracle give. What is marked `connect` runs on Spark Connect, too."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from _pytest.mark import ParameterSet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cases.case_file import Case, Found, compare, load
from cases.test_cases import FILES
from conformance.flink import FlinkCase
from conformance.flink import load as load_flink
from runtime.comparison import _rows, expected, tables
from runtime.spark.test_stage_oracle import found
from runtime.test_conformance_flink import table_of
from situ.graph.operators import OperatorGraph
from situ.lang.resolve import resolve
from situ.lang.unparse import unparse
from situ.runtime.embedded import Engine
from situ.runtime.spark import partitioning
from situ.runtime.spark.detect import detect
from strategies import answered, random_scenario

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[Any]:
    """Sets what Spark is told, and takes it back."""
    before: dict[str, str | None] = {}

    def change(key: str, value: str) -> None:
        before.setdefault(key, spark.conf.get(key, None))
        spark.conf.set(key, value)

    yield change
    for key, value in before.items():
        spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def dataframe(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Spark Connect takes no empty table without a schema."""
    return spark.createDataFrame(table) if len(table) else spark.createDataFrame([], from_arrow_schema(table.schema))


def dataframes(spark: SparkSession, graph: OperatorGraph, given: dict[str, pa.Table]) -> dict[str, DataFrame]:
    return {stream.name: dataframe(spark, given[stream.name]) for stream in graph.streams}


def tagged(events: pa.Table, kind: str, name: str) -> pa.Table:
    return events.filter(pc.and_(pc.equal(events["_kind"], kind), pc.equal(events["_name"], name)))


# --- the cases of the language


def by_spark(spark: SparkSession, case: Case) -> Found:
    detection = detect(case.graph, dataframes(spark, case.graph, case.events))
    events = detection.events.toArrow()

    def of(kind: str, name: str) -> pa.Table:
        rows = tagged(events, kind, name)
        attributes = {a: rows[detection.output.columns[name, a][0]] for a in case.graph.schemas[name].names}
        own = [c for c in rows.column_names if c == "_time" or c.endswith(("_min", "_max"))]
        return pa.table(attributes | {column: rows[column] for column in own})

    return Found(
        {name: of("complex event", name) for name in detection.names},
        {name: of("timed out", name) for name in detection.timed_out},
        rejected={s.name: tagged(events, "rejected", s.name) for s in case.graph.streams},
    )


def some_on_connect(values: Sequence[Any], every: int) -> list[ParameterSet]:
    """What a query finds cannot differ there, only how rows come and go: a few are enough."""
    marks = {0: [pytest.mark.connect]}
    return [pytest.param(value, marks=marks.get(number % every, [])) for number, value in enumerate(values)]


#: Without unbounded input, and without rows that differ although they are one event: no task sees all of those.
BOUNDED = [p for p in FILES if "=== arrivals" not in p.read_text() and p.stem not in ("unique", "unique_order")]


@pytest.mark.parametrize("path", some_on_connect(BOUNDED, 8), ids=lambda p: p.stem)
def test_case(spark: SparkSession, path: Path) -> None:
    found, expected = compare(load(path), lambda case: by_spark(spark, case))
    assert found == expected


# --- Flink's cases: what the embedded engine answers, which is what Flink answers


@pytest.mark.parametrize("case", load_flink()[::12], ids=lambda case: case.name)
def test_flink_case(spark: SparkSession, case: FlinkCase) -> None:
    graph, events = resolve(case.query), table_of(case)
    (answer,) = (output.complex_events["M"] for output in Engine(graph).run({"E": events}))
    of_spark = detect(graph, {"E": spark.createDataFrame(events)})["M"].toArrow()
    assert Counter(_rows(graph, "M", of_spark)) == Counter(_rows(graph, "M", answer))


# --- random queries


@pytest.mark.parametrize("seed", some_on_connect(range(40_000, 40_016), 8))
def test_random_query(spark: SparkSession, settings: Any, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = random.Random(seed)
    scenario = random_scenario(seed)
    answer = answered(scenario)
    if answer is None:
        return
    graph, result = answer
    monkeypatch.setattr(partitioning, "SHORTEST_SLICE_US", rng.choice([1, 60_000_000]))
    settings("spark.sql.shuffle.partitions", str(rng.choice([1, 3, 8])))
    settings("spark.sql.adaptive.enabled", rng.choice(["true", "false"]))
    settings("spark.sql.execution.arrow.maxRecordsPerBatch", str(rng.choice([1, 3, 10_000])))
    dfs = {
        name: dataframe(spark, table).repartition(rng.choice([1, 2, 5])).orderBy(F.rand(seed))
        for name, table in tables(graph, scenario.events).items()
    }
    events = detect(graph, dfs, show_definitions=True).events.toArrow()
    shown = events.select([name for name in events.column_names if name not in ("_reason", "_row", "_place")])
    assert found(graph, shown) == expected(graph, result), f"seed {seed}\n{unparse(scenario.query)}"


# --- traffic


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
