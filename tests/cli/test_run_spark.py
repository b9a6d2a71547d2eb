"""`situ run` on Spark: the same results as with the embedded engine, and what only Spark can get wrong."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.command import DOORS, situ
from situ.cli.run_spark import interruptible
from situ.runtime.spark.session.errors import SparkError, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SECOND = 1_000_000
UTC_MICROS = pa.timestamp("us", tz="UTC")

#: Every type, a place, equal times, what times out, a subscription that finds nothing, and null.
QUERY = """\
stream Ping(n int, up boolean, price decimal(10, 2), value double, name string, raw binary, x double, y double,
            ts timestamp)
  time ts  at (x, y)  key name

subscribe Rise
  detect   Ping as a then Ping(n > a.n) as b within 3 s
  assign   name = b.name, up = b.up, price = b.price, value = b.value, raw = b.raw, seen = a.ts, took = b.ts - a.ts,
           nothing = null
  group by name
  report timed out

subscribe Never
  detect   Ping(n < 0) as a
  assign   name = a.n
"""


def pings(count: int) -> pa.Table:
    numbers = range(count)
    return pa.table(
        {
            "n": [(7 * i) % 11 for i in numbers],
            "up": [i % 3 == 0 for i in numbers],
            "price": pa.array([Decimal(i) / 4 for i in numbers], pa.decimal128(10, 2)),
            "value": [None if i % 5 == 0 else float("nan") if i % 7 == 0 else i / 3 for i in numbers],
            "name": [f"ä{i % 4}" for i in numbers],
            "raw": [bytes([i % 256]) for i in numbers],
            "x": [float(i) for i in numbers],
            "y": [0.5 * i for i in numbers],
            "ts": pa.array([None if i % 50 == 7 else i // 2 * SECOND for i in numbers], UTC_MICROS),
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A query with its events."""
    (tmp_path / "pings.situ").write_text(QUERY)
    (tmp_path / "doors.situ").write_text(DOORS)
    pq.write_table(pings(300), tmp_path / "pings.parquet", row_group_size=100)
    return tmp_path


def run(folder: Path, *options: object) -> tuple[int, str, str]:
    return situ("run", folder / "pings.situ", "--source", f"Ping={folder / 'pings.parquet'}", *options)


def results(directory: Path) -> dict[str, list[str]]:
    """The rows of every result, whichever part they are in, as text; Parquet's with their types."""
    found: dict[str, list[str]] = {}
    for file in sorted(directory.rglob("part-*")):
        rows = found.setdefault(str(file.parent.relative_to(directory)), [])
        if file.suffix == ".parquet":
            table = pq.read_table(file)
            rows += [str(field) for field in table.schema if str(field) not in rows]
            rows += map(str, table.to_pylist())
        else:
            rows += file.read_text().splitlines()
    return {name: sorted(rows) for name, rows in found.items()}


@pytest.mark.parametrize("file_format", ["parquet", "csv", "json"])
def test_both_engines_write_the_same(spark: SparkSession, folder: Path, file_format: str) -> None:
    summaries = {}
    for engine in ("embedded", "spark"):
        options = ("--engine", engine, "--out", folder / engine, "--format", file_format, "--json")
        code, out, err = run(folder, *options)
        assert (code, err) == (0, "")
        summaries[engine] = json.loads(out) | {"seconds": None, "out": None}
    assert summaries["spark"] == summaries["embedded"]
    assert summaries["spark"]["rejected"] == 6
    assert summaries["spark"]["timed_out"] > 0
    expected = results(folder / "embedded")
    assert sorted(expected) == ["Never", "Rise", "_rejected/Ping", "_timed_out/Rise"]
    assert results(folder / "spark") == expected


@pytest.mark.parametrize("limit", [0, 7])
def test_both_engines_show_the_same(spark: SparkSession, folder: Path, limit: int) -> None:
    shown = [run(folder, "--engine", engine, "--limit", limit)[1] for engine in ("embedded", "spark")]
    tables = [text.rpartition(" complex events in ")[0] for text in shown]
    assert tables[0] == tables[1]
    assert ("Rise:" in tables[0]) == (limit > 0)


def test_nothing_is_left_in_sparks_memory(spark: SparkSession, folder: Path) -> None:
    assert run(folder, "--engine", "spark", "--out", folder / "out")[0] == 0
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == 0  # type: ignore[attr-defined]


@pytest.fixture
def broken(folder: Path) -> Path:
    """The footer is as it was, the pages are not."""
    file = folder / "pings.parquet"
    data = bytearray(file.read_bytes())
    data[8:600] = bytes(592)
    file.write_bytes(data)
    return folder


def test_a_run_that_fails_leaves_no_results(spark: SparkSession, broken: Path) -> None:
    code, out, err = run(broken, "--engine", "spark", "--out", broken / "out")
    assert (code, out) == (1, "")
    assert err.startswith("Spark gives up: ")
    assert "pings.parquet" in err
    assert "\tat org.apache" not in err
    assert not (broken / "out").exists()
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == 0  # type: ignore[attr-defined]


def test_an_interrupt_ends_the_action_that_runs(spark: SparkSession) -> None:
    started = threading.Event()

    def forever() -> None:
        spark.sparkContext.setJobGroup("forever", "an action without end")
        started.set()
        while True:
            spark.range(10**12).selectExpr("sum(id * id % 7)").collect()

    def interrupt() -> None:
        assert started.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        interruptible(spark, forever)
    assert spark.range(3).count() == 3


def test_an_action_gives_its_result_or_its_error(spark: SparkSession) -> None:
    assert interruptible(spark, lambda: spark.range(3).count()) == 3
    with pytest.raises(SparkError), spark_errors("Spark gives up"):
        interruptible(spark, lambda: spark.range(3).selectExpr("raise_error('no')").collect())


# --- in a process of its own


def command(folder: Path, *options: object) -> list[str]:
    arguments = ["run", folder / "pings.situ", "--source", f"Ping={folder / 'pings.parquet'}", *options]
    return [sys.executable, "-m", "situ.cli.app", *map(str, arguments)]


@pytest.mark.spark
@pytest.mark.storm
def test_a_run_from_start_to_end(folder: Path) -> None:
    """On Spark Connect, whose server is this machine here; the other runs are on classic Spark."""
    expected = run(folder, "--engine", "embedded", "--json")[1]
    options = ("--master", "local[2]", "--conf", "spark.api.mode=connect", "--conf", "spark.sql.shuffle.partitions=2")
    done = subprocess.run(
        command(folder, *options, "--out", "found", "--json"), cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    same: dict[str, Any] = {"seconds": None, "out": None}
    assert json.loads(done.stdout) | same == json.loads(expected) | same
    assert sorted(path.name for path in (folder / "found").iterdir()) == ["Never", "Rise", "_rejected", "_timed_out"]


@pytest.mark.spark
def test_a_spark_that_does_not_start(folder: Path) -> None:
    done = subprocess.run(
        command(folder, "--conf", "spark.driver.memory=much", "--out", folder / "out"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "Spark does not start" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "out").exists()


@pytest.mark.spark
@pytest.mark.storm
def test_ctrl_c(folder: Path) -> None:
    """As a terminal does it: every process of the group gets the signal."""
    running = folder / "running"
    os.mkfifo(running)
    (folder / "slow.py").write_text(
        "from situ.core.functions import function\n"
        "@function(returns='boolean', name='Slow')\n"
        "def slow(n):\n"
        f"    open({str(running)!r}, 'w').write('now')\n"
        "    while True: pass\n"
    )
    (folder / "pings.situ").write_text(QUERY.replace("Ping(n < 0)", "Ping(Slow(n))"))
    process = subprocess.Popen(
        command(folder, "--master", "local[2]", "--functions", "slow", "--out", folder / "out"),
        cwd=folder,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with open(os.open(running, os.O_RDONLY | os.O_NONBLOCK)) as signs_of_life:
        ready, _, _ = select.select([signs_of_life, process.stdout], [], [])  # its standard output ends if it does
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate()
    assert signs_of_life in ready, err
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert not (folder / "out").exists()
