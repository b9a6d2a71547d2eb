"""Networks made up from a seed: antennas around cities, trees of brokers, random geometric graphs."""

from __future__ import annotations

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.network.near import KM_PER_MS, joined, nearest, within
from situ.network.network import Link, Network, NetworkError, Site

COUNTRY_M = 600_000.0  # side of the square in which everything lies
ANTENNA_SPACING_M = 400.0
NEIGHBOURS = 3
MEAN_DEGREE = 6.0


def antennas(sites: int, rng: np.random.Generator, cities: int = 100) -> Network:
    """Big groups of antennas around big cities and smaller ones around small cities (PaNORAMA, section 7).

    The k-th city has a share of the antennas proportional to 1 / k, scattered normally around its centre; the area of
    a city grows with its antennas. Each antenna is linked with its three nearest, and the shortest further links
    connect what is still apart. Latency is distance by the speed of light in fibre.

    >>> network = antennas(200, np.random.default_rng(1))
    >>> len(network.sites), network.names[0]
    (200, 'antenna0')
    """
    _check_at_least_one(sites=sites, cities=cities)
    population = 1.0 / np.arange(1, cities + 1)
    city = rng.choice(cities, size=sites, p=population / population.sum())
    centre = rng.uniform(0.0, COUNTRY_M, size=(cities, 2))
    radius_m = ANTENNA_SPACING_M * np.sqrt(np.bincount(city, minlength=cities))
    points = centre[city] + rng.normal(size=(sites, 2)) * radius_m[city, None]
    return _in_the_plane("antenna", points, nearest(points, NEIGHBOURS))


def random_geometric(sites: int, rng: np.random.Generator) -> Network:
    """Points anywhere in a square, linked where they are near: six links each on average.

    The shortest further links connect what is still apart.

    >>> len(random_geometric(50, np.random.default_rng(1)).sites)
    50
    """
    _check_at_least_one(sites=sites)
    points = rng.uniform(0.0, COUNTRY_M, size=(sites, 2))
    radius_m = COUNTRY_M * np.sqrt(MEAN_DEGREE / (np.pi * sites))
    return _in_the_plane("site", points, within(points, float(radius_m)))


def broker_tree(levels: int, fanout: int, rng: np.random.Generator) -> Network:
    """A root broker, and below each broker `fanout` others, down to so many levels. Links take 1 to 10 ms.

    >>> broker_tree(2, 3, np.random.default_rng(1)).names
    ('root', 'root.0', 'root.1', 'root.2')
    """
    _check_at_least_one(levels=levels, fanout=fanout)
    level, sites, links = ["root"], [Site("root")], []
    for _ in range(levels - 1):
        below = [(parent, f"{parent}.{child}") for parent in level for child in range(fanout)]
        latency_ms = rng.uniform(1.0, 10.0, size=len(below)).tolist()
        links += [Link(parent, child, ms) for (parent, child), ms in zip(below, latency_ms, strict=True)]
        level = [child for _, child in below]
        sites += map(Site, level)
    return Network(tuple(sites), tuple(links))


def _in_the_plane(kind: str, points: F64, pairs: I64) -> Network:
    pairs = joined(points, pairs)
    names = [f"{kind}{number}" for number in range(len(points))]
    distance_m = np.hypot(*(points[pairs[:, 0]] - points[pairs[:, 1]]).T)
    latency_ms = (distance_m / 1000.0 / KM_PER_MS).tolist()
    sites = tuple(Site(name, x, y) for name, (x, y) in zip(names, points.tolist(), strict=True))
    links = tuple(Link(names[a], names[b], ms) for (a, b), ms in zip(pairs.tolist(), latency_ms, strict=True))
    return Network(sites, links)


def _check_at_least_one(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise NetworkError(f"{name} is {count}", remedy="Ask for one at least.")
