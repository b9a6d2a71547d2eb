"""`grin`: operators are placed as `greedy` does, and everything is pushed (PaNORAMA, section 7)."""

from __future__ import annotations

from situ.placement.candidates import cheapest, solutions_nearby
from situ.placement.finish import best_solution
from situ.placement.plan import Plan
from situ.placement.problem import Problem
from situ.placement.search import Search


def grin(problem: Problem) -> Plan:
    return best_solution("grin", problem, [solutions_nearby(Search(problem, cheapest, pull=False), per_site=False)])
