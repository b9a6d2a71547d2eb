"""`producer-consumer`: at a producer what it can answer alone, everything else at the consumer, the root (TCEP's
library of mechanisms, section 3). Nothing has to be known of the network, so it serves the demand for low overhead."""

from __future__ import annotations

from situ.placement.plan import Plan
from situ.placement.problem import Problem
from situ.placement.pushed_plan import pushed_plan


def producer_consumer(problem: Problem) -> Plan:
    sites: list[int] = []
    for operator in problem.operators:
        origins: set[int] = set()
        for event in operator.events:
            if event in problem.number:
                origins.add(sites[problem.number[event]])
            else:
                origins.update(map(int, problem.sources[event].sites))
        sites.append(origins.pop() if len(origins) == 1 else problem.root)
    away = sum(site != problem.root for site in sites)
    return pushed_plan("producer-consumer", problem, sites, packets=away)
