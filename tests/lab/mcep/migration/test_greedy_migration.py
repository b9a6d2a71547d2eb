"""Greedy migration: at once, whatever it costs, and the operator stops meanwhile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lab.mcep.migration.migration_problems import random_problem
from situ.lab.mcep.migration.broker_regions import Area, BrokerRegions
from situ.lab.mcep.migration.greedy_migration import greedy_migration
from situ.lab.mcep.migration.migcep import migcep
from situ.lab.mcep.migration.migcep_plan import network_use
from situ.lab.mcep.migration.migcep_problem import MigrationProblem, MovableOperator

THREE_LEAVES = BrokerRegions(Area(0, 0, 300, 100), ((3, 1),), latency_ms=10.0).network


def travelling(state_bytes: float, *leaves: int, each_s: int = 60) -> MigrationProblem:
    """1 kB/s from each of the leaves in turn, and the consumer with it; 10 kB/s for migrations."""
    steps = each_s * len(leaves)
    stream = np.repeat(np.eye(4)[list(leaves)], each_s, axis=0) * 1000.0
    operator = MovableOperator("Seen", ("Frame",), state_bytes, leaves[0], np.full(steps, 10.0))
    consumer = np.repeat(leaves, each_s)
    return MigrationProblem(THREE_LEAVES, 0, 1_000_000, {"Frame": stream}, (operator,), consumer, 10_000.0)


def test_it_stops_while_its_state_is_transferred() -> None:
    problem = travelling(200_000.0, 1, 2, 3)
    use = network_use(problem, greedy_migration(problem).plans)
    assert use.stopped_s == 2 * 20
    assert use.migrations == 2
    assert use.migration_bytes == pytest.approx(2 * 200_000 * 0.02 / 180)
    assert use.streaming_bytes == 0.0
    assert use.latency_s == 0.0


def test_of_a_transfer_that_does_not_end_what_is_done_counts() -> None:
    problem = travelling(1_200_000.0, 1, 2)
    use = network_use(problem, greedy_migration(problem).plans)
    assert use.stopped_s == 60
    assert use.migration_bytes == pytest.approx(0.5 * 1_200_000 * 0.02 / 120)


def test_it_looks_again_when_it_runs_again() -> None:
    problem = travelling(800_000.0, 1, 2, 3)
    placements = greedy_migration(problem).plans[0].placements
    assert [(p.host, p.initiate_us, p.deadline_us) for p in placements] == [
        (1, 0, 0),
        (2, 60_000_000, 140_000_000),
        (3, 140_000_000, 220_000_000),
    ]


def test_it_looks_every_few_seconds() -> None:
    problem = travelling(0.0, 1, 2, each_s=7)
    hosts = greedy_migration(problem).plans[0].hosts(problem)
    assert hosts.tolist() == [1] * 10 + [2] * 4


def test_migcep_neither_stops_nor_moves_what_does_not_pay() -> None:
    cheap, dear = travelling(20_000.0, 1, 2, 3), travelling(4_000_000.0, 1, 2, 3)
    assert network_use(cheap, migcep(cheap).plans).migrations == 2
    assert network_use(cheap, migcep(cheap).plans).stopped_s == 0
    assert network_use(dear, migcep(dear).plans).migrations == 0
    assert network_use(dear, greedy_migration(dear).plans).migrations == 1


@pytest.mark.parametrize("seed", range(20))
def test_it_is_at_the_best_broker_whenever_it_looks(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), brokers=5, steps=30)
    problem = replace(problem, operators=(replace(problem.operators[0], state_bytes=0.0),))
    hosts = greedy_migration(problem).plans[0].hosts(problem)
    to_consumer = problem.operators[0].bytes_per_s[:, None] * problem.latency_s[problem.consumer]
    costs = problem.range_queries["Q0"] @ problem.latency_s + to_consumer
    for step in range(0, 30, 5):
        assert costs[step, hosts[step]] == pytest.approx(costs[step].min())
        assert (hosts[step : step + 5] == hosts[step]).all()
