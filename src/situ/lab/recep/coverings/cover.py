"""Coverings: which selections are processed on behalf of which (RECEP, section 4.1.2).

    mqc    the maximum quality coverage heuristic (Figure 4): greedy set cover
    mnh    the maximum neighbour heuristic (Figure 5): operators with many neighbours first, fewer pairs judged
    exact  the fewest selections that can be: set cover by branch and bound, for tests and small groups
    none   every selection is processed

Thresholds are those of the covered operator, in Figure 5 as well, and an operator processes for those who are its
neighbours: Figure 5 has it the wrong way round in line 8. Pairs without an atomic event in common are never judged; the
figures would judge all.
"""

from __future__ import annotations

from typing import Literal, assert_never

import numpy as np

from situ.kernel.arrays import I32, I64
from situ.kernel.matching.machine import jit
from situ.lab.recep.coverings.exact_cover import smallest_cover
from situ.lab.recep.coverings.family import family_of
from situ.lab.recep.coverings.neighbour_first import mnh
from situ.lab.recep.coverings.waiting import Covering, Neighbours, WaitingSelections
from situ.lab.recep.estimators.pairs import Estimator

Heuristic = Literal["mqc", "mnh", "exact", "none"]

__all__ = ["Covering", "Heuristic", "Neighbours", "WaitingSelections", "cover", "exact", "mnh", "mqc", "none"]


def cover(heuristic: Heuristic, waiting: WaitingSelections, estimate: Estimator | None = None) -> Covering:
    """Covers the waiting selections by the heuristic of that name.

    >>> from situ.lab.quality.atoms import AtomSets
    >>> sets = AtomSets.of(np.array([1, 2, 1, 2, 3]), np.array([0, 2, 5]))
    >>> waiting = WaitingSelections(sets, np.array([0, 1]), np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    >>> [cover(name, waiting).by.tolist() for name in ("mqc", "mnh", "exact", "none")]
    [[0, 0], [0, 0], [0, 0], [0, 1]]
    """
    match heuristic:
        case "mqc":
            return mqc(waiting, estimate)
        case "mnh":
            return mnh(waiting, estimate)
        case "exact":
            return exact(waiting, estimate)
        case "none":
            return none(waiting)
        case _:
            assert_never(heuristic)


def mqc(waiting: WaitingSelections, estimate: Estimator | None = None) -> Covering:
    """Greedy set cover (Figure 4). Of subsets that cover equally many, that of the selection with the lowest number.

    A selection that is covered first and chosen later is processed anyway, and so stands for itself.

    >>> from situ.lab.quality.atoms import AtomSets
    >>> sets = AtomSets.of(np.array([1, 2, 1, 2, 3, 2, 3]), np.array([0, 2, 5, 7]))
    >>> waiting = WaitingSelections(sets, np.arange(3), np.full(3, 0.6), np.full(3, 0.6))
    >>> mqc(waiting)
    Covering(by=array([1, 1, 1]), estimations=6)
    """
    family = family_of(waiting, estimate)
    by = np.full(len(waiting), -1, np.int64)
    gain = family.offsets[1:] - family.offsets[:-1]
    heap = gain * len(waiting) + np.arange(len(waiting))[::-1]
    heap[::-1].sort()  # sorted downwards is a heap
    _choose(family.members, family.offsets, family.takers, family.taker_offsets, gain, heap, by)
    return Covering(by, family.estimations)


def exact(waiting: WaitingSelections, estimate: Estimator | None = None) -> Covering:
    """The fewest selections that cover all.

    >>> from situ.lab.quality.atoms import AtomSets
    >>> sets = AtomSets.of(np.array([1, 2, 1, 2, 3, 2, 3]), np.array([0, 2, 5, 7]))
    >>> exact(WaitingSelections(sets, np.arange(3), np.full(3, 0.6), np.full(3, 0.6))).processed.tolist()
    [1]
    """
    family = family_of(waiting, estimate)
    chosen = smallest_cover(family.members, family.offsets)
    by = np.full(len(waiting), -1, np.int64)
    for s in chosen[::-1].tolist():  # the lowest number is written last, and stays
        by[family.members[family.offsets[s] : family.offsets[s + 1]]] = s
    by[chosen] = chosen
    return Covering(by, family.estimations)


def none(waiting: WaitingSelections) -> Covering:
    """Covers no selection by another: all are processed, and nothing is judged.

    >>> from situ.lab.quality.atoms import AtomSets
    >>> empty = AtomSets(np.zeros(0, np.int64), np.zeros(3, np.int64))
    >>> none(WaitingSelections(empty, np.arange(2), np.ones(2), np.ones(2)))
    Covering(by=array([0, 1]), estimations=0)
    """
    return Covering(np.arange(len(waiting)), 0)


@jit
def _choose(members: I32, offsets: I64, takers: I32, taker_offsets: I64, gain: I64, heap: I64, by: I64) -> None:
    """Figure 4, lines 16 to 22. `gain` is how many of a subset are not covered yet; keys in the heap may be stale.

    A key is the gain, and among equals the lower number first. A stale key is too high, never too low: the subset on
    top is the best if its key is fresh, else it sinks to where it belongs.
    """
    count = len(by)
    left, size = count, count
    while left > 0:
        key = heap[0]
        s = count - 1 - key % count
        if gain[s] == 0:
            size -= 1
            heap[0] = heap[size]
        elif key // count != gain[s]:
            heap[0] = gain[s] * count + key % count
        else:
            for i in range(offsets[s], offsets[s + 1]):
                covered = members[i]
                if by[covered] < 0:
                    by[covered] = s
                    left -= 1
                    for j in range(taker_offsets[covered], taker_offsets[covered + 1]):
                        gain[takers[j]] -= 1
            by[s] = s
        _sink(heap, size)


@jit
def _sink(heap: I64, size: int) -> None:
    """The first key goes down to where it belongs."""
    at, key = 0, heap[0]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= key:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = key
