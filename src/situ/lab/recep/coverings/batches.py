"""Batches of selections: subsequent ones of an operator, covered as one (RECEP, section 4.3.1).

The covering of batches is that of selections: `Batched.waiting` has the operator and the atomic events of each batch.
Judged by these alone, a batch is one large selection. `by_selections` judges it on average over its selections, or by
every single one.

A selection belongs to the batch in whose time it begins, also if it ends later. The paper leaves such selections out,
but somebody has asked for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from situ.core.errors import SituError
from situ.kernel.arrays import F64, I64
from situ.lab.quality.atoms import AtomSets
from situ.lab.recep.coverings.waiting import Covering, Neighbours, WaitingSelections
from situ.lab.recep.estimators.batches import Batches, Over, quality_of_batches, selections_of_batches
from situ.lab.recep.estimators.pairs import Estimator, quality_of_pairs


@dataclass(frozen=True, slots=True)
class Selections:
    """Selections in columns: whose, first and last time, and atomic events. Those of an operator are in their order."""

    owner: I64
    begin_us: I64
    end_us: I64
    sets: AtomSets

    def __len__(self) -> int:
        return len(self.owner)


@dataclass(frozen=True, slots=True)
class Batched:
    """Selections in batches. `batch` is the batch of each selection, the other columns are of batches."""

    selections: Selections
    batch: I64
    owner: I64
    begin_us: I64
    end_us: I64
    sets: AtomSets
    members: Batches

    def __len__(self) -> int:
        return len(self.owner)

    def waiting(self, precision: F64, recall: F64, neighbours: Neighbours | None = None) -> WaitingSelections:
        """What a covering of the batches reads; thresholds and neighbours are of operators."""
        return WaitingSelections(self.sets, self.owner, precision, recall, neighbours)

    def by_selections(self, over: Over, estimate: Estimator | None = None) -> Estimator:
        """Judges pairs of batches by their selections, which are judged exactly if nothing else is said."""
        return partial(
            quality_of_batches, estimate or partial(quality_of_pairs, self.selections.sets), self.members, over
        )

    def of_selections(self, covering: Covering) -> Covering:
        """Which selection is processed on behalf of each, if that is how batches are covered.

        >>> sets = AtomSets.of(np.array([1, 2, 1, 2]), np.arange(5))
        >>> times = np.array([10, 20, 10, 20])
        >>> found = batched(Selections(np.array([0, 0, 1, 1]), times, times, sets), np.zeros(4, np.int64))
        >>> found.of_selections(Covering(np.array([0, 0]), 2)).by.tolist()
        [0, 1, 0, 1]
        """
        by = np.arange(len(self.selections))
        covered = np.flatnonzero(covering.by != np.arange(len(self)))
        pairs = selections_of_batches(self.members, covered, covering.by[covered])
        by[pairs.asked] = pairs.processed
        return Covering(by, covering.estimations)


def by_time(selections: Selections, length_us: int) -> Batched:
    """Selections of an operator that begin within the same time of that length, counted from 0.

    >>> sets = AtomSets.of(np.array([1, 2, 3]), np.arange(4))
    >>> times = np.array([1, 9, 10])
    >>> by_time(Selections(np.zeros(3, np.int64), times, times, sets), 10).batch.tolist()
    [0, 0, 1]
    """
    if length_us < 1:
        raise SituError(f"a batch cannot be {length_us} us long", remedy="Give one microsecond or more.")
    return batched(selections, selections.begin_us // length_us)


def batched(selections: Selections, part: I64) -> Batched:
    """Selections of an operator that are of one part of it. Batches are numbered by operator, then by part.

    >>> sets = AtomSets.of(np.array([1, 2, 3]), np.arange(4))
    >>> batched(Selections(np.zeros(3, np.int64), *2 * (np.arange(3),), sets), np.array([7, 5, 7])).batch.tolist()
    [1, 0, 1]
    """
    count = len(selections)
    order = np.lexsort((np.arange(count), selections.end_us, part, selections.owner))
    owner, sorted_part = selections.owner[order], part[order]
    fresh = np.ones(count, np.bool_)
    fresh[1:] = (owner[1:] != owner[:-1]) | (sorted_part[1:] != sorted_part[:-1])
    starts = np.flatnonzero(fresh)
    batch = np.empty(count, np.int64)
    batch[order] = np.cumsum(fresh) - 1
    begin = np.minimum.reduceat(selections.begin_us[order], starts) if count else owner
    end = np.maximum.reduceat(selections.end_us[order], starts) if count else owner
    members = Batches(order, np.append(starts, count).astype(np.int64), selections.end_us)
    sets = _joined(selections.sets, batch, len(starts))
    return Batched(selections, batch, owner[starts], begin, end, sets, members)


def _joined(sets: AtomSets, batch: I64, batches: int) -> AtomSets:
    """The atomic events of all selections of a batch, each once."""
    if not len(sets.atoms):
        return AtomSets(sets.atoms, np.zeros(batches + 1, np.int64))
    least, most = int(sets.atoms.min()), int(sets.atoms.max())
    span = most - least + 1
    if span * batches >= 1 << 62:  # numbers too far apart for one key
        distinct, codes = np.unique(sets.atoms, return_inverse=True)
        joined = _joined(AtomSets(codes.reshape(-1).astype(np.int64), sets.offsets), batch, batches)
        return AtomSets(distinct[joined.atoms], joined.offsets)
    keys = np.sort(np.repeat(batch, sets.sizes) * span + (sets.atoms - least))
    fresh = np.ones(len(keys), np.bool_)
    fresh[1:] = keys[1:] != keys[:-1]
    whose, atoms = np.divmod(keys[fresh], span)
    sizes = np.bincount(whose, minlength=batches)
    return AtomSets(atoms + least, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
