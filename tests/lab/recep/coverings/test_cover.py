"""Coverings against the figures of the paper word for word, and what must hold of them."""

from __future__ import annotations

import numpy as np
import pytest

from lab.recep.coverings import cover_by_words as words
from situ.core.errors import SituError
from situ.kernel.arrays import I64
from situ.lab.quality.atoms import AtomSets
from situ.lab.quality.precision_recall import MeasuredQuality, quality_of_counts
from situ.lab.recep.coverings import family
from situ.lab.recep.coverings.cover import (
    Covering,
    Heuristic,
    Neighbours,
    WaitingSelections,
    cover,
    exact,
    mnh,
    mqc,
    none,
)
from situ.lab.recep.coverings.exact_cover import smallest_cover

HEURISTICS: tuple[Heuristic, ...] = ("mqc", "mnh", "exact", "none")


def sets_of(lists: list[list[int]]) -> AtomSets:
    offsets = np.cumsum([0, *map(len, lists)])
    return AtomSets.of(np.array([atom for one in lists for atom in one], np.int64), offsets)


def python_sets(waiting: WaitingSelections) -> words.Sets:
    parts = np.split(waiting.sets.atoms, waiting.sets.offsets[1:-1]) if len(waiting) else []
    return [frozenset(part.tolist()) for part in parts]


def random_waiting(
    rng: np.random.Generator, count: int, operators: int, with_neighbours: bool, spread: int = 12
) -> WaitingSelections:
    """Windows over one stream of events, with gaps; now and then an empty one."""
    lists = []
    for _ in range(count):
        begin, size = int(rng.integers(0, spread)), int(rng.integers(0, 8))
        window = np.arange(begin, begin + size)
        lists.append(window[rng.random(size) < 0.8].tolist())
    neighbours = None
    if with_neighbours:
        pairs = np.argwhere(rng.random((operators, operators)) < 0.6)
        neighbours = Neighbours.of(pairs[:, 0], pairs[:, 1], operators)
    levels = np.array([0.0, 0.3, 0.5, 2 / 3, 0.8, 1.0])
    thresholds = rng.choice(levels, (2, operators))
    return WaitingSelections(
        sets_of(lists), rng.integers(0, operators, count), thresholds[0], thresholds[1], neighbours
    )


def subsets_by_words(waiting: WaitingSelections) -> list[set[int]]:
    def may(operator: int, on_behalf_of: int) -> bool:
        if waiting.neighbours is None:
            return True
        offsets = waiting.neighbours.offsets
        return on_behalf_of in waiting.neighbours.others[offsets[operator] : offsets[operator + 1]].tolist()

    return words.subsets(
        python_sets(waiting), waiting.owner.tolist(), waiting.precision.tolist(), waiting.recall.tolist(), may
    )


def degrees(waiting: WaitingSelections) -> list[int]:
    return (np.zeros(len(waiting.precision)) if waiting.neighbours is None else waiting.neighbours.sizes).tolist()


class Counts:
    """Exact figures as an estimate, and how often it was asked."""

    def __init__(self, waiting: WaitingSelections) -> None:
        self.sets, self.pairs = python_sets(waiting), 0

    def __call__(self, asked: I64, processed: I64) -> MeasuredQuality:
        self.pairs += len(asked)
        a, p = [self.sets[s] for s in asked.tolist()], [self.sets[s] for s in processed.tolist()]
        both = [len(one & other) for one, other in zip(a, p, strict=True)]
        return quality_of_counts(np.array(both), np.array([*map(len, a)]), np.array([*map(len, p)]))


@pytest.mark.parametrize("with_neighbours", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_heuristics_are_those_of_the_figures(seed: int, with_neighbours: bool) -> None:
    rng = np.random.default_rng(seed)
    # Windows that lie close or far apart: nearly all pairs have something in common, or few.
    count, spread = (40, 12) if seed % 3 else (150, 300)
    waiting = random_waiting(rng, count, int(rng.integers(1, 9)), with_neighbours, spread)
    subsets = subsets_by_words(waiting)
    assert mqc(waiting).by.tolist() == words.mqc(subsets)
    assert mnh(waiting).by.tolist() == words.mnh(subsets, waiting.owner.tolist(), degrees(waiting))


@pytest.mark.parametrize("with_neighbours", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_estimates_take_the_place_of_exact_figures(seed: int, with_neighbours: bool) -> None:
    waiting = random_waiting(np.random.default_rng(seed), 40, 6, with_neighbours)
    for heuristic in (mqc, mnh, exact):
        estimate = Counts(waiting)
        covering = heuristic(waiting, estimate)
        assert covering.by.tolist() == heuristic(waiting).by.tolist()
        assert covering.estimations == estimate.pairs > 0


def test_a_poor_estimate_covers_nothing() -> None:
    waiting = WaitingSelections(sets_of([[1, 2]] * 5), np.arange(5), np.full(5, 0.5), np.full(5, 0.5))

    def poor(asked: I64, processed: I64) -> MeasuredQuality:
        return MeasuredQuality(np.full(len(asked), 0.4), np.ones(len(asked)))

    assert [cover(name, waiting, poor).covered for name in HEURISTICS] == [0, 0, 0, 0]
    assert [cover(name, waiting).covered for name in HEURISTICS] == [4, 4, 4, 0]


@pytest.mark.parametrize("seed", range(12))
def test_room_for_few_pairs_changes_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = random_waiting(np.random.default_rng(seed), 60, 9, seed % 2 == 0)
    roomy = mqc(waiting), mqc(waiting, Counts(waiting)).by.tolist()
    monkeypatch.setattr(family, "CHUNK", 1)
    monkeypatch.setattr(family, "ESTIMATED", 1)
    narrow = mqc(waiting), mqc(waiting, Counts(waiting)).by.tolist()
    assert roomy[0].by.tolist() == narrow[0].by.tolist() == roomy[1] == narrow[1]
    assert roomy[0].estimations == narrow[0].estimations


@pytest.mark.parametrize("seed", range(12))
def test_exact_is_the_fewest_and_mqc_is_within_the_logarithmic_bound(seed: int) -> None:
    waiting = random_waiting(np.random.default_rng(100 + seed), 11, 5, seed % 2 == 0)
    subsets = subsets_by_words(waiting)
    best = len(exact(waiting).processed)
    assert best == words.fewest(subsets)
    assert best <= len(mqc(waiting).processed) <= best * sum(1 / k for k in range(1, max(map(len, subsets)) + 1))
    assert best <= len(mnh(waiting).processed) <= len(waiting)


@pytest.mark.parametrize("seed", range(20))
def test_within_the_logarithmic_bound_of_exact_on_larger_groups(seed: int) -> None:
    waiting = random_waiting(np.random.default_rng(200 + seed), 60, 12, seed % 2 == 0)
    best, largest = len(exact(waiting).processed), max(map(len, subsets_by_words(waiting)))
    assert best <= len(mqc(waiting).processed) <= best * sum(1 / k for k in range(1, largest + 1))
    assert best <= len(mnh(waiting).processed)


def check_covering(waiting: WaitingSelections, covering: Covering) -> None:
    """Everything is covered, by what is processed, and within the thresholds of the operator that asked."""
    subsets = subsets_by_words(waiting)
    assert covering.by.min() >= 0
    assert np.array_equal(covering.by[covering.by], covering.by)
    assert all(s in subsets[by] for s, by in enumerate(covering.by.tolist()))
    assert len(covering.processed) + covering.covered == len(waiting)


@pytest.mark.parametrize("heuristic", HEURISTICS)
@pytest.mark.parametrize("seed", range(8))
def test_all_is_covered_within_the_thresholds(seed: int, heuristic: Heuristic) -> None:
    waiting = random_waiting(np.random.default_rng(300 + seed), 50, 10, seed % 2 == 0)
    check_covering(waiting, cover(heuristic, waiting))


@pytest.mark.parametrize("heuristic", ["mqc", "mnh", "exact"])
def test_thresholds_of_one_cover_only_equal_sets(heuristic: Heuristic) -> None:
    rng = np.random.default_rng(4)
    drawn = random_waiting(rng, 60, 60, False)
    waiting = WaitingSelections(drawn.sets, np.arange(60), np.ones(60), np.ones(60))
    sets, covering = python_sets(waiting), cover(heuristic, waiting)
    assert all(sets[s] == sets[by] for s, by in enumerate(covering.by.tolist()))
    assert len(covering.processed) == len(set(sets)) < 60


def test_the_relation_is_not_symmetric() -> None:
    small_and_large = sets_of([[1, 2], [1, 2, 3, 4]])
    precise = WaitingSelections(small_and_large, np.arange(2), np.ones(2), np.full(2, 0.5))
    assert mqc(precise).by.tolist() == [0, 0]  # of the small one nothing is noise
    complete = WaitingSelections(small_and_large, np.arange(2), np.full(2, 0.5), np.ones(2))
    assert mqc(complete).by.tolist() == [1, 1]  # in the large one nothing is missing


def test_thresholds_are_those_of_the_covered_operator() -> None:
    sets = sets_of([[1, 2], [1, 2, 3, 4]])
    modest_small = WaitingSelections(sets, np.arange(2), np.array([0.5, 1.0]), np.array([0.5, 1.0]))
    assert mqc(modest_small).by.tolist() == [1, 1]
    turned = WaitingSelections(sets, np.array([1, 0]), np.array([1.0, 0.5]), np.array([1.0, 0.5]))
    assert mnh(turned).by.tolist() == [1, 1]
    modest_large = WaitingSelections(sets, np.arange(2), np.array([1.0, 0.5]), np.array([1.0, 0.5]))
    assert mqc(modest_large).by.tolist() == mnh(modest_large).by.tolist() == [0, 0]


def test_operators_process_for_their_neighbours_only() -> None:
    same = sets_of([[1], [1], [1]])
    neighbours = Neighbours.of(np.array([2]), np.array([0]), 3)
    waiting = WaitingSelections(same, np.arange(3), np.ones(3), np.ones(3), neighbours)
    assert [cover(name, waiting).by.tolist() for name in HEURISTICS] == [[2, 1, 2]] * 3 + [[0, 1, 2]]


def test_selections_of_one_operator_do_not_cover_each_other() -> None:
    same = sets_of([[1], [1], [1]])
    waiting = WaitingSelections(same, np.array([0, 0, 1]), np.ones(2), np.ones(2))
    assert mqc(waiting).by.tolist() == [2, 2, 2]
    assert mnh(waiting).by.tolist() == [0, 1, 0]


@pytest.mark.parametrize("threshold", [1.5, -0.1, float("nan"), float("inf")])
def test_impossible_thresholds_are_refused(threshold: float) -> None:
    sets = sets_of([[1], [1]])
    with pytest.raises(SituError, match=r"operator 1 asks for a precision of .*cannot be"):
        WaitingSelections(sets, np.arange(2), np.array([1.0, threshold]), np.ones(2))
    with pytest.raises(SituError, match=r"operator 0 asks for a recall of .*cannot be"):
        WaitingSelections(sets, np.arange(2), np.ones(2), np.array([threshold, 1.0]))


def test_nothing_waits() -> None:
    nothing = WaitingSelections(sets_of([]), np.zeros(0, np.int64), np.ones(2), np.ones(2))
    for name in HEURISTICS:
        assert (cover(name, nothing).by.tolist(), cover(name, nothing).estimations) == ([], 0)
    assert mnh(nothing, Counts(nothing)).by.tolist() == []


def test_what_is_empty_suffices_for_what_is_empty_and_for_nothing_else() -> None:
    waiting = WaitingSelections(sets_of([[], [1], []]), np.arange(3), np.zeros(3), np.zeros(3))
    assert [cover(name, waiting).by.tolist() for name in HEURISTICS] == [[0, 1, 0]] * 3 + [[0, 1, 2]]


def test_only_pairs_with_something_in_common_are_judged() -> None:
    """Selections that lie apart in time: pairs within a time, and no others."""
    times, operators = 50, 8
    lists = [[10 * time + k for k in range(5)] for time in range(times) for _ in range(operators)]
    waiting = WaitingSelections(
        sets_of(lists), np.tile(np.arange(operators), times), np.ones(operators), np.ones(operators)
    )
    assert mqc(waiting).estimations == times * operators * (operators - 1)
    assert mnh(waiting).estimations == times * (operators - 1)
    assert none(waiting).estimations == 0


def test_exact_branches_and_gives_up_on_what_is_too_large() -> None:
    """A ring, in which each covers itself and the next two: nothing is within anything."""
    count = 20
    members = (np.arange(count)[:, None] + np.arange(3)) % count
    ring = members.reshape(-1).astype(np.int32), 3 * np.arange(count + 1)
    chosen = smallest_cover(*ring)
    assert len(chosen) == 7
    assert len(np.unique(members[chosen])) == count
    with pytest.raises(SituError, match="no smallest covering was found within 1 branches"):
        smallest_cover(*ring, 1)


@pytest.mark.parametrize("seed", range(60))
def test_exact_is_the_fewest_on_any_family(seed: int) -> None:
    """Few to a subset, in disorder: what looks best at first often is not."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 15))
    covers = (rng.random((count, count)) < rng.choice([1, 2, 3]) / count) | np.eye(count, dtype=np.bool_)
    subsets = [set(np.flatnonzero(row).tolist()) for row in covers]
    members, offsets = np.nonzero(covers)[1].astype(np.int32), np.cumsum([0, *map(len, subsets)])
    chosen = smallest_cover(members, offsets)
    assert len(chosen) == words.fewest(subsets)
    assert set().union(*(subsets[s] for s in chosen.tolist())) == set(range(count))


def test_exact_is_never_worse_than_trying_again_and_again() -> None:
    """Larger than can be counted out: greedy choices in random orders, of which the best is often the smallest."""
    rng = np.random.default_rng(7)
    for _ in range(15):
        count = 30
        covers = (rng.random((count, count)) < 2.5 / count) | np.eye(count, dtype=np.bool_)
        members, offsets = np.nonzero(covers)[1].astype(np.int32), np.cumsum([0, *covers.sum(axis=1)])
        best = len(smallest_cover(members, offsets))
        tried = []
        for _ in range(40):
            left, chosen = np.ones(count, np.bool_), 0
            while left.any():
                gain = (covers & left).sum(axis=1) + rng.random(count)
                left &= ~covers[np.argmax(gain)]
                chosen += 1
            tried.append(chosen)
        assert best <= min(tried)
