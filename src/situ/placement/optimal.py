"""`optimal`: every site is tried for every operator, with every plan of its inputs that matters (fronts.py).

The cheapest plan is exact where no event has two readers and sites have no limits: PaNORAMA's dynamic programming
(section 5.1), without its enumeration; so is the front of cost and latency, on networks that are not large (bounds.py).
Elsewhere a first plan is improved step by step, and what no plan can undercut is told: each reader of a shared event is
charged its part of the cost, and no request for it. All readers at one site need together at least what one of them
needs, so also at least the mean of their needs.
"""

from __future__ import annotations

from contextlib import suppress

from situ.placement.bounds import bounded
from situ.placement.candidates import solutions_nearby
from situ.placement.finish import best_of, best_solution, naive_placement, placements_of
from situ.placement.heuristic import heuristic_plus
from situ.placement.improve import improved, worth
from situ.placement.plan import Plan
from situ.placement.problem import PlacementError, Problem
from situ.placement.search import Search, Shares, Solutions, every_solution, whole_plans

#: So many of the plans that a search gives are improved where events are shared.
STARTS = 4


def optimal(problem: Problem) -> Plan:
    search = Search(problem, every_solution, shares=_even_shares(problem))
    quick = solutions_nearby(search, per_site=False)
    search, solutions_of = bounded(search, quick), dict[int, Solutions]()
    for number in range(len(problem.operators)):
        solutions_of[number] = search.solve(number, range(len(problem.network.sites)), solutions_of)
    whole = whole_plans(problem, solutions_of)
    bound = float(whole.cost[-1]) if len(whole.cost) else None
    if not problem.shares_events and not problem.limits_sites:
        return best_solution("optimal", problem, [solutions_of, quick], bound)
    starts = [*placements_of(problem, solutions_of), *placements_of(problem, quick), naive_placement(problem)]
    with suppress(PlacementError):  # it may find none where this one does
        starts.append(heuristic_plus(problem).placed)
    starts.sort(key=lambda placed: worth(problem, placed))
    return best_of("optimal", problem, [improved(problem, placed) for placed in starts[:STARTS]], lower_bound=bound)


def _even_shares(problem: Problem) -> Shares:
    """Each of several readers pays its part, and nothing for requests."""
    shared = {event: len(readers) for event, readers in problem.readers.items() if len(readers) > 1}
    return Shares({event: 1 / number for event, number in shared.items()}, dict.fromkeys(shared, 0.0))
