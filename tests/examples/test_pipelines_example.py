"""The pipeline runs: its streaming table has what the engine finds in the same rows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import situ
from situ.runtime.spark.session.java import java_for_spark

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Of the trace; the watermark of the query is five seconds.
MINUTES = 2
PASSED = datetime.fromtimestamp(MINUTES * 60 - 1, UTC) - timedelta(seconds=5)


def run(command: list[str], folder: Path) -> str:
    """What a command printed. SPARK_TESTING lets the server of Spark Connect take any port that is free."""
    environ = {**os.environ, "SPARK_TESTING": "1", "PYSPARK_PYTHON": sys.executable}
    environ.pop("SPARK_REMOTE", None)
    with java_for_spark(environ):
        done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The example where the test may write: its spec names this folder."""
    shutil.copytree(EXAMPLES / "pipelines", tmp_path / "pipelines")
    (tmp_path / "kafka").mkdir()
    shutil.copy(EXAMPLES / "kafka" / "braking.situ", tmp_path / "kafka")
    spec = tmp_path / "pipelines" / "spark-pipeline.yml"
    text = spec.read_text(encoding="utf-8")
    assert text.count("/tmp/situ-pipelines/") == 2
    spec.write_text(text.replace("/tmp/situ-pipelines/", f"{tmp_path}/"), encoding="utf-8")
    return tmp_path


def rows_of(table: Path) -> list[dict[str, Any]]:
    return [row for file in table.glob("*.parquet") for row in pq.read_table(file).to_pylist()]


@pytest.mark.spark
@pytest.mark.storm
def test_the_pipeline_makes_a_streaming_table_and_a_view_of_it(copied: Path) -> None:
    feed = EXAMPLES / "pipelines" / "feed.py"
    run([sys.executable, str(feed), str(copied / "incoming"), "0", str(MINUTES)], copied)
    (file,) = (copied / "incoming").iterdir()
    outputs = situ.Engine((copied / "kafka" / "braking.situ").read_text()).run({"Vehicle": file})
    events = [event for output in outputs for event in output.complex_events["HardBraking"].to_pylist()]
    certain = sorted((e["vehicle"], e["lane"], e["drop"], e["_time"]) for e in events if e["_time"] < PASSED)
    assert 0 < len(certain) < len(events)

    pipelines = Path(sys.executable).with_name("spark-pipelines")
    spec = str(copied / "pipelines" / "spark-pipeline.yml")
    run([str(pipelines), "run", "--spec", spec, "--conf", f"spark.sql.warehouse.dir={copied}/warehouse"], copied)
    found = rows_of(copied / "warehouse" / "hard_braking")
    assert sorted((e["vehicle"], e["lane"], e["drop"], e["_time"].replace(tzinfo=UTC)) for e in found) == certain
    by_lane = {row["lane"]: row["times"] for row in rows_of(copied / "warehouse" / "braking_by_lane")}
    assert by_lane == {lane: sum(e[1] == lane for e in certain) for lane in {e[1] for e in certain}}
