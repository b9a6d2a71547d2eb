"""Predictors of open selections: bounds of the truth, and what is expected."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from lab.recep.estimators.random_selections import pairs_of, random_pairs, random_sets, sets_of, share
from situ.lab.quality.precision_recall import MeasuredQuality
from situ.lab.recep.estimators.pairs import PairCounts, counts_of_pairs
from situ.lab.recep.estimators.predict import (
    OpenPairs,
    current_selection,
    event_pattern,
    optimistic,
    pessimistic,
)


def random_open(rng: np.random.Generator) -> tuple[OpenPairs, MeasuredQuality, PairCounts]:
    """Atomic events are numbered as they arrive: those below a number have. Totals are right."""
    selections = random_sets(rng, 40, 30, 30)
    asked, processed = random_pairs(rng, 40, 300)
    now = int(rng.integers(0, 31))
    truth = counts_of_pairs(sets_of(selections), asked, processed)
    seen = counts_of_pairs(sets_of([{e for e in one if e < now} for one in selections]), asked, processed)
    past = counts_of_pairs(sets_of(random_sets(rng, 40, 30, 30)), asked, processed)
    return OpenPairs.of(seen, truth.asked, truth.processed), truth.quality(), past


def is_between(low: MeasuredQuality, quality: MeasuredQuality, high: MeasuredQuality) -> bool:
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
    pairs = OpenPairs.of(PairCounts(*(np.array([k]) for k in (3, 5, 6))), np.array([2]), np.array([2]))
    for predicted in (pessimistic, optimistic, current_selection):
        assert pairs_of(predicted(pairs)) == [(0.5, 0.6)]


def test_without_a_past_nothing_is_expected_in_both() -> None:
    nothing = PairCounts(*3 * (np.array([0]),))
    pairs = OpenPairs.of(PairCounts(*(np.array([k]) for k in (1, 2, 2))), np.array([4]), np.array([4]))
    assert pairs_of(event_pattern(pairs, nothing)) == pairs_of(pessimistic(pairs)) == [(0.25, 0.25)]
