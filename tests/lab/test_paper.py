"""`situ lab`: what it runs and writes, the same for every paper."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from situ.cli.app import app
from situ.core.errors import InputError, SituError
from situ.lab.claims import CheckedClaim
from situ.lab.edgecep import paper as edgecep
from situ.lab.edgecep.paper import EDGECEP
from situ.lab.figure import QUICK, Figure, Say, Scale
from situ.lab.mcep import paper as mcep
from situ.lab.mcep.paper import MCEP
from situ.lab.panorama import paper as panorama
from situ.lab.panorama.paper import PANORAMA
from situ.lab.paper import Paper
from situ.lab.recep import paper as recep
from situ.lab.recep.paper import RECEP
from situ.lab.tcep.paper import TCEP

PAPERS = [PANORAMA, MCEP, RECEP, EDGECEP, TCEP]


def figure_1a(scale: Scale, seed: int, say: Say) -> Figure:
    """Of the paper that is made up."""
    assert scale is QUICK
    say(0, 1, "made up")
    return Figure(
        "1a", "Made up", "x", "y", {"ours": ((0.0, float(seed)), (1.0, 2.0))}, "It is so.",
        (CheckedClaim("so", "yes", True),), cases=pa.table({"x": [0.0, 1.0], "y": [float(seed), 2.0]}),
    )  # fmt: skip


FIGURES = {"1a": figure_1a}


def test_all_of_the_papers_figures() -> None:
    assert list(MCEP.modules) == [f"6{letter}" for letter in "abcdefghi"]
    assert list(RECEP.modules) == [f"8{letter}" for letter in "abcdefghi"]
    assert list(EDGECEP.modules) == ["5a", "5b", "5c", "IIa", "IIb", "loss", "III"]
    assert list(TCEP.modules) == ["2", "10", "11a", "11b", "12a", "12b"]
    letters = {"9": "abc", "10": "abcdef", "11": "abcd"}
    figures = [number + letter for number in letters for letter in letters[number]]
    assert list(PANORAMA.modules) == [*figures, "causes", "counted"]


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_each_figure_has_an_experiment(paper: Paper) -> None:
    for module in dict.fromkeys(paper.modules.values()):
        assert list(import_module(module).FIGURES) == [name for name in paper.modules if paper.modules[name] == module]


def test_unknown_figure() -> None:
    with pytest.raises(InputError, match="MCEP has no Figure '6j'"):
        MCEP.chosen(["6a", "6j"])


def test_no_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SituError, match=r"situ\[examples\]"):
        MCEP.run(tmp_path / "out", ["6h"], 1, True, lambda done, total, what: None)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("module", "command"),
    [(panorama, "panorama"), (mcep, "mcep"), (recep, "recep"), (edgecep, "edgecep")],
)
def test_what_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: object, command: str) -> None:
    paper = Paper(command.upper(), {"1a": __name__, "1b": "never.loaded"}, "On nothing.")
    monkeypatch.setattr(module, command.upper(), paper)
    out = tmp_path / "lab"
    call = ["lab", command, "--quick", "--out", str(out), "--figures", "1a", "--seed", "3"]
    done = CliRunner().invoke(app, [*call, "--json"])
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in out.iterdir()) == ["1a.csv", "1a.png", f"{command}.json", f"{command}.md"]
    assert (out / "1a.csv").read_text() == '"x","y"\n0,3\n1,2\n'
    written = json.loads((out / f"{command}.json").read_text())
    assert json.loads(done.stdout) == written
    assert written[0]["curves"] == {"ours": [[0.0, 3.0], [1.0, 2.0]]}
    report = (out / f"{command}.md").read_text()
    assert "| [1a](#figure-1a) | Made up | holds |" in report
    assert "On nothing. Seed 3." in report
    shown = CliRunner().invoke(app, call)
    assert shown.exit_code == 0
    assert "Made up" in shown.stdout
    assert str(out / f"{command}.md") in shown.stdout


@pytest.mark.parametrize("command", ["panorama", "mcep", "recep", "edgecep"])
def test_a_wrong_name_is_said_before_anything_runs(tmp_path: Path, command: str) -> None:
    out = tmp_path / "lab"
    done = CliRunner().invoke(app, ["lab", command, "--out", str(out), "--figures", "6a,8a,9b"])
    assert done.exit_code != 0
    assert "no Figure" in done.output
    assert not out.exists()
