"""Networks for the tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from situ.network.network import Link, Network, Site


def random_network(
    sites: int, links: int, rng: np.random.Generator, latencies_ms: Sequence[float] | None = None
) -> Network:
    """Connected; with `latencies_ms` few different values of everything, so that ties are frequent."""
    pairs = {(int(rng.integers(site)), site) for site in range(1, sites)}
    while len(pairs) < min(links, sites * (sites - 1) // 2):
        a, b = sorted(rng.choice(sites, size=2, replace=False).tolist())
        pairs.add((a, b))
    made = []
    for a, b in sorted(pairs):
        if latencies_ms is None:
            made.append(Link(f"s{a}", f"s{b}", float(rng.uniform(0.1, 10)), 1, float(rng.uniform(0, 2))))
        else:
            latency_ms, hops, price = (float(rng.choice(v)) for v in (latencies_ms, [0, 1, 2], [0.0, 0.25, 1.5]))
            made.append(Link(f"s{a}", f"s{b}", latency_ms, int(hops), price))
    return Network(tuple(Site(f"s{site}") for site in range(sites)), tuple(made))


def line(*latencies_ms: float) -> Network:
    """a - b - c - ..."""
    names = "abcdefghijklmnop"[: len(latencies_ms) + 1]
    links = [Link(a, b, ms) for a, b, ms in zip(names, names[1:], latencies_ms, strict=False)]
    return Network(tuple(map(Site, names)), tuple(links))
