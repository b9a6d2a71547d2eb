"""Moving subscriptions on Spark find what the embedded engine finds, which finds what the definition says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import situ
from mobility.interests_by_words import Delivered, Row
from mobility.test_moving import (
    INTERESTS,
    PAIR,
    RULES,
    SCHEMA,
    STREAMS,
    found_by_engine,
    in_order,
    random_events,
    rows_of,
    text_of,
)
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
