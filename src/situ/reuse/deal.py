"""Interests dealt out to shards, near ones to one shard: only what meets can be shared.

Those that are near each other are a group (RECEP, section 4.2.1: a cell of a quad-tree), and groups that are near each
other go to one shard. Every shard finds the same, so nobody has to be told.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.reuse.groups import SHARES, DividedSquare, regroup

#: So many interests are a group, at the most, and there are so many groups for each shard, or about: enough interests
#: to share, and groups small enough to be dealt out evenly.
MOST, GROUPS = 64, 4
#: How often all places that there are, in degrees or in metres, are divided at the most: into cells of 32 m.
_DEEPEST = 20


@dataclass(frozen=True, slots=True)
class Shards:
    """Those of `count` shards that are here."""

    here: tuple[int, ...]
    count: int


#: Nothing is divided.
UNDIVIDED = Shards((0,), 1)


def groups_of(x: F64, y: F64, most: int, degrees: bool) -> I64:
    """The group of each interest, by number.

    >>> groups_of(np.array([0.0, 1.0, 9000.0]), np.zeros(3), 2, degrees=False).tolist()
    [0, 0, 1]
    """
    low, side = (-180.0, 360.0) if degrees else (-(2.0**24), 2.0**25)
    cell, share = np.divmod(regroup(DividedSquare(low, low, side, most, _DEEPEST), x, y).group, SHARES)
    # Cells of all sizes in the order in which those of the smallest size come: neighbours are close to each other.
    level = (np.frexp(cell.astype(np.float64))[1] - 1) // 2
    places = np.stack([cell << 2 * (_DEEPEST - level), share])
    return np.unique(places, axis=1, return_inverse=True)[1].reshape(-1)


def deal(x: F64, y: F64, shards: int, degrees: bool = False) -> I64:
    """The shard of each interest: about as many for each, and whole groups.

    >>> x = np.repeat([100.0, 8000.0], 50)
    >>> deal(x, np.zeros(100), 2).tolist() == [0] * 50 + [1] * 50
    True
    """
    if shards == 1 or len(x) == 0:
        return np.zeros(len(x), np.int64)
    group = groups_of(x, y, min(max(len(x) // (GROUPS * shards), 1), MOST), degrees)
    sizes = np.bincount(group)
    before = np.cumsum(sizes) - sizes
    return (before * shards // len(x))[group]
