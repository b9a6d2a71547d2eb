"""Time goes on where all streams are silent, in a streaming query: step by step without Spark, and once on Spark."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from runtime.spark.streaming_without_spark import StreamingQuery
from runtime.spark.test_detect_stream import start, wait_until, written
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.spark.detect import detect
from situ.runtime.spark.follow.progress import micro_batch
from situ.runtime.spark.stages.restart import Restart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Two stages: devices that are silent, and groups of two of them.
QUERY = """
stream Beat(device int, hall int, s int) time s in s  watermark 1 s  idle after 30 s

define Silent(hall, device)
  detect   Beat as last then not Beat within 60 s
  assign   hall = last.hall, device = last.device
  group by device

subscribe Dark
  detect   Silent as one then Silent as two within 20 s
  assign   hall = group.hall, one = one.device, two = two.device
  group by hall
"""


def query() -> StreamingQuery:
    return StreamingQuery(resolve(parse(QUERY)), random.Random(1), shards=3)


def beats(*rows: tuple[int, int, int]) -> dict[str, pa.Table]:
    return {"Beat": pa.table({name: [row[n] for row in rows] for n, name in enumerate(("device", "hall", "s"))})}


def alarms(result: pa.Table) -> list[tuple[str, int]]:
    rows = [row for row in result.to_pylist() if row["_kind"] == "complex event"]
    return sorted((row["_name"], int(row["_time"].timestamp())) for row in rows)


def test_micro_batches_without_rows_let_time_pass_in_all_stages() -> None:
    running = query()
    assert alarms(running.micro_batch(beats((1, 1, 100), (2, 1, 110)), now=5000.0)) == []
    assert set(running.timers.values()) == {5030.0}
    assert alarms(running.micro_batch({}, now=5029.0)) == []
    assert alarms(running.micro_batch({}, now=5030.0)) == []  # time is 110 + 30 - 1
    assert set(running.timers.values()) == {5033.0}  # a tenth of `idle after` later
    assert alarms(running.micro_batch({}, now=5052.0)) == [("Silent", 160)]
    found = alarms(running.micro_batch({}, now=5062.0))
    assert found == [("Dark", 170), ("Silent", 170)]
    assert {figure["watermark"] for figure in running.figures} == {datetime.fromtimestamp(171, UTC)}
    late = running.micro_batch(beats((1, 1, 170), (1, 1, 172)), now=5063.0)
    assert [row["_kind"] for row in late.to_pylist()] == ["late"]
    assert set(running.timers.values()) == {5093.0}


def test_the_time_in_which_the_query_did_not_run_is_no_silence() -> None:
    """It begins again with silence as long as it was at the last step: none."""
    running = query()
    assert alarms(running.micro_batch(beats((1, 1, 101)), now=5001.0)) == []
    again = running.restarted(running.graph, Restart(starts=(4990.0, 9000.0)))
    assert alarms(again.micro_batch({}, now=9029.0)) == []  # the timer of before is long over
    assert set(again.timers.values()) == {9030.0}
    assert alarms(again.micro_batch({}, now=9060.0)) == []
    assert alarms(again.micro_batch({}, now=9063.0)) == [("Silent", 161)]


def test_a_micro_batch_that_is_done_again_after_a_start_gives_what_it_gave() -> None:
    running = query()
    running.micro_batch(beats((1, 1, 100)), now=5000.0)
    again = running.restarted(running.graph, Restart(starts=(4990.0, 9000.0)))
    assert alarms(running.micro_batch({}, now=5062.0)) == [("Silent", 160)]
    assert alarms(again.micro_batch({}, now=5062.0)) == [("Silent", 160)]
    assert running.states == again.states


ON_SPARK = """
stream Beat(device int, s int) time s in s  idle after 1 s

subscribe Silence
  detect   Beat as last then not Beat within 3 s
  assign   device = last.device
  group by device
"""


@pytest.mark.slow
@pytest.mark.connect
def test_an_absence_is_found_on_spark_when_everything_is_silent(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text("\n".join(json.dumps({"device": n, "s": 100 + n}) for n in (1, 2)))
    rows = spark.readStream.schema("device int, s int").json(str(tmp_path / "in"))
    detection = detect(ON_SPARK, {"Beat": rows}, shards=2)
    running = start(detection.events, tmp_path, processingTime="500 milliseconds")
    found: dict[int, int] = {}

    def is_found() -> bool:
        """Spark forgets old micro-batches, and runs many without rows."""
        batches = [batch for progress in running.recentProgress if (batch := micro_batch(progress)) is not None]
        found.update({batch.number: batch.complex_events for batch in batches})
        return sum(found.values()) == 2

    try:
        wait_until(running, is_found)
    finally:
        running.stop()
    assert alarms(written(spark, tmp_path)) == [("Silence", 104), ("Silence", 105)]
