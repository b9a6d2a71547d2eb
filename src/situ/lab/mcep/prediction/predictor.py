"""The query predictor: where a consumer will be, and for which places operator graphs are prepared (MCEP, section 5.4).

updates -> predicted place -> candidate places around it -> determine_interests (Figure 4) -> prepared graphs
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np

from situ.core.errors import SituError
from situ.kernel.arrays import F64, I64
from situ.lab.quality.precision_recall import Mask, quality_of_masks
from situ.space.geometry import Shape

Policy = Literal["greedy", "location"]


@dataclass(frozen=True, slots=True)
class FocalPlaces:
    """FocalPlaces in columns."""

    x: F64
    y: F64

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True, slots=True)
class InterestCriteria:
    """What `determine_interests` goes by: the region's shape, the thresholds that make a place redundant, the order in
    which places are looked at, and how many recent events all chosen regions may hold together (s_max)."""

    half_x: float
    half_y: float
    is_round: bool
    precision: float
    recall: float
    policy: Policy
    most_events: float = np.inf


def dead_reckoning(times_us: I64, x: F64, y: F64, at_us: int) -> tuple[float, float]:
    """Where a consumer is at a time, going on as between the last two updates (linear dead reckoning). Updates are
    sorted by time, each time once, and at least one.

    >>> dead_reckoning(np.array([0, 10]), np.array([0.0, 5.0]), np.array([1.0, 1.0]), 30)
    (15.0, 1.0)
    """
    if len(times_us) == 1:
        return float(x[-1]), float(y[-1])
    ahead = (at_us - int(times_us[-1])) / (int(times_us[-1]) - int(times_us[-2]))
    return float(x[-1] + ahead * (x[-1] - x[-2])), float(y[-1] + ahead * (y[-1] - y[-2]))


def equidistant(x: float, y: float, apart_m: float, count: int) -> FocalPlaces:
    """So many places of a square grid, nearest to its middle first: the middle is the predicted place.

    >>> places = equidistant(0.0, 0.0, 10.0, 5)
    >>> list(zip(places.x.tolist(), places.y.tolist()))
    [(0.0, 0.0), (-10.0, 0.0), (0.0, -10.0), (0.0, 10.0), (10.0, 0.0)]
    """
    _check_count(count)
    reach = int(np.ceil(np.sqrt(count)))
    columns, rows = np.meshgrid(np.arange(-reach, reach + 1), np.arange(-reach, reach + 1), indexing="ij")
    nearest = np.argsort((columns**2 + rows**2).reshape(-1), kind="stable")[:count]
    away_x, away_y = (apart_m * axis.reshape(-1)[nearest].astype(np.float64) for axis in (columns, rows))
    return FocalPlaces(x + away_x, y + away_y)


def scattered(x: float, y: float, radius_m: float, count: int, rng: np.random.Generator) -> FocalPlaces:
    """So many places at random around the predicted one, evenly over a circle; with a radius of 0, that place itself.

    >>> places = scattered(5.0, 5.0, 10.0, 3, np.random.default_rng(1))
    >>> bool(np.all(np.hypot(places.x - 5.0, places.y - 5.0) <= 10.0))
    True
    """
    _check_count(count)
    distance, angle = radius_m * np.sqrt(rng.random(count)), 2 * np.pi * rng.random(count)
    return FocalPlaces(x + distance * np.cos(angle), y + distance * np.sin(angle))


def determine_interests(
    places: FocalPlaces, predicted: tuple[float, float], event_x: F64, event_y: F64, choice: InterestCriteria
) -> I64:
    """The places for which graphs are prepared, in the order in which they were chosen (Figure 4).

    Events are the recent atomic ones. A place costs as many as its region holds (line 3). It is left out if a chosen
    one serves it with a precision and a recall above the thresholds (line 7), or if it does not fit within the limit
    (line 8).

    >>> places = equidistant(0.0, 0.0, 5.0, 9)
    >>> choice = InterestCriteria(10.0, 10.0, False, 0.5, 0.5, "location")
    >>> determine_interests(places, (0.0, 0.0), np.array([0.0, 12.0]), np.array([0.0, 12.0]), choice).tolist()
    [0, 8]
    """
    shape = Shape(choice.half_x, choice.half_y, choice.is_round)
    held = shape.holds(event_x, event_y, places.x, places.y)
    quality = quality_of_masks(held, held)  # [p, f]: that of what f processes for what p asks
    serves = (quality.precision > choice.precision) & (quality.recall > choice.recall)
    costs = held.sum(axis=1)
    away = (places.x - predicted[0]) ** 2 + (places.y - predicted[1]) ** 2
    left, chosen, total = np.ones(len(places), np.bool_), np.zeros(len(places), np.bool_), 0
    order = []
    while left.any():
        place = _next(choice.policy, left, chosen, held, away)
        left[place] = False
        if not serves[place, chosen].any() and total + costs[place] <= choice.most_events:
            chosen[place] = True
            total += costs[place]
            order.append(place)
    return np.array(order, np.int64)


def _next(policy: Policy, left: Mask, chosen: Mask, held: Mask, away: F64) -> int:
    """Line 6. Of equals, the place that comes first."""
    match policy:
        case "greedy":  # as in greedy set cover: the region with the most events that no chosen one holds
            covered = held[chosen].any(axis=0)
            return int(np.argmax(np.where(left, (held & ~covered).sum(axis=1), -1)))
        case "location":
            return int(np.argmin(np.where(left, away, np.inf)))
        case _:
            assert_never(policy)


def _check_count(count: int) -> None:
    if count < 1:
        raise SituError(f"there cannot be {count} places", remedy="Ask for one or more.")
