"""`migcep` is optimal for one operator, and consolidation makes nothing worse."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from lab.mcep.migration.migration_problems import all_schedules, cost_by_words, random_problem
from situ.lab.mcep.migration.greedy_migration import greedy_migration
from situ.lab.mcep.migration.migcep import migcep
from situ.lab.mcep.migration.migcep_plan import Migrations, network_use
from situ.lab.mcep.migration.migcep_problem import MigrationProblem, Transfer
from situ.placement.problem import PlacementError


def total(problem: MigrationProblem, found: Migrations) -> float:
    return network_use(problem, found.plans).bdp_bytes * problem.steps * problem.step_s


def problem_of(seed: int, **shape: int) -> MigrationProblem:
    return random_problem(np.random.default_rng(seed), **shape)


@pytest.mark.parametrize("seed", range(40))
def test_one_operator_migrates_as_well_as_possible(seed: int) -> None:
    problem = problem_of(seed)
    best = min(cost_by_words(problem, [hosts], [moves]) for hosts, moves in all_schedules(problem, 0))
    found = migcep(problem)
    assert found.settled
    assert total(problem, found) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("seed", range(25))
def test_no_operator_alone_can_better_the_plans(seed: int) -> None:
    problem = problem_of(seed, steps=4, operators=2)
    found = migcep(problem)
    assert found.settled
    hosts = [plan.hosts(problem).tolist() for plan in found.plans]
    moves = [
        [
            ((p.initiate_us - problem.start_us) // 1_000_000, (p.deadline_us - problem.start_us) // 1_000_000, p.host)
            for p in plan.placements[1:]
        ]
        for plan in found.plans
    ]
    cost = cost_by_words(problem, hosts, moves)
    assert cost == pytest.approx(total(problem, found), rel=1e-9)
    for number in range(2):
        for other_hosts, other_moves in all_schedules(problem, number):
            changed_hosts, changed_moves = [*hosts], [*moves]
            changed_hosts[number], changed_moves[number] = other_hosts, other_moves
            assert cost_by_words(problem, changed_hosts, changed_moves) >= cost * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(15))
def test_two_operators_are_never_better_than_the_best_of_both(seed: int) -> None:
    problem = problem_of(seed, brokers=2, steps=4, operators=2)
    both = itertools.product(all_schedules(problem, 0), all_schedules(problem, 1))
    best = min(cost_by_words(problem, [a[0], b[0]], [a[1], b[1]]) for a, b in both)
    assert total(problem, migcep(problem)) >= best * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_the_more_is_consolidated_the_cheaper_it_is(seed: int) -> None:
    problem = problem_of(seed, brokers=5, steps=12, operators=4)
    costs = [total(problem, migcep(problem, most_rounds=rounds)) for rounds in range(5)]
    costs.append(total(problem, migcep(problem)))
    for before, after in itertools.pairwise(costs):
        assert after <= before * (1 + 1e-9)


def test_at_the_bound_the_plans_so_far_are_used() -> None:
    problem = problem_of(3, brokers=5, steps=12, operators=4)
    bounded = migcep(problem, most_rounds=1)
    assert not bounded.settled
    assert bounded.rounds == 1.0
    assert len(bounded.plans) == 4
    assert migcep(problem).settled


@pytest.mark.parametrize("seed", range(30))
def test_without_state_one_operator_is_as_good_as_greedy_or_better(seed: int) -> None:
    problem = problem_of(seed, brokers=6, steps=30)
    problem = replace(problem, operators=(replace(problem.operators[0], state_bytes=0.0),))
    ours = total(problem, migcep(problem))
    assert ours <= total(problem, greedy_migration(problem)) * (1 + 1e-9)
    # Greedy that looks in every step is always at the best broker, as we are.
    assert ours == pytest.approx(total(problem, greedy_migration(problem, looks_every_us=1_000_000)), rel=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_plans_are_executable(seed: int) -> None:
    """States are transferred one after the other, each in the time that it takes, from hosts to other hosts."""
    problem = problem_of(seed, brokers=5, steps=20, operators=3, most_steps=4)
    for plan, operator in zip(migcep(problem).plans, problem.operators, strict=True):
        lasts_us = max(problem.transfer_steps(operator), 1) * problem.step_us
        for old, new in itertools.pairwise(plan.placements):
            assert new.host != old.host
            assert old.deadline_us <= new.initiate_us
            assert new.deadline_us - new.initiate_us == lasts_us
            assert new.deadline_us <= problem.end_us
        if operator.state_bytes:
            assert plan.placements[0].host == operator.host


def test_the_bandwidth_of_a_placement_is_the_mean_while_it_lasts() -> None:
    problem = problem_of(5, brokers=4, steps=20)
    plan, operator = migcep(problem).plans[0], problem.operators[0]
    assert len(plan.placements) > 1
    hosts = plan.hosts(problem)
    begins = [(p.deadline_us - problem.start_us) // problem.step_us for p in plan.placements]
    for placement, begin, end in zip(plan.placements, begins, [*begins[1:], problem.steps], strict=True):
        assert (hosts[begin:end] == placement.host).all()
        assert placement.bytes_per_s == pytest.approx(operator.bytes_per_s[begin:end].mean())


@pytest.mark.parametrize("steps_left", [1, 3, 50])
def test_what_is_under_way_is_completed_first(steps_left: int) -> None:
    problem = problem_of(8, brokers=4, steps=10)
    operator = replace(problem.operators[0], host=0, state_bytes=150.0, transfer=Transfer(2, steps_left))
    problem = replace(problem, operators=(operator,))
    for found in (migcep(problem), migcep(problem, most_rounds=0)):
        first, second, *later = found.plans[0].placements
        assert (first.host, second.host) == (0, 2)
        assert second.deadline_us == problem.start_us + steps_left * problem.step_us
        assert all(placement.initiate_us >= second.deadline_us for placement in later)
        hosts = found.plans[0].hosts(problem)
        assert (hosts[:steps_left] == 0).all()
    assert greedy_migration(problem).plans[0].placements[1].host == 2


@pytest.mark.parametrize("seed", range(15))
def test_after_what_is_under_way_the_rest_is_as_good_as_possible(seed: int) -> None:
    problem = problem_of(seed, brokers=3, steps=7)
    before = replace(problem.operators[0], host=0, state_bytes=120.0, transfer=Transfer(2, 2))
    problem = replace(problem, operators=(before,))
    free = replace(problem, operators=(replace(before, host=2, transfer=None),))
    best = np.inf
    for hosts, moves in all_schedules(free, 0):
        if set(hosts[:2]) == {2} and all(start >= 2 for start, _, _ in moves):
            best = min(best, cost_by_words(problem, [[0, 0, *hosts[2:]]], [[(0, 2, 2), *moves]]))
    assert total(problem, migcep(problem)) == pytest.approx(best, rel=1e-9)


def test_without_state_too_what_is_under_way_is_completed() -> None:
    problem = problem_of(8, brokers=4, steps=10)
    for target in range(1, 4):
        operator = replace(problem.operators[0], host=0, state_bytes=0.0, transfer=Transfer(target, 1))
        placements = migcep(replace(problem, operators=(operator,))).plans[0].placements
        assert [placement.host for placement in placements[:2]] == [0, target]


def test_the_same_problem_has_the_same_plans() -> None:
    assert migcep(problem_of(4, brokers=5, steps=9, operators=3)) == migcep(
        problem_of(4, brokers=5, steps=9, operators=3)
    )


def test_no_operators_need_no_plans() -> None:
    problem = replace(problem_of(1), operators=())
    assert migcep(problem).plans == greedy_migration(problem).plans == ()


BROKEN = [
    ({"consumer": np.array([0, 1, 9, 0, 0])}, "the consumer: is at no broker"),
    ({"consumer": np.array([], np.int64)}, "there are no time steps"),
    ({"transfer_bytes_per_s": 0.0}, "must be above 0"),
    ({"transfer_bytes_per_s": np.nan}, "must be above 0"),
    ({"range_queries": {"Q0": np.full((5, 3), np.nan)}}, "range query 'Q0': a rate is not finite"),
    ({"range_queries": {"Q0": np.zeros((4, 3))}}, r"range query 'Q0': has rates of \(4, 3\)"),
    ({"range_queries": {}}, "operator 'O0': reads 'Q0', which is not there"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN)
def test_a_problem_that_makes_no_sense_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(PlacementError, match=message):
        replace(problem_of(1), **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state_bytes": np.nan}, "its state is nan bytes"),
        ({"host": -1}, "is at no broker"),
        ({"transfer": Transfer(3, 1)}, "is at no broker"),
        ({"bytes_per_s": np.full(5, -1.0)}, "negative"),
        ({"reads": ("Q0", "Q0")}, "reads the same twice"),
        ({"name": "Q0"}, "the name is used twice"),
    ],
)
def test_an_operator_that_makes_no_sense_is_refused(change: dict[str, object], message: str) -> None:
    problem = problem_of(1)
    with pytest.raises(PlacementError, match=message):
        replace(problem, operators=(replace(problem.operators[0], **change),))  # type: ignore[arg-type]
