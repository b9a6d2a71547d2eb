"""What plans take of the network, by words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lab.mcep.migration.migration_problems import latency_by_links, random_tree
from situ.lab.mcep.migration.migcep_plan import ExpectedPlacement, MigrationPlan, network_use
from situ.lab.mcep.migration.migcep_problem import MigrationProblem, MovableOperator

SECOND_US = 1_000_000


def two_ways(seed: int) -> tuple[MigrationProblem, list[MigrationPlan], list[list[int]]]:
    """Two operators read a range query, and a third both of them; each is somewhere, in every step elsewhere."""
    rng = np.random.default_rng(seed)
    network, steps = random_tree(6, rng), 4
    names = ("Slower", ("Q",)), ("OtherLane", ("Q",)), ("Accident", ("Slower", "OtherLane"))
    operators = tuple(MovableOperator(name, reads, 0.0, 0, rng.uniform(1, 9, steps)) for name, reads in names)
    queries = {"Q": rng.uniform(0, 9, (steps, 6))}
    problem = MigrationProblem(network, 0, SECOND_US, queries, operators, rng.integers(6, size=steps), 1e6)
    hosts = [rng.integers(6, size=steps).tolist() for _ in operators]
    plans = [
        MigrationPlan(
            operator.name,
            tuple(ExpectedPlacement(host, 0.0, k * SECOND_US, k * SECOND_US) for k, host in enumerate(places)),
        )
        for operator, places in zip(operators, hosts, strict=True)
    ]
    return problem, plans, hosts


@pytest.mark.parametrize("seed", range(10))
def test_the_latency_is_that_of_the_longer_way_of_each_byte(seed: int) -> None:
    problem, plans, hosts = two_ways(seed)

    def way(a: int, b: int) -> float:
        return latency_by_links(problem.network, a, b)

    weighted = volume = 0.0
    for step in range(problem.steps):
        root, consumer = hosts[2][step], int(problem.consumer[step])
        for leaf in (hosts[0][step], hosts[1][step]):
            for broker, rate in enumerate(problem.range_queries["Q"][step]):
                weighted += rate * (way(broker, leaf) + way(leaf, root) + way(root, consumer))
                volume += rate
    assert network_use(problem, plans).latency_s == pytest.approx(weighted / volume)


def test_where_two_read_the_slower_way_counts() -> None:
    problem, plans, hosts = two_ways(3)
    first = problem.operators[0]
    second = MovableOperator("Jam", ("Slower",), 0.0, 0, np.ones(problem.steps))
    third = MovableOperator("Fog", ("Slower",), 0.0, 0, np.ones(problem.steps))
    fanned = MigrationProblem(
        problem.network, 0, SECOND_US, problem.range_queries, (first, second, third), problem.consumer, 1e6
    )

    def way(a: int, b: int) -> float:
        return latency_by_links(problem.network, a, b)

    weighted = 0.0
    for step in range(problem.steps):
        here, consumer = hosts[0][step], int(problem.consumer[step])
        onwards = max(way(here, hosts[k][step]) + way(hosts[k][step], consumer) for k in (1, 2))
        for broker, rate in enumerate(problem.range_queries["Q"][step]):
            weighted += rate * (way(broker, here) + onwards)
    assert network_use(fanned, plans).latency_s == pytest.approx(weighted / problem.range_queries["Q"].sum())


def test_what_is_to_begin_after_the_end_does_not_count() -> None:
    network = random_tree(3, np.random.default_rng(1))
    operator = MovableOperator("Seen", ("Q",), 1000.0, 0, np.zeros(5))
    problem = MigrationProblem(network, 0, SECOND_US, {"Q": np.zeros((5, 3))}, (operator,), np.zeros(5, int), 100.0)
    for initiate_s, migrations, share in ((0, 1, 0.5), (2, 1, 0.3), (5, 0, 0.0), (7, 0, 0.0)):
        later = ExpectedPlacement(2, 0.0, initiate_s * SECOND_US, (initiate_s + 10) * SECOND_US)
        use = network_use(problem, [MigrationPlan("Seen", (ExpectedPlacement(0, 0.0, 0, 0), later))])
        assert use.migrations == migrations
        assert use.migration_bytes == pytest.approx(share * 1000.0 * latency_by_links(network, 0, 2) / 5)


def test_a_query_without_events_takes_nothing() -> None:
    problem, plans, _ = two_ways(1)
    silent = replace(
        problem,
        range_queries={"Q": np.zeros((4, 6))},
        operators=tuple(replace(operator, bytes_per_s=np.zeros(4)) for operator in problem.operators),
    )
    assert network_use(problem, plans).bdp_bytes > 0.0
    assert network_use(silent, plans).bdp_bytes == 0.0
    assert network_use(silent, plans).latency_s == 0.0
