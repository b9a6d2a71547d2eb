"""Coordinates of sites whose distances are about their latencies: Vivaldi (Dabek et al., SIGCOMM 2004).

Each site is joined with landmarks by springs as long as their latencies are. In every round it draws one of them, and
moves a part of the way to where this spring would rest: the less sure it is of its own place, and the surer the other,
the longer the part. Landmarks move as all sites do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.network.network import Network

DIMENSIONS = 3
MOST_LANDMARKS = 64
ROUNDS = 500
STEP = 0.25  # the paper's c_c and c_e
LEAST_ERROR = 1e-3  # a site that fits all landmarks still gives way a little
LEAST_MS = 1e-9  # shorter than any latency but 0, which it stands for
SEED = 2004


def coordinates_ms(network: Network, landmarks: Sequence[int]) -> F64:
    """One row per site. Sites as far from all landmarks have the same coordinates, and chance plays its part in the
    order of these distances: names and numbers of sites change nothing.

    >>> from situ.network.network import Link, Site
    >>> line = Network(tuple(map(Site, "abc")), (Link("a", "b", 3.0), Link("b", "c", 5.0)))
    >>> at = coordinates_ms(line, [0, 2])
    >>> [round(float(np.linalg.norm(at[0] - at[k]))) for k in (1, 2)]
    [3, 8]
    """
    rng = np.random.default_rng(SEED)
    latency_ns = _latencies(network, landmarks, rng)
    places, place_of_site = np.unique(latency_ns.T, axis=0, return_inverse=True)
    own_place = np.argmin(places, axis=0)  # of each landmark: the place that is no way from it
    places_ms: F64 = _relaxed(places.T / 1e6, own_place, rng)[place_of_site]
    return places_ms


def _latencies(network: Network, landmarks: Sequence[int], rng: np.random.Generator) -> I64:
    """The latencies from landmarks to all sites, from the first landmark outwards, so that names and numbers of sites
    do not matter. Of too many landmarks some are drawn."""
    first, *others = dict.fromkeys(landmarks)
    ways = network.ways_from(first)
    others.sort(key=lambda site: (ways.latency_ns[site], ways.hops[site], ways.price[site]))
    drawn = np.sort(rng.permutation(len(others))[: MOST_LANDMARKS - 1])
    sites = [first, *(others[k] for k in drawn)]
    latency_ns = network.ways_among(sites).latency_ns
    return latency_ns[np.lexsort((latency_ns[:, sites].sum(axis=0), latency_ns[0, sites]))]


def _relaxed(latency_ms: F64, landmarks: I64, rng: np.random.Generator) -> F64:
    """`latency_ms`: from each landmark to each place; `landmarks`: their own places."""
    size = latency_ms.shape[1]
    everyone = np.arange(size)
    at: F64 = rng.normal(size=(size, DIMENSIONS)) * latency_ms.mean()
    error = np.ones(size)
    for _ in range(ROUNDS):
        drawn = rng.integers(len(landmarks), size=size)
        wanted_ms, other = np.maximum(latency_ms[drawn, everyone], LEAST_MS), landmarks[drawn]
        apart = at - at[other]
        distance_ms = np.maximum(np.sqrt((apart**2).sum(axis=1)), LEAST_MS)
        weight = error / (error + error[other])
        wrong = np.minimum(np.abs(distance_ms - wanted_ms) / wanted_ms, 1.0)
        at = at + (STEP * weight * (wanted_ms - distance_ms) / distance_ms)[:, None] * apart
        error = np.maximum(error + STEP * weight * (wrong - error), LEAST_ERROR)
    return at
