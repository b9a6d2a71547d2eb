"""Sources are within the diameter, their shares follow the skew."""

from __future__ import annotations

import numpy as np
import pytest

from network.networks import line
from situ.lab.panorama.experiments.scatter import scatter
from situ.network.generate import antennas
from situ.network.network import Link, Network, NetworkError, Site


def widths(network: Network, diameter_hops: int, times: int = 10) -> list[int]:
    """The hops between the two sources furthest apart."""
    rng = np.random.default_rng(diameter_hops)
    found = []
    for _ in range(times):
        sites = [network.number(name) for name in scatter(network, 1.0, rng, diameter_hops=diameter_hops)]
        assert len(sites) == 10
        found.append(int(network.ways_among(sites).hops[:, sites].max()))
    return found


@pytest.mark.jit_only  # large
def test_sources_spread_over_the_diameter_and_not_beyond() -> None:
    network = antennas(2_000, np.random.default_rng(1))
    narrow, wide = widths(network, 10), widths(network, 50)
    assert max(narrow) <= 10
    assert max(wide) <= 50
    assert np.mean(narrow) > 7
    assert np.mean(wide) > 33


@pytest.mark.parametrize("skew", [0.0, 0.01, 1.0, 10.0])
def test_shares_follow_the_skew(skew: float) -> None:
    rates = list(scatter(antennas(300, np.random.default_rng(1)), 8.0, np.random.default_rng(2), skew=skew).values())
    assert sum(rates) == pytest.approx(8.0)
    assert rates == pytest.approx([rates[0] * i**-skew for i in range(1, 11)])


def test_the_seed_decides() -> None:
    network = antennas(300, np.random.default_rng(1))
    first = scatter(network, 1.0, np.random.default_rng(2))
    assert scatter(network, 1.0, np.random.default_rng(2)) == first
    assert scatter(network, 1.0, np.random.default_rng(3)).keys() != first.keys()


def test_all_sites_can_be_sources() -> None:
    network = line(1, 1, 1)
    assert set(scatter(network, 1.0, np.random.default_rng(1), sources=4)) == set("abcd")


def test_links_of_no_hops_lead_anywhere() -> None:
    free = Network(tuple(map(Site, "abc")), (Link("a", "b", 1, hops=0), Link("b", "c", 1, hops=0)))
    assert set(scatter(free, 1.0, np.random.default_rng(1), sources=3, diameter_hops=0)) == set("abc")


def test_too_many_sources_for_the_diameter() -> None:
    with pytest.raises(NetworkError, match=r"only [12] sites were found that are at most 1 hops apart"):
        scatter(line(1, 1, 1), 1.0, np.random.default_rng(1), sources=3, diameter_hops=1)
    with pytest.raises(NetworkError, match="0 sources"):
        scatter(line(1), 1.0, np.random.default_rng(1), sources=0)
