"""Predictors of open selections: bounds of the truth, what is expected, and how likely thresholds are."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from lab.recep.estimators.random_selections import pairs_of, random_pairs, random_sets, sets_of, share
from situ.kernel.arrays import I64
from situ.lab.quality.precision_recall import Quality
from situ.lab.recep.estimators.hypergeometric import chance_of_at_least
from situ.lab.recep.estimators.pairs import Counts, counts_of_pairs
from situ.lab.recep.estimators.predict import (
    OpenPairs,
    chances,
    current_selection,
    event_pattern,
    optimistic,
    pessimistic,
)


def random_open(rng: np.random.Generator) -> tuple[OpenPairs, Quality, Counts]:
    """Atomic events are numbered as they arrive: those below a number have. Totals are right."""
    selections = random_sets(rng, 40, 30, 30)
    asked, processed = random_pairs(rng, 40, 300)
    now = int(rng.integers(0, 31))
    truth = counts_of_pairs(sets_of(selections), asked, processed)
    seen = counts_of_pairs(sets_of([{e for e in one if e < now} for one in selections]), asked, processed)
    past = counts_of_pairs(sets_of(random_sets(rng, 40, 30, 30)), asked, processed)
    return OpenPairs.of(seen, truth.asked, truth.processed), truth.quality(), past


def is_between(low: Quality, quality: Quality, high: Quality) -> bool:
    precise = np.all((low.precision <= quality.precision) & (quality.precision <= high.precision))
    return bool(precise and np.all((low.recall <= quality.recall) & (quality.recall <= high.recall)))


@pytest.mark.parametrize("seed", range(20))
def test_the_truth_and_the_expected_lie_between_the_bounds(seed: int) -> None:
    pairs, truth, past = random_open(np.random.default_rng(seed))
    low, high = pessimistic(pairs), optimistic(pairs)
    assert is_between(low, truth, high)
    assert is_between(low, event_pattern(pairs, past), high)


def test_all_agree_on_selections_that_are_closed() -> None:
    rng = np.random.default_rng(2)
    counts = counts_of_pairs(sets_of(random_sets(rng, 40, 15)), *random_pairs(rng, 40, 300))
    closed = OpenPairs.of(counts, counts.asked, counts.processed)
    exact = pairs_of(counts.quality())
    for predicted in (pessimistic, optimistic, current_selection, lambda pairs: event_pattern(pairs, counts)):
        assert pairs_of(predicted(closed)) == exact
    quality = counts.quality()
    reached = chances(closed, counts, 0.5, 0.25)
    assert reached.precision.tolist() == (quality.precision >= 0.5).tolist()
    assert reached.recall.tolist() == (quality.recall >= 0.25).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_as_fractions_say(seed: int) -> None:
    pairs, _, past = random_open(np.random.default_rng(seed))
    seen = pairs.seen
    found = event_pattern(pairs, past)
    for k in range(300):
        both, a, p, all_a, all_p = (
            int(v[k]) for v in (seen.both, seen.asked, seen.processed, pairs.asked, pairs.processed)
        )
        most = both + min(all_a - a, all_p - p)
        assert optimistic(pairs).recall[k] == share(most, all_a)
        assert pessimistic(pairs).recall[k] == share(both, all_a)
        assert current_selection(pairs).recall[k] == share(both, a)
        for to_come, buffered, total, value in (
            (all_p - p, past.processed[k], all_p, found.precision[k]),
            (all_a - a, past.asked[k], all_a, found.recall[k]),
        ):
            rate = Fraction(int(past.both[k]), int(buffered)) if buffered else Fraction(0)
            assert value == pytest.approx(share(min(Fraction(most), both + to_come * rate), total), rel=1e-14)


def test_more_has_come_than_is_usual() -> None:
    pairs = OpenPairs.of(Counts(*(np.array([k]) for k in (3, 5, 6))), np.array([2]), np.array([2]))
    for predicted in (pessimistic, optimistic, current_selection):
        assert pairs_of(predicted(pairs)) == [(0.5, 0.6)]


def test_without_a_past_nothing_is_expected_in_both() -> None:
    nothing = Counts(*3 * (np.array([0]),))
    pairs = OpenPairs.of(Counts(*(np.array([k]) for k in (1, 2, 2))), np.array([4]), np.array([4]))
    assert pairs_of(event_pattern(pairs, nothing)) == pairs_of(pessimistic(pairs)) == [(0.25, 0.25)]
    reached = chances(pairs, nothing, 0.25, 0.5)
    assert (reached.precision.tolist(), reached.recall.tolist()) == ([1.0], [0.0])


# ---- chances


def tail(wanted: int, population: int, good: int, draws: int) -> Fraction:
    ways = sum(comb(good, k) * comb(population - good, draws - k) for k in range(max(wanted, 0), draws + 1))
    return Fraction(ways, comb(population, draws))


def columns(rows: Sequence[tuple[int, ...]]) -> list[I64]:
    return list(np.array(rows, np.int64).T.copy())


def test_hypergeometric_by_fractions() -> None:
    rows = [
        (wanted, population, good, draws)
        for population in range(8)
        for good in range(population + 1)
        for draws in range(population + 1)
        for wanted in range(-1, draws + 2)
    ]
    expected = [float(tail(*row)) for row in rows]
    np.testing.assert_allclose(chance_of_at_least(*columns(rows)), expected, rtol=1e-12, atol=1e-14)


def test_hypergeometric_far_from_what_is_expected() -> None:
    """Where a single term is too small for a number, the sum still is right at both ends."""
    rows = [(wanted, 2400, 1200, 1200) for wanted in (1, 400, 580, 600, 601, 640, 800, 1190)]
    expected = [float(tail(*row)) for row in rows]
    np.testing.assert_allclose(chance_of_at_least(*columns(rows)), expected, rtol=1e-9, atol=1e-300)
    assert expected[0] == 1.0
    assert expected[-1] == 0.0


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 0.7, 1.0])
def test_how_likely_a_threshold_is(threshold: float) -> None:
    pairs, _, past = random_open(np.random.default_rng(11))
    seen = pairs.seen
    found = chances(pairs, past, threshold, np.full(300, threshold))
    for k in range(300):
        both = int(seen.both[k])
        most = both + min(int(pairs.asked[k] - seen.asked[k]), int(pairs.processed[k] - seen.processed[k]))
        for total, here, buffered, chance in (
            (int(pairs.processed[k]), int(seen.processed[k]), int(past.processed[k]), found.precision[k]),
            (int(pairs.asked[k]), int(seen.asked[k]), int(past.asked[k]), found.recall[k]),
        ):
            to_come, good = total - here, int(past.both[k])
            times = max(-(-to_come // buffered), 1) if buffered else 0
            urn = (buffered * times, good * times) if buffered else (to_come, 0)
            enough = [n for n in range(total + 1) if share(n, total) >= threshold]
            expected = float(tail(enough[0] - both, *urn, to_come)) if enough[0] <= most else 0.0
            assert chance == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_what_is_expected_is_what_the_chances_add_up_to() -> None:
    """The mean of the distribution behind the chances is the paper's m K / M."""
    population, good, draws = 20, 7, 9
    rows = [(wanted, population, good, draws) for wanted in range(1, draws + 1)]
    assert chance_of_at_least(*columns(rows)).sum() == pytest.approx(draws * good / population)


def test_shares_reach_thresholds_as_they_are_rounded() -> None:
    """As a product of rounded numbers 0.07 * 100 is more than 7, but the share 7 / 100 is 0.07. And a little more than
    1 / 3, three times, is 1, but the share 1 / 3 is less."""
    thresholds = np.concatenate([np.arange(101) / 100, *(np.nextafter(np.arange(n) / n, 1) for n in (3, 7, 100))])
    totals, thresholds = (v.reshape(-1) for v in np.meshgrid(np.arange(1, 201), thresholds))
    needed = np.array([np.argmax(np.arange(n + 1) / n >= t) for n, t in zip(totals, thresholds, strict=True)])
    for both, chance in ((needed, 1.0), (needed - 1, 0.0)):  # one event is to come, which is not in both
        some = (both >= 0) & (both < totals)
        count, total = both[some], totals[some]
        pairs = OpenPairs.of(Counts(count, total - 1, total - 1), total, total)
        reached = chances(pairs, Counts(0 * count, total, total), thresholds[some], 0.0)
        assert set(reached.precision.tolist()) == {chance}
