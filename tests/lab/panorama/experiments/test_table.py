"""Rows -> curves."""

from __future__ import annotations

import pytest

from situ.lab.panorama.experiments.measure import MeasuredPlan
from situ.lab.panorama.experiments.table import curves


def row(
    mechanism: str, x: float, seed: int, cost: float, network: str = "antennas", found: bool = True
) -> MeasuredPlan:
    return MeasuredPlan(network, x, seed, mechanism, cost, 10.0, 2.0, 1.0, cost / 100, found)


ROWS = [
    row("cpp", 1, 1, 8.0), row("cpp", 1, 2, 6.0), row("cpp", 2, 1, 5.0, found=False), row("cpp", 2, 2, 5.0),
    row("optimal", 1, 1, 4.0), row("optimal", 1, 2, 6.0), row("optimal", 2, 1, 1.0), row("optimal", 2, 2, 2.0),
    row("cpp", 1, 1, 9.0, "Iris"), row("optimal", 1, 1, 9.0, "Iris"),
]  # fmt: skip


def test_means_over_cases() -> None:
    found = curves(ROWS, "factor", "antennas")
    assert found["cpp"].x == (1, 2)
    assert found["cpp"].mean.tolist() == pytest.approx([0.7, 0.5])
    assert dict(found["optimal"].points)[2] == pytest.approx(0.15)
    assert curves(ROWS, "factor", "real")["cpp"].mean.tolist() == pytest.approx([0.9])


def test_discovered_and_seconds() -> None:
    assert curves(ROWS, "discovered", "antennas")["cpp"].mean.tolist() == [1.0, 0.5]
    assert curves(ROWS, "seconds", "antennas")["cpp"].mean.tolist() == pytest.approx([0.07, 0.05])


def test_proximity_is_taken_case_by_case() -> None:
    found = curves(ROWS, "proximity", "antennas")
    assert list(found) == ["cpp"]
    assert found["cpp"].mean.tolist() == pytest.approx([(4 / 8 + 6 / 6) / 2, (1 / 5 + 2 / 5) / 2])
