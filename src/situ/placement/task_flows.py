"""EdgeCEP's problem of task assignment (section IV, Definitions 1 and 2), for the operators of a query.

A task is an operator, a content is an event type with the filter of one or more of its readers. All that a plan
decides is a site for each task; contents and outputs take the ways of the network. The flow volume is what flows,
x hops (or prices); a content that several tasks at one site read flows there once.

Limits of sites are `operators` and `load_per_s`, a task's execution cost being the events that it reads per second, and
`channel_per_s`, the messages that a site sends, receives or passes on. A link's is `capacity_per_s`. What exceeds a
limit counts in parts of the limit (section IV.B); where the limit is 0, as it is.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import TypeAlias

import numpy as np

from situ.kernel.arrays import F64
from situ.placement.coverage import Coverage
from situ.placement.problem import Input, Problem

#: A site, or the two ends of a link, the lower number first.
Resource: TypeAlias = int | tuple[int, int]

#: What is over a limit by rounding only is not over it.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class TaskFlow:
    """Messages per second on their way from one site to another."""

    start: int
    to: int
    per_s: float


@dataclass(frozen=True)
class TaskFlows:
    """A planning problem as EdgeCEP has it. Messages are those of `coverage` where costs are none (`paper`)."""

    problem: Problem

    @classmethod
    def of(cls, problem: Problem) -> TaskFlows:
        return cls(replace(problem, model=Coverage()) if problem.model.name == "paper" else problem)

    @cached_property
    def costs(self) -> F64:
        """What a message costs between any two sites."""
        return np.stack([self.problem.costs_from(site) for site in range(len(self.problem.network.sites))])

    @cached_property
    def reads(self) -> tuple[tuple[Input, ...], ...]:
        """What each task reads."""
        return tuple(operator.reads for operator in self.problem.operators)

    @cached_property
    def contents(self) -> dict[str, dict[str, float]]:
        """The filters with which each event type is read, and the share of its events that passes each."""
        contents: dict[str, dict[str, float]] = {}
        for read in chain(*self.reads):
            shares = contents.setdefault(read.event, {})
            shares[read.filter] = max(read.share, shares.get(read.filter, 0.0))
        return contents

    @cached_property
    def readers(self) -> dict[str, tuple[tuple[int, str], ...]]:
        """The tasks that read each event type, with their filters."""
        readers: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        for task, reads in enumerate(self.reads):
            for read in reads:
                readers[read.event].append((task, read.filter))
        return {event: tuple(each) for event, each in readers.items()}

    @cached_property
    def joined(self) -> tuple[frozenset[int], ...]:
        """The tasks that each one exchanges events with, and those that read an event type that it reads, too."""
        joined: list[set[int]] = [set() for _ in self.reads]
        for event, readers in self.readers.items():
            tasks = {task for task, _ in readers} | {self.problem.number.get(event, readers[0][0])}
            for task in tasks:
                joined[task] |= tasks - {task}
        return tuple(map(frozenset, joined))

    def share(self, event: str, filters: Collection[str]) -> float:
        """The share of an event type that readers with these filters need together."""
        shares = [self.contents[event][each] for each in filters]
        return shares[0] if len(shares) == 1 else 1 - math.prod(1 - share for share in shares)

    @cached_property
    def execution_costs(self) -> tuple[float, ...]:
        """Events that each task reads per second."""
        return tuple(float(self.problem.input_rates(operator).sum()) for operator in self.problem.operators)

    # ---- volume

    def sent(self, sites: Sequence[int]) -> Iterator[tuple[str, int, float]]:
        """The event types that readers at these sites need: where, and which share."""
        for event, readers in self.readers.items():
            if len(readers) == 1:
                (task, filter_), *_ = readers
                yield event, sites[task], self.contents[event][filter_]
                continue
            filters_at: dict[int, set[str]] = {}
            for task, filter_ in readers:
                filters_at.setdefault(sites[task], set()).add(filter_)
            for to, filters in filters_at.items():
                yield event, to, self.share(event, sorted(filters))

    def flows(self, sites: Sequence[int]) -> Iterator[TaskFlow]:
        """All that flows if tasks run at these sites."""
        problem = self.problem
        for event, to, share in self.sent(sites):
            if event in problem.number:
                yield TaskFlow(sites[problem.number[event]], to, share * problem.rates[event])
            else:
                sources = problem.sources[event]
                for start, rate in zip(sources.sites.tolist(), sources.rates_per_s.tolist(), strict=True):
                    yield TaskFlow(start, to, share * rate)
        for number in problem.outputs:
            yield TaskFlow(sites[number], problem.destination(number), problem.rates[problem.operators[number].name])

    def volume(self, sites: Sequence[int]) -> float:
        """Flow volume per second: the objective of both definitions."""
        problem, costs, volume = self.problem, self._cost_rows, 0.0
        for event, to, share in self.sent(sites):
            number = problem.number.get(event)
            if number is None:
                volume += share * self._gathered[event][to]
            else:
                volume += share * problem.rates[event] * costs[to][sites[number]]
        for number in problem.outputs:
            to = problem.destination(number)
            volume += problem.rates[problem.operators[number].name] * costs[to][sites[number]]
        return volume

    @cached_property
    def _cost_rows(self) -> list[list[float]]:
        """`costs` as lists, of which single numbers are read much faster than of arrays."""
        rows: list[list[float]] = self.costs.tolist()
        return rows

    @cached_property
    def _gathered(self) -> dict[str, list[float]]:
        return {event: gathering.cost.tolist() for event, gathering in self.problem.gatherings.items()}

    def volumes_at(self, task: int, sites: Sequence[int]) -> F64:
        """The estimate v_is of Algorithm 1: what flows to and from a task at each site, all others being where they
        are, and nothing being shared."""
        problem, operator = self.problem, self.problem.operators[task]
        volumes = np.zeros(len(problem.network.sites))
        for read in self.reads[task]:
            if read.event in problem.number:
                origin = sites[problem.number[read.event]]
                volumes += read.share * problem.rates[read.event] * self.costs[origin]
            else:
                volumes += read.share * problem.gatherings[read.event].cost
        destinations = {
            (sites[reader], self._share_of(reader, operator.name)) for reader in problem.readers[operator.name]
        }
        for to, share in destinations or {(problem.destination(task), 1.0)}:
            volumes += share * problem.rates[operator.name] * self.costs[to]
        return volumes

    def _share_of(self, reader: int, event: str) -> float:
        return next(read.share for read in self.reads[reader] if read.event == event)

    # ---- limits

    @cached_property
    def capacities(self) -> dict[Resource, float]:
        """The channels of sites and the capacities of links, as far as they have limits."""
        network = self.problem.network
        capacities: dict[Resource, float] = {}
        for number, site in enumerate(network.sites):
            if site.channel_per_s is not None:
                capacities[number] = site.channel_per_s
        for link in network.links:
            if link.capacity_per_s is not None:
                capacities[_ends(network.number(link.a), network.number(link.b))] = link.capacity_per_s
        return capacities

    @cached_property
    def _is_limited(self) -> bool:
        return self.problem.limits_sites or bool(self.capacities)

    @cached_property
    def _passed(self) -> dict[tuple[int, int], tuple[Resource, ...]]:
        return {}

    def passes(self, start: int, to: int) -> tuple[Resource, ...]:
        """The limited channels and links on the way from one site to another. All ways to a site form a tree."""
        passed = self._passed.get((start, to))
        if passed is None:
            way = self.problem.network.ways_from(to).path(start) if start != to and self.capacities else []
            resources: list[Resource] = [*way, *(_ends(a, b) for a, b in pairwise(way))]
            passed = self._passed[start, to] = tuple(each for each in resources if each in self.capacities)
        return passed

    def violation(self, sites: Sequence[int], view: Collection[int] | None = None) -> float:
        """How far tasks at these sites exceed the limits, in sum (vv_s of section IV.B): at the sites that are in view,
        and on links between them."""
        if not self._is_limited:
            return 0.0
        excess = 0.0
        operators, load = defaultdict[int, float](float), defaultdict[int, float](float)
        for site, cost in zip(sites, self.execution_costs, strict=True):
            operators[site] += 1
            load[site] += cost
        for site in sorted(operators):
            if view is None or site in view:
                limits = self.problem.network.sites[site]
                excess += _over(operators[site], limits.operators) + _over(load[site], limits.load_per_s)
        if self.capacities:
            carried = defaultdict[Resource, float](float)
            for flow in self.flows(sites):
                for resource in self.passes(flow.start, flow.to):
                    carried[resource] += flow.per_s
            excess += sum(_over(carried[each], self.capacities[each]) for each in carried if _is_seen(each, view))
        return excess


def _ends(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def _over(value: float, limit: float | None) -> float:
    if limit is None or value <= limit * (1 + ROUNDING):
        return 0.0
    return (value - limit) / (limit or 1.0)


def _is_seen(resource: Resource, view: Collection[int] | None) -> bool:
    if view is None:
        return True
    return resource in view if isinstance(resource, int) else resource[0] in view and resource[1] in view
