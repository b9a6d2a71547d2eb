"""What consumers share: `situ run` counts it, on both engines, and `situ explain` says how, and how much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.command import situ
from runtime.test_reusing import crowd

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = """
stream Car(id int, x double, y double, v int, ts int) time ts in s  at (x, y)
stream Lamp(id int, x double, y double, v int, ts int) time ts in s  at (x, y)
subscribe Bright for Car(id)
  aggr every 5 s
  detect   Lamp as lamps
  assign   mean = avg(lamps.v)
  around   Car square 60 m
  update   every 5 s
"""


def files(directory: Path, quality: str = "quality precision 0.7 recall 0.6") -> list[str]:
    """A query file and its sources, as arguments."""
    (directory / "query.situ").write_text(QUERY + f"  {quality}\n")
    arguments = [str(directory / "query.situ")]
    for name, table in crowd(60).items():
        pq.write_table(table, directory / f"{name}.parquet")
        arguments += ["--source", f"{name}={directory / name}.parquet"]
    return arguments


def check_totals(totals: dict[str, float]) -> None:
    assert totals["regions"] < totals["interests"] / 2
    assert totals["interests"] / 2 < totals["covered"] < totals["interests"]
    assert totals["events_read"] < totals["events_asked"]
    assert totals["tried_per_covered"] == totals["tried"] / totals["covered"] >= 1
    assert 0.7 <= totals["precision"] < 1
    assert 0.6 <= totals["recall"] < 1


def test_run_says_what_was_shared(tmp_path: Path) -> None:
    arguments = files(tmp_path)
    code, out, _ = situ("run", *arguments, "--engine", "embedded", "--json")
    assert code == 0
    check_totals(json.loads(out)["reuse"]["Bright"])
    _, out, _ = situ("run", *arguments, "--engine", "embedded")
    assert "of them covered by the regions of others" in out


@pytest.mark.slow
@pytest.mark.storm
def test_run_on_spark_says_what_was_shared(spark: SparkSession, tmp_path: Path) -> None:
    arguments = files(tmp_path)
    code, out, _ = situ("run", *arguments, "--engine", "spark", "--json", "--out", tmp_path / "out")
    assert code == 0
    summary = json.loads(out)
    check_totals(summary["reuse"]["Bright"])
    written = pa.concat_tables([pq.read_table(file) for file in sorted((tmp_path / "out").rglob("*.parquet"))])
    assert written.num_rows == summary["complex_events"]["Bright"]
    assert written["precision"].to_numpy().min() >= 0.7


def test_a_run_that_shares_nothing_says_nothing_of_it(tmp_path: Path) -> None:
    _, out, _ = situ("run", *files(tmp_path, quality="lifetime 5 s"), "--engine", "embedded", "--json")
    assert json.loads(out)["reuse"] == {}


def test_explain_says_how_consumers_share(tmp_path: Path) -> None:
    file, *_ = files(tmp_path)
    _, out, _ = situ("explain", file, "--engine", "embedded")
    assert "-- reuse in Bright\ninterests share regions: precision 0.7, recall 0.6 at least" in out
    assert "measured" not in out


def test_explain_measures_on_sources(tmp_path: Path) -> None:
    code, out, _ = situ("explain", *files(tmp_path), "--engine", "embedded")
    assert code == 0
    assert "measured on the sources" in out
    assert "12 interests in" in out  # all drive at once
    assert "selections" not in out  # no engine shares them, so there is no advice about them


def test_explain_measures_nothing_where_nothing_is_shared(tmp_path: Path) -> None:
    code, _, error = situ("explain", *files(tmp_path, quality=""), "--engine", "embedded")
    assert code == 1
    assert "shares anything" in error
    assert "quality precision" in error
