"""The planner's figures, on networks that are small: that they are measured, and held against their bars."""

from __future__ import annotations

from pathlib import Path

import pytest

from situ.bench import placement
from situ.bench.placement import (
    SECTIONS,
    draw_ratios,
    greedy_plus_figures,
    optimal_figures,
    plain_dp_figures,
    proximity_figures,
    ratio_figures,
)
from situ.bench.suite import Bar, BenchFigure

pytestmark = [pytest.mark.storm, pytest.mark.jit_only]


def silent(what: str, done: int, of: int) -> None:
    assert 0 <= done < of, what


def bars(found: list[BenchFigure]) -> list[Bar | None]:
    return [figure.bar for figure in found]


def test_times() -> None:
    found = list(optimal_figures(silent, 30, range(1, 3)))
    assert bars(found) == [Bar("at most", 60)] * 2
    assert [figure.value == round(max(figure.measured["seconds"]), 3) for figure in found] == [True, True]
    assert bars(list(greedy_plus_figures(silent, 30, range(1, 3)))) == [Bar("at most", 10)] * 2


def test_against_plain_dp() -> None:
    chain, limited, tree = plain_dp_figures(silent, 20, 12, range(1, 3))
    assert bars([chain, limited, tree]) == [Bar("at least", 100), None, None]
    assert "tree" in tree.name
    assert chain.value > 0


def test_proximity() -> None:
    found = list(proximity_figures(silent, 40, range(1, 5)))
    assert bars(found) == [Bar("at least", 0.97)] * 2
    for figure in found:
        assert all(value <= 1 + 1e-9 for value in figure.measured["proximity"])
        assert figure.value <= 1


def test_ratios(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "RATIOS_PICTURE", tmp_path / "ratios.png")
    monkeypatch.setattr(placement, "WINDOWS_S", (0.1, 2.0))
    monkeypatch.setattr(placement, "MOST_PER_S", (1.0,))
    found = list(ratio_figures(silent, 30, range(1, 3)))
    assert bars(found) == [None] * 4
    assert [figure.value > 0 for figure in found] == [True] * 4
    assert (tmp_path / "ratios.png").stat().st_size > 1_000
    draw_ratios(silent, 20, range(1, 2), tmp_path / "again.png")
    assert (tmp_path / "again.png").exists()


def test_sections() -> None:
    assert list(SECTIONS) == ["optimal", "plain-dp", "greedy+", "proximity", "ratios", "prediction"]
