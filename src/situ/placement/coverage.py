"""The cost model `coverage`: events are Poisson processes, and what is pulled is what falls into pull windows.

Rates are messages per second, so a cost can be counted in a run. PaNORAMA's own formulas (`paper_costs`) multiply rates
as if they were probabilities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from situ.kernel.arrays import F64
from situ.placement.problem import PUSHED, Kind, Need, PlannedOperator


@dataclass(frozen=True, slots=True)
class Coverage:
    """The default cost model."""

    name: str = "coverage"

    def output_rate(self, operator: PlannedOperator, rates: F64) -> float:
        """SEQ with `each`: W^(n-1) / (n-1)! x the product of rates; AND: n W^(n-1) x the product; OR: the sum."""
        match operator.kind:
            case Kind.SEQ:
                combinations_per_s = float(rates[0]) * followers(rates[1:], operator.each, operator.window_s)
            case Kind.AND:
                combinations_per_s = len(rates) * operator.window_s ** (len(rates) - 1) * math.prod(map(float, rates))
            case Kind.OR | Kind.OTHER:
                combinations_per_s = float(rates.sum()) if operator.every_s is None else 1 / operator.every_s
        return combinations_per_s * operator.selectivity

    def output_bursts(self, operator: PlannedOperator, rates: F64, bursts: F64) -> float:
        """The bursts of the output, which are its events: they count one by one."""
        return self.output_rate(operator, rates)

    def need(self, operator: PlannedOperator, rates: F64, earlier: tuple[int, ...], step: tuple[int, ...]) -> Need:
        """The fraction of time that is covered by pull windows, which open where all earlier inputs meet."""
        if not earlier:
            return PUSHED
        conjunction = operator.kind is Kind.AND
        covered = 1.0
        for order, rate in enumerate(sorted(float(rates[number]) for number in earlier), start=1):
            reach = operator.window_s * (1 + 1 / order if conjunction else 1 / order)
            covered *= -math.expm1(-rate * reach)
        if covered >= 1:
            return PUSHED
        return Need(covered, -math.log1p(-covered) / (operator.window_s * (2 if conjunction else 1)))


def followers(rates: F64, each: tuple[bool, ...], window_s: float) -> float:
    """The mean number of ways in which events of these rates follow one another within a window.

    After an event, the next one of a rate comes after a time of density r e^-rt (and is the only one), any one of them
    after a time of density r. The density of the sum is their convolution; its integral up to the window is an entry
    of the exponential of a matrix of two diagonals.

    >>> round(followers(np.array([2.0, 3.0]), (True, True), 0.5), 6)  # 2 x 3 x 0.5^2 / 2
    0.75
    >>> round(followers(np.array([2.0]), (False,), 0.5), 6), round(1 - math.exp(-1), 6)
    (0.632121, 0.632121)
    """
    size = len(rates) + 1
    matrix = np.zeros((size, size))
    for number, (rate, all_) in enumerate(zip(rates, each, strict=True)):
        matrix[number, number] = 0.0 if all_ else -rate
        matrix[number, number + 1] = rate
    return float(exponential(matrix * window_s)[0, -1])


def exponential(matrix: F64) -> F64:
    """e^matrix, by a Taylor series of a small part of it, squared as often as needed."""
    squarings = max(0, math.ceil(math.log2(max(float(np.abs(matrix).max()), 1.0))) + 4)
    part = matrix / 2.0**squarings
    term = result = np.eye(len(matrix))
    for order in range(1, 16):
        term = term @ part / order
        result = result + term
    return np.linalg.matrix_power(result, 2**squarings)
