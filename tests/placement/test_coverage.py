"""Rates and needs of the cost models: printed formulas, quadrature, and events that are drawn and counted."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from placement.oracle import follow
from situ.placement.coverage import Coverage, followers
from situ.placement.paper_costs import PaperCosts
from situ.placement.problem import PUSHED, Input, Kind, PlannedOperator

W = 0.7


def operator(kind: Kind, inputs: int, each: bool = True, selectivity: float = 1.0) -> PlannedOperator:
    read = tuple(Input(f"E{k}") for k in range(inputs))
    follows = (each,) * (inputs - 1) if kind is Kind.SEQ else ()
    return PlannedOperator("C", kind, read, W, selectivity, follows, can_pull=True)


@pytest.mark.parametrize("seed", range(30))
def test_followers_are_the_integral_of_their_densities(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rates = np.exp(rng.uniform(np.log(0.001), np.log(30), size=int(rng.integers(1, 4))))
    if seed % 3 == 0:
        rates[:] = rates[0]  # equal rates are where partial fractions fail
    each = tuple(bool(rng.random() < 0.5) for _ in rates)
    assert followers(rates, each, W) == pytest.approx(follow(rates.tolist(), list(each), W), rel=1e-9)


def test_followers_of_very_frequent_events_are_certain() -> None:
    assert followers(np.array([1e5, 2e5]), (False, False), 10.0) == pytest.approx(1.0, rel=1e-9)
    assert followers(np.array([1e-9]), (False,), 1.0) == pytest.approx(1e-9, rel=1e-6)


def chains(rng: np.random.Generator, rates: list[float], each: tuple[bool, ...], seconds: float) -> int:
    """Draws Poisson events and counts the chains that begin with an event of the first rate."""
    times = [np.sort(rng.uniform(0, seconds + W, rng.poisson(rate * (seconds + W)))) for rate in rates]
    count = 0
    for start in times[0][times[0] < seconds]:
        ends = [start]
        for later, all_ in zip(times[1:], each, strict=True):
            reached: list[float] = []
            for end in ends:
                first, last = np.searchsorted(later, [end, start + W], side="right")
                reached += later[first:last].tolist() if all_ else later[first : min(first + 1, last)].tolist()
            ends = reached
        count += len(ends)
    return count


@pytest.mark.parametrize("each", [*itertools.product([False, True], repeat=2)])
def test_followers_are_what_is_counted(each: tuple[bool, bool]) -> None:
    rates, seconds = [1.5, 2.0, 0.8], 4000.0
    counted = chains(np.random.default_rng(5), rates, each, seconds)
    expected = rates[0] * followers(np.array(rates[1:]), each, W) * seconds
    assert counted == pytest.approx(expected, rel=0.08)


def test_output_rates_are_the_printed_formulas() -> None:
    rates = np.array([0.5, 2.0, 3.0])
    seq = W**2 / 2 * 0.5 * 2 * 3
    assert Coverage().output_rate(operator(Kind.SEQ, 3), rates) == pytest.approx(seq)
    assert Coverage().output_rate(operator(Kind.AND, 3), rates) == pytest.approx(3 * W**2 * 3.0)
    assert Coverage().output_rate(operator(Kind.OR, 3), rates) == pytest.approx(5.5)
    assert Coverage().output_rate(operator(Kind.SEQ, 3, selectivity=0.1), rates) == pytest.approx(seq / 10)
    for kind in (Kind.SEQ, Kind.AND):
        assert PaperCosts().output_rate(operator(kind, 3), rates) == pytest.approx(W**2 * 3.0)
    every = PlannedOperator("C", Kind.OTHER, (Input("A"),), every_s=4.0, selectivity=2.0)
    for model in (Coverage(), PaperCosts()):
        assert model.output_rate(every, np.array([9.0])) == pytest.approx(0.5)


def test_an_and_of_two_comes_as_often_as_it_is_counted() -> None:
    rng = np.random.default_rng(7)
    a, b = (np.sort(rng.uniform(0, 5000, rng.poisson(rate * 5000))) for rate in (0.6, 1.1))
    counted = (np.searchsorted(b, a + W, side="right") - np.searchsorted(b, a - W)).sum()
    expected = Coverage().output_rate(operator(Kind.AND, 2), np.array([0.6, 1.1])) * 5000
    assert counted == pytest.approx(expected, rel=0.05)


def covered_by(rng: np.random.Generator, rate: float, before_s: float, after_s: float) -> tuple[float, float]:
    """Of the time, what windows around Poisson events cover; and how many separate stretches begin in a second."""
    seconds = 20_000 / rate
    at = np.sort(rng.uniform(0, seconds, rng.poisson(rate * seconds)))
    gaps = np.diff(at)
    covered = np.minimum(gaps, before_s + after_s).sum()
    return covered / seconds, (gaps > before_s + after_s).sum() / seconds


@pytest.mark.parametrize("kind", [Kind.SEQ, Kind.AND])
@pytest.mark.parametrize("rate", [0.05, 0.6, 3.0])
def test_one_earlier_input_needs_the_time_that_its_pull_windows_cover(kind: Kind, rate: float) -> None:
    """A request is sent when such a stretch begins."""
    need = Coverage().need(operator(kind, 2), np.array([rate, 5.0]), (0,), (1,))
    covered, stretches = covered_by(np.random.default_rng(3), rate, W if kind is Kind.AND else 0.0, W)
    assert need.fraction == pytest.approx(covered, rel=0.05)
    assert need.requests_per_s == pytest.approx(stretches, rel=0.08)


def test_needs_are_the_printed_formulas() -> None:
    rates = np.array([4.0, 0.5, 1.0, 9.0])
    both = (1 - math.exp(-0.5 * 2 * W)) * (1 - math.exp(-1.0 * 1.5 * W))
    need = Coverage().need(operator(Kind.AND, 4), rates, (2, 1), (0, 3))  # rarest first, whatever the order of steps
    assert need.fraction == pytest.approx(both)
    assert need.requests_per_s == pytest.approx(-math.log(1 - both) / (2 * W) * (1 - both))
    both = (1 - math.exp(-0.5 * W)) * (1 - math.exp(-1.0 * W / 2))
    need = Coverage().need(operator(Kind.SEQ, 4), rates, (1, 2), (0,))
    assert need.fraction == pytest.approx(both)
    assert need.requests_per_s == pytest.approx(-math.log(1 - both) / W * (1 - both))
    paper = PaperCosts().need(operator(Kind.AND, 4), rates, (1, 2), (0, 3))
    assert paper.fraction == pytest.approx(2 * W * (0.5 * W) * (1.0 * W) * 13.0)
    assert paper.requests_per_s == 0


def test_what_is_always_covered_is_pushed() -> None:
    assert Coverage().need(operator(Kind.SEQ, 2), np.array([1e6, 1.0]), (0,), (1,)) == PUSHED
    assert Coverage().need(operator(Kind.SEQ, 2), np.array([1.0, 1.0]), (), (0, 1)) == PUSHED
    assert PUSHED.requests_per_s == 0


def test_pulling_in_a_step_never_needs_more_than_pushing() -> None:
    """And the more inputs come first, the less is needed."""
    for seed in range(50):
        rng = np.random.default_rng(seed)
        rates = np.exp(rng.uniform(-4, 4, size=4))
        for kind in (Kind.SEQ, Kind.AND):
            needs = [Coverage().need(operator(kind, 4), rates, tuple(range(k)), (3,)).fraction for k in range(4)]
            assert all(1 >= more >= less >= 0 for more, less in itertools.pairwise(needs))
