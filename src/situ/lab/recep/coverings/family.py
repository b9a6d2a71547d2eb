"""The family of subsets: which selections each selection may be processed for (RECEP, Figure 4, lines 3 to 15).

Pairs are found by an index from atomic events to selections, so the cost grows with the pairs that have something in
common. A pair suffices if neither figure is below the threshold of the operator that asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from situ.kernel.arrays import F64, I32, I64
from situ.kernel.matching.machine import inlined, jit
from situ.lab.quality.atoms import AtomSets
from situ.lab.quality.precision_recall import Mask
from situ.lab.recep.coverings.waiting import Neighbours, WaitingSelections
from situ.lab.recep.estimators.pairs import Estimator
from situ.space.precision_recall import precision_and_recall

#: Pairs found before they are put away, and before they are estimated: estimators may take much more room.
CHUNK = 1 << 21
ESTIMATED = 1 << 17


class Index(NamedTuple):
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


class AskingSelections(NamedTuple):
    """Whose selections they are, and what their operators ask for."""

    owner: I64  # by selection: its operator
    precision: F64  # by operator
    recall: F64

    @classmethod
    def of(cls, waiting: WaitingSelections) -> AskingSelections:
        """The same of selections that wait."""
        return cls(waiting.owner, waiting.precision, waiting.recall)


class Met(NamedTuple):
    """The selections that have something in common with one of them."""

    counts: I32  # by selection: how many atomic events; 0 between two uses
    selections: I32  # the numbers of those met


class _Permits(NamedTuple):
    """Who may process for whom, from both sides; `offsets` and operators as in `Neighbours`."""

    may_offsets: I64
    may: I64  # for whom an operator may process
    by_offsets: I64
    by: I64  # who may process for an operator
    all_may: bool  # the other columns are empty, and not looked at
    allowed: I64  # (2, operators): the last selection whose operator may process for this one, or may be processed for


class _PairRoom(NamedTuple):
    """Where pairs are written: row 0, for whom a selection may be processed; row 1, who may be processed for it."""

    others: I32  # (2, room)
    sizes: I64  # (2, selections): how many others each selection has
    filled: I64  # (2): how many others are written


def index_of(sets: AtomSets) -> Index:
    """The index of sets of atomic events; see `Index`."""
    distinct, codes = np.unique(sets.atoms, return_inverse=True)
    empty = np.flatnonzero(sets.sizes == 0)
    atoms = np.insert(codes.reshape(-1), sets.offsets[empty], len(distinct)).astype(np.int32)
    sizes = np.maximum(sets.sizes, 1)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    holder_offsets = np.concatenate([[0], np.cumsum(np.bincount(atoms, minlength=len(distinct) + 1))]).astype(np.int64)
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
    """Which selections may be processed for which, by exact figures or by estimated ones.

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
    may = neighbour_columns(waiting.neighbours)
    by = neighbour_columns(waiting.neighbours and waiting.neighbours.turned())
    allowed = np.full((2, len(waiting.precision)), -1, np.int64)
    permits = _Permits(may.offsets, may.others, by.offsets, by.others, waiting.neighbours is None, allowed)
    met, passed = Met(np.zeros(count, np.int32), np.empty(count + 1, np.int32)), index.holder_offsets[:-1].copy()
    others = np.empty((2, max(CHUNK if estimate is None else ESTIMATED, count)), np.int32)
    room = _PairRoom(others, np.zeros((2, count), np.int64), np.zeros(2, np.int64))
    pieces: tuple[list[I32], list[I32]] = ([np.zeros(0, np.int32)], [np.zeros(0, np.int32)])
    at, estimations = 0, 0
    while at < count:
        begin = at
        at, judged = _find_pairs(at, index, passed, AskingSelections.of(waiting), permits, estimate is None, met, room)
        estimations += judged
        for way in (0, 1):
            values = others[way, : room.filled[way]].copy()
            if estimate is not None:
                values = _judge(values, begin, room.sizes[way, begin:at], way, waiting, estimate)
            pieces[way].append(values)
    offsets = np.concatenate([np.zeros((2, 1), np.int64), np.cumsum(room.sizes, axis=1)], axis=1)
    return (_Rows(np.concatenate(pieces[0]), offsets[0]), _Rows(np.concatenate(pieces[1]), offsets[1])), estimations


def neighbour_columns(neighbours: Neighbours | None) -> Neighbours:
    """Kernels are always given columns; empty ones where they do not look at them."""
    return neighbours or Neighbours(np.zeros(1, np.int64), np.zeros(0, np.int64))


def suffices(asked: I64, processed: I64, waiting: WaitingSelections, estimate: Estimator) -> Mask:
    """Which pairs keep the thresholds of the operator that asked, by estimated figures."""
    quality, owner = estimate(asked, processed), waiting.owner[asked]
    enough: Mask = (quality.precision >= waiting.precision[owner]) & (quality.recall >= waiting.recall[owner])
    return enough


def _judge(values: I32, begin: int, sizes: I64, way: int, waiting: WaitingSelections, estimate: Estimator) -> I32:
    """The values that suffice, by estimated figures. `sizes` is brought up to date."""
    row, value = np.repeat(np.arange(begin, begin + len(sizes)), sizes), values.astype(np.int64)
    if not len(value):
        return values
    enough = suffices(row, value, waiting, estimate) if way else suffices(value, row, waiting, estimate)
    sizes[:] = np.bincount(row[enough] - begin, minlength=len(sizes))
    sufficient: I32 = values[enough]
    return sufficient


@jit
def _invert(values: I32, offsets: I64, fill: I64, sets: I32) -> None:
    """Write in which sets each value stands, in the order of their numbers; `fill` says where to begin."""
    for k in range(len(offsets) - 1):
        for i in range(offsets[k], offsets[k + 1]):
            value = values[i]
            sets[fill[value]] = k
            fill[value] += 1


@inlined
def is_enough(both: int, asked: int, processed: int, precision: float, recall: float) -> bool:
    """Whether neither figure of a pair is below its threshold."""
    precise, complete = precision_and_recall(both, asked, processed)
    return precise >= precision and complete >= recall


@jit
def _join(one: I32, one_offsets: I64, other: I32, other_offsets: I64, offsets: I64, values: I32) -> None:
    """Write k and the values of row k of both, for every k."""
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
    index: Index,
    passed: I64,
    asking: AskingSelections,
    permits: _Permits,
    judge: bool,
    met: Met,
    room: _PairRoom,
) -> tuple[int, int]:
    """Write pairs of the selections from `begin` on with later ones, while there is room.

    Returns the next selection, and how many pairs were judged. Without `judge` all pairs are written.
    """
    owner, judged = asking.owner, 0
    room.filled[:] = 0
    for s in range(begin, len(owner)):
        most = _most_met(s, index, passed, len(owner))
        if max(room.filled[0], room.filled[1]) + most > room.others.shape[1]:
            return s, judged
        count = _meet_later(s, index, passed, met, most)
        if not permits.all_may:
            _permit(s, owner[s], permits)
        before, before_by = room.filled[0], room.filled[1]
        judged += _write_pairs(s, count, index, asking, permits, judge, met, room)
        room.sizes[0, s], room.sizes[1, s] = room.filled[0] - before, room.filled[1] - before_by
    return len(owner), judged


@inlined
def _permit(s: int, mine: int, permits: _Permits) -> None:
    """Note with whom the operator of selection s may share."""
    for k in range(permits.may_offsets[mine], permits.may_offsets[mine + 1]):
        permits.allowed[0, permits.may[k]] = s
    for k in range(permits.by_offsets[mine], permits.by_offsets[mine + 1]):
        permits.allowed[1, permits.by[k]] = s


@inlined
def _write_pairs(
    s: int,
    count: int,
    index: Index,
    asking: AskingSelections,
    permits: _Permits,
    judge: bool,
    met: Met,
    room: _PairRoom,
) -> int:
    """Write the pairs of s with the selections that it has met, if they suffice. Returns how many were judged."""
    owner, precision, recall = asking
    offsets, counts, others, filled = index.offsets, met.counts, room.others, room.filled
    mine, size = owner[s], offsets[s + 1] - offsets[s]
    judged = 0
    for k in range(count):
        other = met.selections[k]
        theirs = owner[other]
        of_theirs, of_mine = precision_and_recall(counts[other], size, offsets[other + 1] - offsets[other])
        counts[other] = 0
        if theirs == mine:
            continue
        if permits.all_may or permits.allowed[0, theirs] == s:
            judged += 1
            if not judge or (of_mine >= precision[theirs] and of_theirs >= recall[theirs]):
                others[0, filled[0]] = other
                filled[0] += 1
        if permits.all_may or permits.allowed[1, theirs] == s:
            judged += 1
            if not judge or (of_theirs >= precision[mine] and of_mine >= recall[mine]):
                others[1, filled[1]] = other
                filled[1] += 1
    return judged


@inlined
def _most_met(s: int, index: Index, passed: I64, count: int) -> int:
    """No more later selections than this can have something in common with s; no more than all later ones."""
    most = 0
    for i in range(index.offsets[s], index.offsets[s + 1]):
        atom = index.atoms[i]
        most += index.holder_offsets[atom + 1] - passed[atom] - 1
    return min(most, count - s - 1)


@jit
def _meet_later(s: int, index: Index, passed: I64, met: Met, most: int) -> int:
    """Find the later selections that have something in common with s, and with how much. Returns how many they are.

    Holders before `passed` are no later than s.
    """
    holders, holder_offsets, counts, selections = index.holders, index.holder_offsets, met.counts, met.selections
    size, count = 0, len(counts)
    dense = most == count - s - 1  # nearly all: looking at all is faster than remembering who was met
    for i in range(index.offsets[s], index.offsets[s + 1]):
        atom = index.atoms[i]
        passed[atom] += 1
        if dense:
            for j in range(passed[atom], holder_offsets[atom + 1]):
                counts[holders[j]] += 1
        else:
            for j in range(passed[atom], holder_offsets[atom + 1]):
                other = holders[j]
                if counts[other] == 0:
                    selections[size] = other
                    size += 1
                counts[other] += 1
    if dense:
        for other in range(s + 1, count):
            selections[size] = other
            size += int(counts[other] > 0)
    return size
