"""The maximum neighbour heuristic (RECEP, Figure 5): a selection is covered by the first of those already chosen that
suffices, else it is chosen itself. Operators with many neighbours come first, since theirs may cover many."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from situ.kernel.arrays import I32, I64
from situ.kernel.matching.machine import inlined, jit
from situ.lab.recep.coverings.family import (
    AskingSelections,
    Index,
    Met,
    index_of,
    is_enough,
    neighbour_columns,
    suffices,
)
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


class _Chosen(NamedTuple):
    """The selections that are chosen so far."""

    holders: I32  # for every atomic event, from its holder offset to its end, the chosen selections that hold it
    ends: I64  # by atomic event
    rank: I64  # by selection: how many were chosen before it; -1: it is not chosen


class _Processors(NamedTuple):
    """Who may process for an operator: as in `Neighbours`, from the other side."""

    offsets: I64
    others: I64
    all_may: bool  # the other columns are empty, and not looked at
    allowed: I64  # by operator: the last selection, or the last operator, that it may process for


class _Columns:
    """What the kernels work on."""

    def __init__(self, waiting: WaitingSelections, index: Index) -> None:
        count, operators = len(waiting), len(waiting.precision)
        self.waiting, self.index = waiting, index
        self.by = np.full(count, -1, np.int64)
        holders, ends = np.empty(len(index.holders), np.int32), index.holder_offsets[:-1].copy()
        self.chosen = _Chosen(holders, ends, np.full(count, -1, np.int64))
        self.met = Met(np.zeros(count, np.int32), np.empty(count, np.int32))
        may = neighbour_columns(waiting.neighbours and waiting.neighbours.turned())
        allowed = np.full(operators, -1, np.int64)
        self.processors = _Processors(may.offsets, may.others, waiting.neighbours is None, allowed)

    def cover_exactly(self, order: I64) -> int:
        """Lines 4 to 20. Returns how many pairs were judged."""
        judged: int = _cover(
            order, self.index, AskingSelections.of(self.waiting), self.processors, self.chosen, self.met, self.by
        )
        return judged

    def cover_estimated(self, mine: I64, estimate: Estimator) -> int:
        """Lines 6 to 19 for the selections of one operator. Returns how many pairs were judged."""
        asked, processed = self._candidates(mine)
        enough = suffices(asked, processed, self.waiting, estimate) if len(asked) else np.zeros(0, np.bool_)
        asked_well, good = asked[enough], processed[enough]
        first = np.lexsort((self.chosen.rank[good], asked_well))
        covered, where = np.unique(asked_well[first], return_index=True)
        self.by[covered] = good[first][where]
        uncovered = mine[self.by[mine] < 0]
        _choose(uncovered, self.index, self.chosen, int(self.chosen.rank.max()) + 1)
        self.by[uncovered] = uncovered
        return len(asked)

    def _candidates(self, mine: I64) -> tuple[I64, I64]:
        """Pairs of an operator's selections and chosen ones that may be processed for it."""
        processors, nothing = self.processors, np.zeros(0, np.int64)
        me = int(self.waiting.owner[mine[0]])
        if not processors.all_may:
            processors.allowed[processors.others[processors.offsets[me] : processors.offsets[me + 1]]] = me
        asked = processed = nothing
        for _ in range(2):  # first how many, then which
            count: int = _list_pairs(
                mine, self.index, self.waiting.owner, processors, self.chosen, self.met, asked, processed
            )
            if asked is nothing:
                asked, processed = np.empty(count, np.int64), np.empty(count, np.int64)
        return asked, processed


@jit
def _meet(s: int, index: Index, chosen: _Chosen, met: Met) -> int:
    """Find the chosen selections that have something in common with s, and with how much. Returns how many they are."""
    count = 0
    for i in range(index.offsets[s], index.offsets[s + 1]):
        atom = index.atoms[i]
        for j in range(index.holder_offsets[atom], chosen.ends[atom]):
            other = chosen.holders[j]
            if met.counts[other] == 0:
                met.selections[count] = other
                count += 1
            met.counts[other] += 1
    return count


@jit
def _list_pairs(
    mine: I64, index: Index, owner: I64, processors: _Processors, chosen: _Chosen, met: Met, asked: I64, processed: I64
) -> int:
    """Write pairs as far as there is room for them. Returns how many there are."""
    pairs = 0
    for at in range(len(mine)):
        count = _meet(mine[at], index, chosen, met)
        for k in range(count):
            other = met.selections[k]
            met.counts[other] = 0
            if processors.all_may or processors.allowed[owner[other]] == owner[mine[at]]:
                if pairs < len(asked):
                    asked[pairs], processed[pairs] = mine[at], other
                pairs += 1
    return pairs


@jit
def _choose(selections: I64, index: Index, chosen: _Chosen, first_rank: int) -> None:
    """Line 17, for several selections."""
    for k in range(len(selections)):
        _choose_one(selections[k], index, chosen, first_rank + k)


@inlined
def _choose_one(s: int, index: Index, chosen: _Chosen, rank: int) -> None:
    """Line 17: enter a selection as chosen."""
    chosen.rank[s] = rank
    for i in range(index.offsets[s], index.offsets[s + 1]):
        atom = index.atoms[i]
        chosen.holders[chosen.ends[atom]] = s
        chosen.ends[atom] += 1


@jit
def _cover(
    order: I64, index: Index, asking: AskingSelections, processors: _Processors, chosen: _Chosen, met: Met, by: I64
) -> int:
    """Lines 4 to 20. Returns how many pairs were judged."""
    judged, ranks = 0, 0
    for at in range(len(order)):
        s = order[at]
        mine = asking.owner[s]
        count = _meet(s, index, chosen, met)
        if not processors.all_may:
            for k in range(processors.offsets[mine], processors.offsets[mine + 1]):
                processors.allowed[processors.others[k]] = s
        first = _first_enough(s, count, index, asking, processors, chosen, met)
        for k in range(count):
            other = met.selections[k]
            met.counts[other] = 0
            theirs = asking.owner[other]
            may_process = theirs != mine and (processors.all_may or processors.allowed[theirs] == s)
            if may_process and (first < 0 or chosen.rank[other] <= chosen.rank[first]):
                judged += 1
        by[s] = first
        if first < 0:
            by[s] = s
            _choose_one(s, index, chosen, ranks)
            ranks += 1
    return judged


@inlined
def _first_enough(
    s: int, count: int, index: Index, asking: AskingSelections, processors: _Processors, chosen: _Chosen, met: Met
) -> int:
    """Of the chosen selections that s has met, the first that may be processed for it and suffices; -1: none."""
    owner, offsets, rank = asking.owner, index.offsets, chosen.rank
    mine, size = owner[s], offsets[s + 1] - offsets[s]
    precision, recall = asking.precision[mine], asking.recall[mine]
    first = -1
    for k in range(count):
        other = met.selections[k]
        theirs = owner[other]
        may_process = theirs != mine and (processors.all_may or processors.allowed[theirs] == s)
        if may_process and (first < 0 or rank[other] < rank[first]):
            processed = offsets[other + 1] - offsets[other]
            if is_enough(met.counts[other], size, processed, precision, recall):
                first = other
    return first
