"""Quality estimated from a coarse grid in space and time (RECEP, section 4.3.2: spatio-temporal quality).

An event carries, instead of the atomic events that it depends on, how many of them lie in each cell of a grid. Of a
pair of selections, the actual dependency of the one that was asked (what it would depend on without reuse) is compared
with the reuse dependency of the one that is processed (what it does depend on). Of n and n' events in a cell,
min(n, n') are taken to be the same:

    precision(s, s') = sum of min(n, n') / sum of n'        recall(s, s') = sum of min(n, n') / sum of n

So the estimate is never below the exact figure, falls to it as cells are divided, and equals it where no cell has more
than one event. That holds for the grids of sets. Joining sums up cells, so an atomic event behind several events of a
selection counts as often.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situ.core.errors import InputError
from situ.kernel.arrays import F64, I64
from situ.kernel.matching.machine import jit
from situ.lab.quality.atoms import AtomSets
from situ.lab.quality.precision_recall import MeasuredQuality
from situ.lab.recep.estimators.pairs import PairCounts, are_apart, check_pairs, from_zero

_PLACE_BITS, _TIME_BITS = 20, 23


@dataclass(frozen=True, slots=True)
class Cells:
    """Squares of `side_m` by `side_m`, each for `step_us`.

    >>> Cells(100.0, 1_000_000).codes(np.array([5.0, 99.0, 101.0]), np.zeros(3), np.zeros(3, np.int64)).tolist()
    [0, 0, 1048576]
    """

    side_m: float
    step_us: int

    def __post_init__(self) -> None:
        if not (0 < self.side_m < np.inf and self.step_us > 0):
            cause = f"there are no cells of {self.side_m} m and {self.step_us} us"
            raise InputError(cause, remedy="Give a side and a step above 0.")

    def codes(self, x: F64, y: F64, time_us: I64) -> I64:
        """One number per cell, the same in every run and on every machine.

        Cells repeat after 2^20 sides and after 2^23 steps: selections that are compared are nearer to each other.
        Events that are nowhere (NaN) have a cell per step for themselves.
        """
        step = np.floor_divide(time_us, self.step_us) & ((1 << _TIME_BITS) - 1)
        placed = np.isfinite(x) & np.isfinite(y)
        column, row = (_index(np.where(placed, v, 0.0), self.side_m) for v in (x, y))
        code = (step << 2 * _PLACE_BITS) | (column << _PLACE_BITS) | row  # time first: grids of other times are apart
        codes: I64 = np.where(placed, code, -1 - step)
        return codes


@dataclass(frozen=True, slots=True)
class Grids:
    """Grids, sparse: grid k has the cells from offset k to offset k + 1, sorted, with the numbers of events in them.

    >>> sets = AtomSets.of(np.array([0, 1, 2, 2]), np.array([0, 3, 4]))
    >>> grids = Grids.of(sets, np.array([5, 5, 9]))
    >>> grids.cells.tolist(), grids.counts.tolist(), grids.offsets.tolist(), grids.totals.tolist()
    ([5, 9, 9], [2, 1, 1], [0, 2, 3], [3, 1])
    """

    cells: I64
    counts: I64
    offsets: I64

    @classmethod
    def of(cls, sets: AtomSets, codes: I64) -> Grids:
        """Of the atomic events of selections; event e is in the cell with `codes[e]`."""
        owner = np.repeat(np.arange(len(sets)), sets.sizes)
        return _summed(owner, codes[sets.atoms], np.ones(len(owner), np.int64), len(sets))

    @property
    def totals(self) -> I64:
        """How many events each grid has."""
        until = np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)
        sums: I64 = np.diff(until[self.offsets])
        return sums

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The actual and the reuse dependency of selections, with one numbering of their cells, from 0 to `cells`."""

    actual: Grids
    reuse: Grids
    cells: int

    @classmethod
    def of(cls, actual: Grids, reuse: Grids) -> Dependencies:
        """Without reuse so far, both are the same.

        >>> one, other = (Grids(np.array([cell]), np.array([1]), np.array([0, 1])) for cell in (5, 9999))
        >>> Dependencies.of(one, other).reuse.cells, Dependencies.of(one, other).cells
        (array([1]), 2)
        """
        cells, count = from_zero(np.concatenate([actual.cells, reuse.cells]))
        mine, others = np.split(cells, [len(actual.cells)])
        return cls(Grids(mine, actual.counts, actual.offsets), Grids(others, reuse.counts, reuse.offsets), count)


def counts_of_grids(dependencies: Dependencies, asked: I64, processed: I64) -> PairCounts:
    """The actual dependency of the one asked, and the reuse dependency of the one processed.

    >>> grids = Grids(np.array([5, 9, 9]), np.array([2, 1, 3]), np.array([0, 2, 3]))
    >>> counts_of_grids(Dependencies.of(grids, grids), np.array([0]), np.array([1]))
    PairCounts(both=array([1]), asked=array([3]), processed=array([3]))
    """
    actual, reuse = dependencies.actual, dependencies.reuse
    check_pairs(asked, processed, len(actual), len(reuse))
    both, held = np.zeros(len(asked), np.int64), np.zeros(dependencies.cells, np.int64)
    one, other = (actual.cells, actual.counts, actual.offsets), (reuse.cells, reuse.counts, reuse.offsets)
    _sum_least(*one, *other, asked, processed, held, both)
    return PairCounts(both, actual.totals[asked], reuse.totals[processed])


def quality_of_grids(dependencies: Dependencies, asked: I64, processed: I64) -> MeasuredQuality:
    """Estimated from the actual dependency of the one asked, and the reuse dependency of the one processed.

    >>> grids = Grids(np.array([5, 9, 9]), np.array([2, 1, 1]), np.array([0, 2, 3]))
    >>> quality_of_grids(Dependencies.of(grids, grids), np.array([0]), np.array([1])).precision.tolist()
    [1.0]
    """
    return counts_of_grids(dependencies, asked, processed).quality()


def _index(places: F64, side_m: float) -> I64:
    """Modulo before integers: a place may be far beyond them."""
    index: I64 = np.mod(np.floor(places / side_m), float(1 << _PLACE_BITS)).astype(np.int64)
    return index


def _summed(owner: I64, cells: I64, counts: I64, count: int) -> Grids:
    order = np.lexsort((cells, owner))
    owner, cells, counts = owner[order], cells[order], counts[order]
    fresh = np.ones(len(owner), np.bool_)
    fresh[1:] = (owner[1:] != owner[:-1]) | (cells[1:] != cells[:-1])
    starts = np.flatnonzero(fresh)
    sums = np.add.reduceat(counts, starts) if len(starts) else counts
    sizes = np.bincount(owner[starts], minlength=count)
    return Grids(cells[starts], sums, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))


@jit
def _sum_least(
    cells: I64,
    counts: I64,
    offsets: I64,
    other_cells: I64,
    other_counts: I64,
    other_offsets: I64,
    asked: I64,
    processed: I64,
    held: I64,
    both: I64,
) -> None:
    """`held` has, cell by cell, the numbers of one grid at a time."""
    current = -1
    for k in range(len(both)):
        s, other = asked[k], processed[k]
        if are_apart(cells, offsets, s, other_cells, other_offsets, other):
            continue
        if other != current:
            if current >= 0:
                for j in range(other_offsets[current], other_offsets[current + 1]):
                    held[other_cells[j]] = 0
            for j in range(other_offsets[other], other_offsets[other + 1]):
                held[other_cells[j]] = other_counts[j]
            current = other
        total = 0
        for i in range(offsets[s], offsets[s + 1]):
            total += min(counts[i], held[cells[i]])
        both[k] = total
