"""Ways of minimum latency through a network (Dijkstra), with their hops and prices.

The way between two sites is the one of minimum latency, among equals that of fewest hops, then that of lowest price.
Latency is in whole nanoseconds: sums are exact, so ties are ties, and neither the order of sites nor that of links
changes a latency, a number of hops or a price. Among ways that are equal in all three the numbers of sites decide.
There and back are equal in latency and hops; prices are added up from the start, so they may differ in the last digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.kernel.matching.machine import jit


@dataclass(frozen=True, slots=True)
class Ways:
    """The ways from one site to all. Shared by all who ask: not to be written to."""

    latency_ns: I64
    hops: I64
    price: F64
    before: I64  # the site before on the way, -1 at the start

    def path(self, to: int) -> list[int]:
        """The sites on the way, both ends included.

        >>> from situ.network.network import Link, Network, Site
        >>> network = Network((Site("a"), Site("b"), Site("c")), (Link("a", "b", 1.0), Link("b", "c", 2.0)))
        >>> network.ways_from(0).path(2)
        [0, 1, 2]
        """
        sites = [int(to)]
        while (site := int(self.before[sites[-1]])) >= 0:
            sites.append(site)
        return sites[::-1]


@dataclass(frozen=True, slots=True)
class Matrices:
    """The ways from some sites (rows) to all (columns). Shared by all who ask: not to be written to."""

    latency_ns: I64
    hops: I64
    price: F64


class Adjacency(NamedTuple):
    """Links in both directions: those of site s are from offset[s] to offset[s + 1], by the number of the other end."""

    offset: I64
    target: I64
    latency_ns: I64
    hops: I64
    price: F64


def adjacency(sites: int, ends: I64, latency_ns: I64, hops: I64, price: F64) -> Adjacency:
    """`ends`: the two sites of each link, one row per link.

    >>> links = adjacency(3, np.array([[0, 1], [2, 1]]), np.array([5, 7]), np.array([1, 1]), np.array([1.0, 1.0]))
    >>> links.target[links.offset[1] : links.offset[2]].tolist()
    [0, 2]
    """
    start = np.concatenate([ends[:, 0], ends[:, 1]])
    target = np.concatenate([ends[:, 1], ends[:, 0]])
    order = np.lexsort((target, start))
    offset = np.zeros(sites + 1, np.int64)
    np.cumsum(np.bincount(start, minlength=sites), out=offset[1:])
    both_ways = [np.concatenate([column, column])[order] for column in (latency_ns, hops)]
    return Adjacency(offset, target[order], both_ways[0], both_ways[1], np.concatenate([price, price])[order])


def ways_from(site: int, links: Adjacency) -> Ways:
    """The ways of minimum latency from one site to all others, all of which must be reachable."""
    sites = len(links.offset) - 1
    before = np.empty(sites, np.int64)
    matrices = _matrices(1, sites)
    _from_each(np.array([site], np.int64), links, *matrices, before, *_scratch(sites))
    latency_ns, hops, price = matrices
    return Ways(latency_ns[0], hops[0], price[0], before)


def ways_among(sources: Sequence[int], links: Adjacency) -> Matrices:
    """The same from several sites, one row for each of them."""
    sites = len(links.offset) - 1
    matrices = _matrices(len(sources), sites)
    _from_each(np.asarray(sources, np.int64), links, *matrices, np.empty(sites, np.int64), *_scratch(sites))
    return Matrices(*matrices)


def _matrices(rows: int, sites: int) -> tuple[I64, I64, F64]:
    shape = rows, sites
    return np.empty(shape, np.int64), np.empty(shape, np.int64), np.empty(shape)


def _scratch(sites: int) -> tuple[I64, I64]:
    """A heap of sites, and where in it each site is."""
    return np.empty(sites, np.int64), np.empty(sites, np.int64)


UNSEEN, SETTLED = -1, -2


@jit
def _earlier(a: int, b: int, latency_ns: I64, hops: I64, price: F64) -> bool:
    """Whether site a leaves the heap before b. Numbers of sites make this a total order."""
    if latency_ns[a] != latency_ns[b]:
        return bool(latency_ns[a] < latency_ns[b])
    if hops[a] != hops[b]:
        return bool(hops[a] < hops[b])
    if price[a] != price[b]:
        return bool(price[a] < price[b])
    return a < b


@jit
def _rise(at: int, heap: I64, position: I64, latency_ns: I64, hops: I64, price: F64) -> None:
    site = heap[at]
    while at > 0:
        parent = (at - 1) >> 1
        if not _earlier(site, heap[parent], latency_ns, hops, price):
            break
        heap[at] = heap[parent]
        position[heap[at]] = at
        at = parent
    heap[at] = site
    position[site] = at


@jit
def _sink(size: int, heap: I64, position: I64, latency_ns: I64, hops: I64, price: F64) -> None:
    at, site = 0, heap[0]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _earlier(heap[child + 1], heap[child], latency_ns, hops, price):
            child += 1
        if not _earlier(heap[child], site, latency_ns, hops, price):
            break
        heap[at] = heap[child]
        position[heap[at]] = at
        at = child
    heap[at] = site
    position[site] = at


@jit
def _from_one(
    source: int, links: Adjacency, latency_ns: I64, hops: I64, price: F64, before: I64, heap: I64, position: I64
) -> None:
    """Dijkstra with a binary heap in which a site rises when a better way to it is found."""
    position[:] = UNSEEN
    latency_ns[source], hops[source], price[source], before[source] = 0, 0, 0.0, -1
    heap[0], position[source], size = source, 0, 1
    while size > 0:
        site = heap[0]
        size -= 1
        if size > 0:
            heap[0] = heap[size]
            _sink(size, heap, position, latency_ns, hops, price)
        position[site] = SETTLED
        for link in range(links.offset[site], links.offset[site + 1]):
            to = links.target[link]
            at = position[to]
            if at == SETTLED:
                continue
            new_latency_ns = latency_ns[site] + links.latency_ns[link]
            new_hops = hops[site] + links.hops[link]
            new_price = price[site] + links.price[link]
            if at == UNSEEN:
                at = size
                size += 1
            elif new_latency_ns > latency_ns[to]:
                continue
            elif new_latency_ns == latency_ns[to]:
                if new_hops > hops[to] or (new_hops == hops[to] and new_price > price[to]):
                    continue
                if new_hops == hops[to] and new_price == price[to]:
                    before[to] = min(before[to], site)
                    continue
            latency_ns[to], hops[to], price[to], before[to] = new_latency_ns, new_hops, new_price, site
            heap[at] = to
            _rise(at, heap, position, latency_ns, hops, price)


@jit
def _from_each(
    sources: I64, links: Adjacency, latency_ns: I64, hops: I64, price: F64, before: I64, heap: I64, position: I64
) -> None:
    for row in range(len(sources)):
        _from_one(sources[row], links, latency_ns[row], hops[row], price[row], before, heap, position)
