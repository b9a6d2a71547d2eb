"""Statistics measured by Spark: every figure is worked out by loops over the same rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from cli.command import situ
from situ.network.statistics import read_statistics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

QUERY = """\
stream A(n int, ts timestamp) time ts
stream B(n int, ts timestamp) time ts

define Both(n)
  detect   A(n > 3) as a and B as b within 2 s
  assign   n = b.n

subscribe Out
  detect   Both(n < 4) as x then each A(n > x.n and n < 9) as y within 3 s
  assign   n = x.n
"""

#: Seconds, n and site.
A = [(0.0, 1, "east"), (1.0, 7, "west"), (2.5, 4, "east"), (4.0, 9, "east"), (7.0, 5, "west"), (12.0, 2, "north")]
B = [(0.5, 3, "south"), (3.0, 6, "east"), (5.5, 2, "south"), (11.0, 1, "south"), (20.0, 8, "south")]
DURATION_S = 20.0


def table(rows: list[tuple[float, int, str]]) -> pa.Table:
    micros = pa.array([round(second * 1e6) for second, _, _ in rows], pa.int64())
    times = micros.cast(pa.timestamp("us", tz="UTC"))
    return pa.table({"n": [n for _, n, _ in rows], "ts": times, "at": [site for _, _, site in rows]})


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "q.situ").write_text(QUERY)
    pq.write_table(table(A), tmp_path / "a.parquet")
    pa.csv.write_csv(table(B), tmp_path / "b.csv")
    return tmp_path


def stats(files: Path, *more: object, site: str = "at") -> tuple[int, str, str]:
    sources = "--source", f"A={files / 'a.parquet'}", "--source", f"B={files / 'b.csv'}"
    return situ("stats", files / "q.situ", *sources, "--site", site, *more)


def test_figures(spark: SparkSession, files: Path) -> None:
    code, out, _ = stats(files, "--json", "--out", files / "rates.json")
    assert code == 0
    found = json.loads(out)
    assert found["rates"] == {
        "A": pytest.approx({"east": 3 / 20, "west": 2 / 20, "north": 1 / 20}),
        "B": pytest.approx({"south": 4 / 20, "east": 1 / 20}),
    }
    assert found["inter_arrival_s"] == pytest.approx({"A": 12.0 / 5, "B": 19.5 / 4})

    both = [(max(s, t), m) for s, n, _ in A if n > 3 for t, m, _ in B if abs(s - t) <= 2]
    outs = [(s, t) for s, m in both if m < 4 for t, n, _ in A if s < t <= s + 3 and m < n < 9]
    assert len(both) > len(outs) > 0
    some_a, some_both = sum(n > 3 for _, n, _ in A), sum(m < 4 for _, m in both)
    below_9 = sum(n < 9 for _, n, _ in A)
    expected_both = 2 * 2.0 * (some_a / DURATION_S) * (len(B) / DURATION_S)
    expected_outs = 3.0 * (some_both / DURATION_S) * (below_9 / DURATION_S)
    assert found["selectivity"] == pytest.approx(
        {
            "Both": len(both) / DURATION_S / expected_both,
            "Out": len(outs) / DURATION_S / expected_outs,
            "Both.a": some_a / len(A),
            "Out.x": some_both / len(both),
            "Out.y": below_9 / len(A),
        }
    )
    written = read_statistics(files / "rates.json")
    assert written.rates == found["rates"]
    assert written.selectivity == found["selectivity"]


def test_a_plan_is_made_of_what_was_measured(spark: SparkSession, files: Path) -> None:
    """The output rates that the planner expects are those that were counted."""
    assert stats(files, "--out", files / "rates.json")[0] == 0
    names = ["east", "west", "north", "south"]
    links = [{"a": "east", "b": name, "latency_ms": 1} for name in names[1:]]
    (files / "net.json").write_text(json.dumps({"sites": [{"name": name} for name in names], "links": links}))
    arguments = "plan", files / "q.situ", "--network", files / "net.json", "--rates", files / "rates.json"
    code, out, _ = situ(*arguments, "--root", "north", "--mechanism", "naive", "--json")
    assert code == 0
    # All events go to north: those of east by one link, of west and south by two. A is read with two filters, which
    # the planner takes as independent.
    shares = 1 - (1 - 4 / 6) * (1 - 5 / 6)
    assert json.loads(out)["cost"] == pytest.approx(shares * (3 * 1 + 2 * 2) / 20 + (1 * 1 + 4 * 2) / 20)


def test_a_table_for_people(spark: SparkSession, files: Path) -> None:
    code, out, _ = stats(files)
    assert code == 0
    assert [line.split() for line in out.splitlines() if line.split()[:1] == ["A"]] == [["A", "3", "0.3", "2.4"]]
    assert "Both.a" in out


def test_rows_that_do_not_fit_are_told(spark: SparkSession, files: Path) -> None:
    text = (files / "b.csv").read_text()
    (files / "b.csv").write_text(text + '"many","1970-01-01 00:00:01Z","south"\n')
    code, out, err = stats(files, "--json")
    assert code == 0
    assert "1 rows do not fit" in err
    assert json.loads(out)["rates"]["B"]["south"] == pytest.approx(4 / 20)


@pytest.mark.parametrize(
    ("site", "cause"),
    [("place", "there is no column 'place'"), ("at", "at is null in 1 events of A")],
    ids=["none", "null"],
)
def test_events_without_a_site(spark: SparkSession, files: Path, site: str, cause: str) -> None:
    rows = table(A).to_pylist()
    rows[0]["at"] = None
    pq.write_table(pa.Table.from_pylist(rows, table(A).schema), files / "a.parquet")
    code, _, err = stats(files, site=site)
    assert code == 1
    assert cause in err


def test_one_moment_has_no_rate(spark: SparkSession, files: Path) -> None:
    pq.write_table(table(A[:1]), files / "a.parquet")
    pa.csv.write_csv(table([(0.0, 1, "east")]), files / "b.csv")
    code, _, err = stats(files)
    assert code == 1
    assert "no rate" in err
