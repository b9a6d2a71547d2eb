"""The hypergeometric distribution: draws without putting back."""

from __future__ import annotations

import math

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.kernel.machine import jit


def chance_of_at_least(wanted: I64, population: I64, good: I64, draws: I64) -> F64:
    """How likely `wanted` or more of `draws` are good, of a population in which `good` are.

    >>> chance_of_at_least(np.array([1]), np.array([4]), np.array([1]), np.array([2])).round(9)
    array([0.5])
    """
    assert np.all((good >= 0) & (good <= population) & (draws >= 0) & (draws <= population))
    chances = np.zeros(len(wanted))
    _tails(wanted, population, good, draws, chances)
    return chances


@jit
def _tails(wanted: I64, population: I64, good: I64, draws: I64, chances: F64) -> None:
    for k in range(len(chances)):
        chances[k] = _tail(wanted[k], population[k], good[k], draws[k])


@jit
def _tail(wanted: int, population: int, good: int, draws: int) -> float:
    """Each term follows from the one before. The sum runs away from the expected value: its first term is the largest,
    so if that is too small for a number, the sum is, too."""
    least, most = max(0, draws + good - population), min(good, draws)
    if wanted <= least:
        return 1.0
    if wanted > most:
        return 0.0
    bad = population - good
    total = 0.0
    if wanted * population > draws * good:
        term = _term(wanted, population, good, draws)
        for k in range(wanted, most + 1):
            total += term
            term *= (good - k) * (draws - k) / ((k + 1) * (bad - draws + k + 1))
        return min(total, 1.0)
    term = _term(wanted - 1, population, good, draws)
    for below in range(wanted - least):
        k = wanted - 1 - below
        total += term
        term *= k * (bad - draws + k) / ((good - k + 1) * (draws - k + 1))
    return max(1.0 - total, 0.0)


@jit
def _term(k: int, population: int, good: int, draws: int) -> float:
    ways = _log_choose(good, k) + _log_choose(population - good, draws - k)
    return math.exp(ways - _log_choose(population, draws))


@jit
def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1.0) - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0)
