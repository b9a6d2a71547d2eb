"""Quality of batches of selections: on average, or of every single selection (RECEP, section 4.3.1).

If a batch is processed on behalf of another, every selection of the one that was asked gets the results of one of those
that are processed: of the one that ends at the nearest time. Of two equally near it is the earlier. Among selections
that end at the same time the first stands for the first, the second for the second, and the last for all further ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.kernel.matching.machine import jit
from situ.lab.quality.precision_recall import MeasuredQuality
from situ.lab.recep.estimators.pairs import Estimator, check_pairs

#: The mean over the selections of a batch, or the least: if that is enough, every selection is good enough.
Over = Literal["average", "every"]


@dataclass(frozen=True, slots=True)
class Batches:
    """Batch k has the selections that `members` names from offset k to offset k + 1, in order of their ends."""

    members: I64
    offsets: I64
    end_us: I64  # of all selections

    @property
    def sizes(self) -> I64:
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True, slots=True)
class SelectionPairs:
    """The pairs of selections of pairs of batches: pair k of batches has those from offset k to offset k + 1."""

    asked: I64
    processed: I64
    offsets: I64


def selections_of_batches(batches: Batches, asked: I64, processed: I64) -> SelectionPairs:
    """Which selection is processed on behalf of each that was asked. None is if there is none in the batch.

    >>> batches = Batches(np.arange(5), np.array([0, 3, 5]), np.array([10, 20, 30, 12, 28]))
    >>> selections_of_batches(batches, np.array([0]), np.array([1])).processed.tolist()
    [3, 3, 4]
    """
    check_pairs(asked, processed, len(batches), len(batches))
    counts = np.where(batches.sizes[processed] > 0, batches.sizes[asked], 0)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    pairs = SelectionPairs(np.zeros(offsets[-1], np.int64), np.zeros(offsets[-1], np.int64), offsets)
    columns = (batches.members, batches.offsets, batches.end_us)
    _nearest(*columns, asked, processed, pairs.asked, pairs.processed, offsets)
    return pairs


def quality_of_batches(
    estimate: Estimator, batches: Batches, over: Over, asked: I64, processed: I64
) -> MeasuredQuality:
    """The quality of pairs of batches, by an estimate for pairs of selections.

    Where nothing is processed, nothing is noise and all that was asked is missing. Where nothing was asked, all is
    noise and nothing is missing.

    >>> batches = Batches(np.arange(4), np.array([0, 2, 4]), np.array([10, 20, 10, 20]))
    >>> def estimate(asked, processed):
    ...     return MeasuredQuality(np.array([0.5, 1.0]), np.array([1.0, 1.0]))
    >>> quality_of_batches(estimate, batches, "average", np.array([0]), np.array([1])).precision.tolist()
    [0.75]
    >>> quality_of_batches(estimate, batches, "every", np.array([0]), np.array([1])).precision.tolist()
    [0.5]
    """
    pairs = selections_of_batches(batches, asked, processed)
    estimated = estimate(pairs.asked, pairs.processed)
    any_asked, any_processed = batches.sizes[asked] > 0, batches.sizes[processed] > 0
    precision = np.where(any_processed, 0.0, 1.0)
    recall = np.where(any_asked, 0.0, 1.0)
    has_any = any_asked & any_processed
    precision[has_any] = _reduced(estimated.precision, pairs.offsets, has_any, over)
    recall[has_any] = _reduced(estimated.recall, pairs.offsets, has_any, over)
    return MeasuredQuality(precision, recall)


def _reduced(values: F64, offsets: I64, has_any: np.ndarray[tuple[int], np.dtype[np.bool_]], over: Over) -> F64:
    """One part after another, not by differences of a running sum: the mean of ones is to be just 1."""
    starts, counts = offsets[:-1][has_any], np.diff(offsets)[has_any]
    if len(starts) == 0:
        return np.zeros(0)
    if over == "every":
        return np.minimum.reduceat(values, starts)
    means: F64 = np.add.reduceat(values, starts) / counts
    return means


@jit
def _nearest(
    members: I64,
    offsets: I64,
    end_us: I64,
    asked: I64,
    processed: I64,
    found_asked: I64,
    found_processed: I64,
    found_offsets: I64,
) -> None:
    for k in range(len(asked)):
        if found_offsets[k] == found_offsets[k + 1]:
            continue
        first, j, end = offsets[asked[k]], offsets[processed[k]], offsets[processed[k] + 1]
        rank = 0
        for i in range(first, offsets[asked[k] + 1]):
            time = end_us[members[i]]
            rank = rank + 1 if i > first and end_us[members[i - 1]] == time else 0
            following = _following(members, end_us, j, end)
            while following < end and abs(end_us[members[following]] - time) < abs(end_us[members[j]] - time):
                j = following
                following = _following(members, end_us, j, end)
            place = found_offsets[k] + i - first
            found_asked[place] = members[i]
            found_processed[place] = members[j + min(rank, following - j - 1)]


@jit
def _following(members: I64, end_us: I64, j: int, end: int) -> int:
    """The next selection that ends later than j."""
    following = j + 1
    while following < end and end_us[members[following]] == end_us[members[j]]:
        following += 1
    return following
