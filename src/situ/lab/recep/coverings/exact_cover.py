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
            cover_of_part = self._branched(*part, least, limit - len(chosen) - sum(needed))
            if cover_of_part is None:
                return None
            chosen += cover_of_part
        return chosen if len(chosen) < limit else None

    def _branched(self, left: int, free: int, least: int, limit: int) -> list[int] | None:
        """Each way to cover the selection that fewest subsets cover. What was tried is not free for the next way."""
        best = None
        member = min(_bits(left), key=lambda candidate: ((self.takers[candidate] & free).bit_count(), candidate))
        ways = _bits(self.takers[member] & free)
        for s in sorted(ways, key=lambda candidate: (-(self.subsets[candidate] & left).bit_count(), candidate)):
            if least >= limit:
                break
            cover_of_rest = self.smallest(left & ~self.subsets[s], free & ~(1 << s), limit - 1)
            if cover_of_rest is not None:
                best = [s, *cover_of_rest]
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
        """A lower bound of the number of subsets: first every selection pays its share of the largest subset with it,
        then what the subsets leave over."""
        sizes = {s: (self.subsets[s] & left).bit_count() for s in _bits(free)}
        ways = {member: _bits(self.takers[member] & free) for member in _bits(left)}
        price = {member: 1 / max((sizes[s] for s in takers), default=1) for member, takers in ways.items()}
        over = {s: 1 - sum(price[member] for member in _bits(self.subsets[s] & left)) for s in sizes}
        total = sum(price.values())
        for takers in sorted(ways.values(), key=len):
            more = min((over[s] for s in takers), default=0.0)
            total += more
            for s in takers:
                over[s] -= more
        return math.ceil(total - 1e-6)


def _bits(mask: int) -> list[int]:
    bits = []
    while mask:
        lowest = mask & -mask
        bits.append(lowest.bit_length() - 1)
        mask ^= lowest
    return bits


def _largest(masks: dict[int, int]) -> int:
    """The masks that lie within no other, as bits of their numbers; of equal ones that with the lowest number."""
    kept_masks: list[int] = []
    chosen = 0
    for number in sorted(masks, key=lambda number: (-masks[number].bit_count(), number)):
        mask = masks[number]
        if mask and not any(mask | other == other for other in kept_masks):
            kept_masks.append(mask)
            chosen |= 1 << number
    return chosen


def _smallest(masks: dict[int, int]) -> int:
    """The masks within which no other lies, as bits of their numbers; of equal ones that with the lowest number."""
    kept_masks: list[int] = []
    chosen = 0
    for number in sorted(masks, key=lambda number: (masks[number].bit_count(), number)):
        mask = masks[number]
        if not any(mask | other == mask for other in kept_masks):
            kept_masks.append(mask)
            chosen |= 1 << number
    return chosen
