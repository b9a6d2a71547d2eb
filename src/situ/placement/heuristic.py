"""`heuristic` and `heuristic+`: one front for each operator and site (PaNORAMA, section 5.3).

`heuristic` builds on the cheapest plan of each input at each site, `heuristic+` on all of its plans. The latter leaves
out plans that cannot end better than those of `greedy+`.
"""

from __future__ import annotations

from situ.placement.bounds import bounded
from situ.placement.candidates import cheapest_per_site, solutions_nearby
from situ.placement.finish import best_solution
from situ.placement.plan import Plan
from situ.placement.problem import Problem
from situ.placement.search import Search, every_solution


def heuristic(problem: Problem) -> Plan:
    return best_solution("heuristic", problem, [solutions_nearby(Search(problem, cheapest_per_site), per_site=True)])


def heuristic_plus(problem: Problem) -> Plan:
    search = Search(problem, every_solution)
    quick = solutions_nearby(search, per_site=False)
    return best_solution("heuristic+", problem, [solutions_nearby(bounded(search, quick), per_site=True), quick])
