"""The shortest path is the shortest: by networkx, and by its own sum."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from situ.lab.mcep.migration.time_graph import TimeGraph, shortest_path


def random_graph(seed: int) -> TimeGraph:
    rng = np.random.default_rng(seed)
    steps, brokers = int(rng.integers(1, 12)), int(rng.integers(1, 6))
    start = np.where(rng.random(brokers) < 0.5, 0.0, np.inf)
    start[rng.integers(brokers)] = 0.0
    return TimeGraph(
        rng.uniform(0, 10, (steps, brokers)),
        rng.uniform(0, 20, (brokers, brokers)) * rng.choice([0.0, 0.1, 1.0]),
        rng.integers(1, 5, (brokers, brokers)),
        start,
    )


def by_networkx(graph: TimeGraph) -> float:
    """Vertices and edges as the paper has them: s, brokers at steps, f."""
    steps, brokers = graph.streaming.shape
    drawn = nx.DiGraph()
    for broker in range(brokers):
        if np.isfinite(graph.start[broker]):
            drawn.add_edge("s", (broker, 0), weight=graph.start[broker])
        drawn.add_edge((broker, steps), "f", weight=0.0)
        for step in range(steps):
            drawn.add_edge((broker, step), (broker, step + 1), weight=graph.streaming[step, broker])
            for target in range(brokers):
                arrival = step + int(graph.duration[broker, target])
                if target != broker and arrival <= steps:
                    cost = graph.streaming[step:arrival, broker].sum() + graph.migration[broker, target]
                    drawn.add_edge((broker, step), (target, arrival), weight=cost)
    return float(nx.shortest_path_length(drawn, "s", "f", weight="weight"))


@pytest.mark.parametrize("seed", range(60))
def test_it_is_as_short_as_networkx_says(seed: int) -> None:
    graph = random_graph(seed)
    assert shortest_path(graph).cost == pytest.approx(by_networkx(graph), rel=1e-9)


@pytest.mark.parametrize("seed", range(60))
def test_a_path_costs_what_its_edges_cost(seed: int) -> None:
    graph = random_graph(seed)
    path = shortest_path(graph)
    steps = len(graph.streaming)
    cost, ends = graph.start[path.brokers[0]], (*path.arrived[1:], steps)
    for broker, begin, end in zip(path.brokers, path.arrived, ends, strict=True):
        cost += graph.streaming[begin:end, broker].sum()
    for k in range(1, len(path.brokers)):
        old, new = path.brokers[k - 1 : k + 1]
        assert path.arrived[k - 1] <= path.initiated[k]
        assert path.arrived[k] == path.initiated[k] + graph.duration[old, new]
        cost += graph.migration[old, new]
    assert path.cost == pytest.approx(cost, rel=1e-9)


def test_nobody_migrates_for_nothing() -> None:
    alike = TimeGraph(np.full((9, 3), 0.1), np.zeros((3, 3)), np.ones((3, 3), np.int64), np.array([np.inf, 0, np.inf]))
    assert shortest_path(alike).brokers == (1,)


def test_a_migration_that_arrives_too_late_is_not_begun() -> None:
    streaming = np.array([[9.0, 1.0]] * 4)
    durations = np.full((2, 2), 5)
    graph = TimeGraph(streaming, np.zeros((2, 2)), durations, np.array([0.0, np.inf]))
    assert shortest_path(graph).brokers == (0,)
