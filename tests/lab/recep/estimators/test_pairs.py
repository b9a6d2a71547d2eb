"""Exact quality of pairs of selections, against Python sets."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from lab.recep.estimators.random_selections import by_words, pairs_of, random_pairs, random_sets, sets_of
from situ.lab.quality.atoms import AtomSets
from situ.lab.quality.precision_recall import quality_of_sets
from situ.lab.recep.estimators.pairs import Estimator, quality_of_pairs
from situ.space.precision_recall import shares


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("factor", [1, -1, 1_000_000_007])  # atoms may have any numbers
def test_as_python_sets_say(seed: int, factor: int) -> None:
    rng = np.random.default_rng(seed)
    selections = [{atom * factor for atom in one} for one in random_sets(rng, 40, 15)]
    asked, processed = random_pairs(rng, 40, 300)
    processed[100:200].sort()  # many pairs after one another with the same one
    expected = [by_words(selections[i], selections[j]) for i, j in zip(asked, processed, strict=True)]
    estimate: Estimator = partial(quality_of_pairs, sets_of(selections))
    assert pairs_of(estimate(asked, processed)) == expected
    assert len(set(expected)) > 10


def test_selections_of_other_times_have_nothing_in_common() -> None:
    sets = sets_of([{1, 2, 3}, {4, 5}, {6}, set()])
    everyone, others = np.repeat(np.arange(4), 4), np.tile(np.arange(4), 4)
    found = quality_of_pairs(sets, everyone, others)
    assert pairs_of(found)[:4] == [(1.0, 1.0), (0.0, 0.0), (0.0, 0.0), (1.0, 0.0)]
    assert pairs_of(found)[12:] == [(0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (1.0, 1.0)]


def test_as_sets_that_stand_side_by_side() -> None:
    rng = np.random.default_rng(7)
    one, other = random_sets(rng, 60, 20), random_sets(rng, 60, 20)
    expected = quality_of_sets(sets_of(one), sets_of(other))
    found = quality_of_pairs(sets_of(one + other), np.arange(60), np.arange(60) + 60)
    assert pairs_of(found) == pairs_of(expected)


def test_no_pairs() -> None:
    none = np.zeros(0, np.int64)
    assert pairs_of(quality_of_pairs(AtomSets(none, np.zeros(1, np.int64)), none, none)) == []


@pytest.mark.parametrize("number", [-1, 2])
def test_a_selection_that_is_not_there(number: int) -> None:
    with pytest.raises(AssertionError):
        quality_of_pairs(sets_of([{1}, {2}]), np.array([0]), np.array([number]))


def test_shares_of_less_than_one() -> None:
    assert shares(np.array([0.2, 0.0, 0.0]), np.array([0.4, 0.4, 0.0])).tolist() == [0.5, 0.0, 1.0]
