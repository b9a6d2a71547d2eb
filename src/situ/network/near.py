"""Which points are near each other: nearest neighbours, pairs within a radius, joins of parts, great circles.

Points in a plane are sorted by x and searched outwards from each: a search ends where x alone is too far. That needs
no tree, and a few milliseconds for 20,000 points.
"""

from __future__ import annotations

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.kernel.matching.machine import jit

KM_PER_MS = 200.0  # light in fibre
EARTH_KM = 6371.0


def great_circle_km(longitude_a: float, latitude_a: float, longitude_b: float, latitude_b: float) -> float:
    """The distance over ground of two places given in degrees.

    >>> round(great_circle_km(2.35, 48.86, 23.73, 37.98))  # Paris, Athens
    2097
    """
    degrees = np.array([longitude_a, latitude_a, longitude_b, latitude_b])
    east_a, north_a, east_b, north_b = np.radians(degrees).tolist()
    across = np.sin((north_b - north_a) / 2) ** 2
    along = np.cos(north_a) * np.cos(north_b) * np.sin((east_b - east_a) / 2) ** 2
    return float(2 * EARTH_KM * np.arcsin(np.sqrt(min(across + along, 1.0))))


def nearest(points: F64, count: int) -> I64:
    """Each point's nearest others, as pairs of numbers, the lower first, each pair once.

    >>> nearest(np.array([[0.0, 0], [1, 0], [9, 0], [11, 0]]), 1).tolist()
    [[0, 1], [2, 3]]
    """
    count = min(count, len(points) - 1)
    order = np.argsort(points[:, 0], kind="stable")
    neighbours = np.full((len(points), count), -1, np.int64)
    if count > 0:
        x, y = np.ascontiguousarray(points[order].T)
        _nearest(x, y, neighbours, np.full((len(points), count), np.inf))
    rows = np.repeat(order, count)
    return _pairs(rows, order[neighbours.ravel()])


def within(points: F64, radius: float) -> I64:
    """The pairs of points that are at most so far apart, the lower number first.

    >>> within(np.array([[0.0, 0], [1, 0], [3, 0], [3, 2]]), 2.0).tolist()
    [[0, 1], [1, 2], [2, 3]]
    """
    order = np.argsort(points[:, 0], kind="stable")
    x, y = points[order].T
    starts, ends = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for shift in range(1, len(points)):
        apart = x[shift:] - x[:-shift]
        if apart.min() > radius:
            break
        close = np.flatnonzero(apart**2 + (y[shift:] - y[:-shift]) ** 2 <= radius**2)
        starts.append(order[close])
        ends.append(order[close + shift])
    return _pairs(np.concatenate(starts), np.concatenate(ends))


def joined(points: F64, pairs: I64) -> I64:
    """The pairs, and the shortest further ones that connect all points (Borůvka's rounds over the parts).

    >>> joined(np.array([[0.0, 0], [1, 0], [9, 0], [11, 0]]), np.array([[0, 1], [2, 3]])).tolist()
    [[0, 1], [1, 2], [2, 3]]
    """
    order = np.argsort(points[:, 0], kind="stable")
    x, y = np.ascontiguousarray(points[order].T)
    parent = list(range(len(points)))
    for a, b in pairs.tolist():
        _unite(parent, a, b)
    added: list[tuple[int, int]] = []
    while True:
        roots = np.array([_root(parent, point) for point in range(len(points))])
        labels, part, sizes = np.unique(roots[order], return_inverse=True, return_counts=True)
        if len(labels) <= 1:
            break
        # The largest part need not search: all others find a way out, so the parts at least halve.
        best, ends = np.full(len(labels), np.inf), np.full((len(labels), 2), -1, np.int64)
        _way_out(x, y, part, int(np.argmax(sizes)), best, ends)
        added += [(a, b) for a, b in order[ends[ends[:, 0] >= 0]].tolist() if _unite(parent, a, b)]
    more = np.array(added, np.int64).reshape(-1, 2)
    return _pairs(*np.concatenate([pairs.reshape(-1, 2), more]).T)


def _pairs(a: I64, b: I64) -> I64:
    return np.unique(np.column_stack([np.minimum(a, b), np.maximum(a, b)]), axis=0)


def _root(parent: list[int], point: int) -> int:
    while parent[point] != point:
        parent[point] = point = parent[parent[point]]
    return point


def _unite(parent: list[int], a: int, b: int) -> bool:
    """Joins the trees of two points, and says whether they were apart before."""
    a, b = _root(parent, a), _root(parent, b)
    parent[a] = b
    return a != b


@jit
def _offer(point: int, other: int, distance: float, neighbours: I64, distances: F64) -> None:
    """Insert into the sorted row of a point, if it is near enough."""
    at = neighbours.shape[1]
    while at > 0 and distance < distances[point, at - 1]:
        at -= 1
        if at + 1 < neighbours.shape[1]:
            neighbours[point, at + 1], distances[point, at + 1] = neighbours[point, at], distances[point, at]
    if at < neighbours.shape[1]:
        neighbours[point, at], distances[point, at] = other, distance


@jit
def _nearest(x: F64, y: F64, neighbours: I64, distances: F64) -> None:
    """Distances are squared."""
    last = neighbours.shape[1] - 1
    for point in range(len(x)):
        for step in (1, -1):
            other = point + step
            while 0 <= other < len(x) and (x[other] - x[point]) ** 2 < distances[point, last]:
                distance = (x[other] - x[point]) ** 2 + (y[other] - y[point]) ** 2
                _offer(point, other, distance, neighbours, distances)
                other += step


@jit
def _way_out(x: F64, y: F64, part: I64, largest: int, best: F64, ends: I64) -> None:
    """The shortest pair from each part but the largest to any other."""
    for point in range(len(x)):
        own = part[point]
        if own == largest:
            continue
        for step in (1, -1):
            other = point + step
            while 0 <= other < len(x) and (x[other] - x[point]) ** 2 < best[own]:
                distance = (x[other] - x[point]) ** 2 + (y[other] - y[point]) ** 2
                if part[other] != own and distance < best[own]:
                    best[own] = distance
                    ends[own, 0], ends[own, 1] = point, other
                other += step
