"""Coordinates of sites whose distances are about their latencies: Vivaldi (Dabek et al., SIGCOMM 2004).

Each pair of sites is joined by a spring as long as its latency is. In every round each site draws a partner, and moves
a part of the way to where this spring would rest: the less sure it is of its own place, and the surer the partner, the
longer the part. Partners come from a few landmarks, so that ways are looked for from these only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.network.network import Network

DIMENSIONS = 3
LANDMARKS = 64
ROUNDS = 500
STEP = 0.25  # the paper's c_c and c_e
SEED = 2004


def coordinates_ms(network: Network, anchors: Sequence[int]) -> F64:
    """One row per site. Chance plays its part in an order of sites that neither their names nor their numbers change:
    that of their latencies to the anchors, where these tell them apart.

    >>> from situ.network.network import Link, Site
    >>> line = Network(tuple(map(Site, "abc")), (Link("a", "b", 3.0), Link("b", "c", 5.0)))
    >>> at = coordinates_ms(line, [0])
    >>> float(np.linalg.norm(at[0] - at[2]).round(1))
    8.0
    """
    rng = np.random.default_rng(SEED)
    order = _order(network, anchors)
    landmarks = np.sort(rng.permutation(len(order))[:LANDMARKS])  # positions in the order, as everything below
    latency_ms = network.ways_among(order[landmarks].tolist()).latency_ns[:, order] / 1e6
    found = np.empty((len(order), DIMENSIONS))
    found[order] = _relaxed(latency_ms, landmarks, rng)
    return found


def _order(network: Network, anchors: Sequence[int]) -> I64:
    keys = [network.ways_from(site).latency_ns for site in dict.fromkeys(anchors)]
    return np.lexsort(keys[::-1])


def _relaxed(latency_ms: F64, landmarks: I64, rng: np.random.Generator) -> F64:
    """`latency_ms`: from each landmark to each site."""
    sites = latency_ms.shape[1]
    everyone = np.arange(sites)
    at: F64 = rng.normal(size=(sites, DIMENSIONS)) * latency_ms.mean()
    error = np.ones(sites)
    for _ in range(ROUNDS):
        partner = rng.integers(len(landmarks), size=sites)
        wanted_ms, other = latency_ms[partner, everyone], landmarks[partner]
        apart = at - at[other]
        distance_ms = np.maximum(np.sqrt((apart**2).sum(axis=1)), np.finfo(float).tiny)
        weight = error / (error + error[other])
        wrong = np.minimum(np.abs(distance_ms - wanted_ms) / np.maximum(wanted_ms, np.finfo(float).tiny), 1.0)
        move = STEP * weight * (wanted_ms - distance_ms) / distance_ms
        at = at + np.where(other == everyone, 0.0, move)[:, None] * apart
        error = np.where(other == everyone, error, np.maximum(error + STEP * weight * (wrong - error), LEAST_ERROR))
    return at


#: A site that fits all its partners still gives way a little.
LEAST_ERROR = 1e-3
