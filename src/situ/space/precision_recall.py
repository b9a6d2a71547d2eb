"""Precision and recall of what was processed against what was asked (MCEP, section 3.1; RECEP, section 3).

    precision(s, s') = |a(s) & a(s')| / |a(s')|        how little of what was processed is noise
    recall(s, s')    = |a(s) & a(s')| / |a(s)|         how much of what was asked was processed

s is what was asked, s' what was processed, and a() the set of atomic events behind it. A share of nothing (0 / 0) is 1:
where nothing was processed nothing is noise, and where nothing was asked nothing is missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from situ.kernel.arrays import F64
from situ.kernel.matching.machine import inlined


@inlined
def precision_and_recall(both: int, asked: int, processed: int) -> tuple[float, float]:
    """Of numbers of atomic events: those in both sets, those asked, those processed.

    >>> precision_and_recall(1, 2, 4), precision_and_recall(0, 0, 0)
    ((0.25, 0.5), (1.0, 1.0))
    """
    return both / processed if processed else 1.0, both / asked if asked else 1.0


def shares(part: npt.NDArray[Any], whole: npt.NDArray[Any]) -> F64:
    """The same for columns: which share of each whole its part is.

    >>> shares(np.array([0.5, 0.0]), np.array([2.0, 0.0])).tolist()
    [0.25, 1.0]
    """
    has_some = whole > 0
    share: F64 = np.where(has_some, part / np.where(has_some, whole, 1), 1.0)
    return share
