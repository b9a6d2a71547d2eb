"""`central`: all operators at one site, a server that has room for them, and everything is pushed to it (EdgeCEP,
section V). Of the sites that have room, it is the one where gathering events and delivering results costs least; the
naive plan is the same at the root."""

from __future__ import annotations

import numpy as np

from situ.placement.evaluate import evaluate, overloaded_sites
from situ.placement.plan import Placed, Plan, pushed
from situ.placement.problem import Problem
from situ.placement.pushed_plan import pushed_plan


def central(problem: Problem) -> Plan:
    together = [pushed(operator) for operator in problem.operators]
    costs = np.full(len(problem.network.sites), np.inf)
    for site in range(len(costs)):
        placed = [Placed(site, steps) for steps in together]
        if not problem.limits_sites or not overloaded_sites(problem, placed):
            costs[site] = evaluate(problem, placed).cost
    # Of equally cheap sites, the one from where the root has results first.
    server = int(np.lexsort((problem.way_to_root_ns, costs))[0])
    return pushed_plan("central", problem, [server] * len(together))
