"""Ways against a naive oracle, networkx, and themselves under other orders of sites."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest

from network.networks import line, random_network
from situ.network.network import Link, Network, Site

TIED = [0.0, 1.0, 2.0]
Key = tuple[int, int, float]


def naive_keys(network: Network) -> dict[tuple[str, str], Key]:
    """Floyd and Warshall over (latency in ns, hops, price), compared in this order."""
    names = [site.name for site in network.sites]
    keys: dict[tuple[str, str], Key] = {(name, name): (0, 0, 0.0) for name in names}
    for link in network.links:
        keys[link.a, link.b] = keys[link.b, link.a] = (round(link.latency_ms * 1e6), link.hops, link.price)
    for via, a, b in itertools.product(names, names, names):
        if (a, via) in keys and (via, b) in keys:
            first, second = keys[a, via], keys[via, b]
            through = (first[0] + second[0], first[1] + second[1], first[2] + second[2])
            keys[a, b] = min(keys.get((a, b), through), through)
    return keys


def keys_from(network: Network, site: int) -> dict[str, Key]:
    ways = network.ways_from(site)
    keys = zip(ways.latency_ns.tolist(), ways.hops.tolist(), ways.price.tolist(), strict=True)
    return dict(zip(network.names, keys, strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_ways_with_ties_are_those_of_the_naive_oracle(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sites = int(rng.integers(1, 15))
    network = random_network(sites, int(rng.integers(0, 40)), rng, TIED)
    keys = naive_keys(network)
    for number, name in enumerate(network.names):
        assert keys_from(network, number) == {to: keys[name, to] for to in network.names}


@pytest.mark.parametrize("seed", range(20))
def test_a_path_has_the_latency_hops_and_price_of_its_way(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(20, 50, rng, TIED if seed % 2 else None)
    links = {frozenset((link.a, link.b)): link for link in network.links}
    ways = network.ways_from(3)
    for to in range(20):
        path = ways.path(to)
        on_path = [links[frozenset((network.names[a], network.names[b]))] for a, b in itertools.pairwise(path)]
        assert (path[0], path[-1]) == (3, to)
        assert sum(round(link.latency_ms * 1e6) for link in on_path) == ways.latency_ns[to]
        assert sum(link.hops for link in on_path) == ways.hops[to]
        assert sum(link.price for link in on_path) == ways.price[to]


@pytest.mark.parametrize("seed", range(5))
def test_latencies_of_larger_networks_are_those_of_networkx(seed: int) -> None:
    network = random_network(400, 1200, np.random.default_rng(seed))
    graph = nx.Graph()
    graph.add_weighted_edges_from((link.a, link.b, round(link.latency_ms * 1e6)) for link in network.links)
    expected = nx.single_source_dijkstra_path_length(graph, "s0")
    assert network.ways_from(0).latency_ns.tolist() == [expected[name] for name in network.names]


@pytest.mark.parametrize("seed", range(20))
def test_renaming_and_reordering_changes_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(30, 90, rng, TIED if seed % 2 else None)
    renamed = {name: f"z{number}" for name, number in zip(network.names, rng.permutation(30), strict=True)}
    sites = [Site(renamed[name]) for name in rng.permutation(network.names)]
    links = [
        Link(renamed[link.b], renamed[link.a], link.latency_ms, link.hops, link.price)
        for link in (network.links[number] for number in rng.permutation(len(network.links)))
    ]
    other = Network(tuple(sites), tuple(links))
    for number, name in enumerate(network.names):
        expected = {renamed[to]: key for to, key in keys_from(network, number).items()}
        assert keys_from(other, other.number(renamed[name])) == expected


def test_of_equally_fast_ways_the_one_of_fewest_hops_then_of_lowest_price_is_taken() -> None:
    sites = tuple(map(Site, "abcd"))
    by_hops = Network(sites, (Link("a", "b", 1), Link("b", "c", 1), Link("c", "d", 1), Link("a", "d", 3, price=99)))
    assert keys_from(by_hops, 0)["d"] == (3_000_000, 1, 99.0)
    by_price = Network(
        sites, (Link("a", "b", 1, price=5), Link("b", "d", 1), Link("a", "c", 1), Link("c", "d", 1, price=2))
    )
    assert keys_from(by_price, 0)["d"] == (2_000_000, 2, 3.0)
    assert by_price.ways_from(0).path(3) == [0, 2, 3]


def test_latencies_that_floats_would_not_add_up_to_are_equal() -> None:
    network = Network(
        tuple(map(Site, "abcd")), (Link("a", "b", 0.1), Link("b", "c", 0.2), Link("a", "c", 0.3), Link("c", "d", 1))
    )
    assert 0.1 + 0.2 != 0.3
    assert keys_from(network, 0)["c"] == (300_000, 1, 1.0)


def test_rows_of_matrices_are_the_ways_from_those_sites() -> None:
    network = random_network(40, 100, np.random.default_rng(7))
    everything, some = network.ways_among(None), network.ways_among([5, 2, 5])
    assert everything.latency_ns.shape == (40, 40)
    assert everything.latency_ns.tolist() == everything.latency_ns.T.tolist()
    assert everything.hops.tolist() == everything.hops.T.tolist()
    for row, site in enumerate([5, 2, 5]):
        ways = network.ways_from(site)
        for name in ("latency_ns", "hops", "price"):
            assert getattr(some, name)[row].tolist() == getattr(ways, name).tolist()
            assert getattr(everything, name)[site].tolist() == getattr(ways, name).tolist()


def test_ways_are_computed_once() -> None:
    network = line(1.0, 2.0)
    assert network.ways_from(1) is network.ways_from(1)
    assert network.ways_among(None) is network.ways_among(None)
