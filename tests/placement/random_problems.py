"""Random small planning problems: trees and chains of operators of all kinds, on networks with and without ties."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from network.networks import random_network
from situ.network.network import Link, Network, Site
from situ.placement.bursts import Bursts
from situ.placement.coverage import Coverage
from situ.placement.paper_costs import PaperCosts
from situ.placement.problem import CostModel, Input, Kind, Limits, PlannedOperator, Problem, Sources, Weight

MODELS: dict[str, CostModel] = {"coverage": Coverage(), "bursts": Bursts(), "paper": PaperCosts()}
TIED = [0.0, 1.0, 2.0]
FUBINI = [1, 1, 3, 13, 75]


@dataclass(frozen=True)
class Shape:
    """Bounds are included. `plans`: an exhaustive search has at most so many."""

    operators: tuple[int, int] = (2, 3)
    inputs: tuple[int, int] = (2, 3)
    sites: tuple[int, int] = (3, 6)
    plans: float = 1500
    shared: bool = False
    filters: bool = True
    ties: bool = False
    twice: bool = False  # a type may be read twice by one operator
    outputs: int = 2  # at most


def random_problem(
    seed: int,
    shape: Shape | None = None,
    model: str = "coverage",
    weight: Weight = "hops",
    limits: Limits | None = None,
) -> Problem:
    """The same seed, shape and weight give the same network and the same operators, whatever the model."""
    shape = shape or Shape()
    rng = np.random.default_rng(seed)
    while True:
        problem = _drawn(rng, shape, MODELS[model], weight)
        if plans_of(problem) <= shape.plans and (problem.shares_events or not shape.shared):
            return replace(problem, limits=limits or Limits())


def plans_of(problem: Problem) -> int:
    options = [FUBINI[len(o.inputs)] if o.can_pull else 1 for o in problem.operators]
    return math.prod(options) * len(problem.network.sites) ** len(options)


def _drawn(rng: np.random.Generator, shape: Shape, model: CostModel, weight: Weight) -> Problem:
    sites = _between(rng, shape.sites)
    network = random_network(sites, int(rng.integers(sites, 2 * sites)), rng, TIED if shape.ties else None)
    operators, events = _operators(rng, shape)
    sources = {event: _sources(rng, sites) for event in events}
    problem = Problem(operators, sources, network, int(rng.integers(sites)), Coverage(), weight)
    return replace(problem, operators=_calmed(problem), model=model)


def _between(rng: np.random.Generator, bounds: tuple[int, int]) -> int:
    return int(rng.integers(bounds[0], bounds[1] + 1))


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _sources(rng: np.random.Generator, sites: int) -> Sources:
    at = rng.choice(sites, size=int(rng.integers(1, min(3, sites) + 1)), replace=False)
    return Sources(at.astype(np.int64), np.array([_log_uniform(rng, 0.01, 10) for _ in at]))


def _operators(rng: np.random.Generator, shape: Shape) -> tuple[tuple[PlannedOperator, ...], list[str]]:
    """Operators that nobody reads yet are read by later ones, until few enough outputs are left."""
    total, outputs = _between(rng, shape.operators), int(rng.integers(1, shape.outputs + 1))
    unread: list[str] = []
    events: list[str] = []
    made: list[PlannedOperator] = []
    for number in range(total):
        last = number == total - 1
        most = _between(rng, shape.inputs)
        must = len(unread) - outputs + 1 if last else int(rng.integers(0, 2))
        read = [unread.pop(int(rng.integers(len(unread)))) for _ in range(min(max(must, 0), len(unread)))]
        for _ in range(max(most - len(read), 0 if read else 1)):
            if shape.shared and (events or made) and rng.random() < 0.4:
                pool = [e for e in [*events, *(o.name for o in made)] if e not in read]
                if pool:
                    read.append(pool[int(rng.integers(len(pool)))])
                    continue
            events.append(f"E{len(events)}")
            read.append(events[-1])
        unread = [name for name in unread if name not in read]
        if shape.twice and rng.random() < 0.5:
            read.append(read[int(rng.integers(len(read)))])
        made.append(_operator(rng, f"C{number}", [read[k] for k in rng.permutation(len(read))], shape))
        unread.append(made[-1].name)
    return tuple(made), events


def _operator(rng: np.random.Generator, name: str, read: list[str], shape: Shape) -> PlannedOperator:
    inputs = tuple(_input(rng, event) if shape.filters else Input(event) for event in read)
    window_s = _log_uniform(rng, 0.1, 2)
    each = tuple(bool(rng.random() < 0.5) for _ in read[1:])
    can_pull = bool(rng.random() < 0.85) and len(set(read)) == len(read)
    match rng.choice(["SEQ", "AND", "OR", "other"], p=[0.45, 0.4, 0.1, 0.05]):
        case "SEQ":
            return PlannedOperator(name, Kind.SEQ, inputs, window_s, each=each, can_pull=can_pull)
        case "AND":
            return PlannedOperator(name, Kind.AND, inputs, window_s, can_pull=can_pull)
        case "OR":
            return PlannedOperator(name, Kind.OR, inputs)
        case _:
            return PlannedOperator(name, Kind.OTHER, inputs, every_s=window_s)


def _input(rng: np.random.Generator, event: str) -> Input:
    """Few filters, so that operators share some of them; the same text always lets the same share pass."""
    shares = {"": 1.0, "x > 1": 0.25, "y = 2": 0.6}
    text = str(rng.choice([*shares], p=[0.6, 0.2, 0.2]))
    return Input(event, shares[text], text)


def _calmed(problem: Problem) -> tuple[PlannedOperator, ...]:
    """Selectivities such that no operator puts out more than its rarest input has, most of them less."""
    calmed: list[PlannedOperator] = []
    rates = {event: sources.rate_per_s for event, sources in problem.sources.items()}
    for operator in problem.operators:
        inputs = np.array([rates[read.event] * read.share for read in operator.inputs])
        output = problem.model.output_rate(operator, inputs)
        selectivity = min(1.0, float(inputs.min()) / output)
        calmed.append(replace(operator, selectivity=selectivity))
        rates[operator.name] = output * selectivity
    return tuple(calmed)


# ---- the same problem, told otherwise


def with_limit(problem: Problem, latency_ms: float | None, outputs_ms: Mapping[str, float] | None = None) -> Problem:
    return replace(problem, limits=Limits(latency_ms, outputs_ms or {}))


def with_sites(problem: Problem, sites: tuple[Site, ...]) -> Problem:
    return replace(problem, network=Network(sites, problem.network.links))


def with_capacities(problem: Problem, rng: np.random.Generator) -> Problem:
    """Some sites may run few operators, or take little load."""
    highest = sum(problem.rates.values())
    sites = tuple(
        Site(
            site.name,
            operators=int(rng.integers(0, 3)) if rng.random() < 0.6 else None,
            load_per_s=float(rng.uniform(0, highest)) if rng.random() < 0.4 else None,
        )
        for site in problem.network.sites
    )
    return with_sites(problem, sites)


def told_otherwise(problem: Problem, rng: np.random.Generator) -> Problem:
    """Sites renamed and in another order, links too, and from their other ends; event types in another order."""
    count = len(problem.network.sites)
    new_number = rng.permutation(count)  # old number -> new number
    names = {site.name: f"n{rng.integers(1_000_000)}-{number}" for number, site in enumerate(problem.network.sites)}
    sites = [problem.network.sites[0]] * count
    for number, site in enumerate(problem.network.sites):
        sites[int(new_number[number])] = replace(site, name=names[site.name])
    links = [
        Link(names[b], names[a], link.latency_ms, link.hops, link.price)
        for link in problem.network.links
        for a, b in [(link.a, link.b) if rng.random() < 0.5 else (link.b, link.a)]
    ]
    network = Network(tuple(sites), tuple(links[k] for k in rng.permutation(len(links))))
    events = list(problem.sources)
    sources = {
        events[k]: replace(problem.sources[events[k]], sites=new_number[problem.sources[events[k]].sites])
        for k in rng.permutation(len(events))
    }
    return replace(problem, network=network, sources=sources, root=int(new_number[problem.root]))


def every_order(problem: Problem) -> list[tuple[int, ...]]:
    """Orders of the operators in which inputs come first."""
    return [
        order
        for order in itertools.permutations(range(len(problem.operators)))
        if all(
            order.index(problem.number[event]) < order.index(number)
            for number, operator in enumerate(problem.operators)
            for event in operator.events
            if event in problem.number
        )
    ]
