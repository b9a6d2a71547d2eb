"""Pairs of selections: one that was asked and one that is processed on its behalf (RECEP, section 3).

All estimators take pairs as two arrays of numbers of selections, `asked` and `processed`, and give the quality of each
pair: first what they know of the selections, then the pairs, so that `functools.partial` makes one from the other.
This one is exact. It counts atomic events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from situ.kernel.arrays import I64
from situ.kernel.matching.machine import inlined, jit
from situ.lab.quality.atoms import AtomSets
from situ.lab.quality.precision_recall import MeasuredQuality, quality_of_counts

#: Of asked and processed selections, pair by pair.
Estimator = Callable[[I64, I64], MeasuredQuality]


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Numbers of atomic events, pair by pair: those that both selections have, the asked one, the processed one.

    >>> PairCounts(np.array([1]), np.array([2]), np.array([4])).quality()
    MeasuredQuality(precision=array([0.25]), recall=array([0.5]))
    """

    both: I64
    asked: I64
    processed: I64

    def quality(self) -> MeasuredQuality:
        return quality_of_counts(self.both, self.asked, self.processed)


def counts_of_pairs(sets: AtomSets, asked: I64, processed: I64) -> PairCounts:
    """Exact, of the atomic events of selections.

    >>> sets = AtomSets.of(np.array([1, 2, 2, 3, 4]), np.array([0, 2, 5]))
    >>> counts_of_pairs(sets, np.array([0, 1]), np.array([1, 1])).both.tolist()
    [1, 3]
    """
    check_pairs(asked, processed, len(sets), len(sets))
    both = np.zeros(len(asked), np.int64)
    atoms, count = from_zero(sets.atoms)
    _count_common(atoms, sets.offsets, asked, processed, np.zeros(count, np.int64), both)
    sizes = sets.sizes
    return PairCounts(both, sizes[asked], sizes[processed])


def quality_of_pairs(sets: AtomSets, asked: I64, processed: I64) -> MeasuredQuality:
    """Exact, of the atomic events of selections.

    >>> sets = AtomSets.of(np.array([1, 2, 2, 3, 4]), np.array([0, 2, 5]))
    >>> quality_of_pairs(sets, np.array([0]), np.array([1])).recall.tolist()
    [0.5]
    """
    return counts_of_pairs(sets, asked, processed).quality()


def check_pairs(asked: I64, processed: I64, askable: int, processable: int) -> None:
    """Kernels read where these numbers point to."""
    assert len(asked) == len(processed), (len(asked), len(processed))
    for numbers, limit in ((asked, askable), (processed, processable)):
        assert len(numbers) == 0 or (numbers.min() >= 0 and numbers.max() < limit), limit


def from_zero(numbers: I64) -> tuple[I64, int]:
    """The same numbers counted from 0, in the same order, and how many there may be: not many more than are named.

    >>> from_zero(np.array([900, 7, 900]))[0].tolist(), from_zero(np.array([8, 7, 8]))
    ([1, 0, 1], (array([1, 0, 1]), 2))
    """
    if len(numbers) == 0:
        return numbers, 0
    lowest = int(numbers.min())
    reach = int(numbers.max()) - lowest + 1
    if reach <= 4 * len(numbers):
        return numbers - lowest, reach
    distinct, places = np.unique(numbers, return_inverse=True)
    return places.reshape(-1).astype(np.int64), len(distinct)


@jit
def mark(marks: I64, atoms: I64, offsets: I64, before: int, now: int) -> None:
    """Instead of the atoms of one selection, if any, those of another. Looking up marks is several times as fast as
    merging sorted sets: no step waits for the one before."""
    if before >= 0:
        for i in range(offsets[before], offsets[before + 1]):
            marks[atoms[i]] = 0
    for i in range(offsets[now], offsets[now + 1]):
        marks[atoms[i]] = 1


@jit
def _count_common(atoms: I64, offsets: I64, asked: I64, processed: I64, marks: I64, both: I64) -> None:
    marked = -1
    for k in range(len(both)):
        s, other = asked[k], processed[k]
        if are_apart(atoms, offsets, s, atoms, offsets, other):
            continue
        if other != marked:
            mark(marks, atoms, offsets, marked, other)
            marked = other
        count = 0
        for i in range(offsets[s], offsets[s + 1]):
            count += marks[atoms[i]]
        both[k] = count


@inlined
def are_apart(atoms: I64, offsets: I64, s: int, other_atoms: I64, other_offsets: I64, other: int) -> bool:
    """Whether all of one sorted set comes before all of the other: most pairs of a long run are of different times, and
    so are their atoms, which are numbered in time."""
    first, end = offsets[s], offsets[s + 1]
    other_first, other_end = other_offsets[other], other_offsets[other + 1]
    if first == end or other_first == other_end:
        return True
    return bool(atoms[end - 1] < other_atoms[other_first] or other_atoms[other_end - 1] < atoms[first])
