"""Consumers who share at a quality below 1, on Spark: batches, and streams with several shards. Rows, figures and
regions are what the definition says, none is below what was asked, and Spark counts what the embedded engine counts."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import situ
from mobility.quality_by_words import Shared
from mobility.sharing_cases import LAST_S, SAYING, SAYING_SCHEMA, SharingCase, cases_of, in_any_order
from mobility.test_quality import ALL_RULES, DEFINED, counts_of, kept_word, same, shared_rows
from runtime.spark.test_moving_stream import Piece, pieces_of
from seed_blocks import blocks
from situ.core.functions import Functions
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.reuse.totals import Totals
from situ.runtime.embedded import Engine
from situ.runtime.spark.detect import Detection
from situ.runtime.spark.follow.progress import micro_batch
from situ.runtime.spark.session.functions import functions_used

pytestmark = pytest.mark.slow

#: A function of Python's own, which workers can import. It fails for 0, and is null there: nobody leaves.
FUNCTIONS = Functions()
FUNCTIONS.register(math.log, returns="double", name="log")
LEAVES_BY_FUNCTION = ("leave when v = 4", "leave when log(v) > 1.2")
DEADLINE_S = 300.0


def name_of(case: SharingCase) -> str:
    return f"Near_{case.rule.replace(' ', '_')}"


def query_of(cases: list[SharingCase]) -> str:
    """One query of all cases, so that Spark starts once for them. Some leave by a function."""
    subscriptions = "".join(case.subscription(name_of(case)) for case in cases)
    return SAYING + "".join(DEFINED.values()) + subscriptions.replace(*LEAVES_BY_FUNCTION)


def cases_for(block: int) -> list[SharingCase]:
    return cases_of(np.random.default_rng([block, 5]), [*ALL_RULES])


def found_in(events: pa.Table, detection: Detection, name: str) -> list[Shared]:
    """The complex events of one subscription in the tagged table."""
    rows = events.filter((pa.compute.field("_name") == name) & (pa.compute.field("_kind") == "complex event"))
    (operator,) = (o for o in detection.output.operators if o.name == name)
    columns = {a: rows.column(detection.output.columns[name, a][0]) for a in operator.schema.names}
    return [row for row in shared_rows(pa.table(columns | {"_time": rows.column("_time")})) if row[2] < LAST_S]


def check(cases: list[SharingCase], detection: Detection, events: pa.Table) -> None:
    delivered, shared = 0, 0
    for case in cases:
        expected, judging = case.truth()
        kept_word(case.text, judging)
        found = found_in(events, detection, name_of(case))
        assert same(found, [row for row in expected if row[2] < LAST_S]), case
        delivered += len(found)
        shared += sum(row[4] < 1 or row[5] < 1 for row in found)
    assert delivered > shared > 0


@blocks(0, 1, 12)
def test_batches(spark: SparkSession, block: int) -> None:
    cases = cases_for(block)
    frames = {name: spark.createDataFrame(table) for name, table in cases[0].tables.items()}
    detection = situ.detect(query_of(cases), frames, FUNCTIONS)
    everything = detection.events.cache()
    check(cases, detection, everything.toArrow())
    rows = {row.subscription: row.asDict() for row in detection.reuse.collect()}
    everything.unpersist()
    engine = Engine(query_of(cases), functions=FUNCTIONS)
    for _ in engine.run(cases[0].tables):
        pass
    assert {*rows} == {*engine.reuse} == {*map(name_of, cases)}
    for name, totals in engine.reuse.items():
        expected = totals.to_json()
        assert {key: value for key, value in rows[name].items() if key in expected} == pytest.approx(
            {key: value for key, value in expected.items() if key in rows[name]}
        )


def write(directory: Path, pieces: list[Piece], first: int = 0) -> None:
    """A file of each stream for every micro-batch."""
    for number, piece in enumerate(pieces, first):
        for name in ("Car", "Lamp"):
            path = directory / name / f"{number:04}.parquet"
            path.parent.mkdir(exist_ok=True)
            pq.write_table(piece.get(name, SAYING_SCHEMA.empty_table()), path)
            os.utime(path, (1_700_000_000 + number,) * 2)


def stream(spark: SparkSession, cases: list[SharingCase], directory: Path, shards: int) -> tuple[Detection, Totals]:
    """Reads all files that have come; what was shared, by the progress of the streaming query."""
    reader = spark.readStream.schema(from_arrow_schema(SAYING_SCHEMA)).option("maxFilesPerTrigger", 1)
    inputs: dict[str, DataFrame] = {name: reader.parquet(str(directory / name)) for name in ("Car", "Lamp")}
    detection = situ.detect(in_any_order(query_of(cases)), inputs, FUNCTIONS, shards=shards)
    writer = detection.events.writeStream.format("parquet").option("path", str(directory / "out"))
    query: Any = writer.option("checkpointLocation", str(directory / "ck")).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(DEADLINE_S), "Spark did not come to the end of what was available"
        batches = [batch for progress in query.recentProgress if (batch := micro_batch(progress)) is not None]
    finally:
        query.stop()
    return detection, sum((batch.reuse for batch in batches), Totals())


def counted_by_engine(cases: list[SharingCase], pieces: list[Piece]) -> Totals:
    engine = Engine(in_any_order(query_of(cases)), functions=FUNCTIONS)
    for piece in pieces:
        for name, table in piece.items():
            engine.feed(table, name)
    return sum(engine.reuse.values(), Totals())


@blocks(0, 1, 8)
def test_streams(spark: SparkSession, tmp_path: Path, block: int) -> None:
    """In few micro-batches, with three shards; all but one of the blocks go on from a checkpoint in between."""
    cases = cases_for(100 + block)
    pieces = pieces_of(np.random.default_rng(block), cases[0].events, SAYING_SCHEMA, most=40)
    totals, middle = Totals(), len(pieces) // 2 if block else 0
    for first, some in ((0, pieces[:middle]), (middle, pieces[middle:])):
        if some:
            write(tmp_path, some, first)
            detection, counted = stream(spark, cases, tmp_path, shards=3)
            totals += counted
    check(cases, detection, spark.read.parquet(str(tmp_path / "out")).toArrow())
    assert counts_of(totals) == counts_of(counted_by_engine(cases, pieces))


def test_a_function_that_workers_cannot_import_is_refused() -> None:
    functions = Functions()
    functions.register(lambda v: v > 3, returns="boolean", name="tired")
    case = SharingCase("single", "around Car square 40 m leave when tired(v) quality recall 0.5", {})
    with pytest.raises(situ.QueryError, match=r"'tired' is defined in .* which Spark's workers cannot import"):
        functions_used(resolve(parse(case.text), functions), functions)
