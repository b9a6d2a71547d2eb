"""What a placement mechanism is given: operators, where events come from, a network, a cost model, limits.

The words are those of PaNORAMA (sections 3 and 4): an operator reads inputs; it takes them in ordered steps, of which
the first is pushed and the others are pulled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Literal, Protocol

import numpy as np

from situ.core.errors import SituError
from situ.kernel.arrays import F64, I64
from situ.network.network import Network

#: What a message on a link costs: 1 for each hop, or the link's price.
Weight = Literal["hops", "price"]

#: An operator of more inputs is not pulled: its plans are as many as the ordered partitions of its inputs.
MOST_PULLED = 8


class PlacementError(SituError):
    """There is no plan, or no problem to plan for."""


class Kind(Enum):
    """How an operator's output follows from its inputs."""

    SEQ = "SEQ"
    AND = "AND"
    OR = "OR"
    OTHER = "other"  # aggregations, joins, patterns with loops or absence: any event may bring output


@dataclass(frozen=True, slots=True)
class Input:
    """An event type that an operator reads. A filter on its events alone is applied where they occur."""

    event: str
    share: float = 1.0  # of its events, how many pass the filter
    filter: str = ""  # as text: operators with equal filters need the same events


@dataclass(frozen=True, slots=True)
class PlannedOperator:
    """An operator as the planner sees it; inputs in the order of the text.

    `each` says of the inputs of a SEQ after the first whether all events of the window follow, or only the next one.
    `every_s`: an aggregation gives one output per so many seconds.
    """

    name: str
    kind: Kind
    inputs: tuple[Input, ...]
    window_s: float = 0.0
    selectivity: float = 1.0
    each: tuple[bool, ...] = ()
    every_s: float | None = None
    can_pull: bool = False

    @property
    def events(self) -> tuple[str, ...]:
        return tuple(read.event for read in self.inputs)

    @property
    def reads(self) -> tuple[Input, ...]:
        """What must be sent: each event type once, for all filters on it, which are taken as independent. Only an
        operator with one push step reads a type twice."""
        by_event: dict[str, dict[str, Input]] = {}
        for read in self.inputs:
            by_event.setdefault(read.event, {})[read.filter] = read
        return tuple(
            Input(event, 1 - math.prod(1 - read.share for read in reads.values()), " or ".join(sorted(reads)))
            for event, reads in by_event.items()
        )


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a primitive event occurs, and how often there."""

    sites: I64
    rates_per_s: F64

    @property
    def rate_per_s(self) -> float:
        return float(self.rates_per_s.sum())


@dataclass(frozen=True, slots=True)
class Gathering:
    """What it takes to have all events of a primitive type at each site: messages x hops per second ("hoped
    frequency"), the longest way, and what one request to all of its sources costs. PaNORAMA, section 4.1."""

    cost: F64
    way_ns: I64
    request_cost: F64


@dataclass(frozen=True, slots=True)
class Need:
    """The fraction of a step's events that is sent, and how often per second requests for them begin."""

    fraction: float
    starts_per_s: float = 0.0

    @property
    def requests_per_s(self) -> float:
        """A request is sent where none is under way."""
        return self.starts_per_s * (1 - self.fraction)


PUSHED = Need(1.0)


class CostModel(Protocol):
    """Rates of complex events, and what of its inputs an operator needs."""

    @property
    def name(self) -> str: ...

    def output_rate(self, operator: PlannedOperator, rates: F64) -> float:
        """Complex events per second, of inputs that come at these rates (filters applied)."""
        ...

    def output_bursts(self, operator: PlannedOperator, rates: F64, bursts: F64) -> float:
        """Bursts of complex events per second: those that come together open no more windows than one of them."""
        ...

    def need(self, operator: PlannedOperator, bursts: F64, earlier: tuple[int, ...], step: tuple[int, ...]) -> Need:
        """What is sent of the inputs `step`, which are taken after the inputs `earlier`."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """The latency that a plan may have at most: all of it, and single outputs on their way to the root."""

    latency_ms: float | None = None
    outputs_ms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Problem:
    """One question to a placement mechanism. Operators are in an order in which inputs come first.

    `seed`: what `random` draws from. `radius`: how many links far a broker of `edgecep` sees (None: everything).
    `destinations`: by output whose events go elsewhere than to the root, the site.
    """

    operators: tuple[PlannedOperator, ...]
    sources: Mapping[str, Sources]
    network: Network
    root: int
    model: CostModel
    weight: Weight = "hops"
    limits: Limits = Limits()
    seed: int = 0
    radius: int | None = None
    destinations: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def number(self) -> dict[str, int]:
        """Operators by name."""
        return {operator.name: number for number, operator in enumerate(self.operators)}

    @cached_property
    def rates(self) -> dict[str, float]:
        """Events per second of every type, everywhere together."""
        rates = {event: sources.rate_per_s for event, sources in self.sources.items()}
        for operator in self.operators:
            rates[operator.name] = self.model.output_rate(operator, _input_rates(operator, rates))
        return rates

    @cached_property
    def needs(self) -> dict[tuple[int, tuple[tuple[int, ...], ...]], tuple[tuple[Input, Need], ...]]:
        """What has been found out of operators and their steps (evaluate.py)."""
        return {}

    @cached_property
    def bursts(self) -> dict[str, float]:
        """Bursts per second of every type. Primitive events come one by one."""
        bursts = {event: sources.rate_per_s for event, sources in self.sources.items()}
        for operator in self.operators:
            rates = self.input_rates(operator)
            bursts[operator.name] = self.model.output_bursts(operator, rates, _input_rates(operator, bursts))
        return bursts

    def input_bursts(self, operator: PlannedOperator) -> F64:
        """Bursts per second that an operator reads of each input, filters applied."""
        return _input_rates(operator, self.bursts)

    def input_rates(self, operator: PlannedOperator) -> F64:
        """Events per second that an operator reads of each input, filters applied."""
        return _input_rates(operator, self.rates)

    @cached_property
    def readers(self) -> dict[str, tuple[int, ...]]:
        """Which operators read an event type."""
        readers: dict[str, list[int]] = {event: [] for event in (*self.sources, *self.number)}
        for number, operator in enumerate(self.operators):
            for event in dict.fromkeys(operator.events):
                readers[event].append(number)
        return {event: tuple(numbers) for event, numbers in readers.items()}

    @cached_property
    def outputs(self) -> tuple[int, ...]:
        """The operators that no other reads; their events go to the root, or to their destination."""
        return tuple(number for operator, number in self.number.items() if not self.readers[operator])

    @cached_property
    def shares_events(self) -> bool:
        """Whether an event type has more than one reader, so that the costs of operators are not a mere sum."""
        return any(len(readers) > 1 for readers in self.readers.values())

    @cached_property
    def limits_sites(self) -> bool:
        return any(site.operators is not None or site.load_per_s is not None for site in self.network.sites)

    @cached_property
    def gatherings(self) -> dict[str, Gathering]:
        """What it costs, and how long it takes, to gather each primitive event at each site."""
        return {event: self._gathering(sources) for event, sources in self.sources.items()}

    def _gathering(self, sources: Sources) -> Gathering:
        sites = len(self.network.sites)
        cost, way_ns, request_cost = np.zeros(sites), np.zeros(sites, np.int64), np.zeros(sites)
        for site, rate in zip(sources.sites, sources.rates_per_s, strict=True):
            costs = self.costs_from(int(site))
            cost += rate * costs
            request_cost += costs
            np.maximum(way_ns, self.network.ways_from(int(site)).latency_ns, out=way_ns)
        return Gathering(cost, way_ns, request_cost)

    def destination(self, output: int) -> int:
        """Where the events of an output go."""
        return self.destinations.get(self.operators[output].name, self.root)

    def way_home_ns(self, output: int) -> I64:
        """How long it takes from each site to where the events of an output go."""
        return self.network.ways_from(self.destination(output)).latency_ns

    @cached_property
    def way_to_root_ns(self) -> I64:
        return self.network.ways_from(self.root).latency_ns

    def costs_from(self, site: int) -> F64:
        """What a message costs between a site and each other."""
        ways = self.network.ways_from(site)
        return ways.price if self.weight == "price" else ways.hops.astype(np.float64)

    def latency_limit_ns(self, operator: int) -> int:
        """What the plan of an output may take until the root has its events."""
        limits = [self.limits.latency_ms, self.limits.outputs_ms.get(self.operators[operator].name)]
        limits_ns = [round(limit * 1e6) for limit in limits if limit is not None]
        return min(limits_ns, default=NO_LIMIT_NS)


#: Longer than any way.
NO_LIMIT_NS = 1 << 60


def _input_rates(operator: PlannedOperator, rates: Mapping[str, float]) -> F64:
    return np.array([rates[read.event] * read.share for read in operator.inputs])
