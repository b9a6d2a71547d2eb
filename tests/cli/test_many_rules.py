"""Commands on a file of many rules: a summary instead of all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.command import situ

RULES = 150


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "rules.situ"
    texts = [f"subscribe R{n} detect A(v = {n}) as a assign v = a.v, rule = {n}" for n in range(RULES)]
    file.write_text("\n".join(["stream A(v int, ts int) time ts in s", *texts]))
    return file


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """Of value n there are n events, up to 30."""
    values = [n for n in range(31) for _ in range(n)]
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"v": values, "ts": range(len(values))}), file)
    return file


def test_check_counts_them(rules: Path) -> None:
    assert situ("check", rules)[:2] == (0, "OK: 1 stream, 0 definitions, 150 subscriptions\n")


@pytest.mark.parametrize("engine", ["embedded", "spark"])
def test_explain_shows_the_index_and_one_program_of_each_shape(rules: Path, engine: str) -> None:
    code, text, _ = situ("explain", rules, "--engine", engine)
    assert code == 0
    assert "-- ... and 149 more rules" in text
    assert text.count("\n-- program of") == 1
    assert "150 rules of one shape run as one program" in text
    assert "index of A: 150 contents\n  150 found by v by value" in text
    assert len(text.splitlines()) < 60
    for words in ("-- plan on Spark", "150 tests by an index: in the packer, and again", "R19 and 130 more, from A"):
        assert (words in text) == (engine == "spark")


def test_run_shows_those_that_found_most(rules: Path, events: Path, tmp_path: Path) -> None:
    code, text, _ = situ("run", rules, "--engine", "embedded", "--source", f"A={events}", "--limit", 1)
    assert code == 0
    assert [line.split(":")[0] for line in text.splitlines() if line.startswith("R")] == [
        "R30",
        "R29",
        "R28",
        "R27",
        "R26",
    ]
    assert "150 subscriptions, of which 30 found something; shown are the 5 that found most" in text
    code, text, _ = situ(
        "run", rules, "--engine", "embedded", "--source", f"A={events}", "--out", tmp_path / "out", "--json"
    )
    assert json.loads(text)["complex_events"] == {f"R{n}": n if n <= 30 else 0 for n in range(RULES)}
    assert pq.read_table(tmp_path / "out" / "R7").column("rule").to_pylist() == [7] * 7
