"""Plan -> cost and latency. The definition that every mechanism is held to; events that operators share included."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from situ.placement.plan import Placed
from situ.placement.problem import Input, Need, PlannedOperator, Problem


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is sent to one site of one event type: messages and requests per second, for all readers there."""

    event: str
    to: int
    fraction: float
    requests_per_s: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`operator_ns`: until an operator has detected. `output_ns`: until the root has an output's events."""

    cost: float
    latency_ns: int
    operator_ns: tuple[int, ...]
    output_ns: dict[int, int]
    traffic: tuple[Traffic, ...]


def evaluate(problem: Problem, placed: Sequence[Placed]) -> Evaluation:
    """Cost is the sum over all transmitted messages x hops (or prices), results to the root included."""
    traffic = tuple(traffic_of(problem, placed))
    cost = sum(cost_of(problem, placed, sent) for sent in traffic)
    operator_ns = latencies(problem, placed)
    way_ns = {number: int(problem.way_home_ns(number)[placed[number].site]) for number in problem.outputs}
    output_ns = {number: operator_ns[number] + way_ns[number] for number in problem.outputs}
    return Evaluation(cost, max(output_ns.values()), operator_ns, output_ns, traffic)


def within_limits(problem: Problem, placed: Sequence[Placed], evaluation: Evaluation) -> bool:
    """Whether a plan keeps to all limits: latencies, operators and load of sites."""
    if any(evaluation.output_ns[number] > problem.latency_limit_ns(number) for number in problem.outputs):
        return False
    return not problem.limits_sites or not overloaded_sites(problem, placed)


def overloaded_sites(problem: Problem, placed: Sequence[Placed]) -> tuple[int, ...]:
    """Sites with more operators, or more input events per second, than they may have."""
    return tuple(site for site, over in _overloads(problem, placed).items() if over > 0)


def overload(problem: Problem, placed: Sequence[Placed]) -> float:
    """The sum, over all sites, of what they have beyond their limits: operators, and load as a share of the plan's
    load."""
    return sum(_overloads(problem, placed).values())


def _overloads(problem: Problem, placed: Sequence[Placed]) -> dict[int, float]:
    operators = Counter(where.site for where in placed)
    load = site_loads(problem, placed)
    total, sites = sum(load.values()) or 1.0, problem.network.sites
    return {
        site: _over(operators[site], sites[site].operators) + _over(load[site], sites[site].load_per_s) / total
        for site in operators
    }


def site_loads(problem: Problem, placed: Sequence[Placed]) -> dict[int, float]:
    """Input events per second at each site that runs operators."""
    load: defaultdict[int, float] = defaultdict(float)
    for operator, where in zip(problem.operators, placed, strict=True):
        rates, bursts = problem.input_rates(operator), problem.input_bursts(operator)
        for earlier, step in sets_of_steps(where):
            fraction = min(1.0, problem.model.need(operator, bursts, earlier, step).fraction)
            load[where.site] += fraction * float(rates[list(step)].sum())
    return load


def _over(value: float, limit: float | None) -> float:
    return 0.0 if limit is None else max(0.0, value - limit)


# ---- cost


def traffic_of(problem: Problem, placed: Sequence[Placed]) -> list[Traffic]:
    """What flows where. An input that several operators at one site read is sent once, for the union of their needs."""
    needs: defaultdict[tuple[int, str], list[tuple[str, float, Need]]] = defaultdict(list)
    for number, where in enumerate(placed):
        for read, need in _needs(problem, number, where):
            needs[where.site, read.event].append((read.filter, read.share, need))
    traffic = [Traffic(event, site, *union(readers)) for (site, event), readers in needs.items()]
    home = [(problem.operators[number].name, problem.destination(number)) for number in problem.outputs]
    return traffic + [Traffic(name, to, 1.0, 0.0) for name, to in home]


def _needs(problem: Problem, number: int, placed: Placed) -> tuple[tuple[Input, Need], ...]:
    """What an operator needs of each input, if it takes them in these steps. Searches ask again and again."""
    needs = problem.needs.get((number, placed.steps))
    if needs is None:
        operator = problem.operators[number]
        bursts, reads = problem.input_bursts(operator), {read.event: read for read in operator.reads}
        needs = tuple(
            (reads[event], need)
            for earlier, step in sets_of_steps(placed)
            for need in [problem.model.need(operator, bursts, earlier, step)]
            for event in dict.fromkeys(operator.inputs[k].event for k in step)
        )
        problem.needs[number, placed.steps] = needs
    return needs


def union(readers: Sequence[tuple[str, float, Need]]) -> tuple[float, float]:
    """Fraction and requests per second of (filter, share, need), taken together.

    Readers with one filter need the same events (of different shares, the largest counts): what one of them has had
    pushed, no other requests. Different filters, and windows of different operators, are taken as independent.

    >>> union([("", 1.0, Need(0.5, 2.0)), ("", 1.0, Need(1.0))])
    (1.0, 0.0)
    """
    by_filter: defaultdict[str, list[Need]] = defaultdict(list)
    shares: dict[str, float] = {}
    for filter_, share, need in readers:
        by_filter[filter_].append(need)
        shares[filter_] = max(share, shares.get(filter_, 0.0))
    fractions, requests = [], 0.0
    for filter_, needs in by_filter.items():
        covered = _either([need.fraction for need in needs])
        fractions.append(shares[filter_] * covered)
        if covered < 1:
            requests += sum(need.starts_per_s for need in needs) * (1 - covered)
    return _either(fractions), requests


def _either(fractions: Sequence[float]) -> float:
    """The fraction that at least one covers; not less than each, also above 1, as the cost model `paper` has it."""
    return max(1 - math.prod(1 - min(1.0, fraction) for fraction in fractions), *fractions)


def cost_of(problem: Problem, placed: Sequence[Placed], sent: Traffic) -> float:
    """Messages x hops, and requests x hops, of one event type on its way to one site."""
    if sent.event in problem.number:
        number = problem.number[sent.event]
        way = float(problem.costs_from(sent.to)[placed[number].site])
        return way * (sent.fraction * problem.rates[sent.event] + sent.requests_per_s)
    gathering = problem.gatherings[sent.event]
    return float(sent.fraction * gathering.cost[sent.to] + sent.requests_per_s * gathering.request_cost[sent.to])


# ---- latency


def latencies(problem: Problem, placed: Sequence[Placed]) -> tuple[int, ...]:
    """Until an operator has detected, in ns: PaNORAMA, Appendix A. An event's way there and back delays a pull."""
    latencies_ns: list[int] = []
    for operator, where in zip(problem.operators, placed, strict=True):
        reached = 0
        for order, step in enumerate(where.steps):
            arrivals = [_arrival(problem, placed, latencies_ns, operator, number, where.site) for number in step]
            reached = max(way + max(own, way + reached if order else 0) for way, own in arrivals)
        latencies_ns.append(reached)
    return tuple(latencies_ns)


def _arrival(
    problem: Problem,
    placed: Sequence[Placed],
    latencies_ns: Sequence[int],
    operator: PlannedOperator,
    number: int,
    site: int,
) -> tuple[int, int]:
    """An input's way to a site, and its own latency: before it goes there, and until operators there read it."""
    event, delay_ns = operator.inputs[number].event, round(problem.network.sites[site].delay_ms * 1e6)
    if event in problem.number:
        writer = problem.number[event]
        if placed[writer].site == site:  # in the same batch
            return 0, latencies_ns[writer]
        return int(problem.network.ways_from(site).latency_ns[placed[writer].site]), latencies_ns[writer] + delay_ns
    return int(problem.gatherings[event].way_ns[site]), delay_ns


def sets_of_steps(placed: Placed) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Each step, with the inputs of all steps before it.

    >>> sets_of_steps(Placed(0, ((1,), (0, 2))))
    [((), (1,)), ((1,), (0, 2))]
    """
    steps = placed.steps
    return [(tuple(number for step in steps[:k] for number in step), steps[k]) for k in range(len(steps))]
