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
from situ.placement.problem import NO_LIMIT_NS, Input, PlannedOperator, Problem


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


@dataclass(frozen=True, slots=True)
class Chosen:
    """Solutions that are offered, by number, with their sites. Where those are few, ways are known from there, so that
    no site that is tried has to look for its own."""

    numbers: I64
    sites: I64
    which: I64 | None = None
    way_ns: I64 | None = None
    cost: F64 | None = None

    def ways_to(self, problem: Problem, site: int) -> tuple[I64, F64]:
        """Latency and cost of the way from each to a site."""
        if self.way_ns is None or self.cost is None:
            return problem.network.ways_from(site).latency_ns[self.sites], problem.costs_from(site)[self.sites]
        return self.way_ns[self.which, site], self.cost[self.which, site]


#: So many sites are few.
FEW_SITES = 256


def chosen_of(problem: Problem, solutions: Solutions, numbers: I64) -> Chosen:
    sites = solutions.site[numbers]
    few, which = np.unique(sites, return_inverse=True)
    if not 0 < len(few) <= min(FEW_SITES, len(problem.network.sites) // 2):
        return Chosen(numbers, sites)
    ways = np.stack([problem.network.ways_from(int(site)).latency_ns for site in few])
    return Chosen(numbers, sites, which, ways, np.stack([problem.costs_from(int(site)) for site in few]))


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

    def front_at(
        self,
        number: int,
        site: int,
        steps: StepTable,
        solutions_of: Mapping[int, Solutions],
        chosen: Mapping[int, Chosen],
    ) -> Front:
        """The front of an operator at a site. `solutions_of` has all solutions of its inputs, `chosen` the offers."""
        problem = self.problem
        parts = [self._offers(read, site, solutions_of, chosen) for read in problem.operators[number].reads]
        offset = np.cumsum([0, *(len(part[0]) for part in parts)])
        offers = Offers(offset, *(np.concatenate(column) for column in zip(*parts, strict=True)))
        front = front_of(offers, steps, self._limit_ns(number, site), self.ceiling(number, site))
        return replace(front, chosen=self._solutions_chosen(front.chosen - offset[:-1], number, chosen))

    def _limit_ns(self, number: int, site: int) -> int:
        """What an operator's plan may take here: whatever it is part of still has to reach its destination."""
        problem = self.problem
        if not problem.destinations:
            return problem.latency_limit_ns(number) - int(problem.way_to_root_ns[site])
        to_go_ns = int(problem.way_home_ns(number)[site]) if number in problem.outputs else 0
        return problem.latency_limit_ns(number) - to_go_ns

    def _solutions_chosen(self, offers: I64, number: int, chosen: Mapping[int, Chosen]) -> I64:
        """Numbers of offers -> numbers of solutions."""
        columns = [
            chosen[self.problem.number[event]].numbers[offers[:, k]]
            if event in self.problem.number
            else np.full(len(offers), -1, np.int64)
            for k, event in enumerate(read.event for read in self.problem.operators[number].reads)
        ]
        return np.stack(columns, axis=1)

    def _offers(
        self, read: Input, site: int, solutions_of: Mapping[int, Solutions], chosen: Mapping[int, Chosen]
    ) -> tuple[I64, I64, F64, F64, F64]:
        """How an input can be had: its way, its own latency, what it costs by itself, per fraction and per request."""
        problem = self.problem
        event = read.event
        share, request_share = self.shares.cost.get(event, 1.0), self.shares.requests.get(event, 1.0)
        if event not in problem.number:
            gathering = problem.gatherings[event]
            return (
                gathering.way_ns[[site]],
                np.zeros(1, np.int64),
                np.zeros(1),
                share * read.share * gathering.cost[[site]],
                request_share * gathering.request_cost[[site]],
            )
        number = problem.number[event]
        solutions, offered = solutions_of[number], chosen[number]
        ways, costs = offered.ways_to(problem, site)
        data = share * read.share * problem.rates[event] * costs
        own = solutions.latency_ns[offered.numbers]
        return ways, own, share * solutions.cost[offered.numbers], data, request_share * costs

    def solve(self, number: int, sites: Iterable[int], solutions_of: Mapping[int, Solutions]) -> Solutions:
        """The fronts of an operator at each of these sites."""
        steps, chosen = self.steps(number), self.choices(number, solutions_of)
        return joined([(site, self.front_at(number, site, steps, solutions_of, chosen)) for site in sites])

    def steps(self, number: int) -> StepTable:
        return steps_allowed(self.problem, self.problem.operators[number], self.pull)

    def choices(self, number: int, solutions_of: Mapping[int, Solutions]) -> dict[int, Chosen]:
        """The solutions of an operator's inputs that it may choose from."""
        events = self.problem.operators[number].events
        inputs = {self.problem.number[event] for event in events if event in self.problem.number}
        return {
            writer: chosen_of(self.problem, solutions_of[writer], self.offered(solutions_of[writer]))
            for writer in inputs
        }


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
