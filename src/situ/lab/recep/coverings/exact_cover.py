"""Minimum set cover, an integer program, by branch and bound: the fewest subsets that cover all selections.

    minimise the sum of x_s  such that  for every selection m: the sum of x_s over the subsets s with m is 1 or more

At every branch: subsets within others are dropped, and so are selections that are covered whenever another one is. What
then falls into parts that have no subset in common is covered part by part. A solution of the dual program (a price for
every selection, at most 1 in all for the selections of any subset) says how many subsets are needed at least. The
selection that fewest subsets cover branches. Sets are bits of whole numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from situ.core.errors import SituError
from situ.kernel.arrays import I32, I64

#: Branches looked at before the search is given up.
MOST_BRANCHES = 20_000


def smallest_cover(members: I32, offsets: I64, most_branches: int = MOST_BRANCHES) -> I64:
    """The covering selections, sorted. Selection k covers the members from offset k to offset k + 1.

    >>> members, offsets = np.array([0, 1, 0, 1, 2, 1, 2, 3, 2, 3], np.int32), np.array([0, 2, 5, 8, 10])
    >>> smallest_cover(members, offsets).tolist()
    [1, 2]
    """
    count = len(offsets) - 1
    subsets, takers = [0] * count, [0] * count
    for s in range(count):
        for member in members[offsets[s] : offsets[s + 1]].tolist():
            subsets[s] |= 1 << member
            takers[member] |= 1 << s
    everything = (1 << count) - 1
    best = _Search(subsets, takers, most_branches).smallest(everything, everything, count + 1)
    assert best is not None, "all subsets cover all selections"
    return np.array(sorted(best), np.int64)


@dataclass(slots=True)
class _Search:
    """A program, and the branches looked at so far. `left` are selections to cover, `free` subsets to choose from."""

    subsets: list[int]
    takers: list[int]
    most_branches: int
    branches: int = 0

    def smallest(self, left: int, free: int, limit: int) -> list[int] | None:
        """The smallest cover, if it has fewer subsets than the limit."""
        self.branches += 1
        if self.branches > self.most_branches:
            raise SituError(
                f"no smallest covering was found within {self.most_branches} branches",
                remedy="Use mqc, or a smaller group: exact is for tests and small groups.",
            )
        left, free, chosen = self._reduced(left, free)
        parts = self._parts(left, free)
        needed = [self._at_least(*part) for part in parts]
        for k, part in enumerate(parts):
            least, needed[k] = needed[k], 0
            found = self._branched(*part, least, limit - len(chosen) - sum(needed))
            if found is None:
                return None
            chosen += found
        return chosen if len(chosen) < limit else None

    def _branched(self, left: int, free: int, least: int, limit: int) -> list[int] | None:
        """Each way to cover the selection that fewest subsets cover. What was tried is not free for the next way."""
        best = None
        member = min(_bits(left), key=lambda one: ((self.takers[one] & free).bit_count(), one))
        ways = _bits(self.takers[member] & free)
        for s in sorted(ways, key=lambda one: (-(self.subsets[one] & left).bit_count(), one)):
            if least >= limit:
                break
            found = self.smallest(left & ~self.subsets[s], free & ~(1 << s), limit - 1)
            if found is not None:
                best = [s, *found]
                limit = len(best)
            free &= ~(1 << s)
        return best

    def _reduced(self, left: int, free: int) -> tuple[int, int, list[int]]:
        """Without what is within others, and with what must be chosen."""
        chosen: list[int] = []
        while True:
            before = left, free
            free = _largest({s: self.subsets[s] & left for s in _bits(free)})
            left = _smallest({member: self.takers[member] & free for member in _bits(left)})
            for member in _bits(left):
                ways = self.takers[member] & free
                if left >> member & 1 and ways.bit_count() == 1:
                    s = ways.bit_length() - 1
                    chosen.append(s)
                    left &= ~self.subsets[s]
            if (left, free) == before:
                return left, free, chosen

    def _parts(self, left: int, free: int) -> list[tuple[int, int]]:
        """Selections that are connected by subsets, with these."""
        parts = []
        while left:
            part, ways, fresh = 0, 0, left & -left
            while fresh:
                part |= fresh
                more = 0
                for member in _bits(fresh):
                    more |= self.takers[member] & free
                fresh = 0
                for s in _bits(more & ~ways):
                    fresh |= self.subsets[s] & left
                ways |= more
                fresh &= ~part
            parts.append((part, ways))
            left &= ~part
        return parts

    def _at_least(self, left: int, free: int) -> int:
        """So many subsets are needed: first every selection pays its share of the largest subset with it, then what the
        subsets leave over."""
        sizes = {s: (self.subsets[s] & left).bit_count() for s in _bits(free)}
        ways = {member: _bits(self.takers[member] & free) for member in _bits(left)}
        price = {member: 1 / max((sizes[s] for s in some), default=1) for member, some in ways.items()}
        over = {s: 1 - sum(price[member] for member in _bits(self.subsets[s] & left)) for s in sizes}
        total = sum(price.values())
        for some in sorted(ways.values(), key=len):
            more = min((over[s] for s in some), default=0.0)
            total += more
            for s in some:
                over[s] -= more
        return math.ceil(total - 1e-6)


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found


def _largest(masks: dict[int, int]) -> int:
    """Those that are within no other; of equals the lowest number."""
    kept: list[int] = []
    found = 0
    for one in sorted(masks, key=lambda one: (-masks[one].bit_count(), one)):
        mask = masks[one]
        if mask and not any(mask | other == other for other in kept):
            kept.append(mask)
            found |= 1 << one
    return found


def _smallest(masks: dict[int, int]) -> int:
    """Those that no other is within; of equals the lowest number."""
    kept: list[int] = []
    found = 0
    for one in sorted(masks, key=lambda one: (masks[one].bit_count(), one)):
        mask = masks[one]
        if not any(mask | other == mask for other in kept):
            kept.append(mask)
            found |= 1 << one
    return found
