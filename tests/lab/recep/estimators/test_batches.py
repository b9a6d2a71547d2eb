"""Quality of batches: which selections stand for which, and the mean and the least of their qualities."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from itertools import chain, groupby

import numpy as np
import pytest

from lab.recep.estimators.random_selections import by_words, pairs_of, random_pairs, random_sets, sets_of
from situ.lab.recep.estimators.batches import Batches, quality_of_batches, selections_of_batches
from situ.lab.recep.estimators.pairs import quality_of_pairs


def random_batches(rng: np.random.Generator, count: int, latest: int) -> tuple[Batches, list[list[int]]]:
    sizes = rng.integers(0, 6, count)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    members = rng.permutation(offsets[-1])
    end_us = rng.integers(0, latest, offsets[-1])
    words = [sorted(part.tolist(), key=lambda s: (end_us[s], s)) for part in np.split(members, offsets[1:-1])]
    return Batches(np.array([*chain(*words)], np.int64), offsets, end_us), words


def stands_for(asked: list[int], processed: list[int], ends: list[int]) -> list[tuple[int, int]]:
    found = []
    by_end = {end: list(ones) for end, ones in groupby(processed, key=lambda s: ends[s])}
    for end, ones in groupby(asked, key=lambda s: ends[s]):
        nearest = by_end[min(by_end, key=lambda other: (abs(other - end), other))] if by_end else []
        found += [(s, nearest[min(rank, len(nearest) - 1)]) for rank, s in enumerate(ones) if nearest]
    return found


@pytest.mark.parametrize("latest", [4, 30])  # many ends at the same time, and few
@pytest.mark.parametrize("seed", range(5))
def test_the_one_that_ends_nearest_stands_for_a_selection(seed: int, latest: int) -> None:
    rng = np.random.default_rng(seed)
    batches, words = random_batches(rng, 25, latest)
    asked, processed = random_pairs(rng, 25, 200)
    expected = [stands_for(words[i], words[j], batches.end_us.tolist()) for i, j in zip(asked, processed, strict=True)]
    found = selections_of_batches(batches, asked, processed)
    assert list(zip(found.asked.tolist(), found.processed.tolist(), strict=True)) == [*chain(*expected)]
    assert np.diff(found.offsets).tolist() == [len(one) for one in expected]


@pytest.mark.parametrize("seed", range(5))
def test_mean_and_least(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batches, words = random_batches(rng, 25, 10)
    selections = random_sets(rng, len(batches.end_us), 10)
    asked, processed = random_pairs(rng, 25, 300)
    estimate = partial(quality_of_pairs, sets_of(selections))
    average, every = (quality_of_batches(estimate, batches, over, asked, processed) for over in ("average", "every"))
    for k, (i, j) in enumerate(zip(asked, processed, strict=True)):
        pairs = stands_for(words[i], words[j], batches.end_us.tolist())
        if not pairs:
            expected = (0.0 if words[j] else 1.0, 0.0 if words[i] else 1.0)
            assert pairs_of(average)[k] == pairs_of(every)[k] == expected
            continue
        qualities = [by_words(selections[s], selections[other]) for s, other in pairs]
        for which, (mean, least) in enumerate(
            ((average.precision[k], every.precision[k]), (average.recall[k], every.recall[k]))
        ):
            values = [quality[which] for quality in qualities]
            assert least == min(values)
            assert mean == pytest.approx(float(sum(map(Fraction, values)) / len(values)), rel=1e-15)


def test_a_batch_for_itself_is_just_1() -> None:
    rng = np.random.default_rng(8)
    batches, _ = random_batches(rng, 200, 3)
    estimate = partial(quality_of_pairs, sets_of(random_sets(rng, len(batches.end_us), 10)))
    own = np.arange(200)
    assert pairs_of(quality_of_batches(estimate, batches, "average", own, own)) == [(1.0, 1.0)] * 200


def test_batches_of_one_are_selections() -> None:
    rng = np.random.default_rng(9)
    sets = sets_of(random_sets(rng, 40, 10))
    batches = Batches(np.arange(40), np.arange(41), rng.integers(0, 9, 40))
    asked, processed = random_pairs(rng, 40, 200)
    estimate = partial(quality_of_pairs, sets)
    for over in ("average", "every"):
        found = quality_of_batches(estimate, batches, over, asked, processed)
        assert pairs_of(found) == pairs_of(estimate(asked, processed))
