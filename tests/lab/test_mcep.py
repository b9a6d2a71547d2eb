"""`situ lab mcep`: what it runs and writes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from situ.cli.app import app
from situ.core.errors import InputError, SituError
from situ.lab import mcep
from situ.lab.claims import Part
from situ.lab.figure import QUICK, Figure, Say, Scale


def made_up(scale: Scale, seed: int, say: Say) -> Figure:
    assert scale is QUICK
    say(0, 1, "made up")
    return Figure(
        "6a", "Made up", "x", "y", {"ours": ((0.0, float(seed)), (1.0, 2.0))}, "It is so.", (Part("so", "yes", True),)
    )


def test_all_of_the_papers_figures() -> None:
    assert list(mcep.MODULES) == [f"6{letter}" for letter in "abcdefghi"]


@pytest.mark.parametrize("name", mcep.MODULES)
def test_each_has_a_function(name: str) -> None:
    assert mcep.experiment(name).__name__ == f"figure_{name}"


def test_unknown_figure() -> None:
    with pytest.raises(InputError, match="MCEP has no Figure '6j'"):
        mcep.chosen(["6a", "6j"])


def test_no_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SituError, match=r"situ\[examples\]"):
        mcep.run(tmp_path / "out", ["6h"], 1, True, lambda done, total, what: None)
    assert not (tmp_path / "out").exists()


def test_what_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(mcep, "experiment", lambda name: made_up)
    out = tmp_path / "lab"
    call = ["lab", "mcep", "--quick", "--out", str(out), "--figures", "6a", "--seed", "3"]
    done = CliRunner().invoke(app, [*call, "--json"])
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in out.iterdir()) == ["6a.png", "mcep.json", "mcep.md"]
    written = json.loads((out / "mcep.json").read_text())
    assert json.loads(done.stdout) == written
    assert written[0]["curves"] == {"ours": [[0.0, 3.0], [1.0, 2.0]]}
    report = (out / "mcep.md").read_text()
    assert "| [6a](#figure-6a) | Made up | holds |" in report
    assert "Seed 3." in report
    shown = CliRunner().invoke(app, call)
    assert shown.exit_code == 0
    assert "Made up" in shown.stdout
    assert str(out / "mcep.md") in shown.stdout


def test_a_wrong_name_is_said_before_anything_runs(tmp_path: Path) -> None:
    out = tmp_path / "lab"
    done = CliRunner().invoke(app, ["lab", "mcep", "--out", str(out), "--figures", "6a,9b"])
    assert done.exit_code != 0
    assert "no Figure '9b'" in done.output
    assert not out.exists()
