"""Coverage and requests of pull windows, against windows of drawn events."""

from __future__ import annotations

import numpy as np
import pytest

from situ.placement.pull_requests import covered_by_and, covered_by_seq, requests_of_and, requests_of_seq
from situ.runtime.sites.protocol import Pulled, pull_windows, requests, union

WINDOW_US = 1_000_000
RATES = [(0.3,), (1.5,), (4.0,), (0.1, 5.0), (0.5, 2.0), (2.0, 0.5), (3.0, 3.0), (2.0, 0.2, 3.0)]


def counted(
    ordered: bool, rates: tuple[float, ...], pulled: int, seed: int, windows: int
) -> tuple[float, float, float]:
    """Covered, requests that begin, and all requests, per window."""
    rng = np.random.default_rng(seed)
    inputs = [number for number in range(len(rates) + 1) if number != pulled]
    times = [np.sort(rng.integers(0, windows * WINDOW_US, rng.poisson(rate * windows))) for rate in rates]
    operator = Pulled(ordered, WINDOW_US, tuple(range(len(rates) + 1)))
    found = pull_windows(operator, inputs, times, [some * 1000 for some in times], pulled)
    first, last = union(found)
    asked = requests(found, lead_ns=0)
    covered = float((last - first + 1).sum()) / (windows * WINDOW_US)
    return covered, asked.starts / windows, (asked.starts + asked.extensions) / windows


@pytest.mark.slow
@pytest.mark.parametrize("rates", RATES)
def test_conjunctions(rates: tuple[float, ...]) -> None:
    covered, _, asked = counted(False, rates, 0, 1, 100_000)
    assert covered_by_and(rates) == pytest.approx(covered, rel=0.02)
    assert requests_of_and(rates) == pytest.approx(asked, rel=0.02 if len(rates) == 1 else 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("rates", RATES)
def test_sequences(rates: tuple[float, ...]) -> None:
    for pulled in range(len(rates) + 1):
        covered, _, asked = counted(True, rates, pulled, 2 + pulled, 100_000)
        assert covered_by_seq(rates) == pytest.approx(covered, rel=0.03)
        exact = pulled < len(rates) or len(rates) == 1
        assert requests_of_seq(rates[:pulled], rates[pulled:]) == pytest.approx(asked, rel=0.03 if exact else 0.05)
