"""The hand-written SQL of the benchmark finds, row for row, what situ finds."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cli.command import situ as situ_command
from situ import detect
from situ.bench.hand_written_sql import sql_text
from situ.bench.workload import Pattern, Workload, query_text, stream_on_disk

WORKLOADS = [
    Workload(pattern, types=4, keys=5, events=600, window_ms=100, grouped=grouped)
    for pattern in Pattern
    for grouped in (True, False)
]


@pytest.mark.slow
def test_it_finds_what_situ_finds(spark: SparkSession, tmp_path: Path) -> None:
    events = spark.read.parquet(str(stream_on_disk(WORKLOADS[0], tmp_path)))
    events.createOrReplaceTempView("events")
    for workload in WORKLOADS:
        detection = detect(query_text(workload), events)
        complex_events = detection[detection.names[0]].drop("_time")
        if not workload.grouped:
            complex_events = complex_events.drop("key")
        by_hand = spark.sql(sql_text(workload)).select(*complex_events.columns)
        assert sorted(map(tuple, by_hand.collect())) == sorted(map(tuple, complex_events.collect())) != [], workload


def test_it_is_a_peer_of_tables_on_spark() -> None:
    code, _, err = situ_command("bench", "--engine", "embedded", "--peer", "sql")
    assert code == 1
    assert "--peer sql is Spark SQL over tables" in err
    assert "--engine spark" in err
