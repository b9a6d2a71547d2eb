"""Random queries with streams at several sites, random networks and random plans."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from situ.core.errors import SituWarning
from situ.graph.operators import OperatorGraph
from situ.lab.panorama.simulation.events import Occurred
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.network import Link, Network, Site
from situ.network.statistics import Statistics
from situ.placement.coverage import Coverage
from situ.placement.from_graph import problem_of
from situ.placement.plan import Placed, Steps
from situ.placement.problem import PlannedOperator, Problem
from situ.runtime.embedded.engine import Engine

STREAMS = ("A", "B", "C", "D", "E")

#: An input of a plain operator: event type, and the least v that its filter lets pass (None: no filter).
Read = tuple[str, int | None]


@dataclass(frozen=True)
class Plain:
    """A plain SEQ or AND, as the oracle needs to know it."""

    ordered: bool
    window_s: int
    reads: tuple[Read, ...]


@dataclass(frozen=True)
class Scenario:
    """`plain` has the operators that can be pulled; the others are pushed."""

    text: str
    graph: OperatorGraph
    problem: Problem
    events: dict[str, Occurred]
    plain: dict[str, Plain]


def random_network(rng: np.random.Generator) -> Network:
    """A tree with a few links more."""
    count = int(rng.integers(2, 7))
    names = [f"s{number}" for number in range(count)]
    pairs = {(int(rng.integers(number)), number) for number in range(1, count)}
    pairs |= {(a, b) for a in range(count) for b in range(a + 1, count) if rng.random() < 0.15}
    unit = float(rng.choice([0.001, 1.0, 700.0]))  # against windows of some seconds
    links = [Link(names[a], names[b], unit * int(rng.integers(1, 9)), int(rng.integers(3))) for a, b in sorted(pairs)]
    return Network(tuple(map(Site, names)), tuple(links))


def _plain_rule(rng: np.random.Generator, types: Sequence[str]) -> tuple[str, Plain]:
    """A SEQ or AND of different types, with filters and conditions between events."""
    chosen = [str(name) for name in rng.permutation(types)[: rng.integers(2, min(4, len(types)) + 1)]]
    ordered, window_s = bool(rng.integers(2)), int(rng.integers(1, 6))
    pattern, reads = "", []
    for number, name in enumerate(chosen):
        least = int(rng.integers(0, 3)) if rng.random() < 0.3 else None
        conditions = [f"v >= {least}"] if least is not None else []
        if number and rng.random() < 0.4:
            other = chosen[int(rng.integers(number))]
            conditions.append(f"v {rng.choice(['>=', '!=', '<='])} {other}.v")
        link = " and " if not ordered else str(rng.choice([" then ", " then each "]))
        pattern += (link if number else "") + name + (f"({' and '.join(conditions)})" if conditions else "")
        reads.append((name, least))
    k = f"{chosen[int(rng.integers(len(chosen)))]}.k"
    grouped = " group by k" if rng.random() < 0.3 else ""
    total = " + ".join(f"{name}.v" for name in chosen)
    rule = f"detect {pattern} within {window_s} s assign v = ({total}) % 5, k = {k}{grouped}"
    return rule, Plain(ordered, window_s, tuple(reads))


OTHERS = (
    "detect {x} as x then not {y} then {z} as z within 3 s assign v = z.v, k = z.k",
    "detect {x} as x then immediately {y}(v > 0) as y within 3 s assign v = y.v, k = y.k",
    "detect {x}+ as x then {y} as y within 2 s assign v = count(x), k = y.k",
    "detect {x} as x then last {y} as y within 2 s assign v = x.v, k = y.k",
    "detect {x} as x then {y} as y within 4 s assign v = x.v, k = y.k consuming x",
    "detect {x} as x then {y} as y within 4 s assign v = x.v, k = y.k after match skip past last",
    "detect {x} as x then {x}(v > x.v) as y within 4 s assign v = x.v, k = y.k",
    "detect {x} as x then ({y} as y and {z} as z) within 3 s assign v = x.v, k = y.k group by k",
    "detect {x} as x then each {y} as y within 3 s from previous assign v = x.v, k = y.k",
    "detect {x} as x or {y}(v = 1) as y assign v = coalesce(x.v, y.v), k = coalesce(x.k, y.k)",
    "case 0: detect {x} as x assign v = x.v, k = x.k case 1: detect {y} as y then {z} within 2 s assign v = 1, k = y.k",
    "aggr every 3 s detect {x} and outer {y} assign v = count({x}), k = group.k group by k",
    "aggr every 2 events over 3 events detect {x}(v > 0) assign v = count({x}), k = sum({x}.k)",
    "join every 3 s on k detect {x} as x and {y}(v >= x.v) as y assign v = x.v, k = y.k",
    "detect {x} as x then not {y} within 2 s assign v = x.v, k = x.k",
)


def _query(rng: np.random.Generator, others: bool) -> tuple[str, dict[str, Plain]]:
    """A chain of one to three operators, and one beside it that shares events with them."""
    length = int(rng.integers(1, 4))
    lines = [f"stream {name}(v int, k int, n int, ts int) time ts in ms" for name in STREAMS]
    types, plain = [*STREAMS], {}
    for number in range(length + int(rng.integers(2))):
        name = f"Z{number}" if rng.random() < 0.5 else f"{'ABCDE'[number]}{number}"  # ties by name of the type
        rule: str
        if others and rng.random() < 0.5:
            x, y, z = (str(t) for t in rng.permutation(types)[:3])
            rule = str(rng.choice(OTHERS)).format(x=x, y=y, z=z)
        else:
            seen = [types[-1]] if number and number < length else []
            rule, plain[name] = _plain_rule(rng, list(dict.fromkeys([*seen, *rng.permutation(types)[:4].tolist()])))
        last = number >= length - 1
        lines.append(f"subscribe {name} {rule}" if last else f"define {name}(v, k) {rule}")
        if not last:
            types.append(name)
    return "\n".join(lines), plain


def random_scenario(seed: int, others: bool = False, most: int = 14) -> Scenario:
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    text, plain = _query(rng, others)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SituWarning)
        graph = resolve(parse(text))
    sites = {name: rng.permutation(len(network.sites))[: rng.integers(1, 4)] for name in STREAMS}
    rates = {name: {network.names[site]: 1.0 for site in some} for name, some in sites.items()}
    problem = problem_of(graph, network, Statistics(rates), Coverage(), root=str(rng.choice(network.names)))
    unit_ms = int(rng.choice([1, 1000]))  # whole seconds: many events of equal time
    events = {name: _occurred(rng, some, unit_ms, most) for name, some in sites.items() if name in problem.sources}
    return Scenario(text, graph, problem, events, plain)


def _occurred(rng: np.random.Generator, sites: np.ndarray, unit_ms: int, most: int) -> Occurred:
    count = int(rng.integers(0, most + 1))
    ts = rng.integers(0, 25_000 // unit_ms, count) * unit_ms
    columns = {"v": rng.integers(0, 4, count), "k": rng.integers(0, 2, count), "n": np.arange(count), "ts": ts}
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    return Occurred(table, rng.choice(sites, count))


def random_steps(operator: PlannedOperator, rng: np.random.Generator) -> Steps:
    inputs = rng.permutation(len(operator.inputs)).tolist()
    if not operator.can_pull:
        return (tuple(inputs),)
    cuts = [number for number in range(1, len(inputs)) if rng.random() < 0.6]
    return tuple(tuple(inputs[a:b]) for a, b in zip([0, *cuts], [*cuts, len(inputs)], strict=True))


def random_plan(problem: Problem, rng: np.random.Generator) -> tuple[Placed, ...]:
    sites = rng.integers(len(problem.network.sites), size=len(problem.operators))
    if rng.random() < 0.5:
        sites[:] = sites[0]  # at one site events are shared
    return tuple(Placed(int(s), random_steps(o, rng)) for s, o in zip(sites, problem.operators, strict=True))


def embedded(scenario: Scenario) -> dict[str, list[dict[str, Any]]]:
    """The complex events of all operators, by the embedded engine on all events."""
    engine = Engine(scenario.graph, show_definitions=True, threads=1)
    unread = {s.name: pa.table({"v": [], "k": [], "n": [], "ts": []}) for s in scenario.graph.streams}
    schema = pa.schema([(name, pa.int64()) for name in ("v", "k", "n", "ts")])
    tables = {name: table.cast(schema) for name, table in unread.items()}
    tables |= {name: occurred.rows for name, occurred in scenario.events.items()}
    found: dict[str, list[dict[str, Any]]] = {operator.name: [] for operator in scenario.graph.operators}
    for output in engine.run(tables):
        for name, table in output.complex_events.items():
            found[name] += table.to_pylist()
    return found
