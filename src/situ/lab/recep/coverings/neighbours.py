"""Processing neighbours: the coordinated choice by reference graph (RECEP, section 4.2.2, Figure 6).

All operators of an operator graph G are processed for by the same few: those nearest to the focal point of the
reference graph H(G). H(G) is the graph near G whose interest overlaps most with those of the whole group, so graphs
near each other tend to have the same one, and what an operator receives stems from places that lie together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situ.core.errors import SituError
from situ.kernel.arrays import F64, I64
from situ.kernel.matching.machine import inlined, jit
from situ.lab.recep.coverings.waiting import Neighbours


@dataclass(frozen=True, slots=True)
class InterestRectangles:
    """Rectangles around focal points, one of each operator graph of a group; metres."""

    x: F64
    y: F64
    half_x: F64
    half_y: F64

    @classmethod
    def of(cls, x: F64, y: F64, half_x: float, half_y: float) -> InterestRectangles:
        """Rectangles that are all of one size."""
        return cls(x, y, np.full(len(x), half_x), np.full(len(x), half_y))

    def __len__(self) -> int:
        return len(self.x)


def coordinated(interests: InterestRectangles, distance_m: float, most: int) -> Neighbours:
    """For whom each operator may process: for those whose reference graph it is among the `most` nearest to (k_p), no
    farther than the distance (d).

    An operator needs no neighbour to process for itself, so it is not counted among its own k_p. Of equally near ones
    the lowest number comes first.

    >>> interests = InterestRectangles.of(np.array([0.0, 1.0, 2.0, 50.0]), np.zeros(4), 5.0, 5.0)
    >>> reference_graphs(interests, 10.0).tolist()
    [1, 1, 1, 3]
    >>> coordinated(interests, 10.0, 1).others.tolist()  # 0 processes for 1, and 1 for 0 and 2
    [1, 0, 2]
    """
    _check(distance_m, most)
    count = len(interests)
    nearest = np.full((count, min(most, max(count, 1))), -1, np.int64)
    reference, away = reference_graphs(interests, distance_m), np.empty(nearest.shape[1])
    _find_nearest(interests.x, interests.y, reference, distance_m, nearest, away)
    on_behalf_of, place = np.nonzero(nearest >= 0)
    return Neighbours.of(nearest[on_behalf_of, place], on_behalf_of, count)


def reference_graphs(interests: InterestRectangles, distance_m: float) -> I64:
    """H(G) of every operator graph (lines 5 and 6); of equals, that with the lowest number.

    >>> apart = InterestRectangles.of(np.array([0.0, 4.0]), np.zeros(2), 1.0, 1.0)
    >>> reference_graphs(apart, 10.0).tolist()  # nothing in common
    [0, 1]
    """
    reference, total = np.empty(len(interests), np.int64), np.zeros(len(interests), np.float64)
    _find_references(interests.x, interests.y, interests.half_x, interests.half_y, distance_m, total, reference)
    return reference


@inlined
def _overlap_m2(x: F64, y: F64, half_x: F64, half_y: F64, one: int, other: int) -> float:
    wide = min(x[one] + half_x[one], x[other] + half_x[other]) - max(x[one] - half_x[one], x[other] - half_x[other])
    high = min(y[one] + half_y[one], y[other] + half_y[other]) - max(y[one] - half_y[one], y[other] - half_y[other])
    return float(max(wide, 0.0) * max(high, 0.0))


@jit
def _find_references(x: F64, y: F64, half_x: F64, half_y: F64, distance_m: float, total: F64, reference: I64) -> None:
    for one in range(len(x)):
        for other in range(len(x)):
            total[one] += _overlap_m2(x, y, half_x, half_y, one, other)
    for one in range(len(x)):
        best = one  # an interest without area still is its own
        for other in range(len(x)):
            near = (x[one] - x[other]) ** 2 + (y[one] - y[other]) ** 2 <= distance_m**2
            better = total[other] > total[best] or (total[other] == total[best] and other < best)
            if near and better and _overlap_m2(x, y, half_x, half_y, one, other) > 0:
                best = other
        reference[one] = best


@jit
def _find_nearest(x: F64, y: F64, reference: I64, distance_m: float, nearest: I64, away: F64) -> None:
    """The nearest so far are kept in order, `away` with the squares of their distances."""
    most = len(away)
    for one in range(len(x)):
        middle, count = reference[one], 0
        for other in range(len(x)):
            square = (x[middle] - x[other]) ** 2 + (y[middle] - y[other]) ** 2
            if other == one or square > distance_m**2 or (count == most and square >= away[most - 1]):
                continue
            at = min(count, most - 1)
            while at > 0 and away[at - 1] > square:
                away[at], nearest[one, at] = away[at - 1], nearest[one, at - 1]
                at -= 1
            away[at], nearest[one, at] = square, other
            count = min(count + 1, most)


def _check(distance_m: float, most: int) -> None:
    if not distance_m >= 0:
        raise SituError(f"neighbours cannot be {distance_m} m apart", remedy="Give a distance of 0 or more.")
    if most < 1:
        raise SituError(f"there cannot be {most} neighbours", remedy="Ask for one or more, or switch reuse off.")
