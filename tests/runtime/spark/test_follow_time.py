"""A query that runs on, and time: it is put back after a wrong event, and goes on where nothing comes any more."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from runtime.spark.test_follow import DEADLINE_S, Place, running
from situ.runtime.spark.follow.opening import Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

YEARS = 10 * 365 * 86_400
QUERY = """
stream Beat(device int, s int) time s in s  idle after 1 s

subscribe Silence
  detect   Beat as last then not Beat within 3 s
  assign   device = last.device
  group by device
"""


def give(place: Place, name: str, *seconds: int) -> None:
    file = place.directory / name
    file.write_text("\n".join(json.dumps({"device": 1, "s": second}) for second in seconds))
    file.rename(place.directory / "in" / name)


def written(place: Place, folder: str) -> list[dict[str, Any]]:
    return [
        row
        for file in sorted((place.directory / "out" / folder).glob("*.parquet"))
        for row in pq.read_table(file).to_pylist()
    ]


@pytest.mark.slow
@pytest.mark.storm
def test_the_clock_is_put_back_and_then_silence_lets_it_go_on(spark: SparkSession, tmp_path: Path) -> None:
    from situ.service.told import Progressed

    place = Place(tmp_path)
    job = Job("q.situ", QUERY, {"Beat": str(tmp_path / "in")}, tmp_path / "ck")

    def read_all(job: Job) -> Any:
        with running(place.follower(spark, replace(job, once=True))) as run:
            run.thread.join(DEADLINE_S)
        return run.follower.totals.counts

    give(place, "1.jsonl", 100, 100 + YEARS)
    assert read_all(job).complex_events == 1  # the wrong event lets the absence come true
    give(place, "2.jsonl", 101)
    assert read_all(job).late == 1
    give(place, "3.jsonl", 110)
    with running(place.follower(spark, replace(job, clock_back_to_us=105_000_000))) as run:
        run.until(Progressed, lambda told: told.batch.complex_events > 0)
    assert [int(row["_time"].timestamp()) for row in written(place, "Silence")] == [103, 113]
    assert [int(row["_time"].timestamp()) for row in written(place, "_late/Beat")] == [101]
