"""Where primitive events are observed (PaNORAMA, section 7, (a) Network Related Parameters)."""

from __future__ import annotations

import numpy as np

from situ.network.network import Network, NetworkError


def scatter(
    network: Network,
    rate_per_s: float,
    rng: np.random.Generator,
    sources: int = 10,
    diameter_hops: int = 50,
    skew: float = 0.01,
) -> dict[str, float]:
    """Spreads the rate of an event type over some sites: site -> events per second.

    The first source is a site at random, the event distribution centre. A random walk from there picks the others:
    it moves among sites that are at most `diameter_hops` from every source so far, so no two sources are further
    apart. It makes (2 * diameter_hops) ** 2 steps in all, since a walk of n steps gets about the root of n away, and
    picks a source after each equal part of them: on networks of antennas the two sources that are furthest apart are
    about 80 to 90% of the diameter apart on average. The share of the i-th source is proportional to i ** -skew: all
    are equal at 0; at 10 nearly all is observed at the centre.

    >>> from situ.network.generate import antennas
    >>> rates = scatter(antennas(300, np.random.default_rng(1)), 6.0, np.random.default_rng(2), sources=3, skew=1.0)
    >>> [round(rate, 2) for rate in rates.values()]
    [3.27, 1.64, 1.09]
    """
    if sources < 1 or diameter_hops < 0:
        raise NetworkError(
            f"{sources} sources within {diameter_hops} hops",
            remedy="Ask for one source at least, and a diameter that is not negative.",
        )
    share = np.arange(1, sources + 1, dtype=np.float64) ** -skew
    rates = (rate_per_s * share / share.sum()).tolist()
    return {
        network.names[site]: rate for site, rate in zip(_walk(network, rng, sources, diameter_hops), rates, strict=True)
    }


def _walk(network: Network, rng: np.random.Generator, sources: int, diameter_hops: int) -> list[int]:
    """The sources, in the order in which the walk picks them."""
    site = int(rng.integers(len(network.sites)))
    picked = [site]
    near = network.ways_from(site).hops <= diameter_hops
    reach = min(diameter_hops, int(network.ways_from(site).hops.max()))
    while len(picked) < sources:
        free = near.copy()
        free[picked] = False
        if not free.any():
            raise NetworkError(
                f"only {len(picked)} sites were found that are at most {diameter_hops} hops apart",
                remedy=f"Allow a larger diameter, or ask for fewer than {sources} sources.",
            )
        for _ in range((2 * reach) ** 2 // sources):
            beside = network.neighbours(site)
            beside = beside[near[beside]]
            if len(beside):
                site = int(beside[rng.integers(len(beside))])
        if not free[site]:
            hops = network.ways_from(site).hops
            site = int(rng.choice(np.flatnonzero(free & (hops == hops[free].min()))))
        picked.append(site)
        near &= network.ways_from(site).hops <= diameter_hops
    return picked
