"""The maximum neighbour heuristic (RECEP, Figure 5): a selection is covered by the first of those already chosen that
suffices, else it is chosen itself. Operators with many neighbours come first, since theirs may cover many."""

from __future__ import annotations

import numpy as np

from situ.kernel.arrays import F64, I32, I64
from situ.kernel.matching.machine import jit
from situ.lab.recep.coverings.family import Index, index_of, is_enough, neighbour_columns, suffices
from situ.lab.recep.coverings.waiting import Covering, WaitingSelections
from situ.lab.recep.estimators.pairs import Estimator


def mnh(waiting: WaitingSelections, estimate: Estimator | None = None) -> Covering:
    """Of operators with equally many neighbours the lowest number comes first, and so do their selections.

    Exact figures are judged one after the other until one suffices. Estimates are asked for an operator at a time, for
    all chosen selections that have something in common with its own.

    >>> from situ.lab.quality.atoms import AtomSets
    >>> sets = AtomSets.of(np.array([1, 2, 1, 2, 3, 2, 3]), np.array([0, 2, 5, 7]))
    >>> waiting = WaitingSelections(sets, np.arange(3), np.full(3, 0.6), np.full(3, 0.6))
    >>> mnh(waiting)
    Covering(by=array([0, 0, 2]), estimations=2)
    """
    order = _order(waiting)
    index = index_of(waiting.sets)
    columns = _Columns(waiting, index)
    if estimate is None:
        return Covering(columns.by, columns.cover_exactly(order))
    owners = waiting.owner[order]
    borders = np.flatnonzero(owners[1:] != owners[:-1]) + 1
    parts = np.split(order, borders) if len(order) else []
    return Covering(columns.by, sum(columns.cover_estimated(part, estimate) for part in parts))


def _order(waiting: WaitingSelections) -> I64:
    """The selections, those of the operator with most neighbours first (lines 2 and 5)."""
    operators = np.zeros(len(waiting.precision), np.int64)
    neighbours = operators if waiting.neighbours is None else waiting.neighbours.sizes
    return np.lexsort((np.arange(len(waiting)), waiting.owner, -neighbours[waiting.owner]))


class _Columns:
    """What the kernels work on. `chosen` holds, for every atomic event, the chosen selections that hold it."""

    def __init__(self, waiting: WaitingSelections, index: Index) -> None:
        self.waiting, self.index = waiting, index
        self.by = np.full(len(waiting), -1, np.int64)
        self.rank = np.full(len(waiting), -1, np.int64)
        self.chosen = np.empty(len(index.holders), np.int32)
        self.fill = index.holder_offsets[:-1].copy()
        self.counts, self.touched = np.zeros(len(waiting), np.int32), np.empty(len(waiting), np.int32)
        self.allowed = np.full(len(waiting.precision), -1, np.int64)
        self.may = neighbour_columns(waiting.neighbours and waiting.neighbours.turned())

    def cover_exactly(self, order: I64) -> int:
        index, waiting = self.index, self.waiting
        judged: int = _cover(
            order, index.atoms, index.offsets, index.holder_offsets, waiting.owner, waiting.precision, waiting.recall,
            self.may.offsets, self.may.others, waiting.neighbours is None, self.chosen, self.fill, self.rank,
            self.counts, self.touched, self.allowed, self.by,
        )  # fmt: skip
        return judged

    def cover_estimated(self, mine: I64, estimate: Estimator) -> int:
        """Lines 6 to 19 for the selections of one operator."""
        asked, processed = self._candidates(mine)
        enough = suffices(asked, processed, self.waiting, estimate) if len(asked) else np.zeros(0, np.bool_)
        asked_well, good = asked[enough], processed[enough]
        first = np.lexsort((self.rank[good], asked_well))
        some, where = np.unique(asked_well[first], return_index=True)
        self.by[some] = good[first][where]
        chosen = mine[self.by[mine] < 0]
        index = self.index
        _enter(chosen, index.atoms, index.offsets, self.chosen, self.fill, self.rank, int(self.rank.max()) + 1)
        self.by[chosen] = chosen
        return len(asked)

    def _candidates(self, mine: I64) -> tuple[I64, I64]:
        """Pairs of an operator's selections and chosen ones that may be processed for it."""
        index, waiting, nothing = self.index, self.waiting, np.zeros(0, np.int64)
        me = int(waiting.owner[mine[0]])
        self.allowed[self.may.others[self.may.offsets[me] : self.may.offsets[me + 1]] if waiting.neighbours else ()] = (
            me
        )
        asked = processed = nothing
        for _ in range(2):  # first how many, then which
            found: int = _list_pairs(
                mine, index.atoms, index.offsets, index.holder_offsets, self.chosen, self.fill, self.counts,
                self.touched, waiting.owner, self.allowed, waiting.neighbours is None, asked, processed,
            )  # fmt: skip
            if asked is nothing:
                asked, processed = np.empty(found, np.int64), np.empty(found, np.int64)
        return asked, processed


@jit
def _meet(
    s: int, atoms: I32, offsets: I64, holder_offsets: I64, chosen: I32, fill: I64, counts: I32, touched: I32
) -> int:
    """Chosen selections that have something in common with s: how many, and with how much."""
    found = 0
    for i in range(offsets[s], offsets[s + 1]):
        for j in range(holder_offsets[atoms[i]], fill[atoms[i]]):
            other = chosen[j]
            if counts[other] == 0:
                touched[found] = other
                found += 1
            counts[other] += 1
    return found


@jit
def _list_pairs(
    mine: I64,
    atoms: I32,
    offsets: I64,
    holder_offsets: I64,
    chosen: I32,
    fill: I64,
    counts: I32,
    touched: I32,
    owner: I64,
    allowed: I64,
    all_may: bool,
    asked: I64,
    processed: I64,
) -> int:
    """Pairs, as far as there is room for them; how many there are. `allowed[o]` is the last operator that o may
    process for."""
    pairs = 0
    for at in range(len(mine)):
        found = _meet(mine[at], atoms, offsets, holder_offsets, chosen, fill, counts, touched)
        for k in range(found):
            other = touched[k]
            counts[other] = 0
            if all_may or allowed[owner[other]] == owner[mine[at]]:
                if pairs < len(asked):
                    asked[pairs], processed[pairs] = mine[at], other
                pairs += 1
    return pairs


@jit
def _enter(new: I64, atoms: I32, offsets: I64, chosen: I32, fill: I64, rank: I64, first: int) -> None:
    """Line 17."""
    for k in range(len(new)):
        s = new[k]
        rank[s] = first + k
        for i in range(offsets[s], offsets[s + 1]):
            chosen[fill[atoms[i]]] = s
            fill[atoms[i]] += 1


@jit
def _cover(
    order: I64,
    atoms: I32,
    offsets: I64,
    holder_offsets: I64,
    owner: I64,
    precision: F64,
    recall: F64,
    may_offsets: I64,
    may: I64,
    all_may: bool,
    chosen: I32,
    fill: I64,
    rank: I64,
    counts: I32,
    touched: I32,
    allowed: I64,
    by: I64,
) -> int:
    """Lines 4 to 20. `allowed[o]` is the last selection for whose operator o may process. Pairs judged."""
    judged, ranks = 0, 0
    for at in range(len(order)):
        s = order[at]
        size, mine = offsets[s + 1] - offsets[s], owner[s]
        found = _meet(s, atoms, offsets, holder_offsets, chosen, fill, counts, touched)
        if not all_may:
            for k in range(may_offsets[mine], may_offsets[mine + 1]):
                allowed[may[k]] = s
        first = -1
        for k in range(found):
            other = touched[k]
            theirs = owner[other]
            may_process = theirs != mine and (all_may or allowed[theirs] == s)
            if may_process and (first < 0 or rank[other] < rank[first]):
                processed = offsets[other + 1] - offsets[other]
                if is_enough(counts[other], size, processed, precision[mine], recall[mine]):
                    first = other
        for k in range(found):
            other = touched[k]
            counts[other] = 0
            theirs = owner[other]
            if theirs != mine and (all_may or allowed[theirs] == s) and (first < 0 or rank[other] <= rank[first]):
                judged += 1
        by[s] = first
        if first < 0:
            by[s], rank[s] = s, ranks
            ranks += 1
            for i in range(offsets[s], offsets[s + 1]):
                chosen[fill[atoms[i]]] = s
                fill[atoms[i]] += 1
    return judged
