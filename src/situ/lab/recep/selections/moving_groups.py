"""Groups of operators whose consumers move, join and leave (RECEP, section 4.2.1)."""

from __future__ import annotations

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.lab.recep.selections.groups import Groups, regroup_after


def all_at(groups: Groups, operator: I64, x: F64, y: F64) -> Groups:
    """These operators are there, by number, at these places, and no others: who is new joins, who is missing has left.

    >>> from situ.lab.recep.selections.groups import DividedSquare
    >>> nobody = Groups.empty(DividedSquare(0.0, 0.0, 100.0, most=1))
    >>> print(all_at(nobody, np.array([3, 7]), np.array([90.0, 10.0]), np.full(2, 10.0)))
    2 operators in 2 groups of at most 1
      cell 4 share 0: 7
      cell 5 share 0: 3
    """
    before = np.full(len(operator), -1, np.int64)
    was_there = np.isin(operator, groups.operator)
    before[was_there] = groups.group[np.searchsorted(groups.operator, operator[was_there])]
    return regroup_after(groups.region, operator, x, y, before, groups.divided)
