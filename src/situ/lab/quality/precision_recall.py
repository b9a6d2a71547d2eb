"""Precision and recall of what was processed against what was asked (MCEP, section 3.1; RECEP, section 3).

    precision(s, s') = |a(s) & a(s')| / |a(s')|        how little of what was processed is noise
    recall(s, s')    = |a(s) & a(s')| / |a(s)|         how much of what was asked was processed

s is what was asked, s' what was processed, and a() the set of atomic events behind it. A share of nothing (0 / 0) is 1:
where nothing was processed nothing is noise, and where nothing was asked nothing is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from situ.kernel.arrays import F64, I64
from situ.lab.quality.atoms import AtomSets, common

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MeasuredQuality:
    """Precision and recall of many results; arrays of any one shape."""

    precision: F64
    recall: F64

    def suffices(self, precision: float, recall: float) -> Mask:
        """Where neither is below its threshold.

        >>> MeasuredQuality(np.array([0.9, 0.8]), np.array([1.0, 1.0])).suffices(0.9, 0.5).tolist()
        [True, False]
        """
        enough: Mask = (self.precision >= precision) & (self.recall >= recall)
        return enough


def quality_of_counts(both: I64, asked: I64, processed: I64) -> MeasuredQuality:
    """Of numbers of atomic events: those in both sets, those asked, those processed.

    >>> quality_of_counts(np.array([1, 0]), np.array([2, 0]), np.array([4, 0]))
    MeasuredQuality(precision=array([0.25, 1.  ]), recall=array([0.5, 1. ]))
    """
    return MeasuredQuality(shares(both, processed), shares(both, asked))


def quality_of_sets(asked: AtomSets, processed: AtomSets) -> MeasuredQuality:
    """Of pairs of sets: the k-th that was asked and the k-th that was processed.

    >>> asked = AtomSets.of(np.array([1, 2]), np.array([0, 2]))
    >>> quality_of_sets(asked, AtomSets.of(np.array([2, 3, 4]), np.array([0, 3]))).recall.tolist()
    [0.5]
    """
    return quality_of_counts(common(asked, processed), asked.sizes, processed.sizes)


def quality_of_masks(asked: Mask, processed: Mask) -> MeasuredQuality:
    """Of all combinations: row i of `asked` says which atomic events were asked, row j of `processed` which were
    processed; [i, j] is the quality of j for i.

    >>> asked = np.array([[True, True, False]])
    >>> quality_of_masks(asked, np.array([[True, False, False], [True, True, True]])).recall.tolist()
    [[0.5, 1.0]]
    """
    both = np.rint(asked.astype(np.float64) @ processed.astype(np.float64).T).astype(np.int64)
    return quality_of_counts(both, asked.sum(axis=1)[:, None], processed.sum(axis=1)[None, :])


def shares(part: npt.NDArray[Any], whole: npt.NDArray[Any]) -> F64:
    """A share of nothing is 1, as everywhere in this package.

    >>> shares(np.array([0.5, 0.0]), np.array([2.0, 0.0])).tolist()
    [0.25, 1.0]
    """
    some = whole > 0
    found: F64 = np.where(some, part / np.where(some, whole, 1), 1.0)
    return found
