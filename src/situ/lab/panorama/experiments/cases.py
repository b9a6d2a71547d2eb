"""Random planning problems as in PaNORAMA, section 7: chains of complex events, their rates and windows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from situ.graph.operators import OperatorGraph
from situ.lab.panorama.experiments.scatter import scatter
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.network import Network
from situ.network.statistics import Statistics
from situ.placement.coverage import Coverage
from situ.placement.from_graph import planned, problem_of
from situ.placement.problem import CostModel, Limits, PlannedOperator, Problem


@dataclass(frozen=True, slots=True)
class CaseShape:
    """What kind of case is drawn. Rates and windows are log-uniform between two bounds. Complex events are a chain, or
    a `tree`: the last one reads all others."""

    complex_events: int = 3
    inputs: int = 3
    sources: int = 10
    rates_per_s: tuple[float, float] = (0.01, 10.0)
    windows_s: tuple[float, float] = (0.1, 2.0)
    diameter_hops: int = 50
    skew: float = 0.01
    shared_events: int = 0
    tree: bool = False


@dataclass(frozen=True, slots=True)
class PlacementCase:
    """A query, what is known of its events, the network that they occur in, and where results go."""

    text: str
    graph: OperatorGraph
    statistics: Statistics
    network: Network
    root: str

    def problem(self, model: CostModel | None = None, latency_ms: float | None = None) -> Problem:
        limits = Limits(latency_ms)
        return problem_of(self.graph, self.network, self.statistics, model or Coverage(), root=self.root, limits=limits)


def random_case(network: Network, rng: np.random.Generator, shape: CaseShape | None = None) -> PlacementCase:
    """A chain: the first complex event reads primitive events only, every other one also the one before it. Each is a
    SEQ or an AND, and puts out at most as many events as its rarest input has.

    >>> from situ.network.generate import random_geometric
    >>> case = random_case(random_geometric(50, np.random.default_rng(1)), np.random.default_rng(2), CaseShape(2, 2))
    >>> print(case.text[case.text.index("define") :].splitlines()[0])
    define C1(ts)
    """
    shape = shape or CaseShape()
    text, primitives = _query(rng, shape)
    graph = resolve(parse(text))
    rates = {
        event: scatter(
            network, _log_uniform(rng, shape.rates_per_s), rng, shape.sources, shape.diameter_hops, shape.skew
        )
        for event in primitives
    }
    root = network.names[int(rng.integers(len(network.sites)))]
    return PlacementCase(text, graph, Statistics(rates, selectivities(graph, rates)), network, root)


def scattered_again(case: PlacementCase, rng: np.random.Generator, shape: CaseShape) -> PlacementCase:
    """The same query with the same rates, observed at other sites.

    >>> from situ.network.generate import random_geometric
    >>> case = random_case(random_geometric(50, np.random.default_rng(1)), np.random.default_rng(2))
    >>> again = scattered_again(case, np.random.default_rng(3), CaseShape(sources=4))
    >>> len(case.statistics.rates["E1"]), len(again.statistics.rates["E1"])
    (10, 4)
    """
    rates = {
        event: scatter(case.network, sum(sites.values()), rng, shape.sources, shape.diameter_hops, shape.skew)
        for event, sites in case.statistics.rates.items()
    }
    return replace(case, statistics=replace(case.statistics, rates=rates))


def _query(rng: np.random.Generator, shape: CaseShape) -> tuple[str, list[str]]:
    """The text of a chain, and its primitive events. Shared ones are read by an operator and by the one before it."""
    streams: list[str] = []
    rules: list[str] = []
    for number in range(1, shape.complex_events + 1):
        before = _read_by(number, shape)
        fresh = shape.inputs - len(before)
        shared = [streams[-1]] if 1 < number <= shape.shared_events + 1 else []
        inputs = [*shared, *(f"E{len(streams) + k}" for k in range(1, fresh - len(shared) + 1))]
        streams += [event for event in inputs if event not in streams]
        inputs += [f"C{other}" for other in before]
        order = [inputs[k] for k in rng.permutation(len(inputs))]
        joint = " then each " if rng.random() < 0.5 else " and "
        window_us = round(_log_uniform(rng, shape.windows_s) * 1e6)
        pattern = joint.join(f"{event} as {event.lower()}" for event in order)
        head = f"subscribe C{number}" if number == shape.complex_events else f"define C{number}(ts)"
        rules.append(f"{head}\n  detect {pattern} within {window_us} us\n  assign ts = {order[0].lower()}.ts")
    declared = [f"stream {event}(ts timestamp) time ts" for event in streams]
    return "\n".join([*declared, "", *rules, ""]), streams


def _read_by(number: int, shape: CaseShape) -> list[int]:
    """The complex events that another one reads."""
    if shape.tree:
        return [*range(1, number)] if number == shape.complex_events else []
    return [number - 1] if number > 1 else []


def selectivities(graph: OperatorGraph, rates: dict[str, dict[str, float]]) -> dict[str, float]:
    """Such that no operator puts out more events than its rarest input has."""
    rate_of = {event: sum(sites.values()) for event, sites in rates.items()}
    selectivity_of: dict[str, float] = {}
    for operator in graph.operators:
        plain: PlannedOperator = planned(operator, {})
        inputs = np.array([rate_of[event] for event in plain.events])
        output = Coverage().output_rate(plain, inputs)
        selectivity_of[operator.name] = min(1.0, float(inputs.min()) / output)
        rate_of[operator.name] = output * selectivity_of[operator.name]
    return selectivity_of


def _log_uniform(rng: np.random.Generator, bounds: tuple[float, float]) -> float:
    low, high = np.log(bounds)
    return float(np.exp(rng.uniform(low, high)))
