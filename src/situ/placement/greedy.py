"""`greedy` and `greedy+`: one front for each operator, whatever the site (PaNORAMA, section 5.3).

`greedy` builds on the cheapest plan of each input, `greedy+` on all on its front.
"""

from __future__ import annotations

from situ.placement.candidates import cheapest, solutions_nearby
from situ.placement.finish import best_solution
from situ.placement.plan import Plan
from situ.placement.problem import Problem
from situ.placement.search import Search, every_solution


def greedy(problem: Problem) -> Plan:
    return best_solution("greedy", problem, [solutions_nearby(Search(problem, cheapest), per_site=False)])


def greedy_plus(problem: Problem) -> Plan:
    return best_solution("greedy+", problem, [solutions_nearby(Search(problem, every_solution), per_site=False)])
