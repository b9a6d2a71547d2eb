"""Plans from few sites: PaNORAMA, section 5.3 and Algorithm 3.

The sites that are tried for an operator begin with its candidate centres, those where its inputs are had cheaply or
soon. A site's neighbours are tried next if a plan there was worth keeping, and if they lie in the vicinity: not farther
from any centre than the centres are from one another.

Two things are done better than in the paper, at no cost: all ordered steps are tried at a site, not a growing chain of
them (fronts.py), and the root is a centre of the operators whose events go there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np

from situ.kernel.arrays import I64
from situ.placement.fronts import Front
from situ.placement.problem import Problem
from situ.placement.search import Search, Solutions, front_within, joined


def solutions_nearby(search: Search, *, per_site: bool) -> dict[int, Solutions]:
    """Solutions of all operators. `per_site`: each site keeps a front of its own, instead of one for the operator."""
    problem, solutions_of = search.problem, dict[int, Solutions]()
    for number in range(len(problem.operators)):
        if not all(
            len(solutions_of[problem.number[e]]) for e in problem.operators[number].events if e in problem.number
        ):
            solutions_of[number] = none_found(problem, number)
            continue
        tried = _tried(search, number, centres(problem, number, solutions_of), solutions_of, per_site)
        solutions_of[number] = tried if per_site else tried.only(_some(front_numbers(tried)))
    return solutions_of


def _tried(
    search: Search, number: int, around: I64, solutions_of: Mapping[int, Solutions], per_site: bool
) -> Solutions:
    """The fronts at the centres, and at those in their vicinity that a chain of worthwhile sites leads to."""
    network = search.problem.network
    near = _vicinity(search.problem, around)
    steps, inputs = search.steps(number), search.inputs(number, solutions_of)
    queue, queued = deque(map(int, around)), set(map(int, around))
    fronts: list[tuple[int, Front]] = []
    best: list[tuple[int, float]] = []  # of all sites: by growing latency and falling cost
    while queue:
        site = queue.popleft()
        front = search.front_at(number, site, steps, inputs)
        if len(front):
            fronts.append((site, front))
        if per_site or _added(best, front):
            for neighbour in map(int, network.neighbours(site)):
                if neighbour not in queued and near[neighbour]:
                    queued.add(neighbour)
                    queue.append(neighbour)
    return joined(fronts) if fronts else none_found(search.problem, number)


#: Of the plans on an operator's one front, so many are kept: on large networks there are hundreds, which differ little.
MOST_KEPT = 64


def _some(numbers: I64) -> I64:
    """At most `MOST_KEPT` of the numbers, evenly spread, the first and the last among them."""
    if len(numbers) <= MOST_KEPT:
        return numbers
    return numbers[np.linspace(0, len(numbers) - 1, MOST_KEPT).round().astype(np.int64)]


def none_found(problem: Problem, number: int) -> Solutions:
    nothing = np.empty(0, np.int64)
    inputs = len(problem.operators[number].reads)
    return Solutions(nothing, nothing, np.empty(0), np.empty((0, inputs), np.int64), np.empty((0, inputs), np.int64))


def _added(best: list[tuple[int, float]], front: Front) -> bool:
    """Takes a site's front into that of all sites, and says whether any of it was worth keeping."""
    merged = sorted([*best, *zip(map(int, front.latency_ns), map(float, front.cost), strict=True)])
    front_points: list[tuple[int, float]] = []
    for point in merged:
        if not front_points or point[1] < front_points[-1][1]:
            front_points.append(point)
    changed = front_points != best
    best[:] = front_points
    return changed


def front_numbers(solutions: Solutions) -> I64:
    """The numbers of those solutions, of all sites together, that none beats in both latency and cost."""
    return front_within(solutions.latency_ns, solutions.cost)[2]


def centres(problem: Problem, number: int, solutions_of: Mapping[int, Solutions]) -> I64:
    """Candidate centres: of a primitive event, the sites where it is had at the least cost, and those where it is had
    soonest; of a complex event, the sites of its best plans."""
    sites: set[int] = set()
    for event in problem.operators[number].events:
        if event in problem.number:
            solutions = solutions_of[problem.number[event]]
            sites.update(map(int, solutions.site[front_numbers(solutions)]))
        else:
            gathering = problem.gatherings[event]
            sites.update(map(int, np.flatnonzero(gathering.cost == gathering.cost.min())))
            sites.update(map(int, np.flatnonzero(gathering.way_ns == gathering.way_ns.min())))
    if number in problem.outputs:
        sites.add(problem.root)
    return np.array(sorted(sites))


def _vicinity(problem: Problem, around: I64) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Marks the sites that are no farther from any centre than the centres are from one another."""
    farthest = np.zeros(len(problem.network.sites), np.int64)
    for site in around:
        np.maximum(farthest, problem.network.ways_from(int(site)).latency_ns, out=farthest)
    near: np.ndarray[tuple[int], np.dtype[np.bool_]] = farthest <= farthest[around].max()
    return near


def cheapest(solutions: Solutions) -> I64:
    """The cheapest solution of all; of equals, the fastest."""
    return np.lexsort((solutions.latency_ns, solutions.cost))[:1]


def cheapest_per_site(solutions: Solutions) -> I64:
    """The cheapest solution of each site."""
    order = np.lexsort((solutions.latency_ns, solutions.cost, solutions.site))
    return order[np.unique(solutions.site[order], return_index=True)[1]]
