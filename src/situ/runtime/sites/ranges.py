"""Sets of times that are asked for: closed ranges of whole microseconds, apart from each other and in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from situ.kernel.arrays import I64

#: First and last time of each range; between two of them lies a time that is in neither.
Ranges: TypeAlias = tuple[tuple[int, int], ...]

NOTHING: Ranges = ()


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The times of all of these ranges, in whatever order they are.

    >>> merged([(5, 6), (0, 2), (3, 3), (9, 9)])
    ((0, 3), (5, 6), (9, 9))
    """
    apart: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if apart and first <= apart[-1][1] + 1:
            apart[-1] = apart[-1][0], max(last, apart[-1][1])
        else:
            apart.append((first, last))
    return tuple(apart)


def from_time(ranges: Ranges, first_us: int) -> Ranges:
    """The times from one on.

    >>> from_time(((0, 3), (5, 6)), 2)
    ((2, 3), (5, 6))
    """
    return tuple((max(first, first_us), last) for first, last in ranges if last >= first_us)


def coarser(ranges: Ranges, most: int) -> Ranges:
    """At most so many ranges with all the times of these; of the times between them, the shortest stretches are taken
    in.

    >>> coarser(((0, 1), (4, 5), (20, 21), (23, 24)), 2)
    ((0, 5), (20, 24))
    """
    if len(ranges) <= most:
        return ranges
    first, last = edges(ranges)
    gaps = first[1:] - last[:-1]
    kept = np.sort(np.argsort(-gaps, kind="stable")[: most - 1])
    begins, ends = np.append(first[0], first[kept + 1]), np.append(last[kept], last[-1])
    return tuple(zip(begins.tolist(), ends.tolist(), strict=True))


def without(ranges: Ranges, others: Ranges) -> Ranges:
    """The times of ranges that are in none of the others.

    >>> without(((0, 10),), ((2, 3), (8, 20)))
    ((0, 1), (4, 7))
    """
    left: list[tuple[int, int]] = []
    at = 0  # the first of the others that may reach into a range
    for first, last in ranges:
        while at < len(others) and others[at][1] < first:
            at += 1
        other = at
        while other < len(others) and others[other][0] <= last:
            begin, end = others[other]
            if begin > first:
                left.append((first, begin - 1))
            first, other = end + 1, other + 1
        if first <= last:
            left.append((first, last))
    return tuple(left)


def are_ranges(ranges: Sequence[tuple[int, int]]) -> bool:
    """Whether they are in order, apart, and none ends before it begins."""
    ordered = all(first <= last for first, last in ranges)
    return ordered and all(one[1] + 1 < other[0] for one, other in pairwise(ranges))


def edges(ranges: Ranges) -> tuple[I64, I64]:
    """First and last times as two columns."""
    table = np.array(ranges, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def holds(ranges: Ranges, times_us: I64) -> npt.NDArray[np.bool_]:
    """Which times lie in the ranges.

    >>> holds(((0, 3), (5, 6)), np.array([-1, 3, 4, 5])).tolist()
    [False, True, False, True]
    """
    if not ranges:
        return np.zeros(len(times_us), np.bool_)
    first, last = edges(ranges)
    at = np.searchsorted(first, times_us, side="right") - 1
    return (at >= 0) & (last[np.maximum(at, 0)] >= times_us)
