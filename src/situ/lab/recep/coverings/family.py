"""The family of subsets: which selections each selection may be processed for (RECEP, Figure 4, lines 3 to 15).

Pairs are found by an index from atomic events to selections, so the cost grows with the pairs that have something in
common. A pair suffices if neither figure is below the threshold of the operator that asked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situ.kernel.arrays import F64, I32, I64
from situ.kernel.matching.machine import inlined, jit
from situ.lab.quality.atoms import AtomSets
from situ.lab.quality.precision_recall import Mask
from situ.lab.recep.coverings.waiting import Neighbours, WaitingSelections
from situ.lab.recep.estimators.pairs import Estimator

#: Pairs found before they are put away, and before they are estimated: estimators may take much more room.
CHUNK = 1 << 21
ESTIMATED = 1 << 17


@dataclass(frozen=True, slots=True)
class Index:
    """Sets with atomic events numbered from 0, and the selections that hold each event.

    An empty set holds an event that no other but empty sets hold: what is empty suffices for what is empty.

    >>> index = index_of(AtomSets.of(np.array([7, 9, 9]), np.array([0, 2, 3, 3])))
    >>> index.atoms.tolist(), index.offsets.tolist(), index.holders.tolist(), index.holder_offsets.tolist()
    ([0, 1, 1, 2], [0, 2, 3, 4], [0, 0, 1, 2], [0, 1, 3, 4])
    """

    atoms: I32
    offsets: I64
    holders: I32
    holder_offsets: I64


def index_of(sets: AtomSets) -> Index:
    """See `Index`."""
    known, codes = np.unique(sets.atoms, return_inverse=True)
    empty = np.flatnonzero(sets.sizes == 0)
    atoms = np.insert(codes.reshape(-1), sets.offsets[empty], len(known)).astype(np.int32)
    sizes = np.maximum(sets.sizes, 1)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    holder_offsets = np.concatenate([[0], np.cumsum(np.bincount(atoms, minlength=len(known) + 1))]).astype(np.int64)
    holders = np.empty(len(atoms), np.int32)
    _invert(atoms, offsets, holder_offsets[:-1].copy(), holders)
    return Index(atoms, offsets, holders, holder_offsets)


@dataclass(frozen=True, slots=True)
class Family:
    """Selection k may be processed for those that `members` has from offset k to offset k + 1, and `takers` has those
    that may be processed for it. It is one of both itself."""

    members: I32
    offsets: I64
    takers: I32
    taker_offsets: I64
    estimations: int


def family_of(waiting: WaitingSelections, estimate: Estimator | None = None) -> Family:
    """By exact figures, or by estimated ones.

    >>> sets = AtomSets.of(np.array([1, 2, 1, 2, 3]), np.array([0, 2, 5]))
    >>> family = family_of(WaitingSelections(sets, np.array([0, 1]), np.array([0.5, 1.0]), np.array([1.0, 0.5])))
    >>> np.split(family.members, family.offsets[1:-1])
    [array([0, 1], dtype=int32), array([1, 0], dtype=int32)]
    """
    later, estimations = _pairs(waiting, estimate)
    members, takers = _rows(later[0], later[1].turned()), _rows(later[1], later[0].turned())
    return Family(members.values, members.offsets, takers.values, takers.offsets, estimations)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Row k has the values from offset k to offset k + 1."""

    values: I32
    offsets: I64

    def turned(self) -> _Rows:
        """Row k has the rows that k is a value of."""
        count = len(self.offsets) - 1
        offsets = np.concatenate([[0], np.cumsum(np.bincount(self.values, minlength=count))]).astype(np.int64)
        values = np.empty(len(self.values), np.int32)
        _invert(self.values, self.offsets, offsets[:-1].copy(), values)
        return _Rows(values, offsets)


def _rows(one: _Rows, other: _Rows) -> _Rows:
    """Rows of both, and in row k also k itself, which comes first."""
    offsets = one.offsets + other.offsets + np.arange(len(one.offsets))
    values = np.empty(int(offsets[-1]), np.int32)
    _join(one.values, one.offsets, other.values, other.offsets, offsets, values)
    return _Rows(values, offsets)


def _pairs(waiting: WaitingSelections, estimate: Estimator | None) -> tuple[tuple[_Rows, _Rows], int]:
    """For every selection the later ones that it may be processed for, and those that may be processed for it. What two
    have in common is counted once for both."""
    index, count = index_of(waiting.sets), len(waiting)
    may, by = (
        neighbour_columns(waiting.neighbours),
        neighbour_columns(waiting.neighbours and waiting.neighbours.turned()),
    )
    columns = (index.atoms, index.offsets, index.holders, index.holder_offsets, index.holder_offsets[:-1].copy())
    asks = (waiting.owner, waiting.precision, waiting.recall)
    allowed = np.full((2, len(waiting.precision)), -1, np.int64)
    counts, touched = np.zeros(count, np.int32), np.empty(count + 1, np.int32)
    room = np.empty((2, max(CHUNK if estimate is None else ESTIMATED, count)), np.int32)
    sizes, filled = np.zeros((2, count), np.int64), np.zeros(2, np.int64)
    found: tuple[list[I32], list[I32]] = ([np.zeros(0, np.int32)], [np.zeros(0, np.int32)])
    at, estimations = 0, 0
    while at < count:
        begin = at
        at, judged = _find_pairs(
            at, *columns, *asks, may.offsets, may.others, by.offsets, by.others, waiting.neighbours is None,
            estimate is None, counts, touched, allowed, room, sizes, filled,
        )  # fmt: skip
        estimations += judged
        for way in (0, 1):
            values = room[way, : filled[way]].copy()
            if estimate is not None:
                values = _judge(values, begin, sizes[way, begin:at], way, waiting, estimate)
            found[way].append(values)
    offsets = np.concatenate([np.zeros((2, 1), np.int64), np.cumsum(sizes, axis=1)], axis=1)
    return (_Rows(np.concatenate(found[0]), offsets[0]), _Rows(np.concatenate(found[1]), offsets[1])), estimations


def neighbour_columns(neighbours: Neighbours | None) -> Neighbours:
    """Kernels are always given columns; empty ones where they do not look at them."""
    return neighbours or Neighbours(np.zeros(1, np.int64), np.zeros(0, np.int64))


def suffices(asked: I64, processed: I64, waiting: WaitingSelections, estimate: Estimator) -> Mask:
    """Which pairs keep the thresholds of the operator that asked, by estimated figures."""
    quality, owner = estimate(asked, processed), waiting.owner[asked]
    enough: Mask = (quality.precision >= waiting.precision[owner]) & (quality.recall >= waiting.recall[owner])
    return enough


def _judge(values: I32, begin: int, sizes: I64, way: int, waiting: WaitingSelections, estimate: Estimator) -> I32:
    """Those of the found that suffice. `sizes` is brought up to date."""
    row, value = np.repeat(np.arange(begin, begin + len(sizes)), sizes), values.astype(np.int64)
    if not len(value):
        return values
    enough = suffices(row, value, waiting, estimate) if way else suffices(value, row, waiting, estimate)
    sizes[:] = np.bincount(row[enough] - begin, minlength=len(sizes))
    kept: I32 = values[enough]
    return kept


@jit
def _invert(values: I32, offsets: I64, fill: I64, found: I32) -> None:
    """Where each value stands: sets in the order of their numbers."""
    for k in range(len(offsets) - 1):
        for i in range(offsets[k], offsets[k + 1]):
            value = values[i]
            found[fill[value]] = k
            fill[value] += 1


@inlined
def is_enough(both: int, asked: int, processed: int, precision: float, recall: float) -> bool:
    """Divided as in situ.quality, so that both say the same. No size is 0: see `Index`."""
    return both / processed >= precision and both / asked >= recall


@jit
def _join(one: I32, one_offsets: I64, other: I32, other_offsets: I64, offsets: I64, values: I32) -> None:
    for k in range(len(offsets) - 1):
        at = offsets[k]
        values[at] = k
        for i in range(one_offsets[k], one_offsets[k + 1]):
            at += 1
            values[at] = one[i]
        for i in range(other_offsets[k], other_offsets[k + 1]):
            at += 1
            values[at] = other[i]


@jit
def _find_pairs(
    begin: int,
    atoms: I32,
    offsets: I64,
    holders: I32,
    holder_offsets: I64,
    passed: I64,
    owner: I64,
    precision: F64,
    recall: F64,
    may_offsets: I64,
    may: I64,
    by_offsets: I64,
    by: I64,
    all_may: bool,
    judge: bool,
    counts: I32,
    touched: I32,
    allowed: I64,
    room: I32,
    sizes: I64,
    filled: I64,
) -> tuple[int, int]:
    """Pairs of the selections from `begin` on with later ones, while there is room: the next selection, pairs judged.

    `allowed[0, o]` is the last selection whose operator may process for o, `allowed[1, o]` the last one for whose
    operator o may. Without `judge` all pairs are found.
    """
    judged = 0
    filled[:] = 0
    for s in range(begin, len(owner)):
        most = _most_met(s, atoms, offsets, holder_offsets, passed, len(owner))
        if max(filled[0], filled[1]) + most > room.shape[1]:
            return s, judged
        met = _meet_later(s, atoms, offsets, holders, holder_offsets, passed, counts, touched, most)
        mine, size = owner[s], offsets[s + 1] - offsets[s]
        if not all_may:
            for k in range(may_offsets[mine], may_offsets[mine + 1]):
                allowed[0, may[k]] = s
            for k in range(by_offsets[mine], by_offsets[mine + 1]):
                allowed[1, by[k]] = s
        before, before_by = filled[0], filled[1]
        for k in range(met):
            other = touched[k]
            theirs = owner[other]
            of_mine, of_theirs = counts[other] / size, counts[other] / (offsets[other + 1] - offsets[other])
            counts[other] = 0
            if theirs == mine:
                continue
            if all_may or allowed[0, theirs] == s:
                judged += 1
                if not judge or (of_mine >= precision[theirs] and of_theirs >= recall[theirs]):
                    room[0, filled[0]] = other
                    filled[0] += 1
            if all_may or allowed[1, theirs] == s:
                judged += 1
                if not judge or (of_theirs >= precision[mine] and of_mine >= recall[mine]):
                    room[1, filled[1]] = other
                    filled[1] += 1
        sizes[0, s], sizes[1, s] = filled[0] - before, filled[1] - before_by
    return len(owner), judged


@inlined
def _most_met(s: int, atoms: I32, offsets: I64, holder_offsets: I64, passed: I64, count: int) -> int:
    """No more later selections than this can have something in common with s; no more than all later ones."""
    most = 0
    for i in range(offsets[s], offsets[s + 1]):
        most += holder_offsets[atoms[i] + 1] - passed[atoms[i]] - 1
    return min(most, count - s - 1)


@jit
def _meet_later(
    s: int,
    atoms: I32,
    offsets: I64,
    holders: I32,
    holder_offsets: I64,
    passed: I64,
    counts: I32,
    touched: I32,
    most: int,
) -> int:
    """Later selections that have something in common with s: how many, and with how much. Holders before `passed` are
    no later than s."""
    met = 0
    count = len(counts)
    dense = most == count - s - 1  # nearly all: looking at all is faster than remembering who was met
    for i in range(offsets[s], offsets[s + 1]):
        atom = atoms[i]
        passed[atom] += 1
        if dense:
            for j in range(passed[atom], holder_offsets[atom + 1]):
                counts[holders[j]] += 1
        else:
            for j in range(passed[atom], holder_offsets[atom + 1]):
                other = holders[j]
                if counts[other] == 0:
                    touched[met] = other
                    met += 1
                counts[other] += 1
    if dense:
        for other in range(s + 1, count):
            touched[met] = other
            met += int(counts[other] > 0)
    return met
