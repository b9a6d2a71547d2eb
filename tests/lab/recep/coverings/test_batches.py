"""Batches against Python sets, and coverings of batches."""

from __future__ import annotations

import numpy as np
import pytest

from situ.core.errors import SituError
from situ.kernel.arrays import I64
from situ.lab.quality.atoms import AtomSets
from situ.lab.recep.coverings.batches import Batched, Selections, by_time
from situ.lab.recep.coverings.batches import batched as batched_by
from situ.lab.recep.coverings.cover import Heuristic, WaitingSelections, cover, mqc


def random_selections(rng: np.random.Generator, operators: int, each: int, size: int = 6) -> Selections:
    """Sliding windows over what each operator picks of one stream; operators one after the other, or mixed."""
    owners, begins, ends, atoms = [], [], [], []
    for operator in range(operators):
        events = np.flatnonzero(rng.random(4 * (each + size)) < 0.5)[: each + size]
        for k in range(min(each, len(events) - size)):
            owners.append(operator)
            begins.append(int(events[k]))
            ends.append(int(events[k + size - 1]))
            atoms.append(events[k : k + size])
    mixed = np.argsort(rng.random(len(owners)) + np.array(begins)) if rng.random() < 0.5 else np.arange(len(owners))
    order = mixed[np.argsort(np.array(begins)[mixed], kind="stable")] if rng.random() < 0.5 else np.arange(len(owners))
    sets = AtomSets.of(np.concatenate([atoms[k] for k in order]), np.cumsum([0, *(len(atoms[k]) for k in order)]))
    return Selections(np.array(owners)[order], np.array(begins)[order], np.array(ends)[order], sets)


def python_sets(sets: AtomSets) -> list[set[int]]:
    return [set(part.tolist()) for part in np.split(sets.atoms, sets.offsets[1:-1])]


def check_batches(batched: Batched, key: list[tuple[int, int]]) -> None:
    """Batches are the selections with equal keys, numbered in the order of keys."""
    selections, numbers = batched.selections, {one: k for k, one in enumerate(sorted(set(key)))}
    assert batched.batch.tolist() == [numbers[one] for one in key]
    atoms, begins, ends = python_sets(selections.sets), selections.begin_us.tolist(), selections.end_us.tolist()
    for k, found in enumerate(python_sets(batched.sets)):
        members = [s for s, one in enumerate(key) if numbers[one] == k]
        assert found == set().union(*(atoms[s] for s in members))
        assert batched.begin_us[k] == min(begins[s] for s in members)
        assert batched.end_us[k] == max(ends[s] for s in members)
        assert {int(batched.owner[k])} == {int(selections.owner[s]) for s in members}
        first, last = batched.members.offsets[k : k + 2].tolist()
        assert batched.members.members[first:last].tolist() == sorted(members, key=lambda s: (ends[s], s))


def parts_of(selections: Selections, count: int | None) -> I64:
    """So many subsequent selections of an operator are a part; None: all of them."""
    seen, parts = dict[int, int](), []
    for owner in selections.owner.tolist():
        parts.append(seen.get(owner, 0) // count if count else 0)
        seen[owner] = seen.get(owner, 0) + 1
    return np.array(parts, np.int64)


def by_count(selections: Selections, count: int | None) -> Batched:
    return batched_by(selections, parts_of(selections, count))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("count", [1, 2, 7, None])
def test_batches_are_the_parts_of_an_operator(seed: int, count: int | None) -> None:
    selections = random_selections(np.random.default_rng(seed), 4, 10)
    parts = parts_of(selections, count).tolist()
    check_batches(by_count(selections, count), list(zip(selections.owner.tolist(), parts, strict=True)))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("length_us", [1, 8, 1000])
def test_by_time(seed: int, length_us: int) -> None:
    selections = random_selections(np.random.default_rng(seed), 4, 10)
    times = zip(selections.owner.tolist(), selections.begin_us.tolist(), strict=True)
    check_batches(by_time(selections, length_us), [(owner, begin // length_us) for owner, begin in times])


def test_numbers_of_atomic_events_may_be_far_apart() -> None:
    far = np.array([-(1 << 62), 5, 1 << 62, 5], np.int64)
    times = np.arange(2)
    selections = Selections(np.zeros(2, np.int64), times, times, AtomSets.of(far, np.array([0, 2, 4])))
    assert by_count(selections, None).sets.atoms.tolist() == [-(1 << 62), 5, 1 << 62]


def test_no_selections() -> None:
    nothing = np.zeros(0, np.int64)
    selections = Selections(nothing, nothing, nothing, AtomSets(nothing, np.zeros(1, np.int64)))
    for batched in (by_count(selections, 3), by_count(selections, None), by_time(selections, 3)):
        assert len(batched) == len(batched.sets) == len(batched.members) == 0
        assert mqc(batched.waiting(np.ones(1), np.ones(1))).by.tolist() == []


def test_selections_without_events() -> None:
    times = np.arange(3)
    empty = AtomSets(np.zeros(0, np.int64), np.zeros(4, np.int64))
    batched = by_count(Selections(np.array([0, 0, 1]), times, times, empty), 2)
    assert batched.sets.offsets.tolist() == [0, 0, 0]
    assert mqc(batched.waiting(np.ones(2), np.ones(2))).by.tolist() == [0, 0]


@pytest.mark.parametrize("heuristic", ["mqc", "mnh"])
@pytest.mark.parametrize("seed", range(4))
def test_batches_of_one_are_single_selections(seed: int, heuristic: Heuristic) -> None:
    selections = random_selections(np.random.default_rng(seed), 6, 12)
    thresholds = np.full(6, 0.5)
    batched = by_count(selections, 1)
    order, sets = batched.members.members, python_sets(selections.sets)
    in_order = [sorted(sets[s]) for s in order.tolist()]
    same = AtomSets.of(np.concatenate(in_order), np.cumsum([0, *map(len, in_order)]))
    alone = cover(heuristic, WaitingSelections(same, selections.owner[order], thresholds, thresholds))
    assert alone.covered > 0
    for estimate in (None, batched.by_selections("average"), batched.by_selections("every")):
        covering = cover(heuristic, batched.waiting(thresholds, thresholds), estimate)
        assert covering.by.tolist() == alone.by.tolist()
        by = batched.of_selections(covering).by
        assert by[order].tolist() == order[alone.by].tolist()


@pytest.mark.parametrize("seed", range(4))
def test_every_single_selection_is_good_enough(seed: int) -> None:
    selections = random_selections(np.random.default_rng(seed), 8, 20, size=12)
    thresholds = np.full(8, 0.5)
    batched = by_count(selections, 5)
    covering = mqc(batched.waiting(thresholds, thresholds), batched.by_selections("every"))
    by = batched.of_selections(covering).by
    sets = python_sets(selections.sets)
    shares = [len(sets[s] & sets[p]) / len(sets[p]) for s, p in enumerate(by.tolist())]
    assert min(shares) >= 0.5
    assert covering.covered > 0
    looser = mqc(batched.waiting(thresholds, thresholds), batched.by_selections("average"))
    assert looser.covered >= covering.covered


def test_batches_take_far_fewer_estimations() -> None:
    selections = random_selections(np.random.default_rng(1), 10, 40, size=12)
    thresholds = np.full(10, 0.5)
    batched = by_count(selections, 10)
    few = mqc(batched.waiting(thresholds, thresholds), batched.by_selections("average")).estimations
    assert 10 * few < mqc(WaitingSelections(selections.sets, selections.owner, thresholds, thresholds)).estimations


def test_bad_sizes_are_refused() -> None:
    selections = random_selections(np.random.default_rng(1), 1, 3)
    with pytest.raises(SituError, match="a batch cannot be 0 us long"):
        by_time(selections, 0)
