"""A migration plan: where an operator is expected to run, and when its state has to be on the way (MCEP, Figure 5a)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.lab.mcep.migration.migcep_problem import MigrationProblem


@dataclass(frozen=True, slots=True)
class ExpectedPlacement:
    """MCEP's quadruple: an operator's host, the mean bandwidth of what it puts out there, when the transfer of its
    state is initiated, and the deadline: from then on it can run there. The first of a plan is where it is already."""

    host: int
    bytes_per_s: float
    initiate_us: int
    deadline_us: int


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """An operator's placements in the order of time. `stops`: it does not run while its state is transferred, so that
    events are sent to the new host at once, and wait there; else it goes on at the old host until the deadline."""

    operator: str
    placements: tuple[ExpectedPlacement, ...]
    stops: bool = False

    def hosts(self, problem: MigrationProblem) -> I64:
        """The broker to which the operator's events are sent, step by step.

        >>> from situ.network.generate import broker_tree
        >>> network = broker_tree(2, 2, np.random.default_rng(1))
        >>> problem = MigrationProblem(network, 0, 1_000_000, {}, (), np.zeros(4, np.int64), 1e6)
        >>> placements = ExpectedPlacement(0, 1.0, 0, 0), ExpectedPlacement(2, 1.0, 1_000_000, 3_000_000)
        >>> MigrationPlan("op", placements).hosts(problem).tolist()
        [0, 0, 0, 2]
        >>> MigrationPlan("op", placements, stops=True).hosts(problem).tolist()
        [0, 2, 2, 2]
        """
        times = problem.start_us + np.arange(problem.steps) * problem.step_us
        since = [placement.initiate_us if self.stops else placement.deadline_us for placement in self.placements]
        at = np.maximum(np.searchsorted(np.array(since), times, side="right") - 1, 0)
        return np.array([placement.host for placement in self.placements], np.int64)[at]


@dataclass(frozen=True, slots=True)
class Migrations:
    """What a mechanism answers: plans in the order of the problem's operators. `rounds`: how often each operator
    planned, on average. `settled`: no operator would change its plan, those of the others given."""

    mechanism: str
    plans: tuple[MigrationPlan, ...]
    rounds: float = 1.0
    settled: bool = True


@dataclass(frozen=True, slots=True)
class NetworkUse:
    """What plans take, on average over all steps: the bandwidth-delay product of streams and of migrations, in bytes;
    the way of an event until the consumer has what became of it; and for how long operators do not run."""

    streaming_bytes: float
    migration_bytes: float
    latency_s: float
    stopped_s: float
    migrations: int

    @property
    def bdp_bytes(self) -> float:
        return self.streaming_bytes + self.migration_bytes


def network_use(problem: MigrationProblem, plans: Sequence[MigrationPlan]) -> NetworkUse:
    """Of plans that are carried out while the problem's streams flow. Each operator has a range query's events sent to
    itself, also where another one beside it reads the same. Of a transfer that does not end in time, what is done until
    then counts."""
    hosts = [plan.hosts(problem) for plan in plans]
    streaming = sum((own_streams(problem, number, hosts) for number in range(len(hosts))), np.zeros(problem.steps))
    migrated, migrations, stopped_us = 0.0, 0, 0
    for plan, operator in zip(plans, problem.operators, strict=True):
        for old, new in itertools.pairwise(plan.placements):
            if new.initiate_us >= problem.end_us:
                break
            lasts_us = new.deadline_us - new.initiate_us
            within_us = min(new.deadline_us, problem.end_us) - new.initiate_us
            share = within_us / lasts_us if lasts_us else 1.0
            migrated += share * operator.state_bytes * float(problem.latency_s[old.host, new.host])
            migrations += 1
            stopped_us += within_us if plan.stops else 0
    duration_s = problem.steps * problem.step_s
    way_s = _way_s(problem, hosts)
    return NetworkUse(float(streaming.mean()), migrated / duration_s, way_s, stopped_us / 1e6, migrations)


def own_streams(problem: MigrationProblem, number: int, hosts: Sequence[I64]) -> F64:
    """(steps,): the bandwidth-delay product of what an operator reads from range queries, and of what it puts out."""
    operator, rows = problem.operators[number], np.arange(problem.steps)
    bdp_bytes = np.zeros(problem.steps)
    for name in operator.reads:
        if name in problem.gathering:
            bdp_bytes += problem.gathering[name][rows, hosts[number]]
    for target in targets(problem, number, hosts):
        bdp_bytes += operator.bytes_per_s * problem.latency_s[hosts[number], target]
    return bdp_bytes


def streams_by_broker(problem: MigrationProblem, number: int, hosts: Sequence[I64], part: slice = slice(None)) -> F64:
    """(steps, brokers): the bandwidth-delay product of all streams that an operator has a part in, if it ran at a
    broker while all others are at their hosts. Of some of the steps."""
    operator = problem.operators[number]
    bdp_bytes = np.zeros((len(problem.consumer[part]), len(problem.network.sites)))
    for name in operator.reads:
        if name in problem.gathering:
            bdp_bytes += problem.gathering[name][part]
    for other in problem.inputs[number]:
        bdp_bytes += problem.operators[other].bytes_per_s[part, None] * problem.latency_s[hosts[other][part]]
    for target in targets(problem, number, hosts):
        bdp_bytes += operator.bytes_per_s[part, None] * problem.latency_s[target[part]]
    return bdp_bytes


def targets(problem: MigrationProblem, number: int, hosts: Sequence[I64]) -> list[I64]:
    """Where an operator's stream goes, step by step: to its readers, or to the consumer."""
    return [hosts[reader] for reader in problem.readers[number]] or [problem.consumer]


def _way_s(problem: MigrationProblem, hosts: Sequence[I64]) -> float:
    """From where an event of a range query occurs to the consumer, over all operators in between, the longest where
    there are several ways: the mean over all bytes that occur. Waiting is not in it."""
    onwards: dict[int, F64] = {}
    for number in reversed(range(len(hosts))):
        readers = problem.readers[number]
        ways = [
            problem.latency_s[hosts[number], target] + (onwards[readers[k]] if readers else 0.0)
            for k, target in enumerate(targets(problem, number, hosts))
        ]
        onwards[number] = np.max(ways, axis=0)
    weighted, volume, rows = 0.0, 0.0, np.arange(problem.steps)
    for number, operator in enumerate(problem.operators):
        for name in operator.reads:
            if name in problem.range_queries:
                arriving = problem.range_queries[name].sum(axis=1)
                weighted += float((problem.gathering[name][rows, hosts[number]] + arriving * onwards[number]).sum())
                volume += float(arriving.sum())
    return weighted / volume if volume else 0.0
