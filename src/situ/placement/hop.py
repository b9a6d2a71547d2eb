"""`hop`: the hop-based baseline of EdgeCEP (sections II.D and V): nearest to the source, by numbers of hops alone.

An operator runs where the hops to all sources of its inputs are the fewest in sum, whatever their rates; among equals,
where the root is nearest. A site without room is passed over. Routing tables suffice for it, so nothing is exchanged.
"""

from __future__ import annotations

import numpy as np

from situ.kernel.arrays import I64
from situ.placement.plan import Plan
from situ.placement.problem import Problem
from situ.placement.pushed_plan import Room, pushed_plan


def hop(problem: Problem) -> Plan:
    room, sites = Room(problem), list[int]()
    for number in range(len(problem.operators)):
        home = problem.network.ways_from(problem.destination(number))
        order = np.lexsort((home.latency_ns, home.hops, hops_to_inputs(problem, number, sites)))
        sites.append(room.take(number, order.tolist()))
    return pushed_plan("hop", problem, sites, packets=sum(site != problem.root for site in sites))


def hops_to_inputs(problem: Problem, number: int, sites: list[int]) -> I64:
    """The sum of the hops from each site to all sources of an operator's inputs. `sites`: of the operators before."""
    hops = np.zeros(len(problem.network.sites), np.int64)
    for event in dict.fromkeys(problem.operators[number].events):
        origins = [sites[problem.number[event]]] if event in problem.number else problem.sources[event].sites.tolist()
        for origin in origins:
            hops += problem.network.ways_from(origin).hops
    return hops
