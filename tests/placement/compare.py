"""How tests compare costs and fronts: up to the rounding of sums in another order."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

Points = Iterable[tuple[float, float]]

ROUNDING = 1e-9


def about(cost: float) -> object:
    return pytest.approx(cost, rel=ROUNDING, abs=1e-12)


def not_more(cost: float, other: float) -> bool:
    return cost <= other * (1 + ROUNDING) + 1e-12


def covers(front: Points, other: Points) -> bool:
    """Whether for each point of the other front one of this is neither dearer nor slower."""
    points = list(front)
    return all(any(not_more(c, cost) and not_more(y, latency) for c, y in points) for cost, latency in other)


def same_front(front: Points, other: Points) -> bool:
    """Points that differ from their neighbour by rounding only do not count."""
    one, two = list(front), list(other)
    return covers(one, two) and covers(two, one)


def within(front: Points, latency_ms: float) -> list[tuple[float, float]]:
    """The points of a front that keep to a latency limit, in whole nanoseconds."""
    return [point for point in front if round(point[1] * 1e6) <= round(latency_ms * 1e6)]


def cheapest_within(front: Points, latency_ms: float) -> float:
    """The cost of the best plan of a front under a latency limit."""
    return min((cost for cost, _ in within(front, latency_ms)), default=math.inf)
