"""`cpp`: all operators run at the root, and pull (Akdere et al., VLDB 2008; PaNORAMA, section 7). The best steps of
each operator there are found exactly."""

from __future__ import annotations

from situ.placement.finish import best_solution
from situ.placement.plan import Plan
from situ.placement.problem import Problem
from situ.placement.search import Search, Solutions, every_solution


def cpp(problem: Problem) -> Plan:
    search, solutions_of = Search(problem, every_solution), dict[int, Solutions]()
    for number in range(len(problem.operators)):
        solutions_of[number] = search.solve(number, [problem.root], solutions_of)
    return best_solution("cpp", problem, [solutions_of])
