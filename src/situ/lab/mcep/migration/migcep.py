"""`migcep`: plans of migrations that pay (MCEP, section 5.5; Figure 4, generate_plan).

The plan of one operator is the shortest path through its time graph, given the plans of its neighbours in the operator
graph. A plan that changes is told to the neighbours, which plan again, until nobody's changes (consolidation).

An operator counts all streams that it has a part in, so a plan is taken only if it makes the whole graph cheaper by as
much as the operator saves. Hence consolidation ends, at plans of which no single operator's can be bettered; and no
change makes the whole dearer than it was before: where everybody stays, or at the end of any earlier round.
"""

from __future__ import annotations

import itertools
from collections import deque

import numpy as np

from situ.kernel.arrays import F64
from situ.lab.mcep.migration.migcep_plan import ExpectedPlacement, MigrationPlan, Migrations, streams_by_broker
from situ.lab.mcep.migration.migcep_problem import MigrationProblem, MovableOperator
from situ.lab.mcep.migration.time_graph import SHORTER, Path, TimeGraph, shortest_path

#: So often each operator may plan. Few rounds are usual; at the bound the plans are those found so far, each of which
#: was an improvement when it was made.
MOST_ROUNDS = 50


def migcep(problem: MigrationProblem, most_rounds: int = MOST_ROUNDS) -> Migrations:
    """
    >>> from situ.lab.mcep.migration.broker_regions import Area, BrokerRegions
    >>> network = BrokerRegions(Area(0, 0, 300, 100), ((3, 1),), latency_ms=10.0).network
    >>> moving = np.repeat(np.eye(4)[1:], 60, axis=0) * 1000.0  # a minute in each of the three leaves, 1 kB/s
    >>> consumer = np.repeat([1, 2, 3], 60)
    >>> face = MovableOperator("Face", ("Frame",), state_bytes=20_000.0, host=1, bytes_per_s=np.full(180, 10.0))
    >>> problem = MigrationProblem(network, 0, 1_000_000, {"Frame": moving}, (face,), consumer, 10_000.0)
    >>> [(p.host, p.initiate_us // 1_000_000, p.deadline_us // 1_000_000) for p in migcep(problem).plans[0].placements]
    [(1, 0, 0), (2, 58, 60), (3, 118, 120)]
    """
    count = len(problem.operators)
    plans = [_staying(problem, operator) for operator in problem.operators]
    hosts = [plan.hosts(problem) for plan in plans]
    waiting, generated = deque(range(count)), 0
    while waiting and generated < most_rounds * count:
        number = waiting.popleft()
        generated += 1
        streaming = problem.step_s * streams_by_broker(problem, number, hosts)
        plan = _generated(problem, number, streaming)
        if _cost(problem, number, plan, streaming) < _cost(problem, number, plans[number], streaming) * SHORTER:
            plans[number], hosts[number] = plan, plan.hosts(problem)
            neighbours = {*problem.inputs[number], *problem.readers[number]}
            waiting.extend(sorted(neighbours.difference(waiting)))
    return Migrations("migcep", tuple(plans), generated / max(count, 1), not waiting)


def _staying(problem: MigrationProblem, operator: MovableOperator) -> MigrationPlan:
    """Where it is, or where a migration under way leads."""
    first, host = _free_at(problem, operator)
    stay = Path(0.0, (host,), (0,), (0,))
    return MigrationPlan(operator.name, _placements(problem, operator, stay, first))


def _free_at(problem: MigrationProblem, operator: MovableOperator) -> tuple[int, int]:
    """The first step in which a migration can be initiated, and where the operator is then."""
    if operator.transfer is None:
        return 0, operator.host
    return operator.transfer.steps_left, operator.transfer.target


def _generated(problem: MigrationProblem, number: int, streaming: F64) -> MigrationPlan:
    """generate_plan() of Figure 4. What is under way is completed first: the graph begins where it ends."""
    operator = problem.operators[number]
    first, host = _free_at(problem, operator)
    if first >= problem.steps:
        return _staying(problem, operator)
    path = shortest_path(_time_graph(problem, operator, streaming[first:], host))
    return MigrationPlan(operator.name, _placements(problem, operator, path, first))


def _time_graph(problem: MigrationProblem, operator: MovableOperator, streaming: F64, host: int) -> TimeGraph:
    """An operator without state can start anywhere, unless it is on its way. All links give a migration the same
    bandwidth, so that its duration is that of its state."""
    brokers = len(problem.network.sites)
    start = np.full(brokers, np.inf if operator.state_bytes or operator.transfer else 0.0)
    start[host] = 0.0
    duration = np.full((brokers, brokers), max(problem.transfer_steps(operator), 1))
    return TimeGraph(streaming, operator.state_bytes * problem.latency_s, duration, start)


def _placements(
    problem: MigrationProblem, operator: MovableOperator, path: Path, first: int
) -> tuple[ExpectedPlacement, ...]:
    """Of a path that begins with step `first`; until then the operator is where it was."""
    ends = [first + step for step in path.arrived[1:]] + [problem.steps]
    begins = [first + step for step in path.arrived]
    initiated = [first + step for step in path.initiated]
    hosts = list(path.brokers)
    if first > 0:
        initiated[0] = 0
        begins, ends, initiated, hosts = [0, *begins], [first, *ends], [0, *initiated], [operator.host, *hosts]
    return tuple(
        ExpectedPlacement(
            host,
            float(operator.bytes_per_s[begin:end].mean()) if begin < min(end, problem.steps) else 0.0,
            problem.start_us + start * problem.step_us,
            problem.start_us + begin * problem.step_us,
        )
        for host, start, begin, end in zip(hosts, initiated, begins, ends, strict=True)
    )


def _cost(problem: MigrationProblem, number: int, plan: MigrationPlan, streaming: F64) -> float:
    """The cost of one operator's streams and migrations."""
    state_bytes = problem.operators[number].state_bytes
    moves = itertools.pairwise(placement.host for placement in plan.placements)
    migrated = sum(state_bytes * float(problem.latency_s[old, new]) for old, new in moves)
    return float(streaming[np.arange(problem.steps), plan.hosts(problem)].sum()) + migrated
