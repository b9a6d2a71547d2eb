"""Operator graph + what is expected of its streams -> the problem of migrating it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from situ.core.errors import did_you_mean
from situ.graph.operators import OperatorGraph
from situ.kernel.arrays import F64, I64
from situ.lab.mcep.migration.migcep_problem import MigrationProblem, MovableOperator
from situ.network.network import Network
from situ.placement.coverage import Coverage
from situ.placement.from_graph import planned
from situ.placement.problem import PlacementError, PlannedOperator


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected of one consumer, step by step: the broker that it is connected to, and how many events per
    second each broker has of its interest (steps, brokers)."""

    start_us: int
    step_us: int
    consumer: I64
    rates_per_s: Mapping[str, F64]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of an event of each type, and of an operator's immutable state (0 where none is given)."""

    event_bytes: Mapping[str, float]
    state_bytes: Mapping[str, float] = field(default_factory=dict)


def migration_problem_of(
    graph: OperatorGraph,
    network: Network,
    expected: Expected,
    sizes: Sizes,
    *,
    transfer_bytes_per_s: float,
    selectivity: Mapping[str, float] | None = None,
) -> MigrationProblem:
    """All operators are where the consumer is at first. Filters are applied where events occur, and operators put out
    as many complex events as the cost model `coverage` expects, as for other mechanisms.

    >>> from situ.lang.parse import parse
    >>> from situ.lang.resolve import resolve
    >>> from situ.lab.mcep.migration.broker_regions import Area, BrokerRegions
    >>> graph = resolve(parse('''
    ...     stream Car(id int, x double, y double, speed double, ts int) time ts in s at (x, y)
    ...     subscribe Slow for Car(id) detect Car(speed < 3) as a around Car square 500 m
    ... '''))
    >>> network = BrokerRegions(Area(0, 0, 300, 100), ((3, 1),), latency_ms=10.0).network
    >>> expected = Expected(0, 1_000_000, np.array([1, 2]), {"Car": np.array([[0, 8.0, 0, 0], [0, 0, 4.0, 0]])})
    >>> sizes = Sizes({"Car": 50.0, "Slow": 20.0}, {"Slow": 1e6})
    >>> share = {"Slow.a": 0.25}
    >>> problem = migration_problem_of(graph, network, expected, sizes, transfer_bytes_per_s=1e6, selectivity=share)
    >>> problem.range_queries["Slow.Car"].tolist(), problem.operators[0].bytes_per_s.tolist()
    ([[0.0, 100.0, 0.0, 0.0], [0.0, 0.0, 50.0, 0.0]], [40.0, 20.0])
    """
    operators = [planned(operator, selectivity or {}) for operator in graph.operators]
    _check_names(graph, operators, expected, sizes)
    steps, host = len(expected.consumer), int(expected.consumer[0])
    rates = {event: stream.sum(axis=1) for event, stream in expected.rates_per_s.items()}
    queries: dict[str, F64] = {}
    movable = []
    for operator in operators:
        name, reads = operator.name, []
        for read in operator.reads:
            if read.event in expected.rates_per_s:
                reads.append(f"{name}.{read.event}")
                queries[reads[-1]] = expected.rates_per_s[read.event] * (read.share * sizes.event_bytes[read.event])
            else:
                reads.append(read.event)
        rates[name] = _output_rates(operator, rates, steps)
        state_bytes = sizes.state_bytes.get(name, 0.0)
        outgoing = rates[name] * sizes.event_bytes[name]
        movable.append(MovableOperator(name, tuple(reads), state_bytes, host, outgoing))
    return MigrationProblem(
        network, expected.start_us, expected.step_us, queries, tuple(movable), expected.consumer, transfer_bytes_per_s
    )


def _output_rates(operator: PlannedOperator, rates: Mapping[str, F64], steps: int) -> F64:
    inputs = np.array([rates[read.event] * read.share for read in operator.inputs])
    model = Coverage()
    return np.array([model.output_rate(operator, inputs[:, step]) for step in range(steps)])


def _check_names(graph: OperatorGraph, operators: list[PlannedOperator], expected: Expected, sizes: Sizes) -> None:
    """What is needed is there, and nothing is given that the query does not have."""
    if not len(expected.consumer):
        raise PlacementError("there are no time steps", remedy="Say where the consumer is, for one step at least.")
    names = [operator.name for operator in operators]
    streams = [stream.name for stream in graph.streams]
    read = {event for operator in operators for event in operator.events} - set(names)
    for event in sorted(read - set(expected.rates_per_s)):
        raise PlacementError(f"nothing is known of where {event} occurs", remedy=f"Give the rates of {event}.")
    for event in sorted((read | set(names)) - set(sizes.event_bytes)):
        raise PlacementError(f"the size of {event} is not known", remedy=f"Give the bytes of an event of {event}.")
    for what, given, known in (
        ("rates are given for", expected.rates_per_s, streams),
        ("sizes are given for", sizes.event_bytes, [*streams, *names]),
        ("a state is given for", sizes.state_bytes, names),
    ):
        for name in given:
            if name not in known:
                raise PlacementError(f"{what} {name}, which the query does not have", remedy=did_you_mean(name, known))
