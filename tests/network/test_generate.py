"""Generated networks: connected (others cannot be made), the same for the same seed, of the shape asked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from situ.network.generate import antennas, broker_tree, random_geometric
from situ.network.network import Network, NetworkError

Make = Callable[[int, np.random.Generator], Network]


def fewest_hops(network: Network, start: int) -> list[int]:
    """The number of links to each site, breadth first."""
    hops = [-1] * len(network.sites)
    hops[start], queue = 0, [start]
    for site in queue:
        for other in network.neighbours(site).tolist():
            if hops[other] < 0:
                hops[other] = hops[site] + 1
                queue.append(other)
    return hops


@pytest.mark.parametrize("make", [antennas, random_geometric])
@pytest.mark.parametrize("sites", [1, 2, 3, 10, 700])
def test_plane_networks(make: Make, sites: int) -> None:
    network = make(sites, np.random.default_rng(3))
    assert len(network.sites) == sites
    assert network == make(sites, np.random.default_rng(3))
    assert sites == 1 or network != make(sites, np.random.default_rng(4))
    at = {site.name: np.array([site.x, site.y]) for site in network.sites}
    for link in network.links:
        assert link.latency_ms == pytest.approx(np.linalg.norm(at[link.a] - at[link.b]) / 200_000)


@pytest.mark.jit_only  # large
@pytest.mark.parametrize("seed", range(3))
def test_antennas_are_more_than_50_hops_apart(seed: int) -> None:
    network = antennas(2_000, np.random.default_rng(seed))
    start = int(np.argmax(fewest_hops(network, 0)))
    assert max(fewest_hops(network, start)) > 50


@pytest.mark.jit_only  # large
def test_antennas_crowd_around_big_cities() -> None:
    network = antennas(2_000, np.random.default_rng(1), cities=20)
    points = np.array([(site.x, site.y) for site in network.sites])
    around = (np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1)) < 30_000).sum(axis=1)
    assert around.max() > 500  # the biggest of 20 cities has 28%, the smallest 1.4%
    assert around.min() < 50
    assert min(len(network.neighbours(site)) for site in range(2_000)) >= 3


@pytest.mark.slow
@pytest.mark.jit_only
def test_20_000_antennas() -> None:
    network = antennas(20_000, np.random.default_rng(1))
    assert len(network.sites) == 20_000
    assert len(network.links) < 60_000
    assert network.ways_from(0).hops.max() > 100


def test_random_geometric_networks_have_about_six_links_each() -> None:
    network = random_geometric(2_000, np.random.default_rng(1))
    assert 5 < 2 * len(network.links) / 2_000 < 7


def test_broker_tree() -> None:
    network = broker_tree(4, 3, np.random.default_rng(5))
    assert len(network.sites) == 1 + 3 + 9 + 27
    assert len(network.links) == len(network.sites) - 1
    ways = network.ways_from(network.number("root"))
    assert ways.hops.tolist() == [name.count(".") for name in network.names]
    assert all(1 <= link.latency_ms <= 10 for link in network.links)
    assert network == broker_tree(4, 3, np.random.default_rng(5))
    assert network != broker_tree(4, 3, np.random.default_rng(6))


def test_a_tree_of_one_level_is_its_root() -> None:
    assert broker_tree(1, 3, np.random.default_rng(5)).names == ("root",)


def test_nothing_is_made_of_nothing() -> None:
    rng = np.random.default_rng(1)
    for make in (lambda: antennas(0, rng), lambda: antennas(5, rng, cities=0), lambda: broker_tree(0, 1, rng)):
        with pytest.raises(NetworkError, match="is 0"):
            make()
