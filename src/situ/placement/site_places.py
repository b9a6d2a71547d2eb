"""Where the sites of a network stand in a picture: at their coordinates, or as far apart as their ways are long.

Without coordinates it is pivot MDS (Brandes and Pich, Graph Drawing 2006): the ways from a few sites that are far from
each other give every site a row of distances, whose two main directions are the axes. Sites that would then cover each
other are moved apart. Nothing is random.
"""

from __future__ import annotations

import numpy as np

from situ.kernel.arrays import F64
from situ.network.network import Network

PIVOTS = 30
ROUNDS = 30

#: Where half of the links are shorter than this part of the picture, sites lie in clusters.
CLUSTERED = 0.02

#: Sites that are moved apart, pair by pair; of more, the picture shows the whole only.
MOST_SPREAD = 4_000


def places(network: Network) -> F64:
    """A row for each site: x to the right and y downwards, both from 0 up, the larger one up to 1.

    >>> from situ.network.network import Link, Site
    >>> sites = Site("a", 0.0, 10.0), Site("b", 40.0, 30.0)
    >>> places(Network(sites, (Link("a", "b", 1.0),))).tolist()
    [[0.0, 0.5], [1.0, 0.0]]
    """
    if all(site.x is not None for site in network.sites):
        points = np.array([(site.x, -(site.y or 0.0)) for site in network.sites], np.float64)
        return _in_unit(_unclustered(points, network))
    return _in_unit(_apart(_in_unit(_by_ways(network))))


def _in_unit(points: F64) -> F64:
    points = points - points.min(axis=0)
    size = points.max()
    return points / size if size > 0 else points + 0.5


def _unclustered(points: F64, network: Network) -> F64:
    """Where links are too short to be seen, near sites are drawn further apart: half-way to equal distances on each
    axis, which keeps left of and above."""
    unit = _in_unit(points)
    ends = np.array([(network.number(link.a), network.number(link.b)) for link in network.links], np.int64)
    if not len(ends) or np.median(np.hypot(*(unit[ends[:, 0]] - unit[ends[:, 1]]).T)) >= CLUSTERED:
        return points
    extent = unit.max(axis=0)
    ranks = np.argsort(np.argsort(unit, axis=0, kind="stable"), axis=0, kind="stable") / max(len(unit) - 1, 1)
    stretched: F64 = unit * 0.35 + ranks * extent * 0.65
    return stretched


def _by_ways(network: Network) -> F64:
    """The two main directions of the distances from pivots."""
    sites = len(network.sites)
    pivot = 0
    columns: list[F64] = []
    nearest = np.full(sites, np.inf)
    for _ in range(min(PIVOTS, sites)):
        ways = network.ways_from(pivot)
        distance = ways.latency_ns / 1e6 + ways.hops * 1e-3  # where links take no time, hops tell sites apart
        columns.append(distance)
        nearest = np.minimum(nearest, distance)
        pivot = int(nearest.argmax())
    squared = np.stack(columns, axis=1) ** 2
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1, keepdims=True) + squared.mean()
    _, directions = np.linalg.eigh(centred.T @ centred)
    axes = directions[:, ::-1][:, :2]
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), range(axes.shape[1])] < 0, -1.0, 1.0)
    places = centred @ axes
    return places if places.shape[1] == 2 else np.column_stack([places, np.zeros(sites)])


def _apart(points: F64) -> F64:
    """Each site keeps some distance from its neighbours in the picture."""
    sites = len(points)
    if not 1 < sites <= MOST_SPREAD:
        return points
    room = 0.7 / np.sqrt(sites)
    # Sites at one place move apart in directions of their own.
    turn = np.arange(sites) * 2.399963  # the golden angle
    points = points + 1e-3 * room * np.column_stack([np.cos(turn), np.sin(turn)])
    for _ in range(ROUNDS):
        moves = np.zeros_like(points)
        for begin in range(0, sites, 256):
            away = points[begin : begin + 256, None, :] - points[None, :, :]
            distance = np.hypot(away[..., 0], away[..., 1])
            push = np.where((distance > 0) & (distance < room), (room - distance) / np.maximum(distance, 1e-12), 0.0)
            moves[begin : begin + 256] = (away * push[..., None]).sum(axis=1)
        points = points + np.clip(0.3 * moves, -room, room)
    return points
