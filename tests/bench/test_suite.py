"""Bars and verdicts of the table that `make bench` prints."""

import pytest

from situ.bench.suite import BESIDE_FLINKCEP, ENGINES, Bar, BenchFigure


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
    assert BenchFigure("next", value, "x", "", {}, bar).verdict == verdict


def test_bars_beside_flinkcep() -> None:
    bars = {(w.pattern.value, w.types, w.keys, w.grouped): tuple(of.values()) for w, of in BESIDE_FLINKCEP}
    assert bars == {
        ("next", 100, 1_000, True): (150, 90, 14),
        ("next", 3, 1_000, True): (100, 40, 11),
        ("next", 3, 1_000_000, True): (8,),
        ("rising", 100, 1_000, True): (120, 90, 13),
        ("each", 100, 1_000, True): (150, 150),
        ("next", 100, 1_000, False): (None, 16),
    }
    assert all({*of} <= {*ENGINES} for _, of in BESIDE_FLINKCEP)
