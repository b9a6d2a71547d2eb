"""Precision and recall (space/precision_recall.py) of many results at once: of counts, of sets and of masks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from situ.kernel.arrays import F64, I64
from situ.lab.quality.atoms import AtomSets, common
from situ.space.precision_recall import shares

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MeasuredQuality:
    """Precision and recall of many results; arrays of any one shape."""

    precision: F64
    recall: F64

    def suffices(self, precision: float, recall: float) -> Mask:
        """Marks the results of which neither precision nor recall is below its threshold.

        >>> MeasuredQuality(np.array([0.9, 0.8]), np.array([1.0, 1.0])).suffices(0.9, 0.5).tolist()
        [True, False]
        """
        enough: Mask = (self.precision >= precision) & (self.recall >= recall)
        return enough


def quality_of_counts(both: I64, asked: I64, processed: I64) -> MeasuredQuality:
    """Precision and recall from numbers of atomic events: those in both sets, those asked, those processed.

    >>> quality_of_counts(np.array([1, 0]), np.array([2, 0]), np.array([4, 0]))
    MeasuredQuality(precision=array([0.25, 1.  ]), recall=array([0.5, 1. ]))
    """
    return MeasuredQuality(shares(both, processed), shares(both, asked))


def quality_of_sets(asked: AtomSets, processed: AtomSets) -> MeasuredQuality:
    """Precision and recall of pairs of sets: the k-th that was asked and the k-th that was processed.

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
