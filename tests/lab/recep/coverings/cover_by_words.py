"""Figures 4 and 5 of RECEP word for word, on Python sets. Imports nothing of what it checks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Sets = list[frozenset[int]]
May = Callable[[int, int], bool]


def judge(asked: frozenset[int], processed: frozenset[int]) -> tuple[float, float]:
    both = len(asked & processed)
    return both / len(processed) if processed else 1.0, both / len(asked) if asked else 1.0


def can_cover(
    sets: Sets, owner: list[int], precision: list[float], recall: list[float], may: May, asked: int, processed: int
) -> bool:
    """Whether `processed` may be processed on behalf of `asked`."""
    if asked == processed:
        return True
    mine, theirs = owner[asked], owner[processed]
    if mine == theirs or not may(theirs, mine):
        return False
    if not sets[asked] & sets[processed] and (sets[asked] or sets[processed]):
        return False
    p, r = judge(sets[asked], sets[processed])
    return p >= precision[mine] and r >= recall[mine]


def subsets(sets: Sets, owner: list[int], precision: list[float], recall: list[float], may: May) -> list[set[int]]:
    everything = range(len(sets))
    return [
        {asked for asked in everything if can_cover(sets, owner, precision, recall, may, asked, s)} for s in everything
    ]


def mqc(family: list[set[int]]) -> list[int]:
    by = [-1] * len(family)
    left = set(range(len(family)))
    while left:
        chosen = max(range(len(family)), key=lambda s: (len(family[s] & left), -s))
        for s in family[chosen] & left:
            by[s] = chosen
        by[chosen] = chosen
        left -= family[chosen]
    return by


def mnh(family: list[set[int]], owner: list[int], neighbours: list[int]) -> list[int]:
    by = [-1] * len(family)
    covering: list[int] = []
    for operator in sorted(range(len(neighbours)), key=lambda one: (-neighbours[one], one)):
        for s in [s for s in range(len(family)) if owner[s] == operator]:
            by[s] = next((other for other in covering if s in family[other]), s)
            if by[s] == s:
                covering.append(s)
    return by


def fewest(family: list[set[int]]) -> int:
    """All that one subset can cover, all that two can, and so on, until it is everything."""
    subsets = [sum(1 << member for member in subset) for subset in family]
    reached, size = np.zeros(1, np.int64), 0
    while reached[-1] != (1 << len(family)) - 1:
        reached, size = np.unique(np.concatenate([reached | subset for subset in subsets])), size + 1
    return size
