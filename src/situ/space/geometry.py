"""Places and regions: in a plane, in metres, or on the earth, in degrees."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from situ.graph.query import Around
from situ.kernel.arrays import F64
from situ.kernel.matching.machine import inlined, jit

#: The earth as a sphere: its mean radius.
EARTH_M = 6_371_008.8
_RADIANS = math.pi / 180


@dataclass(frozen=True, slots=True)
class Shape:
    """How far a region reaches from its middle to each side, in metres; `degrees`: places are longitude and latitude.

    >>> Shape.of(Around("Consumer", "rectangle", (200.0, 100.0)))
    Shape(half_x=100.0, half_y=50.0, is_round=False, degrees=False)
    """

    half_x: float
    half_y: float
    is_round: bool = False
    degrees: bool = False

    @classmethod
    def of(cls, around: Around, degrees: bool = False) -> Shape:
        """The region that a subscription asks for."""
        match around.shape:
            case "circle":
                return cls(around.sizes_m[0], around.sizes_m[0], True, degrees)
            case "square":
                return cls(around.sizes_m[0] / 2, around.sizes_m[0] / 2, False, degrees)
            case "rectangle":
                return cls(around.sizes_m[0] / 2, around.sizes_m[1] / 2, False, degrees)

    def reach(self, y: F64) -> tuple[F64, F64]:
        """How far regions with these middles reach to each side, in the unit of places, and not less.

        >>> Shape(1000.0, 1000.0, degrees=True).reach(np.array([60.0]))[0].round(5)
        array([0.01799])
        """
        if not self.degrees:
            return np.full(len(y), self.half_x), np.full(len(y), self.half_y)
        north = self.half_y / EARTH_M / _RADIANS
        farthest = np.minimum(np.abs(y) + (north if self.is_round else 0.0), 90.0)  # a circle is widest towards a pole
        width = np.maximum(np.cos(farthest * _RADIANS), 1e-12)
        return np.minimum(self.half_x / EARTH_M / _RADIANS / width, 180.0), np.full(len(y), north)

    def holds(self, x: F64, y: F64, middle_x: F64, middle_y: F64) -> npt.NDArray[np.bool_]:
        """Which places (columns) lie in the regions around which middles (rows), borders included. NaN is nowhere.

        >>> square = Shape(2.0, 2.0)
        >>> square.holds(np.array([0.0, 3.0]), np.zeros(2), np.array([1.0, 5.0]), np.zeros(2)).tolist()
        [[True, True], [False, True]]
        """
        held = np.zeros((len(middle_x), len(x)), np.bool_)
        _hold(x, y, middle_x, middle_y, self.half_x, self.half_y, self.is_round, self.degrees, held)
        return held


@jit
def _hold(
    x: F64, y: F64, middle_x: F64, middle_y: F64, half_x: float, half_y: float, is_round: bool, degrees: bool,
    held: np.ndarray,
) -> None:  # fmt: skip
    for region in range(len(middle_x)):
        for place in range(len(x)):
            held[region, place] = is_inside(
                x[place], y[place], middle_x[region], middle_y[region], half_x, half_y, is_round, degrees
            )


@inlined
def is_inside(
    x: float, y: float, middle_x: float, middle_y: float, half_x: float, half_y: float, is_round: bool, degrees: bool
) -> bool:
    """Whether a place is in a region, borders included."""
    if degrees:
        if is_round:
            return distance_m(x, y, middle_x, middle_y, True) <= half_x
        east = abs(x - middle_x) % 360.0
        east = min(east, 360.0 - east) * _RADIANS * EARTH_M * math.cos(middle_y * _RADIANS)
        return east <= half_x and abs(y - middle_y) * _RADIANS * EARTH_M <= half_y
    dx, dy = abs(x - middle_x), abs(y - middle_y)
    return dx <= half_x and dy <= half_y and (not is_round or dx * dx + dy * dy <= half_x * half_x)


@inlined
def distance_m(x: float, y: float, other_x: float, other_y: float, degrees: bool) -> float:
    """Along the line, or along the great circle."""
    if not degrees:
        return math.hypot(x - other_x, y - other_y)
    north, east = (y - other_y) * _RADIANS, (x - other_x) * _RADIANS
    h = math.sin(north / 2) ** 2 + math.cos(y * _RADIANS) * math.cos(other_y * _RADIANS) * math.sin(east / 2) ** 2
    return 2 * EARTH_M * math.asin(min(math.sqrt(h), 1.0))
