"""Coordinates: distances are about latencies, and names and orders of sites play no part."""

from __future__ import annotations

import numpy as np
import pytest

from network.networks import line, random_network
from situ.kernel.arrays import F64
from situ.network.generate import antennas, random_geometric
from situ.network.network import Network
from situ.network.vivaldi import MOST_LANDMARKS, coordinates_ms


def errors(network: Network, at: F64, sites: list[int]) -> F64:
    """How far distances from these sites are from latencies, relative to these."""
    found = []
    for site in sites:
        latency_ms = network.ways_from(site).latency_ns / 1e6
        others = np.arange(len(at)) != site
        distance_ms = np.linalg.norm(at - at[site], axis=1)
        found.append((np.abs(distance_ms - latency_ms) / np.maximum(latency_ms, 1e-9))[others])
    return np.concatenate(found)


@pytest.mark.parametrize("make", [random_geometric, antennas])
def test_distances_are_about_latencies(make: object) -> None:
    assert callable(make)
    rng = np.random.default_rng(1)
    network = make(300, rng)
    landmarks = rng.choice(300, size=20, replace=False).tolist()
    at = coordinates_ms(network, landmarks)
    assert at.shape == (300, 3)
    assert np.median(errors(network, at, landmarks)) < 0.1
    assert np.median(errors(network, at, rng.choice(300, size=30, replace=False).tolist())) < 0.15


def test_a_line_is_a_line() -> None:
    network = line(1.0, 2.0, 3.0, 4.0)
    assert errors(network, coordinates_ms(network, [0, 2, 4]), [0, 1, 2, 3, 4]).max() < 0.1


def test_another_order_of_sites_and_landmarks_gives_the_same_coordinates() -> None:
    rng = np.random.default_rng(2)
    network = random_network(30, 45, rng)
    order = rng.permutation(30)
    other = Network(tuple(network.sites[k] for k in order), tuple(reversed(network.links)))
    landmarks = [3, 9, 14, 20]
    at = coordinates_ms(network, landmarks)
    there = coordinates_ms(other, [int(np.flatnonzero(order == site)[0]) for site in (3, 20, 14, 9)])
    assert there == pytest.approx(at[order])


def test_sites_as_far_from_all_landmarks_coincide() -> None:
    network = line(0.0, 5.0)
    at = coordinates_ms(network, [2])
    assert at[0].tolist() == at[1].tolist()
    assert np.linalg.norm(at[0] - at[2]) == pytest.approx(5.0, rel=1e-3)


def test_one_site_and_many_landmarks() -> None:
    assert np.isfinite(coordinates_ms(line(), [0])).all()
    network = random_geometric(150, np.random.default_rng(4))
    at = coordinates_ms(network, list(range(2 * MOST_LANDMARKS)))
    assert np.isfinite(at).all()
    assert np.median(errors(network, at, [0, 50, 149])) < 0.15
