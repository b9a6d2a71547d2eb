"""Plans follow predictions: kept while these hold, generated again when they do not."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from lab.mcep.migration.migration_problems import random_problem
from situ.lab.mcep.migration.migcep import migcep
from situ.lab.mcep.migration.migcep_follow import deviation, follow
from situ.lab.mcep.migration.migcep_plan import network_use
from situ.lab.mcep.migration.migcep_problem import MigrationProblem
from situ.placement.problem import PlacementError

SECOND_US = 1_000_000


def problem_of(seed: int, **shape: int) -> MigrationProblem:
    return random_problem(np.random.default_rng(seed), **{"brokers": 5, "steps": 40, "operators": 3, **shape})


def later(problem: MigrationProblem, step: int, steps: int | None = None) -> MigrationProblem:
    """What is left of a future after some steps, up to so many."""
    part = slice(step, None if steps is None else step + steps)
    return replace(
        problem,
        start_us=problem.start_us + step * problem.step_us,
        range_queries={name: stream[part] for name, stream in problem.range_queries.items()},
        operators=tuple(replace(o, bytes_per_s=o.bytes_per_s[part]) for o in problem.operators),
        consumer=problem.consumer[part],
    )


@pytest.mark.parametrize("seed", range(10))
def test_predictions_that_hold_change_nothing(seed: int) -> None:
    problem = problem_of(seed)
    followed = follow([later(problem, step) for step in range(0, 40, 5)])
    assert followed.generated == 1
    assert followed.plans == migcep(problem).plans


@pytest.mark.parametrize("seed", range(20))
def test_plans_as_they_were_carried_out_are_executable(seed: int) -> None:
    """Also where every prediction is new: states are transferred one after the other, each in its time."""
    problem = problem_of(seed, most_steps=4)
    others = [problem_of(seed + 1000 * (k + 1), most_steps=4) for k in range(8)]
    predictions = [
        replace(
            later(other, 0, 20),
            network=problem.network,
            start_us=problem.start_us + 5 * k * SECOND_US,
            operators=tuple(replace(o, bytes_per_s=o.bytes_per_s[:20], host=0) for o in problem.operators),
        )
        for k, other in enumerate(others)
    ]
    followed = follow(predictions)
    assert followed.generated == 8
    for plan, operator in zip(followed.plans, problem.operators, strict=True):
        lasts_us = max(problem.transfer_steps(operator), 1) * SECOND_US
        for old, new in itertools.pairwise(plan.placements):
            assert old.deadline_us <= new.initiate_us
            if operator.state_bytes:
                assert new.host != old.host
                assert new.deadline_us - new.initiate_us == lasts_us
        if operator.state_bytes:
            assert plan.placements[0].host == 0


@pytest.mark.parametrize("seed", range(20))
def test_short_sight_is_never_better_than_the_whole_future(seed: int) -> None:
    problem = problem_of(seed, operators=1)
    followed = follow([later(problem, step, 10) for step in range(0, 40, 5)], threshold=0.0)
    assert followed.generated > 1
    best = network_use(problem, migcep(problem).plans).bdp_bytes
    assert network_use(problem, followed.plans).bdp_bytes >= best * (1 - 1e-9)


def test_a_migration_that_was_initiated_is_completed_whatever_is_new() -> None:
    """The first prediction sends the operator away; the second, while its state is on the way, would not have."""
    problem = problem_of(2, operators=1, brokers=3)
    operator = replace(problem.operators[0], host=0, state_bytes=600.0, bytes_per_s=np.zeros(40))  # takes 6 s

    def all_at(broker: int, start_s: int) -> MigrationProblem:
        streams = {"Q0": np.tile(np.eye(3)[broker] * 1000.0, (40, 1))}
        start_us = start_s * SECOND_US
        return replace(problem, start_us=start_us, range_queries=streams, operators=(operator,))

    placements = follow([all_at(2, 0), all_at(0, 3)]).plans[0].placements
    assert [(p.host, p.initiate_us // SECOND_US, p.deadline_us // SECOND_US) for p in placements] == [
        (0, 0, 0),
        (2, 0, 6),
        (0, 6, 12),
    ]


def test_a_migration_that_is_to_begin_now_is_planned_anew() -> None:
    """Everything is at broker 0 for 10 s, then at 2; at the moment when the state has to leave it turns out not to."""
    problem = problem_of(2, operators=1, brokers=3)
    operator = replace(problem.operators[0], host=0, state_bytes=500.0, bytes_per_s=np.zeros(40))  # takes 5 s
    goes = np.repeat(np.eye(3)[[0, 2]] * 1000.0, [10, 30], axis=0)
    stays = np.repeat(np.eye(3)[[0]] * 1000.0, 40, axis=0)
    first = replace(problem, start_us=0, range_queries={"Q0": goes}, operators=(operator,))
    second = replace(first, start_us=5 * SECOND_US, range_queries={"Q0": stays})
    assert [p.initiate_us for p in migcep(first).plans[0].placements] == [0, 5 * SECOND_US]
    assert [p.host for p in follow([first, second]).plans[0].placements] == [0]


def test_what_deviates() -> None:
    problem = problem_of(3)
    assert deviation(problem, problem) == 0.0
    assert deviation(problem, later(problem, 10)) == 0.0
    # The earlier prediction ends before half of the later one.
    assert deviation(later(problem, 0, 15), later(problem, 10, 20)) == 1.0
    elsewhere = replace(problem, consumer=(problem.consumer + 1) % 5)
    assert deviation(problem, elsewhere) == 1.0
    louder = replace(problem, operators=tuple(replace(o, bytes_per_s=2 * o.bytes_per_s) for o in problem.operators))
    assert deviation(problem, louder) == pytest.approx(0.25)
    slow = tuple(replace(link, latency_ms=4 * link.latency_ms) for link in problem.network.links)
    slower = replace(problem, network=replace(problem.network, links=slow))
    assert deviation(problem, slower) == pytest.approx(0.375)


def test_without_a_prediction_there_is_no_plan() -> None:
    with pytest.raises(PlacementError, match="there is no prediction"):
        follow([])
