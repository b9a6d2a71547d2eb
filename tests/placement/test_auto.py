"""`auto`: which mechanism answers, by the number of sites and by how strict a limit is."""

from __future__ import annotations

import numpy as np
import pytest

from placement.random_problems import Shape, random_problem, with_limit
from situ.placement import auto as rules
from situ.placement.auto import auto, is_strict
from situ.placement.naive import naive

#: Sites up to which `optimal`, `heuristic+` and `greedy+` answer, how many times the least latency is allowed, and who
#: answers for a network of ten.
ROWS = [
    ((10, 20, 30), None, "optimal"),
    ((9, 20, 30), None, "heuristic+"),
    ((8, 9, 30), None, "greedy+"),
    ((7, 8, 9), None, "greedy"),
    ((7, 8, 9), 2.5, "greedy"),
    ((7, 8, 9), 1.5, "heuristic+"),
    ((8, 9, 30), 1.5, "heuristic+"),
    ((10, 20, 30), 1.5, "optimal"),
]


@pytest.mark.parametrize(("sites", "factor", "name"), ROWS)
def test_the_rules_of_thumb(
    sites: tuple[int, int, int], factor: float | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, most in zip(("OPTIMAL_SITES", "HEURISTIC_SITES", "GREEDY_PLUS_SITES"), sites, strict=True):
        monkeypatch.setattr(rules, limit, most)
    problem = random_problem(1, Shape(sites=(10, 10), plans=np.inf))
    if factor is not None:
        problem = with_limit(problem, naive(problem).latency_ms * factor)
    assert auto(problem).mechanism == name


def test_a_limit_is_strict_below_twice_the_least_latency() -> None:
    problem = random_problem(1, Shape(sites=(10, 10), plans=np.inf))
    fastest_ms = naive(problem).latency_ms
    assert not is_strict(problem)
    assert not is_strict(with_limit(problem, fastest_ms * 2.01))
    assert is_strict(with_limit(problem, fastest_ms * 1.99))
