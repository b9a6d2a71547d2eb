"""The query predictor: Figure 4 against its words on random input, and what must hold of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from situ.core.errors import SituError
from situ.kernel.arrays import F64
from situ.lab.mcep.prediction.predictor import (
    FocalPlaces,
    InterestCriteria,
    Policy,
    dead_reckoning,
    determine_interests,
    equidistant,
    scattered,
)

CHOICE = InterestCriteria(12.0, 12.0, False, 0.6, 0.6, "greedy")


def by_words(
    places: FocalPlaces, predicted: tuple[float, float], x: F64, y: F64, choice: InterestCriteria
) -> list[int]:
    """determine_interests as Figure 4 writes it, with sets."""

    def interest(p: int) -> set[int]:
        dx, dy = np.abs(x - places.x[p]), np.abs(y - places.y[p])
        inside = (dx <= choice.half_x) & (dy <= choice.half_y)
        if choice.is_round:
            inside &= dx**2 + dy**2 <= choice.half_x**2
        return set(np.flatnonzero(inside).tolist())

    def share(part: set[int], whole: set[int]) -> float:
        return len(part) / len(whole) if whole else 1.0

    chosen: list[int] = []
    costs = {p: len(interest(p)) for p in range(len(places))}
    total, left = 0, list(range(len(places)))
    while left:
        if choice.policy == "location":
            p = min(left, key=lambda p: (places.x[p] - predicted[0]) ** 2 + (places.y[p] - predicted[1]) ** 2)
        else:
            covered = set().union(*(interest(f) for f in chosen))
            p = max(left, key=lambda p: len(interest(p) - covered))  # the first of the largest
        left.remove(p)
        served = any(
            share(interest(p) & interest(f), interest(f)) > choice.precision
            and share(interest(p) & interest(f), interest(p)) > choice.recall
            for f in chosen
        )
        if not served and total + costs[p] <= choice.most_events:
            chosen.append(p)
            total += costs[p]
    return chosen


def random_case(seed: int) -> tuple[FocalPlaces, tuple[float, float], F64, F64]:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(50, 15, (2, 80)).round()
    x[::13] = np.nan
    return scattered(50.0, 50.0, 30.0, 20, rng), (50.0, 50.0), x, y


@pytest.mark.parametrize("policy", ["greedy", "location"])
@pytest.mark.parametrize("most", [np.inf, 60.0, 0.0])
@pytest.mark.parametrize("is_round", [True, False])
def test_determine_interests_is_what_figure_4_says(policy: Policy, most: float, is_round: bool) -> None:
    for seed in range(8):
        case = random_case(seed)
        choice = replace(CHOICE, policy=policy, most_events=most, is_round=is_round)
        assert determine_interests(*case, choice).tolist() == by_words(*case, choice)


@pytest.mark.parametrize("policy", ["greedy", "location"])
@pytest.mark.parametrize("seed", range(8))
def test_without_a_limit_every_place_is_served(policy: Policy, seed: int) -> None:
    places, predicted, x, y = random_case(seed)
    choice = replace(CHOICE, policy=policy)
    chosen = determine_interests(places, predicted, x, y, choice)

    def held(k: int) -> set[int]:
        return set(np.flatnonzero((np.abs(x - places.x[k]) <= 12) & (np.abs(y - places.y[k]) <= 12)).tolist())

    def served(p: int, f: int) -> bool:
        both = held(p) & held(f)
        precision = len(both) / len(held(f)) if held(f) else 1
        return precision > 0.6 and (len(both) / len(held(p)) if held(p) else 1) > 0.6

    for p in range(len(places)):
        assert any(p == f or served(p, f) for f in chosen.tolist())


@pytest.mark.parametrize("policy", ["greedy", "location"])
def test_the_limit_is_kept_and_a_higher_one_never_costs_less(policy: Policy) -> None:
    places, predicted, x, y = random_case(3)
    totals = []
    for most in range(0, 200, 10):
        chosen = determine_interests(places, predicted, x, y, replace(CHOICE, policy=policy, most_events=most))
        dx, dy = np.abs(x[None, :] - places.x[chosen, None]), np.abs(y[None, :] - places.y[chosen, None])
        totals.append(int(((dx <= 12) & (dy <= 12)).sum()))
        assert totals[-1] <= most
    assert totals[-1] > totals[0]


def test_a_higher_threshold_prepares_more() -> None:
    case = random_case(5)
    numbers = [len(determine_interests(*case, replace(CHOICE, precision=q, recall=q))) for q in (0.1, 0.5, 0.9, 1.0)]
    assert numbers == sorted(numbers)
    assert numbers[0] < numbers[-1]


def test_the_location_policy_begins_nearest_to_the_predicted_place() -> None:
    places, predicted, x, y = random_case(7)
    first = determine_interests(places, predicted, x, y, replace(CHOICE, policy="location"))[0]
    away = np.hypot(places.x - 50.0, places.y - 50.0)
    assert first == np.argmin(away) != 0


def test_the_greedy_policy_begins_where_most_events_are() -> None:
    places = equidistant(0.0, 0.0, 40.0, 9)
    x, y = np.array([0.0, 40.0, 41.0]), np.array([0.0, 40.0, 41.0])
    first = determine_interests(places, (0.0, 0.0), x, y, CHOICE)[0]
    assert (places.x[first], places.y[first]) == (40.0, 40.0)


def test_without_recent_events_one_place_serves_all() -> None:
    places = equidistant(0.0, 0.0, 40.0, 9)
    assert determine_interests(places, (0.0, 0.0), np.zeros(0), np.zeros(0), CHOICE).tolist() == [0]


def test_no_places_are_asked_for() -> None:
    for places in (lambda: equidistant(0.0, 0.0, 1.0, 0), lambda: scattered(0, 0, 1, 0, np.random.default_rng(0))):
        with pytest.raises(SituError, match="there cannot be 0 places"):
            places()


# ---- places


def test_dead_reckoning_is_exact_on_a_straight_way_at_a_steady_pace() -> None:
    times = np.array([0, 2, 5]) * 1_000_000
    x, y = 3.0 + times / 1e6 * 2.0, 7.0 - times / 1e6
    assert dead_reckoning(times, x, y, 11_000_000) == (25.0, -4.0)


def test_who_has_said_one_place_only_stays_there() -> None:
    assert dead_reckoning(np.array([5]), np.array([1.0]), np.array([2.0]), 99) == (1.0, 2.0)


@pytest.mark.parametrize("count", [1, 2, 5, 9, 10, 30, 100])
def test_equidistant_places_are_the_nearest_of_the_grid(count: int) -> None:
    places = equidistant(1.0, 2.0, 3.0, count)
    found = sorted((places.x - 1) ** 2 + (places.y - 2) ** 2)
    every = sorted(9.0 * (a * a + b * b) for a in range(-20, 21) for b in range(-20, 21))
    np.testing.assert_allclose(found, every[:count])
    assert len({*zip(places.x.tolist(), places.y.tolist(), strict=True)}) == count
    assert (places.x[0], places.y[0]) == (1.0, 2.0)


def test_scattered_places_follow_the_seed() -> None:
    one, again = (scattered(0.0, 0.0, 5.0, 400, np.random.default_rng(4)) for _ in range(2))
    np.testing.assert_array_equal(one.x, again.x)
    away = np.hypot(one.x, one.y)
    assert away.max() <= 5.0
    assert scattered(1.0, 2.0, 0.0, 1, np.random.default_rng(4)).x.tolist() == [1.0]
    assert 0.4 < np.mean(away > 5 / np.sqrt(2)) < 0.6  # half of the area, half of the places
