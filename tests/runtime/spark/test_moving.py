"""Moving subscriptions on Spark find what the embedded engine finds, which finds what the definition says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import situ
from mobility.interests_by_words import Delivered, Row
from mobility.test_moving import (
    INTERESTS,
    PAIR,
    RULES,
    SCHEMA,
    STREAMS,
    UNSHARED,
    found_by_engine,
    in_order,
    random_events,
    rows_of,
    text_of,
    without_quality,
)
from runtime.spark.test_moving_stream import found_by, pieces_of
from situ.kernel.batch import EXTENT
from situ.runtime.spark.detect import Detection

pytestmark = pytest.mark.slow


def all_rules(interest: str, streams: str = STREAMS) -> str:
    """All rules of one interest in one query, so that Spark starts once for them."""
    focal = interest.split()[1]
    rules = [f"subscribe Near_{rule} for {focal}(id)\n  {RULES[rule][0]}\n  {interest}\n" for rule in RULES]
    return streams + PAIR + "".join(rules)


def frames(spark: SparkSession, events: dict[str, list[Row]]) -> dict[str, DataFrame]:
    return {name: spark.createDataFrame(pa.Table.from_pylist(rows, SCHEMA)) for name, rows in events.items()}


def found_on_spark(detection: Detection, rule: str, events: DataFrame) -> list[Delivered]:
    """The rows of one rule, of all rows at once."""
    name = f"Near_{rule}"
    rows = events.filter(f"_kind = 'complex event' AND _name = '{name}'").toArrow()
    (operator,) = (o for o in detection.output.operators if o.name == name)
    columns = {a: rows.column(detection.output.columns[name, a][0]) for a in operator.schema.names}
    return rows_of(pa.table(columns | {"_time": rows.column("_time")}))


@pytest.mark.parametrize("interest", INTERESTS[:3])
def test_spark_finds_what_the_embedded_engine_finds(spark: SparkSession, interest: str) -> None:
    events = random_events(np.random.default_rng(len(interest)), seconds=30)
    detection = situ.detect(all_rules(interest), frames(spark, events))
    everything = detection.events.cache()
    for rule in RULES:
        expected = found_by_engine(text_of(rule, interest), events)
        found = sorted(found_on_spark(detection, rule, everything), key=lambda row: row[:3])
        assert in_order(found) == in_order(expected)
        assert expected
    everything.unpersist()


def test_consumers_share_at_a_quality_of_1(spark: SparkSession) -> None:
    """Near ones come to one task, whoever they are; what they get is the same as alone."""
    interest = INTERESTS[0]
    events = random_events(np.random.default_rng(9), seconds=30)
    rules = [rule for rule in RULES if rule not in UNSHARED]
    text = all_rules(f"{interest} quality precision 1.0 recall 1.0")
    with pytest.warns(situ.SituWarning, match="Near_skip"):
        detection = situ.detect(text, frames(spark, events))
    everything = detection.events.cache()
    for rule in rules:
        expected = found_by_engine(text_of(rule, interest), events)
        found = sorted(found_on_spark(detection, rule, everything), key=lambda row: row[:3])
        assert in_order(without_quality(found)) == in_order(expected)
    everything.unpersist()
    totals = {row.subscription: row for row in detection.reuse.collect()}
    assert set(totals) == {f"Near_{rule}" for rule in rules}
    for row in totals.values():
        assert row.interests >= row.regions > 0
        assert row.precision == row.recall == 1.0


def test_what_is_shared_is_asked_of_those_who_share(spark: SparkSession) -> None:
    events = random_events(np.random.default_rng(9), seconds=5)
    with pytest.raises(situ.InputError, match="no subscription of this query shares anything"):
        _ = situ.detect(text_of("single", INTERESTS[0]), frames(spark, events)).reuse


def test_streams_go_on_from_their_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    """Two runs of a streaming query, the second one from the checkpoint of the first, and the embedded engine."""
    streams, interest = STREAMS.replace("at (x, y)", "at (x, y) watermark 3 s"), INTERESTS[0]
    text = text_of("chain", interest).replace(STREAMS, streams)
    rng = np.random.default_rng(2)
    pieces = pieces_of(rng, random_events(rng, seconds=25))
    reader = spark.readStream.schema(from_arrow_schema(SCHEMA))
    for some in (pieces[:4], pieces[4:]):
        for n, piece in enumerate(some):
            for name, table in piece.items():
                (tmp_path / name).mkdir(exist_ok=True)
                pq.write_table(table, tmp_path / name / f"{len(some)}-{n:03}.parquet")
        inputs = {name: reader.parquet(str(tmp_path / name)) for name in ("Car", "Lamp")}
        near = situ.detect(text, inputs, shards=2)["Near"]
        writer = near.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(300)
    found = sorted(rows_of(spark.read.parquet(str(tmp_path / "out")).toArrow().drop_columns(EXTENT)))
    expected = sorted(found_by(text, pieces))
    assert found == expected
    assert expected
