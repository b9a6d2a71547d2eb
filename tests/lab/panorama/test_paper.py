"""`situ lab panorama`: what it writes."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from situ.cli.app import app
from situ.core.errors import InputError, SituError
from situ.lab.panorama import paper as panorama
from situ.lab.panorama.experiments.sweeps import FULL, QUICK, sweeps
from situ.lab.panorama.paper import PICTURES, chosen
from situ.lab.pictures import LOOKS


def test_all_of_the_papers_figures() -> None:
    assert list(PICTURES) == ["9a", "9b", "9c", "10a", "10b", "10c", "10d", "10e", "10f", "11a", "11b", "11c", "11d"]
    for scale in (QUICK, FULL):
        found = sweeps(scale)
        assert {picture.sweep for picture in PICTURES.values()} == set(found)
        assert all(name in LOOKS for sweep in found.values() for name in sweep.mechanisms)


def test_unknown_figure() -> None:
    with pytest.raises(InputError, match="no Figure '10g'"):
        chosen(["9a", "10g"])


def test_no_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SituError, match=r"situ\[examples\]"):
        panorama.run(tmp_path / "out", ["9a"], 1, True, lambda done, total, what: None)
    assert not (tmp_path / "out").exists()


def test_runs_of_a_sweep() -> None:
    sweep = sweeps(replace(QUICK, cases=3))["window"]
    runs = list(sweep.runs(7))
    assert len(runs) == sweep.size
    assert [(s.shape.windows_s[0], seed) for s, seed in runs if s.sites] == [
        (window, seed) for window in (0.1, 10.0) for seed in (7, 8, 9)
    ]


@pytest.mark.slow
def test_two_figures(tmp_path: Path) -> None:
    out = tmp_path / "lab"
    done = CliRunner().invoke(app, ["lab", "panorama", "--quick", "--out", str(out), "--figures", "10a, 10b", "--json"])
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in out.iterdir()) == [
        "10a.png", "10b.png", "panorama.csv", "panorama.json", "panorama.md"
    ]  # fmt: skip
    written = json.loads((out / "panorama.json").read_text())
    assert json.loads(done.stdout) == written
    assert [figure["figure"] for figure in written] == ["10a", "10b"]
    with (out / "panorama.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["sweep"] for row in rows} == {"latency"}
    mean = written[1]["antennas"]["optimal"]["mean"]
    at_most = [
        float(r["cost"]) / float(r["naive_cost"]) for r in rows if r["network"] == "antennas" and r["x"] == "4.0"
    ]
    assert mean[0] >= mean[-1] >= min(at_most)
    for name, curve in written[1]["antennas"].items():
        assert all(ours >= best - 1e-9 for ours, best in zip(curve["mean"], mean, strict=True)), name
    report = (out / "panorama.md").read_text()
    for figure in written:
        assert f"![Figure {figure['figure']}]({figure['figure']}.png)" in report
        assert all(part["seen"] in report for part in figure["claims"])


@pytest.mark.slow
def test_every_figure(tmp_path: Path) -> None:
    results = panorama.run(tmp_path, [], 1, True, lambda done, total, what: None)
    assert [result.name for result in results] == list(PICTURES)
    assert all((tmp_path / f"{name}.png").stat().st_size > 1_000 for name in PICTURES)
    assert all(result.parts for result in results)
