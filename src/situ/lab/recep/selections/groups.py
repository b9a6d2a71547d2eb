"""Groups: which selection manager operators of one type are connected to (RECEP, section 4.2.1).

Space is divided by a quad-tree. A cell with more than `most` operators is divided into four, and a divided cell is
undivided only when no more than half as many are left in it: in between nothing changes, so an operator that goes to
and fro does not divide and undivide a cell each time. Cells of the deepest level are not divided. With more than
`most` operators such a cell has several selection managers with an even share each.

A group is a cell and a share. An operator outside the region belongs to the nearest cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situ.core.errors import SituError
from situ.kernel.arrays import F64, I64

#: Shares of a cell are numbered below this.
SHARES = 1 << 20


@dataclass(frozen=True, slots=True)
class DividedSquare:
    """The square that is divided; `deepest` is how often, `most` how many operators a selection manager takes."""

    x: float
    y: float
    side: float
    most: int
    deepest: int = 12

    def __post_init__(self) -> None:
        if not self.side > 0 or self.most < 1 or not 0 <= self.deepest <= 20:
            raise SituError(
                f"no groups of {self.most} operators in a square of {self.side}, divided {self.deepest} times",
                remedy="Give a positive side, one or more operators, and at most 20 divisions.",
            )


@dataclass(frozen=True, slots=True)
class Groups:
    """Operators by number, where their consumers are, and the group of each. `divided` are cells, sorted.

    The cell at a level is 1 followed by two bits for each division. The whole region is cell 1, and cell c is divided
    into the four from 4 c on.
    """

    region: DividedSquare
    operator: I64
    x: F64
    y: F64
    group: I64
    divided: I64

    @classmethod
    def empty(cls, region: DividedSquare) -> Groups:
        whole, real = np.zeros(0, np.int64), np.zeros(0, np.float64)
        return cls(region, whole, real, real, whole, whole)

    def __str__(self) -> str:
        lines = [f"{len(self.operator)} operators in {len(np.unique(self.group))} groups of at most {self.region.most}"]
        for group in np.unique(self.group).tolist():
            members = self.operator[self.group == group].tolist()
            lines.append(f"  cell {group // SHARES} share {group % SHARES}: {', '.join(map(str, members))}")
        return "\n".join(lines)


def regroup(region: DividedSquare, x: F64, y: F64) -> Groups:
    """Groups of operators 0, 1, ... from nothing: in the cells that they would be in if they joined one by one.

    >>> regroup(DividedSquare(0.0, 0.0, 100.0, most=1), np.array([10.0, 90.0]), np.array([10.0, 10.0])).group // SHARES
    array([4, 5])
    """
    nothing = np.zeros(0, np.int64)
    return regroup_after(region, np.arange(len(x)), x, y, np.full(len(x), -1, np.int64), nothing)


def regroup_after(region: DividedSquare, operator: I64, x: F64, y: F64, before: I64, divided: I64) -> Groups:
    """Groups of operators, by number, that were in the groups `before` (-1: in none) when these cells were divided.

    Level by level: a cell is divided if it holds too many, or was divided and holds more than half of that.
    """
    code = _codes(region, x, y)
    cell, left = np.ones(len(x), np.int64), np.arange(len(x))
    now = []
    for level in range(region.deepest):
        at_level = (code[left] >> 2 * (region.deepest - level)) | (1 << 2 * level)
        cells, place, counts = np.unique(at_level, return_inverse=True, return_counts=True)
        divide = (counts > region.most) | (np.isin(cells, divided) & (counts > region.most // 2))
        cell[left] = at_level
        now.append(cells[divide])
        left = left[divide[place.reshape(-1)]]
    cell[left] = code[left] | (1 << 2 * region.deepest)
    group = cell * SHARES + _shares(region.most, cell, before)
    return Groups(region, operator, x, y, group, np.concatenate([*now, np.zeros(0, np.int64)]))


def _codes(region: DividedSquare, x: F64, y: F64) -> I64:
    """Cells of the deepest level, the bits of both places by turns."""
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
        raise SituError("a consumer's place is not a number", remedy="An operator without a place cannot be grouped.")
    across = 1 << region.deepest
    code = np.zeros(len(x), np.int64)
    for shift, place, begin in ((0, x, region.x), (1, y, region.y)):
        column = np.clip((place - begin) / region.side * across, 0, across - 1).astype(np.int64)
        for bit in range(region.deepest):
            code |= ((column >> bit) & 1) << (2 * bit + shift)
    return code


def _shares(most: int, cell: I64, before: I64) -> I64:
    """The share of each operator: 0, but in cells that hold too many and cannot be divided, or did so just now."""
    share = np.zeros(len(cell), np.int64)
    cells, place, counts = np.unique(cell, return_inverse=True, return_counts=True)
    stays = before // SHARES == cell
    shared = cells[counts > most]
    shared = np.union1d(shared, cell[stays & (before % SHARES > 0)])
    for one in np.flatnonzero(np.isin(cells, shared)).tolist():
        members = np.flatnonzero(place.reshape(-1) == one)
        share[members] = _even(most, np.where(stays[members], before[members] % SHARES, -1))
    return share


def _even(most: int, before: I64) -> I64:
    """Who has a share keeps it, who has none (-1) takes the smallest.

    As with cells, nothing changes in between: a share is given up when the others are no more than half full with it,
    and all are made even when the largest has more than the smallest by over half of `most`.
    """
    share = before.copy()
    used = np.unique(share[share >= 0])
    while len(used) > 1 and len(share) <= (len(used) - 1) * (most // 2):
        counts = (share[:, None] == used).sum(axis=0)
        share[share == used[np.argmin(counts)]] = -1
        used = np.unique(share[share >= 0])
    needed = -(-len(share) // most)
    fresh = np.setdiff1d(np.arange(len(used) + needed), used)[: max(needed - len(used), 0)]
    used = np.sort(np.concatenate([used, fresh]))
    counts = (share[:, None] == used).sum(axis=0)
    for at in np.flatnonzero(share < 0).tolist():
        smallest = np.argmin(counts)
        share[at] = used[smallest]
        counts[smallest] += 1
    if counts.max() - counts.min() > max(most // 2, 1):
        while counts.max() - counts.min() > 1:
            largest, smallest = np.argmax(counts), np.argmin(counts)
            share[np.flatnonzero(share == used[largest])[-1]] = used[smallest]
            counts[largest], counts[smallest] = counts[largest] - 1, counts[smallest] + 1
    return share
