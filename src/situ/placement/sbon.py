"""`sbon`: operators are held by springs in a space of latencies (Pietzuch et al., ICDE 2006; PaNORAMA, section 7).

A spring pulls an operator to each source of its inputs, to the operators that it reads or that read it, and to the root
if its events go there: the harder, the more events flow. At rest the network usage, rate x latency^2, is the smallest.
Each operator runs at the site nearest to where it rests, and everything is pushed to it. Neither cost nor limits play a
part, so the plan may be dearer than the naive one, which takes its place only where it is not within the limits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.network.vivaldi import coordinates_ms
from situ.placement.plan import Plan
from situ.placement.problem import Problem
from situ.placement.pushed_plan import pushed_plan

#: Of the strongest spring: holds at the root what no events pull.
SLACK = 1e-12


def sbon(problem: Problem) -> Plan:
    coordinates = latency_space(problem)
    held, pulls = springs(problem)
    at_rest = np.linalg.solve(held, pulls @ coordinates).astype(np.float64)
    return pushed_plan("sbon", problem, [int(sites_by_distance(problem, coordinates, at)[0]) for at in at_rest])


def latency_space(problem: Problem) -> F64:
    """The coordinates of all sites; the root and all sources are landmarks."""
    sources = [int(site) for sources in problem.sources.values() for site in sources.sites]
    return coordinates_ms(problem.network, [problem.root, *sources])


def sites_by_distance(problem: Problem, coordinates: F64, at: F64) -> I64:
    """The sites, the nearest first; of equally near ones, the one from where messages cost less."""
    dear = problem.costs_from(problem.root) + sum(gathering.cost for gathering in problem.gatherings.values())
    return np.lexsort((dear, ((coordinates - at) ** 2).sum(axis=1)))


def springs(problem: Problem) -> tuple[F64, F64]:
    """The equations of places at rest, where all pulls cancel out: every place is the mean of those that it is joined
    with, weighted by rates. A row for each operator: what operators pull, and what sites do."""
    operators = len(problem.operators)
    between, fixed = np.zeros((operators, operators)), np.zeros((operators, len(problem.network.sites)))
    for reader, event, rate in _flows(problem):
        if event in problem.number:
            between[reader, problem.number[event]] += rate
        else:
            sources = problem.sources[event]
            fixed[reader, sources.sites] += rate * sources.rates_per_s / sources.rate_per_s
    for number in problem.outputs:
        fixed[number, problem.root] += problem.rates[problem.operators[number].name]
    between += between.T
    fixed[:, problem.root] += SLACK * (max(between.max(), fixed.max()) or 1.0)
    return np.diag(between.sum(axis=1) + fixed.sum(axis=1)) - between, fixed


def _flows(problem: Problem) -> Iterator[tuple[int, str, float]]:
    """What each operator reads: its number, the event type, events per second."""
    for number, operator in enumerate(problem.operators):
        rates = problem.input_rates(operator)
        for read, rate in zip(operator.inputs, rates, strict=True):
            yield number, read.event, float(rate)
