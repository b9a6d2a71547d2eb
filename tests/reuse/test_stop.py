"""Recursive stop: what is delivered does not change, and what stops is not needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from situ.kernel.arrays import I64
from situ.reuse.stop import needs
from situ.reuse.waiting import Neighbours


@dataclass(frozen=True)
class Plan:
    """Operator graphs of one shape, one for each interest, with their selections and coverings."""

    feeds: list[tuple[int, int]]
    operators: int
    owner: I64
    begin_us: I64
    end_us: I64
    by: I64
    delivered: list[bool]

    def needs(self) -> tuple[list[bool], list[bool]]:
        pairs = np.array(self.feeds, np.int64).reshape(-1, 2)
        feeds = Neighbours.of(pairs[:, 0], pairs[:, 1], self.operators)
        found = needs(feeds, self.owner, self.begin_us, self.end_us, self.by, np.array(self.delivered))
        return found.read.tolist(), found.processed.tolist()


def random_plan(rng: np.random.Generator) -> Plan:
    kinds, interests, each = int(rng.integers(1, 6)), int(rng.integers(1, 5)), int(rng.integers(1, 9))
    shape = [(a, b) for b in range(kinds) for a in range(b) if rng.random() < 0.5]
    root = [kind == kinds - 1 or rng.random() < 0.2 for kind in range(kinds)]
    feeds = [(a * interests + i, b * interests + i) for a, b in shape for i in range(interests)]
    count = kinds * interests * each
    owner = np.repeat(np.arange(kinds * interests), each)
    begin = rng.integers(0, 30, count)
    by = np.arange(count)
    for kind in range(kinds):
        mine = np.flatnonzero(owner // interests == kind)
        covering = rng.choice(mine, max(1, len(mine) // 2), replace=False)
        others = np.setdiff1d(mine, covering)
        by[others] = rng.choice(covering, len(others))
    order = rng.permutation(count)
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    delivered = [root[operator // interests] for operator in range(kinds * interests)]
    end = begin + rng.integers(0, 9, count)
    return Plan(feeds, kinds * interests, owner[order], begin[order], end[order], place[by[order]], delivered)


def results(plan: Plan, runs: list[bool]) -> list[object]:
    """What each selection's operator is given; None for what does not run. Inputs are the results of those before, in
    whose stead others may be processed."""
    owner, begin, end, by = (column.tolist() for column in (plan.owner, plan.begin_us, plan.end_us, plan.by))
    before: dict[int, list[int]] = {}
    for feeder, reader in plan.feeds:
        before.setdefault(reader, []).append(feeder)
    known: dict[int, object] = {}

    def result(s: int) -> object:
        if not runs[s]:
            return None
        if s not in known:
            inputs = [
                result(by[other])
                for other in range(len(owner))
                if owner[other] in before.get(owner[s], []) and begin[s] <= end[other] <= end[s]
            ]
            known[s] = hash((s, tuple(inputs)))
        return known[s]

    return [result(by[s]) if plan.delivered[owner[s]] else "not delivered" for s in range(len(owner))]


@pytest.mark.parametrize("seed", range(60))
def test_what_is_delivered_does_not_change(seed: int) -> None:
    plan = random_plan(np.random.default_rng(seed))
    _, processed = plan.needs()
    everything = [True] * len(plan.owner)
    assert results(plan, processed) == results(plan, everything)
    for s in np.flatnonzero(processed).tolist():  # nothing runs for nothing
        without = [runs and k != s for k, runs in enumerate(processed)]
        assert results(plan, without) != results(plan, processed)
    assert not any(runs for s, runs in enumerate(processed) if plan.by[s] != s)


def test_some_stop() -> None:
    stopped = 0
    for seed in range(20):
        plan = random_plan(np.random.default_rng(seed))
        _, processed = plan.needs()
        stopped += len(np.unique(plan.by)) - sum(processed)
    assert stopped > 20


def test_a_stop_goes_on_to_all_that_come_before() -> None:
    """Two graphs 0 -> 1 -> 2 and 3 -> 4 -> 5. The root of the second is covered: nothing of it runs."""
    feeds = [(0, 1), (1, 2), (3, 4), (4, 5)]
    times = np.zeros(6, np.int64)
    plan = Plan(feeds, 6, np.arange(6), times, times, np.array([0, 1, 2, 3, 4, 2]), [k % 3 == 2 for k in range(6)])
    assert plan.needs() == ([True, True, True, False, False, True], [True, True, True, False, False, False])


def test_who_processes_for_others_does_not_stop() -> None:
    """As before, but operator 3 processes for 0."""
    feeds = [(0, 1), (1, 2), (3, 4), (4, 5)]
    times = np.zeros(6, np.int64)
    plan = Plan(feeds, 6, np.arange(6), times, times, np.array([3, 1, 2, 3, 4, 2]), [k % 3 == 2 for k in range(6)])
    assert plan.needs()[1] == [False, True, True, True, False, False]


def test_a_selection_outside_the_covered_time_goes_on() -> None:
    """0 -> 1. The first selection of 1 is covered by 2's; 0 goes on for the second."""
    owner, begin, end = np.array([0, 0, 1, 1, 2]), np.array([0, 10, 0, 10, 0]), np.array([5, 15, 5, 15, 5])
    plan = Plan([(0, 1)], 3, owner, begin, end, np.array([0, 1, 4, 3, 4]), [False, True, True])
    assert plan.needs() == ([False, True, True, True, True], [False, True, False, True, True])


def test_no_selections() -> None:
    nothing = np.zeros(0, np.int64)
    assert Plan([(0, 1)], 2, nothing, nothing, nothing, nothing, [False, True]).needs() == ([], [])
