"""`exhaustive`: every site and all steps of every operator, in all combinations (PaNORAMA, section 5.2). Exact, also
where events are shared and sites are limited; for small problems."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

from situ.placement.finish import best_of
from situ.placement.plan import Placed, Plan
from situ.placement.problem import PlacementError, Problem
from situ.placement.steps import possible_steps

#: More plans are not tried: each takes about a tenth of a millisecond.
MOST_PLANS = 5_000_000


def exhaustive(problem: Problem) -> Plan:
    sites, steps = range(len(problem.network.sites)), [possible_steps(operator) for operator in problem.operators]
    plans = math.prod(len(sites) * len(possible) for possible in steps)
    if plans > MOST_PLANS:
        raise PlacementError(
            f"there are {plans:.2g} plans to try, and exhaustive tries at most {MOST_PLANS:,}",
            remedy="Try --mechanism optimal, which is exact where no event has two readers.",
        )
    choices = [[Placed(site, each) for site in sites for each in possible] for possible in steps]
    plan = best_of("exhaustive", problem, itertools.product(*choices))
    return replace(plan, lower_bound=plan.cost)
