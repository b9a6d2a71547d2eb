"""PaNORAMA's dynamic programming as it is printed (section 5.1, Algorithm 1): what `optimal` is measured against.

For every operator, site and order of steps (the paper's NFA) all combinations of the solutions of its inputs are tried,
wherever those run, and a combination is inserted into the front of that operator, site and order if none beats it.
Compiled, with ways between all sites known beforehand, fronts in order so that a search by halves finds a place in
them, and costs of single inputs worked out once for all combinations. What it does not do is what `optimal` does: take
inputs one by one, steps by the set of inputs taken before, and drop what cannot end below a known plan.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.kernel.matching.machine import jit_with_memory
from situ.network.ways import Matrices
from situ.placement.finish import best_solution
from situ.placement.plan import Plan, Steps
from situ.placement.problem import Problem
from situ.placement.search import Solutions
from situ.placement.steps import possible_steps


class _InputSolutions(NamedTuple):
    """The solutions of inputs: those of input i are from offset[i] to offset[i + 1]."""

    offset: I64
    site: I64  # -1: a primitive event, which is at no single site
    own_ns: I64  # until it is detected
    cost: F64


class _Ways(NamedTuple):
    """What it takes to bring inputs to a site."""

    rate_per_s: F64  # by input
    gathered_cost: F64  # (inputs, sites): of a primitive event, to bring all of it
    request_cost: F64  # (inputs, sites): to ask for it once per second
    gathered_ns: I64  # (inputs, sites): the longest way from a source
    way_ns: I64  # (sites, sites)
    weight: F64  # (sites, sites): the cost of an event's way, in hops or price


class _Orders(NamedTuple):
    """Orders of steps; (orders, inputs)."""

    step: I64  # the step that takes an input
    fraction: F64  # of it that is sent
    requests_per_s: F64


def plain_dp(problem: Problem) -> Plan:
    """The cheapest plan, for problems whose events have one reader each, without filters and limits of sites."""
    ways = problem.network.ways_among()
    solutions: dict[int, Solutions] = {}
    for number in range(len(problem.operators)):
        solutions[number] = _solutions(problem, number, ways, solutions)
    return best_solution("plain dp", problem, [solutions])


def _solutions(problem: Problem, number: int, ways: Matrices, earlier: dict[int, Solutions]) -> Solutions:
    """The fronts of one operator at all sites."""
    operator, sites = problem.operators[number], len(problem.network.sites)
    orders = possible_steps(operator)
    sent = np.array([_sent(problem, number, steps) for steps in orders])
    inputs = [_input(problem, event, earlier) for event in operator.events]
    offset = np.cumsum([0, *(len(latency) for _, latency, _ in inputs)])
    columns = [np.concatenate(column) for column in zip(*inputs, strict=True)]
    gatherings = [problem.gatherings.get(event) for event in operator.events]
    nothing = np.zeros(sites)
    to_site = _Ways(
        problem.input_rates(operator),
        np.array([nothing if gathering is None else gathering.cost for gathering in gatherings]),
        np.array([nothing if gathering is None else gathering.request_cost for gathering in gatherings]),
        np.array([nothing.astype(np.int64) if gathering is None else gathering.way_ns for gathering in gatherings]),
        ways.latency_ns,
        ways.price if problem.weight == "price" else ways.hops.astype(np.float64),
    )
    site, latency_ns, cost, chosen, order = _all_fronts(
        _InputSolutions(offset, columns[0], columns[1], columns[2]),
        to_site,
        _Orders(sent[:, :, 0].astype(np.int64), sent[:, :, 1], sent[:, :, 2]),
        problem.latency_limit_ns(number),
    )
    is_complex = np.array([event in problem.number for event in operator.events])
    return Solutions(
        site, latency_ns, cost, np.where(is_complex, chosen - offset[:-1], -1), sent[order, :, 0].astype(int)
    )


def _input(problem: Problem, event: str, earlier: dict[int, Solutions]) -> tuple[I64, I64, F64]:
    """Site, latency and cost of every solution of an input. A primitive event has one, which is at no single site."""
    if event not in problem.number:
        return np.full(1, -1), np.zeros(1, np.int64), np.zeros(1)
    solutions = earlier[problem.number[event]]
    return solutions.site, solutions.latency_ns, solutions.cost


def _sent(problem: Problem, number: int, steps: Steps) -> list[tuple[float, float, float]]:
    """For each input: the step that takes it, the fraction that is sent, and requests per second."""
    operator = problem.operators[number]
    bursts = problem.input_bursts(operator)
    sent = [(0.0, 1.0, 0.0)] * len(operator.inputs)
    earlier: tuple[int, ...] = ()
    for order, step in enumerate(steps):
        need = problem.model.need(operator, bursts, earlier, step)
        earlier += step
        for taken in step:
            sent[taken] = float(order), need.fraction, need.requests_per_s
    return sent


@jit_with_memory
def _all_fronts(inputs: _InputSolutions, ways: _Ways, orders: _Orders, limit_ns: int) -> tuple[I64, I64, F64, I64, I64]:
    """For every solution at all sites: site, latency, cost, the solutions of its inputs, and its order of steps."""
    count, solutions, size = len(inputs.offset) - 1, len(inputs.own_ns), 0
    site_, latency_ = np.empty(256, np.int64), np.empty(256, np.int64)
    cost_, order_ = np.empty(256), np.empty(256, np.int64)
    chosen_ = np.empty((256, count), np.int64)
    way_ns, cost = np.empty(solutions, np.int64), np.empty(solutions)
    for site in range(len(ways.way_ns)):
        for order in range(len(orders.step)):
            _bring(site, order, inputs, ways, orders, way_ns, cost)
            front_y, front_c, front_k, kept = _front(
                inputs.offset, way_ns, inputs.own_ns, cost, orders.step[order], limit_ns
            )
            while size + kept > len(cost_):
                site_, latency_ = _doubled(site_), _doubled(latency_)
                cost_, order_, chosen_ = _doubled(cost_), _doubled(order_), _doubled(chosen_)
            for k in range(kept):
                site_[size], latency_[size], cost_[size] = site, front_y[k], front_c[k]
                chosen_[size], order_[size] = front_k[k], order
                size += 1
    return site_[:size], latency_[:size], cost_[:size], chosen_[:size], order_[:size]


@jit_with_memory
def _bring(
    site: int, order: int, inputs: _InputSolutions, ways: _Ways, orders: _Orders, way_ns: I64, cost: F64
) -> None:
    """Write how long the way of every solution to a site is, and what the solution costs there."""
    for i in range(len(inputs.offset) - 1):
        fraction, requests = orders.fraction[order, i], orders.requests_per_s[order, i]
        for k in range(inputs.offset[i], inputs.offset[i + 1]):
            origin = inputs.site[k]
            if origin < 0:
                way_ns[k] = ways.gathered_ns[i, site]
                cost[k] = fraction * ways.gathered_cost[i, site] + requests * ways.request_cost[i, site]
            else:
                way_ns[k] = ways.way_ns[site, origin]
                cost[k] = inputs.cost[k] + (fraction * ways.rate_per_s[i] + requests) * ways.weight[site, origin]


@jit_with_memory
def _front(offset: I64, way: I64, own: I64, cost: F64, step_of: I64, limit: int) -> tuple[I64, F64, I64, int]:
    """The front of all combinations of the inputs' solutions, by growing latency, and its size."""
    inputs, steps, size = len(offset) - 1, step_of.max() + 1, 0
    front_y, front_c, front_k = np.empty(64, np.int64), np.empty(64), np.empty((64, inputs), np.int64)
    at = offset[:-1].copy()
    while True:
        reached, total = np.int64(0), 0.0
        for step in range(steps):
            done = np.int64(0)
            for i in range(inputs):
                if step_of[i] == step:
                    k = at[i]
                    done = max(done, way[k] + max(own[k], way[k] + reached if step else 0))
                    total += cost[k]
            reached = done
        if reached <= limit:
            if size == len(front_y):
                front_y, front_c, front_k = _doubled(front_y), _doubled(front_c), _doubled(front_k)
            size = _inserted(front_y, front_c, front_k, size, int(reached), total, at)
        last = 0
        while last < inputs:  # the next combination
            at[last] += 1
            if at[last] < offset[last + 1]:
                break
            at[last] = offset[last]
            last += 1
        if last == inputs:
            return front_y, front_c, front_k, size


@jit_with_memory
def _inserted(front_y: I64, front_c: F64, front_k: I64, size: int, y: int, c: float, chosen: I64) -> int:
    """The size of the front after a plan was offered to it: inserted if none beats it, without those that it beats."""
    low, high = 0, size  # the first that takes longer
    while low < high:
        middle = (low + high) // 2
        if front_y[middle] <= y:
            low = middle + 1
        else:
            high = middle
    if low and front_c[low - 1] <= c:
        return size
    if low and front_y[low - 1] == y:
        low -= 1
    beaten = low
    while beaten < size and front_c[beaten] >= c:
        beaten += 1
    moved = low + 1 - beaten
    if moved > 0:
        for k in range(size - 1, beaten - 1, -1):
            front_y[k + moved], front_c[k + moved], front_k[k + moved] = front_y[k], front_c[k], front_k[k]
    elif moved < 0:
        for k in range(beaten, size):
            front_y[k + moved], front_c[k + moved], front_k[k + moved] = front_y[k], front_c[k], front_k[k]
    front_y[low], front_c[low], front_k[low] = y, c, chosen
    return size + moved


@jit_with_memory
def _doubled(column: Any) -> Any:
    """A copy with room for twice as many rows."""
    return np.concatenate((column, np.empty_like(column)))
