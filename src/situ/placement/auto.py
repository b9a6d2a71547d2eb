"""`auto`: the mechanism that fits a problem (PaNORAMA, section 7.4), as its rules of thumb say, and our figures.

Our `optimal` is exact and takes seconds where the paper's takes hours, so it comes first while the network is small.
"""

from __future__ import annotations

from situ.placement.evaluate import evaluate
from situ.placement.finish import naive_placement
from situ.placement.greedy import greedy, greedy_plus
from situ.placement.heuristic import heuristic_plus
from situ.placement.optimal import optimal
from situ.placement.plan import Plan
from situ.placement.problem import Problem

#: Up to so many sites, each mechanism answers within seconds.
OPTIMAL_SITES, HEURISTIC_SITES, GREEDY_PLUS_SITES = 2_000, 5_000, 50_000

#: A latency limit below so many times the fastest plan's is strict: there, plans of one site do not replace another's.
STRICT = 2.0


def auto(problem: Problem) -> Plan:
    sites = len(problem.network.sites)
    if sites <= OPTIMAL_SITES:
        return optimal(problem)
    if sites <= HEURISTIC_SITES or is_strict(problem):
        return heuristic_plus(problem)
    return greedy_plus(problem) if sites <= GREEDY_PLUS_SITES else greedy(problem)


def is_strict(problem: Problem) -> bool:
    """Whether a limit leaves little room for ways that are not the shortest."""
    fastest = evaluate(problem, naive_placement(problem))
    return any(problem.latency_limit_ns(n) < STRICT * fastest.output_ns[n] for n in problem.outputs)
