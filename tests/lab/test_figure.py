"""Figures are drawn, and told as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from situ.lab.claims import CheckedClaim
from situ.lab.figure import Figure, Panel, to_json, to_markdown
from situ.lab.pictures import draw

PARTS = CheckedClaim("it grows", "from 1 to 2", True), CheckedClaim("it doubles", "2.0 times", False)
CURVES = {"ours": ((0.0, 1.0), (10.0, 2.0)), "theirs": ((0.0, 3.0), (10.0, -4.0))}
FIGURE = Figure("6x", "Growth", "size", "cost", CURVES, "It grows.", PARTS)


def test_what_is_told() -> None:
    assert FIGURE.verdict == "holds in part"
    assert json.loads(json.dumps(to_json(FIGURE)))["curves"]["theirs"] == [[0.0, 3.0], [10.0, -4.0]]
    text = "\n".join(to_markdown(FIGURE, "6x.png"))
    assert "![Figure 6x](6x.png)" in text
    assert "The paper: It grows." in text
    assert "| it doubles | 2.0 times | no |" in text


@pytest.mark.parametrize("log_x", [False, True])
@pytest.mark.parametrize("log_y", [False, True])
def test_it_is_drawn(tmp_path: Path, log_x: bool, log_y: bool) -> None:
    out = tmp_path / "6x.png"
    draw(replace(FIGURE, log_x=log_x, log_y=log_y), out)
    assert out.read_bytes()[:4] == b"\x89PNG"
    assert out.stat().st_size < 100_000


def test_two_panels_side_by_side(tmp_path: Path) -> None:
    """The second one's x are things that have names; nothing is said of a claim that is no more than its parts."""
    beside = Panel("elsewhere", "", {"ours": ((10.0, 5.0),)}, {10.0: "ten\nsites"})
    both = replace(FIGURE, claim="", beside=beside, deviations={"ours": (0.1, 0.2)}, looks={"ours": 7})
    draw(replace(FIGURE, claim=""), tmp_path / "one.png")
    draw(both, tmp_path / "two.png")
    assert _width(tmp_path / "two.png") > _width(tmp_path / "one.png")
    assert to_json(both)["beside"] == {"ours": [[10.0, 5.0]]}
    assert to_json(FIGURE)["beside"] == {}
    assert not any(line.startswith("The paper") for line in to_markdown(both, "two.png"))


def _width(picture: Path) -> int:
    return int.from_bytes(picture.read_bytes()[16:20])


def test_many_curves_and_none(tmp_path: Path) -> None:
    many = {f"curve {k}": ((1.0, float(k)), (2.0, float(k))) for k in range(20)}
    draw(replace(FIGURE, curves=many), tmp_path / "many.png")
    draw(replace(FIGURE, curves={}), tmp_path / "none.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.png", "none.png"]
