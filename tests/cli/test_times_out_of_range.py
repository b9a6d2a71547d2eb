"""Times outside Python's calendar: no command fails on them, wherever they come from."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.command import situ
from situ.cli.follow_summary import moment
from situ.core.time import FIRST_TIME_US, LAST_TIME_US
from situ.runtime.spark.follow.progress import micro_batch

#: The deadline of the absence lies a minute after the event; `seen` may be any timestamp, as it is not the time.
QUERY = """
stream Ping(seen timestamp, us int) time us in us

subscribe Silence
  detect   Ping as last then not Ping within 1 min
  assign   seen = last.seen
"""


@pytest.mark.parametrize("engine", ["embedded", pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.spark])])
def test_the_table_shows_deadlines_and_attributes_beyond_the_calendar(
    request: pytest.FixtureRequest, tmp_path: Path, engine: str
) -> None:
    if engine == "spark":
        request.getfixturevalue("spark")
    (tmp_path / "ping.situ").write_text(QUERY)
    seen = pa.array([FIRST_TIME_US - 1, LAST_TIME_US + 1], pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"seen": seen, "us": [FIRST_TIME_US, LAST_TIME_US]}), tmp_path / "ping.parquet")
    arguments = ("run", tmp_path / "ping.situ", "--engine", engine, "--source", f"Ping={tmp_path / 'ping.parquet'}")
    code, out, error = situ(*arguments)
    assert code == 0, error
    assert "0000-12-31 23:59:59.999999   0001-01-01 00:01:00" in out
    assert "10000-01-01 00:00:00         10000-01-01 00:00:59.999999" in out


def test_microseconds_that_are_sent_as_milliseconds_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "ping.situ").write_text(QUERY.replace("in us", "in ms"))
    pq.write_table(
        pa.table({"seen": pa.nulls(2, pa.timestamp("us", tz="UTC")), "us": [1_772_359_200_000, 1_772_359_200_000_000]}),
        tmp_path / "ping.parquet",
    )
    source = f"Ping={tmp_path / 'ping.parquet'}"
    code, out, error = situ(
        "run", tmp_path / "ping.situ", "--engine", "embedded", "--source", source, "--out", tmp_path / "out", "--json"
    )
    assert (code, json.loads(out)["rejected"]) == (0, 1), error
    [rejected] = pq.read_table(tmp_path / "out" / "_rejected").to_pylist()
    assert rejected["_reason"] == "us: 1772359200000000 ms is no time in range"


@pytest.mark.parametrize(
    ("watermark", "seconds"),
    [
        ("35581-02-23 21:46:40", 1_060_665_400_000.0),
        ("9999-12-31 23:59:59", LAST_TIME_US // 10**6),
        (LAST_TIME_US + 1, (LAST_TIME_US + 1) / 1e6),
    ],
)
def test_the_progress_of_a_query_whose_clock_is_beyond_the_calendar(watermark: object, seconds: float) -> None:
    """As Spark gives it: as text, or over Spark Connect as milliseconds beside a schema."""
    schema = {"fields": [{"name": "watermark", "type": "timestamp"}]}
    row = {"values": [watermark // 1000], "schema": schema} if isinstance(watermark, int) else {"watermark": watermark}
    progress = {
        "batchId": 1,
        "timestamp": "2026-03-01T10:00:00.000Z",
        "durationMs": {"addBatch": 1, "triggerExecution": 1},
        "observedMetrics": {"situ": row},
    }
    batch = micro_batch(progress)
    assert batch is not None
    assert batch.watermark == seconds
    assert moment(batch.watermark).startswith(("35581-02-23", "9999-12-31", "10000-01-01"))
