"""`random`: each operator at a site that is drawn, of those that have room. What every other mechanism must beat.

The seed is the problem's; an operator's draw depends on its name, not on its place in the query.
"""

from __future__ import annotations

import zlib

import numpy as np

from situ.placement.plan import Plan
from situ.placement.problem import Problem
from situ.placement.pushed_plan import Room, pushed_plan


def random_sites(problem: Problem) -> Plan:
    room = Room(problem)
    sites = []
    for number, operator in enumerate(problem.operators):
        rng = np.random.default_rng([problem.seed, zlib.crc32(operator.name.encode())])
        sites.append(room.take(number, rng.permutation(len(problem.network.sites)).tolist()))
    return pushed_plan("random", problem, sites, packets=sum(site != problem.root for site in sites))
