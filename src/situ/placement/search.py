"""Operator by operator: the plans of each at each site that is tried, from the plans of its inputs.

All mechanisms that build plans from the sources upwards share this; they differ in the sites that they try and in the
plans of an input that they offer to its reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.placement.fronts import NO_CEILING, Ceiling, Front, Offers, StepTable, front_of, pushed_at_once
from situ.placement.plan import Placed
from situ.placement.problem import NO_LIMIT_NS, Gathering, PlannedOperator, Problem


@dataclass(frozen=True, slots=True)
class Solutions:
    """Plans for an operator and all that it reads, each at a site. `chosen`: the solution of each input, -1 for
    primitive events; `step`: when the input is taken."""

    site: I64
    latency_ns: I64
    cost: F64
    chosen: I64
    step: I64

    def __len__(self) -> int:
        return len(self.cost)

    def only(self, which: I64) -> Solutions:
        return Solutions(
            self.site[which], self.latency_ns[which], self.cost[which], self.chosen[which], self.step[which]
        )


@dataclass(frozen=True, slots=True)
class Shares:
    """What of a cost is charged to one reader: of each operator's own plan, and of requests for each event type."""

    cost: Mapping[str, float] = field(default_factory=dict)
    requests: Mapping[str, float] = field(default_factory=dict)


class ComplexInput:
    """Solutions of an operator, offered to a reader. Where they are at few sites, ways are known from there, so that no
    site that is tried has to look for its own."""

    def __init__(self, problem: Problem, sites: I64, data: float, ask: float) -> None:
        self._problem, self._sites, self._data, self._ask = problem, sites, data, ask
        few, which = np.unique(sites, return_inverse=True)
        self._which: I64 | None = None
        if 0 < len(few) <= min(FEW_SITES, len(problem.network.sites) // 2):
            self._which = which
            self._way_ns = np.stack([problem.network.ways_from(int(site)).latency_ns for site in few])
            self._cost = np.stack([problem.costs_from(int(site)) for site in few])

    def bring_to(self, site: int, way_ns: I64, data: F64, ask: F64) -> None:
        """Write what it takes to bring each solution's events to a site."""
        if self._which is None:
            way_ns[:] = self._problem.network.ways_from(site).latency_ns[self._sites]
            cost = self._problem.costs_from(site)[self._sites]
        else:
            np.take(self._way_ns[:, site], self._which, out=way_ns)
            cost = self._cost[:, site][self._which]
        np.multiply(cost, self._data, out=data)
        np.multiply(cost, self._ask, out=ask)


class PrimitiveInput:
    """All events of a primitive type, gathered from their sources."""

    def __init__(self, gathering: Gathering, data: float, ask: float) -> None:
        self._way_ns, self._data, self._ask = gathering.way_ns, data * gathering.cost, ask * gathering.request_cost

    def bring_to(self, site: int, way_ns: I64, data: F64, ask: F64) -> None:
        """Write what it takes to gather the events at a site."""
        way_ns[0], data[0], ask[0] = self._way_ns[site], self._data[site], self._ask[site]


@dataclass(frozen=True, slots=True)
class OfferedInputs:
    """The inputs of an operator as they can be had, and of their offers (fronts.py) what is the same at all sites.
    `solution`: the number of the solution that an offer is, -1 for a primitive event."""

    inputs: Sequence[ComplexInput | PrimitiveInput]
    offset: I64
    own_ns: I64
    base: F64
    solution: I64

    def at(self, site: int) -> Offers:
        """How the inputs can be had at a site."""
        way_ns, data, ask = np.empty_like(self.own_ns), np.empty_like(self.base), np.empty_like(self.base)
        bounds = self.offset.tolist()
        for read, begin, end in zip(self.inputs, bounds, bounds[1:], strict=False):
            read.bring_to(site, way_ns[begin:end], data[begin:end], ask[begin:end])
        return Offers(self.offset, way_ns, self.own_ns, self.base, data, ask)


#: So many sites are few.
FEW_SITES = 256


def every_solution(solutions: Solutions) -> I64:
    return np.arange(len(solutions))


#: Of the solutions of an input, those that its reader may choose from (numbers).
Offered = Callable[[Solutions], I64]


@dataclass(frozen=True, slots=True)
class Bound:
    """A ceiling at every site: see bounds.py."""

    known_ns: I64
    known_cost: F64
    to_go: F64
    way_ns: I64

    def at(self, site: int) -> Ceiling:
        return Ceiling(self.known_ns, self.known_cost, float(self.to_go[site]), int(self.way_ns[site]))


@dataclass(frozen=True)
class Search:
    """One run over the operators of a problem. `pull=False`: every operator has one push step."""

    problem: Problem
    offered: Offered
    pull: bool = True
    shares: Shares = Shares()
    bounds: Mapping[int, Bound] = field(default_factory=dict)

    def ceiling(self, number: int, site: int) -> Ceiling:
        return self.bounds[number].at(site) if number in self.bounds else NO_CEILING

    def front_at(self, number: int, site: int, steps: StepTable, inputs: OfferedInputs) -> Front:
        """The front of an operator at a site."""
        front = front_of(inputs.at(site), steps, self._limit_ns(number, site), self.ceiling(number, site))
        return replace(front, chosen=inputs.solution[front.chosen])

    def _limit_ns(self, number: int, site: int) -> int:
        """What an operator's plan may take here: whatever it is part of still has to reach its destination."""
        problem = self.problem
        if not problem.destinations:
            return problem.latency_limit_ns(number) - int(problem.way_to_root_ns[site])
        to_go_ns = int(problem.way_home_ns(number)[site]) if number in problem.outputs else 0
        return problem.latency_limit_ns(number) - to_go_ns

    def solve(self, number: int, sites: Iterable[int], solutions_of: Mapping[int, Solutions]) -> Solutions:
        """The fronts of an operator at each of these sites."""
        steps, inputs = self.steps(number), self.inputs(number, solutions_of)
        return joined([(site, self.front_at(number, site, steps, inputs)) for site in sites])

    def steps(self, number: int) -> StepTable:
        return steps_allowed(self.problem, self.problem.operators[number], self.pull)

    def inputs(self, number: int, solutions_of: Mapping[int, Solutions]) -> OfferedInputs:
        """An operator's inputs, with the solutions that it may choose from. A reader is charged its share."""
        problem = self.problem
        inputs: list[ComplexInput | PrimitiveInput] = []
        own_ns, base, solution = [], [], []
        for read in problem.operators[number].reads:
            share, ask = self.shares.cost.get(read.event, 1.0), self.shares.requests.get(read.event, 1.0)
            if read.event not in problem.number:
                inputs.append(PrimitiveInput(problem.gatherings[read.event], share * read.share, ask))
                own_ns.append(np.zeros(1, np.int64))
                base.append(np.zeros(1))
                solution.append(np.full(1, -1))
                continue
            solutions = solutions_of[problem.number[read.event]]
            numbers = self.offered(solutions)
            data = share * read.share * problem.rates[read.event]
            inputs.append(ComplexInput(problem, solutions.site[numbers], data, ask))
            own_ns.append(solutions.latency_ns[numbers])
            base.append(share * solutions.cost[numbers])
            solution.append(numbers)
        offset = np.cumsum([0, *map(len, base)])
        return OfferedInputs(inputs, offset, *(np.concatenate(column) for column in (own_ns, base, solution)))


def joined(fronts: Sequence[tuple[int, Front]]) -> Solutions:
    """The fronts of several sites, in one table."""
    return Solutions(
        np.concatenate([np.full(len(front), site, np.int64) for site, front in fronts]),
        np.concatenate([front.latency_ns for _, front in fronts]),
        np.concatenate([front.cost for _, front in fronts]),
        np.concatenate([front.chosen for _, front in fronts]),
        np.concatenate([front.step for _, front in fronts]),
    )


def steps_allowed(problem: Problem, operator: PlannedOperator, pull: bool = True) -> StepTable:
    """All steps that an operator may take, with what the cost model says of them."""
    bursts = problem.input_bursts(operator)
    if not (pull and operator.can_pull):
        pushed = problem.model.need(operator, bursts, (), tuple(range(len(bursts))))
        return pushed_at_once(len(operator.reads), pushed.fraction)
    size = 1 << len(operator.inputs)
    offset, steps = [0], list[tuple[int, int, float, float]]()
    for before in range(size):
        step = remaining = (size - 1) & ~before
        while step:
            need = problem.model.need(operator, bursts, _members(before), _members(step))
            steps.append((step, before | step, need.fraction, need.requests_per_s))
            step = (step - 1) & remaining
        offset.append(len(steps))
    taken, target, fraction, requests = zip(*steps, strict=True)
    return StepTable(
        np.arange(size), np.array(offset), np.array(taken), np.array(target), np.array(fraction), np.array(requests)
    )


def _members(bits: int) -> tuple[int, ...]:
    return tuple(number for number in range(bits.bit_length()) if bits >> number & 1)


# ---- whole plans


@dataclass(frozen=True, slots=True)
class Whole:
    """Plans for all outputs together, delivered to the root: `solution` of each output, by growing latency."""

    latency_ns: I64
    cost: F64
    solution: I64


def whole_plans(problem: Problem, solutions_of: Mapping[int, Solutions]) -> Whole:
    """The front of plans at the root: outputs meet in the largest of their latencies, and in the sum of their costs."""
    return _together([whole_front(problem, number, solutions_of[number]) for number in problem.outputs])


def whole_front(problem: Problem, output: int, solutions: Solutions) -> tuple[I64, F64, I64]:
    """The latency, cost and number of those solutions of an output that none beats, counted up to the root."""
    latency = solutions.latency_ns + problem.way_home_ns(output)[solutions.site]
    rate = problem.rates[problem.operators[output].name]
    cost = solutions.cost + rate * problem.costs_from(problem.destination(output))[solutions.site]
    return front_within(latency, cost, problem.latency_limit_ns(output))


def front_within(latency: I64, cost: F64, limit_ns: int = NO_LIMIT_NS) -> tuple[I64, F64, I64]:
    """The latency, cost and number of those plans within a limit that no other beats in both."""
    order = np.lexsort((cost, latency))
    order = order[latency[order] <= limit_ns]
    falls = cost[order] < np.minimum.accumulate(np.concatenate([[np.inf], cost[order]]))[:-1]
    chosen = order[falls]
    return latency[chosen], cost[chosen], chosen


def _together(fronts: Sequence[tuple[I64, F64, I64]]) -> Whole:
    """Joins the fronts of all outputs: at each latency where one of them becomes cheaper, the cheapest solution of
    each."""
    if any(len(latency) == 0 for latency, _, _ in fronts):
        return Whole(np.empty(0, np.int64), np.empty(0), np.empty((0, len(fronts)), np.int64))
    latencies = np.unique(np.concatenate([latency for latency, _, _ in fronts]))
    latencies = latencies[latencies >= max(latency[0] for latency, _, _ in fronts)]
    at = [np.searchsorted(latency, latencies, side="right") - 1 for latency, _, _ in fronts]
    cost = np.sum([cost[k] for (_, cost, _), k in zip(fronts, at, strict=True)], axis=0)
    solution = np.stack([numbers[k] for (_, _, numbers), k in zip(fronts, at, strict=True)], axis=1)
    return Whole(latencies, cost, solution)


def placed_by(problem: Problem, solutions_of: Mapping[int, Solutions], outputs: I64) -> tuple[Placed, ...]:
    """The plan that a row of `Whole.solution` stands for. An operator with several readers is placed by the first."""
    row_of: dict[int, int] = dict(zip(problem.outputs, map(int, outputs), strict=True))
    placed: dict[int, Placed] = {}
    for number in reversed(range(len(problem.operators))):
        operator, solutions, row = problem.operators[number], solutions_of[number], row_of[number]
        events = tuple(read.event for read in operator.reads)
        for event, chosen in zip(events, solutions.chosen[row], strict=True):
            if event in problem.number:
                row_of.setdefault(problem.number[event], int(chosen))
        steps = dict(zip(events, map(int, solutions.step[row]), strict=True))
        ordered = (
            tuple(n for n, read in enumerate(operator.inputs) if steps[read.event] == k)
            for k in range(max(steps.values()) + 1)
        )
        placed[number] = Placed(int(solutions.site[row]), tuple(ordered))
    return tuple(placed[number] for number in range(len(problem.operators)))
