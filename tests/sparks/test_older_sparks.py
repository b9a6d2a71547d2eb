"""Sparks that do not have all that situ needs say so. `make sparks` runs this on each of them."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import situ
from cli.command import DOORS
from cli.command import situ as command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PYSPARK = tuple(map(int, version("pyspark").split(".")[:2]))
too_old = pytest.mark.skipif(PYSPARK >= (4, 0), reason="this Spark is new enough")
batches_only = pytest.mark.skipif(PYSPARK != (4, 0), reason="the Spark that runs batches only is 4.0")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "doors.situ").write_text(DOORS)
    (tmp_path / "doors.csv").write_text(
        "door,state,n,ts\na,open,1,2026-01-01T00:00:00Z\na,shut,2,2026-01-01T00:00:01Z\n"
    )
    return tmp_path


def run(folder: Path, *options: str) -> tuple[int, str, str]:
    return command("run", folder / "doors.situ", "--source", f"Door={folder / 'doors.csv'}", *options)


@too_old
@pytest.mark.parametrize("call", [lambda: situ.spark_session(), lambda: situ.detect(DOORS, {})])
def test_a_spark_that_is_too_old(call: Callable[[], object]) -> None:
    with pytest.raises(situ.SituError, match=r"situ runs on Spark 4.0 and newer, and PySpark 3\.5\.\d+ is installed"):
        call()


@too_old
def test_the_command_says_it_and_runs_without_spark(folder: Path) -> None:
    code, _, err = run(folder)
    assert (code, "Spark 4.0 and newer" in err) == (1, True)
    assert "--engine embedded" in err
    assert run(folder, "--engine", "embedded")[0] == 0


@batches_only
def test_tables_are_read_and_streams_refused(spark: SparkSession, folder: Path) -> None:
    doors = spark.read.csv(
        str(folder / "doors.csv"), header=True, schema="door string, state string, n int, ts timestamp"
    )
    assert [tuple(row)[:3] for row in situ.detect(DOORS, {"Door": doors})["Shut"].collect()] == [("a", 1, 2)]
    stream = spark.readStream.schema(doors.schema).csv(str(folder))
    with pytest.raises(situ.SituError, match=r"streams need Spark 4.1 or newer, and this is Spark 4\.0\.\d+"):
        situ.detect(DOORS, {"Door": stream})
