"""Quality estimated from regions alone (RECEP, section 4.3.2: spatial interest quality).

    precision(s, s') = |r(s) & r(s')| / |r(s')|        recall(s, s') = |r(s) & r(s')| / |r(s)|

r() is the region of a selection's interest and | | its area. This assumes that atomic events lie evenly in space, and
that both selections read all events of their regions, none that another selection was reused for. With the times of
selections, regions are prisms in space and time, and | | is their volume: events lie evenly in time as well. Without
them, selections of any two times are taken to be of one time.

Areas are exact: of rectangles, of circles, and of a rectangle and a circle. Equal regions have a quality of just 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from situ.core.errors import InputError
from situ.kernel.arrays import F64, I64
from situ.kernel.matching.machine import jit
from situ.lab.quality.precision_recall import Mask, MeasuredQuality
from situ.lab.recep.estimators.pairs import check_pairs
from situ.space.precision_recall import shares


@dataclass(frozen=True, slots=True)
class PlaneRegions:
    """Regions in a plane, in metres: their middles, how far they reach to each side, and which of them are circles.

    A circle reaches as far to all sides; `half_x` is its radius. A region with a middle of NaN is nowhere.

    >>> PlaneRegions.of(np.array([0.0, 3.0]), np.zeros(2), 2.0, 2.0, is_round=False).areas()
    array([16., 16.])
    """

    x: F64
    y: F64
    half_x: F64
    half_y: F64
    is_round: Mask

    @classmethod
    def of(cls, x: F64, y: F64, half_x: float | F64, half_y: float | F64, is_round: bool | Mask) -> PlaneRegions:
        """Sizes and shapes of each region, or of all."""
        x, y, halves_x, halves_y = (
            np.array(np.broadcast_to(v, np.shape(x)), np.float64) for v in (x, y, half_x, half_y)
        )
        sizes = np.concatenate([halves_x, halves_y])
        if not np.all((sizes > 0) & np.isfinite(sizes)):
            raise InputError(
                "a region has a size that is not a positive number of metres",
                remedy="Give every region a size above 0.",
            )
        return cls(x, y, halves_x, halves_y, np.array(np.broadcast_to(is_round, np.shape(x)), np.bool_))

    def areas(self) -> F64:
        """The areas of the regions, in square metres."""
        areas_m2: F64 = np.where(self.is_round, math.pi * self.half_x**2, 4 * self.half_x * self.half_y)
        return areas_m2

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True, slots=True)
class SelectionSpans:
    """From when to when selections reach, both included. A selection of one moment has a length of a microsecond."""

    begin_us: I64
    end_us: I64

    def lengths(self) -> I64:
        return self.end_us - self.begin_us + 1


def overlap_areas(regions: PlaneRegions, asked: I64, processed: I64) -> F64:
    """The areas, in square metres, that two regions have in common.

    >>> regions = PlaneRegions.of(np.array([0.0, 3.0]), np.zeros(2), 2.0, 2.0, is_round=False)
    >>> overlap_areas(regions, np.array([0]), np.array([1])).tolist()
    [4.0]
    """
    check_pairs(asked, processed, len(regions), len(regions))
    areas_m2 = np.zeros(len(asked))
    r = regions
    _overlap_areas(r.x, r.y, r.half_x, r.half_y, r.is_round, asked, processed, areas_m2)
    return areas_m2


def quality_of_regions(
    regions: PlaneRegions, spans: SelectionSpans | None, asked: I64, processed: I64
) -> MeasuredQuality:
    """Estimated from the regions of selections, and from their times if given: one region and span per selection.

    >>> regions = PlaneRegions.of(np.array([0.0, 2.0]), np.zeros(2), np.array([2.0, 1.0]), 2.0, is_round=False)
    >>> quality_of_regions(regions, None, np.array([0]), np.array([1]))
    MeasuredQuality(precision=array([0.5]), recall=array([0.25]))
    >>> quality_of_regions(regions, SelectionSpans(np.array([0, 5]), np.array([9, 9])), np.array([0]), np.array([1]))
    MeasuredQuality(precision=array([0.5]), recall=array([0.125]))
    """
    both, sizes = overlap_areas(regions, asked, processed), regions.areas()
    if spans is not None:
        assert len(spans.begin_us) == len(regions), (len(spans.begin_us), len(regions))
        begin = np.maximum(spans.begin_us[asked], spans.begin_us[processed])
        end = np.minimum(spans.end_us[asked], spans.end_us[processed])
        both, sizes = both * np.maximum(end - begin + 1, 0), sizes * spans.lengths()
    return MeasuredQuality(shares(both, sizes[processed]), shares(both, sizes[asked]))


@jit
def _overlap_areas(
    x: F64, y: F64, half_x: F64, half_y: F64, is_round: Mask, asked: I64, processed: I64, areas_m2: F64
) -> None:
    for k in range(len(areas_m2)):
        i, j = asked[k], processed[k]
        dx, dy = abs(x[i] - x[j]), abs(y[i] - y[j])
        if math.isnan(dx) or math.isnan(dy):
            continue
        if is_round[i] and is_round[j]:
            areas_m2[k] = _of_circles(math.hypot(dx, dy), half_x[i], half_x[j])
        elif is_round[i]:
            areas_m2[k] = _of_circle_and_rectangle(half_x[i], dx, dy, half_x[j], half_y[j])
        elif is_round[j]:
            areas_m2[k] = _of_circle_and_rectangle(half_x[j], dx, dy, half_x[i], half_y[i])
        else:
            areas_m2[k] = _of_intervals(dx, half_x[i], half_x[j]) * _of_intervals(dy, half_y[i], half_y[j])


@jit
def _of_intervals(distance: float, half: float, other: float) -> float:
    """Not by the difference of ends: rounding would make equal intervals overlap by a little more or less than all."""
    return max(0.0, min(half + other - distance, 2 * min(half, other)))


@jit
def _of_circles(distance: float, radius: float, other: float) -> float:
    """A lens: of each circle the sector over the common chord, less the two triangles of chord and middles."""
    small, large = min(radius, other), max(radius, other)
    if distance >= small + large:
        return 0.0
    if distance <= large - small:
        return math.pi * (small * small)
    to_chord = (distance * distance + small * small - large * large) / (2 * distance)
    half_angle = math.acos(max(-1.0, min(1.0, to_chord / small)))
    other_half_angle = math.acos(max(-1.0, min(1.0, (distance - to_chord) / large)))
    half_chord = math.sqrt(max(small * small - to_chord * to_chord, 0.0))
    area = small * small * half_angle + large * large * other_half_angle - distance * half_chord
    return max(0.0, min(area, math.pi * (small * small)))


@jit
def _of_circle_and_rectangle(radius: float, dx: float, dy: float, half_x: float, half_y: float) -> float:
    """The rectangle is the sum, with signs, of four that have a corner in the middle of the circle."""
    left, right, low, high = dx - half_x, dx + half_x, dy - half_y, dy + half_y
    if left <= -radius and right >= radius and low <= -radius and high >= radius:
        return math.pi * (radius * radius)
    if max(abs(left), right) ** 2 + max(abs(low), high) ** 2 <= radius * radius:
        return 4 * half_x * half_y
    area = _from_middle(radius, right, high) - _from_middle(radius, left, high)
    area -= _from_middle(radius, right, low) - _from_middle(radius, left, low)
    return max(0.0, min(area, math.pi * (radius * radius), 4 * half_x * half_y))


@jit
def _from_middle(radius: float, x: float, y: float) -> float:
    """The part within the circle of the rectangle from its middle to (x, y), with the sign of x y."""
    sign = (1.0 if x >= 0 else -1.0) * (1.0 if y >= 0 else -1.0)
    x, y = min(abs(x), radius), min(abs(y), radius)
    if x * x + y * y <= radius * radius:
        return sign * x * y
    until = math.sqrt(radius * radius - y * y)  # up to here the rectangle ends below the arc, from here on at it
    return sign * (until * y + _below_arc(radius, x) - _below_arc(radius, until))


@jit
def _below_arc(radius: float, x: float) -> float:
    """The area under the arc from 0 to x."""
    height = math.sqrt(max(radius * radius - x * x, 0.0))
    return (x * height + radius * radius * math.asin(min(x / radius, 1.0))) / 2
