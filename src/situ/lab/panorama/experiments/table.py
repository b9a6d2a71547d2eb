"""Rows of an experiment -> the curves of a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from situ.kernel.arrays import F64
from situ.lab.figure import Points
from situ.lab.panorama.experiments.measure import HERE, MeasuredPlan

Where = Literal["antennas", "real"]
Metric = Literal["factor", "discovered", "seconds", "proximity"]

#: Where the distribution of a curve's values is drawn.
PERCENTILES = (5.0, 25.0, 50.0, 75.0, 95.0)


@dataclass(frozen=True, slots=True)
class Curve:
    """One mechanism over what is varied: the mean of all cases, and of the values of each how they are distributed."""

    mechanism: str
    x: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]

    @property
    def mean(self) -> F64:
        return np.array([np.mean(values) for values in self.values])

    @property
    def points(self) -> Points:
        return tuple(zip(self.x, self.mean.tolist(), strict=True))

    @property
    def percentiles(self) -> Points:
        """How the values at the first x are distributed."""
        return tuple((p, float(np.percentile(self.values[0], p))) for p in PERCENTILES)


def curves(rows: Sequence[MeasuredPlan], metric: Metric, where: Where) -> dict[str, Curve]:
    """The curve of each mechanism, in the order in which they were tried."""
    shown_rows = [row for row in rows if (row.network == HERE) == (where == "antennas")]
    value = _values(shown_rows, metric)
    values_of: dict[str, dict[float, list[float]]] = {}
    for row in shown_rows:
        if metric != "proximity" or row.mechanism != "optimal":
            values_of.setdefault(row.mechanism, {}).setdefault(row.x, []).append(value(row))
    return {
        name: Curve(name, tuple(sorted(by_x)), tuple(tuple(by_x[x]) for x in sorted(by_x)))
        for name, by_x in values_of.items()
    }


def _values(rows: Sequence[MeasuredPlan], metric: Metric) -> Callable[[MeasuredPlan], float]:
    if metric == "proximity":
        best = {(row.network, row.x, row.seed): row.cost for row in rows if row.mechanism == "optimal"}
        return lambda row: best[row.network, row.x, row.seed] / row.cost
    if metric == "discovered":
        return lambda row: float(row.discovered)
    if metric == "seconds":
        return lambda row: row.seconds
    return lambda row: row.factor


def ratio(curve_of: dict[str, Curve], mechanism: str, to: str = "heuristic+") -> F64:
    """How many times another mechanism's mean one's mean is, at each x.

    >>> slow, fast = (Curve(name, (1.0, 2.0), ((factor,), (2 * factor,))) for name, factor in (("cpp", 6), ("us", 2)))
    >>> ratio({"cpp": slow, "us": fast}, "cpp", "us").tolist()
    [3.0, 3.0]
    """
    return curve_of[mechanism].mean / curve_of[to].mean
