"""Which plans of an operator can still become part of a better whole: exact pruning for the search at all sites.

A whole plan that is known, from a quick search, is an upper bound. What an operator's plan will cost at least until the
root has its output, given its site, is a lower bound: every later input is sent for the smallest fraction that any
steps allow, and latencies do not matter. A plan that can only end above the known ones is dropped. None is dropped that
the cheapest plan needs, nor, on networks that are not large, one that is part of a plan on the final front.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.placement.fronts import StepTable
from situ.placement.problem import Problem
from situ.placement.search import (
    Bound,
    Search,
    Solutions,
    front_within,
    steps_allowed,
    whole_front,
)

#: On networks of so many sites, all plans are kept that are on the front of cost and latency. On larger ones, where the
#: fronts of all sites are long, only those that can be cheaper than the cheapest known.
WHOLE_FRONT_SITES = 500

#: On networks of so many sites, the ways between all of them are looked at for a bound.
ALL_WAYS_SITES = 4_000


def bounded(search: Search, quick: Mapping[int, Solutions]) -> Search:
    """The search, below what a quick search has found, and what the root can do alone."""
    at_root: dict[int, Solutions] = {}
    for number in range(len(search.problem.operators)):
        at_root[number] = search.solve(number, [search.problem.root], at_root)
    fronts = {output: _known(search.problem, output, [quick, at_root]) for output in search.problem.outputs}
    return replace(search, bounds=_bounds(search, fronts))


def _known(problem: Problem, output: int, searches: Sequence[Mapping[int, Solutions]]) -> tuple[I64, F64]:
    """The front of all known plans of an output, or the cheapest alone, whatever it takes."""
    fronts = [whole_front(problem, output, solutions[output]) for solutions in searches]
    latency, cost, _ = front_within(
        np.concatenate([front[0] for front in fronts]), np.concatenate([front[1] for front in fronts])
    )
    if len(problem.network.sites) <= WHOLE_FRONT_SITES:
        return latency, cost
    return np.zeros(len(cost[-1:]), np.int64), cost[-1:]


def _bounds(search: Search, fronts: Mapping[int, tuple[I64, F64]]) -> dict[int, Bound]:
    """Bounds of all operators whose events go one way only."""
    problem = search.problem
    bound_of: dict[int, Bound] = {}
    for number in reversed(range(len(problem.operators))):
        name = problem.operators[number].name
        readers = problem.readers[name]
        if not readers:
            to_go = problem.rates[name] * problem.costs_from(problem.destination(number))
            bound_of[number] = Bound(*fronts[number], to_go, problem.way_home_ns(number))
        elif len(readers) == 1 and readers[0] in bound_of:
            above = bound_of[readers[0]]
            bound_of[number] = Bound(above.known_ns, above.known_cost, _to_go(search, number, above), above.way_ns)
    return bound_of


def _to_go(search: Search, number: int, above: Bound) -> F64:
    """What is still to pay from each site: to where the reader may be, for its other inputs there, and from there."""
    problem, name = search.problem, search.problem.operators[number].name
    reader = problem.operators[problem.readers[name][0]]
    least = least_fractions(steps_allowed(problem, reader, search.pull), len(reader.reads))
    there = above.to_go.copy()
    rate = 0.0
    for k, read in enumerate(reader.reads):
        charged = search.shares.cost.get(read.event, 1.0) * read.share * least[k]
        if read.event == name:
            rate = charged * problem.rates[name]
        elif read.event not in problem.number:
            there += charged * problem.gatherings[read.event].cost
    if len(there) > ALL_WAYS_SITES:
        return np.full(len(there), there.min())
    return np.array([np.min(rate * problem.costs_from(site) + there) for site in range(len(there))])


def least_fractions(steps: StepTable, inputs: int) -> F64:
    """The smallest fraction of each input that any step sends."""
    return np.array([steps.fraction[(steps.taken >> k & 1) == 1].min() for k in range(inputs)])
