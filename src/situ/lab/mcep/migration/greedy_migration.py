"""`greedy migration`: the baseline of `migcep` (MCEP, section 6.3).

Every few seconds each operator looks for the broker at which its streams cost least just then, and migrates to it at
once, whatever this costs. It stops while its state is transferred: events go to the new broker from the beginning, and
wait there. It looks again when it runs again.
"""

from __future__ import annotations

import numpy as np

from situ.lab.mcep.migration.migcep_plan import ExpectedPlacement, MigrationPlan, Migrations, streams_by_broker
from situ.lab.mcep.migration.migcep_problem import MigrationProblem, MovableOperator
from situ.lab.mcep.migration.time_graph import SHORTER

#: "Every few seconds"; the paper says no more.
LOOKS_EVERY_US = 5_000_000


def greedy_migration(problem: MigrationProblem, looks_every_us: int = LOOKS_EVERY_US) -> Migrations:
    """Plans migrations step by step, and knows of each step only what is so then. Operators look one after the other,
    inputs first.

    >>> from situ.lab.mcep.migration.broker_regions import Area, BrokerRegions
    >>> network = BrokerRegions(Area(0, 0, 300, 100), ((3, 1),), latency_ms=10.0).network
    >>> moving = np.repeat(np.eye(4)[1:], 60, axis=0) * 1000.0  # a minute in each of the three leaves, 1 kB/s
    >>> consumer = np.repeat([1, 2, 3], 60)
    >>> face = MovableOperator("Face", ("Frame",), state_bytes=20_000.0, host=1, bytes_per_s=np.full(180, 10.0))
    >>> problem = MigrationProblem(network, 0, 1_000_000, {"Frame": moving}, (face,), consumer, 10_000.0)
    >>> plan = greedy_migration(problem).plans[0]
    >>> [(p.host, p.initiate_us // 1_000_000, p.deadline_us // 1_000_000) for p in plan.placements]
    [(1, 0, 0), (2, 60, 62), (3, 120, 122)]
    """
    every = max(looks_every_us // problem.step_us, 1)
    count = len(problem.operators)
    moves_of = [_begun(operator) for operator in problem.operators]
    hosts = np.array([[moves[-1][0]] * problem.steps for moves in moves_of], np.int64)
    for step in range(0, problem.steps, every):
        for number in range(count):
            if step < moves_of[number][-1][2]:
                continue
            costs = streams_by_broker(problem, number, list(hosts), slice(step, step + 1))[0]
            best = int(costs.argmin())
            if costs[best] < costs[hosts[number, step]] * SHORTER:
                ready = step + problem.transfer_steps(problem.operators[number])
                moves_of[number].append((best, step, ready))
                hosts[number, step:] = best
    plans = (_plan(problem, operator, moves) for operator, moves in zip(problem.operators, moves_of, strict=True))
    return Migrations("greedy migration", tuple(plans))


def _begun(operator: MovableOperator) -> list[tuple[int, int, int]]:
    """Hosts so far, the steps in which migrations to them were initiated, and from which it runs there."""
    here = [(operator.host, 0, 0)]
    return here if operator.transfer is None else [*here, (operator.transfer.target, 0, operator.transfer.steps_left)]


def _plan(problem: MigrationProblem, operator: MovableOperator, moves: list[tuple[int, int, int]]) -> MigrationPlan:
    ends = [start for _, start, _ in moves[1:]] + [problem.steps]
    placements = tuple(
        ExpectedPlacement(
            host,
            float(operator.bytes_per_s[start:end].mean()) if start < end else 0.0,
            problem.start_us + start * problem.step_us,
            problem.start_us + ready * problem.step_us,
        )
        for (host, start, ready), end in zip(moves, ends, strict=True)
    )
    return MigrationPlan(operator.name, placements, stops=True)
