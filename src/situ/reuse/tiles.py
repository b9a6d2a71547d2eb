"""Tiles of space: interests share within one, and shards work for whole tiles.

Tiles do not depend on who is there, nor on the number of shards, so neither decides who shares with whom.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.space.geometry import Shape

#: A tile is so many times as long as a region: long enough that few interests lie beside its border, short enough that
#: there are some for each shard.
REGIONS_PER_TILE = 4
#: Tiles are numbered by two whole numbers of so many bits.
_BITS = 31
#: Spreads the numbers of tiles over all shards (Knuth, The Art of Computer Programming, volume 3, section 6.4).
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Shards:
    """Those of `count` shards that are here."""

    here: tuple[int, ...]
    count: int


#: Nothing is divided.
UNDIVIDED = Shards((0,), 1)


def tiles_of(x: F64, y: F64, shape: Shape) -> I64:
    """The tile in which each place lies, by number.

    >>> tile = tiles_of(np.array([0.0, 39.0, 41.0]), np.zeros(3), Shape(5.0, 5.0))
    >>> bool(tile[0] == tile[1]), bool(tile[1] == tile[2])
    (True, False)
    """
    reach_x, reach_y = shape.reach(np.zeros(1))
    side = REGIONS_PER_TILE * 2 * max(float(reach_x[0]), float(reach_y[0]), 1e-9)
    if shape.degrees:
        x = (x + 180.0) % 360.0 - 180.0
    most = 1 << (_BITS - 1)
    column, row = (np.clip(np.floor(place / side), -most, most - 1).astype(np.int64) + most for place in (x, y))
    return (row << _BITS) | column


def shards_of(tiles: I64, shards: int) -> I64:
    """The shard that works for each tile."""
    spread = tiles.astype(np.uint64) * _SPREAD >> np.uint64(32)
    return (spread % np.uint64(shards)).astype(np.int64)
