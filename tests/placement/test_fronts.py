"""`front_of` against all combinations of offers and ordered partitions; what a ceiling may take away."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest

from placement.compare import about, not_more
from situ.placement.fronts import Ceiling, Front, Offers, StepTable, front_of, pushed_at_once

NO_LIMIT = 1 << 60
Orders = list[tuple[int, ...]]  # the step of each input, all orders
Point = tuple[int, float]


def all_orders(inputs: int) -> Orders:
    """The step of each input, such that no step is empty."""
    return [
        order for order in itertools.product(range(inputs), repeat=inputs) if set(order) == set(range(max(order) + 1))
    ]


class Draw:
    """Offers and a table of steps; what a step costs is drawn for each set before it and each set that it takes."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.rng = rng
        self.inputs = int(rng.integers(1, 4))
        counts = rng.integers(1, 5, size=self.inputs)
        size, few = int(counts.sum()), bool(seed % 2)  # few values: ties are frequent
        ways, owns = rng.integers(0, 4 if few else 1000, size=(2, size))
        base, data, ask = rng.integers(0, 4, size=(3, size)).astype(float) if few else rng.uniform(0, 5, (3, size))
        self.offers = Offers(np.concatenate([[0], np.cumsum(counts)]), ways, owns, base, data, ask)
        self.drawn: dict[tuple[int, int], tuple[float, float]] = {}
        self.table = pushed_at_once(self.inputs, float(rng.uniform(0, 2))) if seed % 5 == 0 else self._table()
        self.orders = [(0,) * self.inputs] if seed % 5 == 0 else all_orders(self.inputs)
        if seed % 5 == 0:
            self.drawn[0, (1 << self.inputs) - 1] = float(self.table.fraction[0]), 0.0

    def _table(self) -> StepTable:
        full = (1 << self.inputs) - 1
        offset, steps = [0], []
        for before in range(full + 1):
            for step in range(1, full + 1):
                if not step & before:
                    fraction = 1.0 if before == 0 else float(self.rng.uniform(0, 1))
                    self.drawn[before, step] = fraction, 0.0 if before == 0 else float(self.rng.uniform(0, 1))
                    steps.append((step, before | step, *self.drawn[before, step]))
            offset.append(len(steps))
        taken, target, fractions, requests = (np.array(column) for column in zip(*steps, strict=True))
        return StepTable(np.arange(full + 1), np.array(offset), taken, target, fractions, requests)

    def value(self, chosen: tuple[int, ...], order: tuple[int, ...]) -> Point:
        """Latency and cost of a plan: the offer of each input, and its step."""
        o, reached, cost, before = self.offers, 0, 0.0, 0
        for step in range(max(order) + 1):
            taken = [k for k in range(self.inputs) if order[k] == step]
            fraction, requests = self.drawn[before, sum(1 << k for k in taken)]
            arrivals = []
            for k in taken:
                way, own = int(o.way_ns[chosen[k]]), int(o.own_ns[chosen[k]])
                arrivals.append(way + own if step == 0 else way + max(own, way + reached))
                cost += o.base[chosen[k]] + fraction * o.data[chosen[k]] + requests * o.ask[chosen[k]]
            reached = max(arrivals)
            before |= sum(1 << k for k in taken)
        return reached, float(cost)

    def plans(self) -> Iterator[Point]:
        ranges = [range(a, b) for a, b in itertools.pairwise(self.offers.offset.tolist())]
        for chosen in itertools.product(*ranges):
            for order in self.orders:
                yield self.value(chosen, order)


def brute_front(points: list[Point]) -> list[Point]:
    return [(y, c) for y, c in set(points) if not any((v < y and d <= c) or (v <= y and d < c) for v, d in points)]


def points_of(front: Front) -> list[Point]:
    return list(zip(front.latency_ns.tolist(), front.cost.tolist(), strict=True))


def check_same(front: Front, expected: list[Point]) -> None:
    for y, c in expected:
        assert any(v <= y and not_more(d, c) for v, d in points_of(front))
    for v, d in points_of(front):
        assert any(y <= v and not_more(c, d) for y, c in expected)


def check_plans_are_what_they_say(draw: Draw, front: Front) -> None:
    for k in range(len(front)):
        latency, cost = draw.value(tuple(front.chosen[k].tolist()), tuple(front.step[k].tolist()))
        assert latency == front.latency_ns[k]
        assert cost == about(float(front.cost[k]))


def check_falls(front: Front) -> None:
    assert (np.diff(front.latency_ns) > 0).all()
    assert (np.diff(front.cost) < 0).all()


@pytest.mark.parametrize("seeds", [range(60), range(60, 120), range(120, 180)], ids=str)
def test_a_front_is_that_of_all_combinations(seeds: range) -> None:
    for seed in seeds:
        draw = Draw(seed)
        plans = list(draw.plans())
        front = front_of(draw.offers, draw.table, NO_LIMIT)
        check_same(front, brute_front(plans))
        check_plans_are_what_they_say(draw, front)
        check_falls(front)


@pytest.mark.parametrize("seeds", [range(60), range(60, 120)], ids=str)
def test_a_limit_leaves_the_plans_within_it(seeds: range) -> None:
    for seed in seeds:
        draw = Draw(seed)
        plans = list(draw.plans())
        latencies = sorted({y for y, _ in plans})
        for limit in (latencies[0] - 1, latencies[0], latencies[len(latencies) // 2]):
            front = front_of(draw.offers, draw.table, limit)
            check_same(front, brute_front([(y, c) for y, c in plans if y <= limit]))
            check_plans_are_what_they_say(draw, front)


@pytest.mark.parametrize("seeds", [range(80), range(80, 160)], ids=str)
def test_a_ceiling_takes_away_only_what_known_plans_beat(seeds: range) -> None:
    removed = 0
    for seed in seeds:
        draw = Draw(seed)
        expected = brute_front(list(draw.plans()))
        to_go, way = float(draw.rng.uniform(0, 3)), int(draw.rng.integers(0, 5))
        known = _known(draw, expected, to_go, way)
        ceiling = Ceiling(np.array([y for y, _ in known]), np.array([c for _, c in known]), to_go, way)
        front = front_of(draw.offers, draw.table, NO_LIMIT, ceiling)
        kept = [(y, c) for y, c in expected if not _beaten(y + way, c + to_go, known)]
        removed += len(expected) - len(kept)
        for y, c in kept:
            assert any(v <= y and not_more(d, c) for v, d in points_of(front)), seed
        check_plans_are_what_they_say(draw, front)
        check_falls(front)
    assert removed > len(seeds) / 2


def test_a_ceiling_of_the_best_plans_themselves_keeps_them_all() -> None:
    for seed in range(80):
        draw = Draw(seed)
        expected = sorted(brute_front(list(draw.plans())))
        ceiling = Ceiling(np.array([y for y, _ in expected]), np.array([c for _, c in expected]), 0.0, 0)
        check_same(front_of(draw.offers, draw.table, NO_LIMIT, ceiling), expected)


def _known(draw: Draw, expected: list[Point], to_go: float, way: int) -> list[Point]:
    """Plans somewhat better and worse than those that will be found, by growing latency and falling cost."""
    near = [
        (y + way + int(draw.rng.integers(0, 3)), (c + to_go) * float(draw.rng.uniform(0.8, 1.3))) for y, c in expected
    ]
    return sorted(brute_front(near))


def _beaten(latency: int, cost: float, known: list[Point]) -> bool:
    return min((c for y, c in known if y <= latency), default=math.inf) < cost
