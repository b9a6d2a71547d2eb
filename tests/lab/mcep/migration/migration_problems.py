"""Random problems of migration, and their answers by trying everything. Imports nothing of what plans."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from situ.lab.mcep.migration.migcep_problem import MigrationProblem, MovableOperator
from situ.network.network import Link, Network, Site

#: (initiated, arrived, broker), in steps.
Move = tuple[int, int, int]


def random_tree(brokers: int, rng: np.random.Generator) -> Network:
    links = tuple(Link(f"b{rng.integers(k)}", f"b{k}", round(float(rng.uniform(1, 20)), 3)) for k in range(1, brokers))
    return Network(tuple(Site(f"b{k}") for k in range(brokers)), links)


def random_problem(
    rng: np.random.Generator, *, brokers: int = 3, steps: int = 5, operators: int = 1, most_steps: int = 3
) -> MigrationProblem:
    """A chain of operators, each of which also reads a range query of its own. Migrations take up to so many steps."""
    network = random_tree(brokers, rng)
    queries = {
        f"Q{k}": rng.uniform(0, 100, (steps, brokers)) * (rng.random((steps, brokers)) < 0.6) for k in range(operators)
    }
    found = []
    for k in range(operators):
        reads = (f"Q{k}",) if k == 0 else (f"Q{k}", f"O{k - 1}")
        state = float(rng.choice([0.0, 1.0])) * float(rng.uniform(1, 100 * most_steps))
        found.append(MovableOperator(f"O{k}", reads, state, int(rng.integers(brokers)), rng.uniform(0, 30, steps)))
    consumer = rng.integers(brokers, size=steps)
    return MigrationProblem(network, 7_000_000, 1_000_000, queries, tuple(found), consumer, 100.0)


def latency_by_links(network: Network, a: int, b: int) -> float:
    """The sum over the links on the way, in seconds."""
    by_ends = {frozenset((link.a, link.b)): link.latency_ms for link in network.links}
    names = [network.names[site] for site in network.ways_from(a).path(b)]
    return sum(by_ends[frozenset(pair)] for pair in itertools.pairwise(names)) / 1000


def cost_by_words(problem: MigrationProblem, hosts: list[list[int]], moves: list[list[Move]]) -> float:
    """Bandwidth x latency x time of all streams, plus state x latency of all migrations."""
    total = 0.0
    for number, operator in enumerate(problem.operators):
        readers = [k for k, other in enumerate(problem.operators) if operator.name in other.reads]
        for step in range(problem.steps):
            here = hosts[number][step]
            for name in operator.reads:
                for broker, rate in enumerate(problem.range_queries.get(name, np.zeros((problem.steps, 0)))[step]):
                    total += rate * latency_by_links(problem.network, broker, here)
            targets = [hosts[reader][step] for reader in readers] or [int(problem.consumer[step])]
            for target in targets:
                total += operator.bytes_per_s[step] * latency_by_links(problem.network, here, target)
        old = operator.host
        for _, _, new in moves[number]:
            total += operator.state_bytes * latency_by_links(problem.network, old, new)
            old = new
    return total


def all_schedules(problem: MigrationProblem, number: int) -> Iterator[tuple[list[int], list[Move]]]:
    """Every way to migrate one operator that arrives in time: hosts by step, and moves. An operator without state may
    be elsewhere at once when the first step begins."""
    operator = problem.operators[number]
    brokers = len(problem.network.sites)
    lasts = max(int(np.ceil(operator.state_bytes / problem.transfer_bytes_per_s)), 1)

    def onwards(step: int, host: int) -> Iterator[tuple[list[int], list[Move]]]:
        if step >= problem.steps:
            yield [], []
            return
        for hosts, moves in onwards(step + 1, host):
            yield [host, *hosts], moves
        if step + lasts <= problem.steps:
            for target in range(brokers):
                if target != host:
                    for hosts, moves in onwards(step + lasts, target):
                        yield [host] * lasts + hosts, [(step, step + lasts, target), *moves]

    for first in range(brokers) if operator.state_bytes == 0 else [operator.host]:
        yield from onwards(0, first)
