"""`mobile`: operators move from neighbour to neighbour towards the sources (Mobile DCEP: Starks et al.; TCEP, section
2.2). No broker keeps a picture of the network: where it runs, an operator knows the neighbours there, and what each of
them answers when it is asked how far it is from where the operator's events come from.

All operators begin at the consumer. One moves after those that feed it have come to rest, and as long as a neighbour is
nearer to its inputs: fewer hops, weighted by the events that come that way. On a tree that ends where no site is
nearer; elsewhere a nearer one may lie behind neighbours that are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from situ.placement.plan import Plan
from situ.placement.problem import Problem
from situ.placement.pushed_plan import pushed_plan


class Surroundings(Protocol):
    """All that an operator can learn of the network."""

    def neighbours(self, site: int) -> tuple[int, ...]: ...

    def distance(self, site: int, origins: Mapping[int, float]) -> float:
        """What a site answers: its hops to each origin x the events per second from there, in sum."""
        ...


def mobile(problem: Problem) -> Plan:
    surroundings, sites, packets = AskedSites(problem), list[int](), 0
    for number in range(len(problem.operators)):
        rest, sent = walk(surroundings, problem.root, _origins(problem, number, sites))
        sites.append(rest)
        packets += sent
    return pushed_plan("mobile", problem, sites, packets)


def walk(surroundings: Surroundings, site: int, origins: Mapping[int, float]) -> tuple[int, int]:
    """Where an operator comes to rest that begins at a site, and the packets that it takes: a question to each
    neighbour and an answer, at every site on its way, and one for every move. Of equally near neighbours it takes the
    first."""
    here, packets = surroundings.distance(site, origins), 0
    while True:
        asked = [(surroundings.distance(other, origins), other) for other in surroundings.neighbours(site)]
        packets += 2 * len(asked)
        nearest, neighbour = min(asked, default=(here, site))
        if not nearest < here * (1 - 1e-12):  # less by rounding only is no reason to move
            return site, packets
        here, site, packets = nearest, neighbour, packets + 1


def _origins(problem: Problem, number: int, sites: list[int]) -> dict[int, float]:
    """Events per second that an operator reads from each site. `sites`: of the operators before."""
    origins: dict[int, float] = {}
    for read in problem.operators[number].reads:
        if read.event in problem.number:
            flows = [(sites[problem.number[read.event]], problem.rates[read.event])]
        else:
            sources = problem.sources[read.event]
            flows = list(zip(sources.sites.tolist(), sources.rates_per_s.tolist(), strict=True))
        for origin, rate in flows:
            origins[origin] = origins.get(origin, 0.0) + read.share * rate
    return origins


class AskedSites:
    """The network as its sites tell it, one by one."""

    def __init__(self, problem: Problem) -> None:
        self._network = problem.network

    def neighbours(self, site: int) -> tuple[int, ...]:
        return tuple(self._network.neighbours(site).tolist())

    def distance(self, site: int, origins: Mapping[int, float]) -> float:
        hops = self._network.ways_from(site).hops
        return sum(rate * float(hops[origin]) for origin, rate in origins.items())
