"""The ways of a plan in a network: over which sites those that have to do with each other are joined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from situ.network.network import Network
from situ.runtime.sites.compiled_plan import compile_plan
from situ.runtime.sites.deployed_plan import DeployedPlan


def way_in(network: Network, start: str, to: str) -> tuple[str, ...]:
    """The sites on the way of least latency from one to another, without the first.

    >>> from situ.network.network import Link, Site
    >>> network = Network((Site("a"), Site("b"), Site("c")), (Link("a", "b", 1.0), Link("b", "c", 2.0)))
    >>> way_in(network, "a", "c")
    ('b', 'c')
    """
    path = network.ways_from(network.number(to)).path(network.number(start))[::-1]
    return tuple(network.names[site] for site in path[1:])


def ways_in(network: Network, pairs: Iterable[tuple[str, str]]) -> dict[str, dict[str, str]]:
    """The ways of least latency between pairs of sites, in both directions: by the site at the end, which site comes
    after which. All ways to one site are a tree.

    >>> from situ.network.network import Link, Site
    >>> network = Network((Site("a"), Site("b"), Site("c")), (Link("a", "b", 1.0), Link("b", "c", 2.0)))
    >>> ways_in(network, [("a", "c")])
    {'c': {'a': 'b', 'b': 'c'}, 'a': {'c': 'b', 'b': 'a'}}
    """
    ways: dict[str, dict[str, str]] = {}
    for one, other in pairs:
        for start, to in ((one, other), (other, one)):
            ways.setdefault(to, {}).update(pairwise((start, *way_in(network, start, to))))
    return ways


def with_ways(plan: DeployedPlan, network: Network) -> DeployedPlan:
    """The plan with the ways by which its sites reach each other in a network."""
    logs = compile_plan(plan).logs
    pairs = {tuple(sorted((site, peer))) for site in plan.sites for peer in logs.peers(site)}
    return replace(plan, ways=ways_in(network, sorted((one, other) for one, other in pairs)))
