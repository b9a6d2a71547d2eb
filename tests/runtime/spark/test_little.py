"""Where there is little to read, one task does all of it, and finds what many would."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import situ
from situ.runtime.spark.inputs.little import SETTING, one_task_is_enough

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import DataFrame, SparkSession

QUERY = """
stream Event(id int, key int, ts int) time ts in s
define Pair(key, at)
  detect   Event(id % 3 = 0) as a then Event(id % 5 = 0) as b within 20 s
  assign   key = a.key, at = b.id
  group by key
subscribe Many
  aggr every 1 min
  detect   Pair
  assign   n = count(Pair), last = max(Pair.at)
subscribe Skipping
  detect   Event(id % 2 = 0) as a then Event(id % 7 = 0) as b within 30 s
  assign   a = a.id, b = b.id
  after match skip past last
"""


def events(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(rows).selectExpr("id", "id % 4 AS key", "id AS ts")


def test_which_plans_are_little(spark: SparkSession) -> None:
    few = events(spark, 100)
    assert one_task_is_enough(spark, [few, few.filter("key = 1")], 0)
    assert one_task_is_enough(spark, [few.union(few)], 250_000)
    assert not one_task_is_enough(spark, [few], 250_001)
    assert not one_task_is_enough(spark, [events(spark, 10**6)], 0)
    for more in (few.selectExpr("explode(sequence(0, 1000)) AS id"), few.crossJoin(few), few.groupBy("key").count()):
        assert not one_task_is_enough(spark, [more], 0)
    spark.conf.set(SETTING, "0")
    try:
        assert not one_task_is_enough(spark, [few], 0)
    finally:
        spark.conf.unset(SETTING)


def test_one_task_finds_what_many_find(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two stages, and a rule that one task owns."""
    answers = []
    for setting, shuffles in (("1m", 0), ("0", 2)):
        spark.conf.set(SETTING, setting)
        try:
            detection = situ.detect(QUERY, events(spark, 400))
            detection.found.explain()
            assert capsys.readouterr().out.count("Exchange ") == shuffles
            answers.append(Counter(map(str, detection.events.collect())))
        finally:
            spark.conf.unset(SETTING)
    assert answers[0] == answers[1]
    assert answers[0].total() > 20
