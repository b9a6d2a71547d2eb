"""Bars and verdicts of the table that `make bench` prints."""

import pytest

from situ.bench.suite import BESIDE_FLINKCEP, Bar, Figure


@pytest.mark.parametrize(
    ("bar", "value", "verdict"),
    [
        (Bar("at least", 150), 150.0, "pass"),
        (Bar("at least", 150), 149.9, "miss"),
        (Bar("at most", 15), 15.0, "pass"),
        (Bar("at most", 15), 15.1, "miss"),
        (None, 3.0, ""),
    ],
)
def test_verdicts(bar: Bar | None, value: float, verdict: str) -> None:
    assert Figure("next", value, "x", "", {}, bar).verdict == verdict


def test_bars_beside_flinkcep() -> None:
    bars = {(workload.pattern.value, workload.types): bar for workload, bar in BESIDE_FLINKCEP}
    assert bars == {("next", 100): 150, ("next", 3): 100, ("rising", 100): 120, ("each", 100): 150}
