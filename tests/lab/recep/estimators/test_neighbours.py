"""The estimate from shared incoming events: its counts, its weights, and what it stands for."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from lab.recep.estimators.random_selections import pairs_of, random_pairs, random_sets, sets_of, share
from situ.lab.quality.precision_recall import MeasuredQuality
from situ.lab.recep.estimators.neighbours import Incoming, quality_of_shared
from situ.lab.recep.estimators.pairs import quality_of_pairs


def random_incoming(
    rng: np.random.Generator, count: int
) -> tuple[Incoming, list[dict[int, tuple[Fraction, Fraction]]]]:
    """Qualities in quarters, so that sums of them are exact."""
    selections = random_sets(rng, count, 15)
    words = [{e: (Fraction(rng.integers(0, 5), 4), Fraction(rng.integers(0, 5), 4)) for e in one} for one in selections]
    shuffled = [[list(one.items())[k] for k in rng.permutation(len(one))] for one in words]
    events = np.array([e for one in shuffled for e, _ in one], np.int64)
    annotated = (np.array([float(q[which]) for one in shuffled for _, q in one]) for which in (0, 1))
    return Incoming.of(events, np.cumsum([0, *map(len, words)]), MeasuredQuality(*annotated)), words


@pytest.mark.parametrize("seed", range(5))
def test_shared_events_count_with_their_quality_for_the_one_that_asked(seed: int) -> None:
    rng = np.random.default_rng(seed)
    incoming, words = random_incoming(rng, 30)
    asked, processed = random_pairs(rng, 30, 300)
    expected = []
    for s, other in ((words[i], words[j]) for i, j in zip(asked, processed, strict=True)):
        shared = s.keys() & other.keys()
        expected.append((share(sum(s[e][0] for e in shared), len(other)), share(sum(s[e][1] for e in shared), len(s))))
    assert pairs_of(quality_of_shared(incoming, asked, processed)) == expected
    assert len(set(expected)) > 10


def test_exact_where_incoming_events_are_atomic() -> None:
    """A leaf operator: all incoming events are just what was asked."""
    rng = np.random.default_rng(6)
    sets = sets_of(random_sets(rng, 40, 15))
    ones = np.ones(len(sets.atoms))
    asked, processed = random_pairs(rng, 40, 300)
    found = quality_of_shared(Incoming.of(sets.atoms, sets.offsets, MeasuredQuality(ones, ones)), asked, processed)
    assert pairs_of(found) == pairs_of(quality_of_pairs(sets, asked, processed))


def test_larger_processed_selections_lose_precision_and_no_recall() -> None:
    """The order that the paper's text swaps: m_o / m_s' is precision."""
    incoming = Incoming.of(np.array([1, 1, 2, 3, 4]), np.array([0, 1, 5]), MeasuredQuality(np.ones(5), np.ones(5)))
    assert pairs_of(quality_of_shared(incoming, np.array([0]), np.array([1]))) == [(0.25, 1.0)]


def test_an_event_twice_in_a_selection() -> None:
    with pytest.raises(AssertionError, match="twice"):
        Incoming.of(np.array([1, 1]), np.array([0, 2]), MeasuredQuality(np.ones(2), np.ones(2)))
