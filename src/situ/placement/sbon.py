"""`sbon`: operators are held by springs in a space of latencies (Pietzuch et al., ICDE 2006; PaNORAMA, section 7).

A spring pulls an operator to each source of its inputs, to the operators that it reads or that read it, and to the root
if its events go there: the harder, the more events flow. At rest the network usage, rate x latency^2, is the smallest.
Each operator runs at the site nearest to where it rests, and everything is pushed to it. Neither cost nor limits play a
part, so the plan may be dearer than the naive one, which takes its place only where it is not within the limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from situ.kernel.arrays import F64
from situ.network.vivaldi import coordinates_ms
from situ.placement.evaluate import evaluate, within_limits
from situ.placement.naive import naive
from situ.placement.plan import Placed, Plan, pushed
from situ.placement.problem import Problem

#: Of the strongest spring: holds at the root what no events pull.
SLACK = 1e-12


def sbon(problem: Problem) -> Plan:
    sources = [int(site) for sources in problem.sources.values() for site in sources.sites]
    sites = coordinates_ms(problem.network, [problem.root, *sources])
    dear = problem.costs_from(problem.root) + sum(gathering.cost for gathering in problem.gatherings.values())
    placed = tuple(
        # Of equally near sites, the one from where messages cost less.
        Placed(int(np.lexsort((dear, ((sites - place) ** 2).sum(axis=1)))[0]), pushed(operator))
        for operator, place in zip(problem.operators, _at_rest(problem, sites), strict=True)
    )
    evaluation = evaluate(problem, placed)
    if not within_limits(problem, placed, evaluation):
        return replace(naive(problem), mechanism="sbon")
    latency_ms = evaluation.latency_ns / 1e6
    return Plan("sbon", placed, evaluation.cost, latency_ms, ((evaluation.cost, latency_ms),), None, problem)


def _at_rest(problem: Problem, sites: F64) -> F64:
    """Where the pulls on each operator cancel out: every place is the mean of those that it is joined with, weighted by
    rates. These are linear equations."""
    operators = len(problem.operators)
    between, fixed = np.zeros((operators, operators)), np.zeros((operators, len(sites)))
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
    pulls = np.diag(between.sum(axis=1) + fixed.sum(axis=1)) - between
    return np.linalg.solve(pulls, fixed @ sites).astype(np.float64)


def _flows(problem: Problem) -> Iterator[tuple[int, str, float]]:
    """What each operator reads: its number, the event type, events per second."""
    for number, operator in enumerate(problem.operators):
        rates = problem.input_rates(operator)
        for read, rate in zip(operator.inputs, rates, strict=True):
            yield number, read.event, float(rate)
