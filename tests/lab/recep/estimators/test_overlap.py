"""Areas that regions have in common: of rectangles by fractions, of circles by slices."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from lab.recep.estimators.random_selections import pairs_of, random_pairs, sets_of, share
from situ.core.errors import InputError
from situ.kernel.arrays import F64
from situ.lab.recep.estimators.overlap import PlaneRegions, SelectionSpans, overlap_areas, quality_of_regions
from situ.lab.recep.estimators.pairs import quality_of_pairs


def random_regions(rng: np.random.Generator, count: int, round_share: float) -> PlaneRegions:
    x, y = rng.integers(-12, 13, (2, count)) / 4
    half_x, half_y = rng.integers(1, 12, (2, count)) / 4
    is_round = rng.random(count) < round_share
    return PlaneRegions.of(x, y, half_x, np.where(is_round, half_x, half_y), is_round)


def by_fractions(regions: PlaneRegions, i: int, j: int) -> Fraction:
    area = Fraction(1)
    for middles, halves in ((regions.x, regions.half_x), (regions.y, regions.half_y)):
        ends = [
            (Fraction(middles[k]) - Fraction(halves[k]), Fraction(middles[k]) + Fraction(halves[k])) for k in (i, j)
        ]
        area *= max(Fraction(0), min(ends[0][1], ends[1][1]) - max(ends[0][0], ends[1][0]))
    return area


def by_slices(regions: PlaneRegions, i: int, j: int, slices: int = 20_000) -> float:
    """The middles of slices along x: there each region is an interval of y."""
    left = max(regions.x[k] - regions.half_x[k] for k in (i, j))
    right = min(regions.x[k] + regions.half_x[k] for k in (i, j))
    if right <= left:
        return 0.0
    at = left + (np.arange(slices) + 0.5) * (right - left) / slices

    def reach(k: int) -> F64:
        if not regions.is_round[k]:
            return np.full(slices, regions.half_y[k])
        half: F64 = np.sqrt(np.maximum(regions.half_x[k] ** 2 - (at - regions.x[k]) ** 2, 0))
        return half

    high = np.minimum(regions.y[i] + reach(i), regions.y[j] + reach(j))
    low = np.maximum(regions.y[i] - reach(i), regions.y[j] - reach(j))
    return float(np.maximum(high - low, 0).sum() * (right - left) / slices)


@pytest.mark.parametrize("seed", range(3))
def test_rectangles(seed: int) -> None:
    rng = np.random.default_rng(seed)
    regions = random_regions(rng, 40, 0.0)
    asked, processed = random_pairs(rng, 40, 300)
    areas = [by_fractions(regions, i, j) for i, j in zip(asked, processed, strict=True)]
    assert overlap_areas(regions, asked, processed).tolist() == [float(area) for area in areas]
    assert min(areas) == 0 < max(areas)
    whole = [by_fractions(regions, k, k) for k in range(40)]
    found = quality_of_regions(regions, None, asked, processed)
    for k, (i, j) in enumerate(zip(asked, processed, strict=True)):
        assert found.precision[k] == share(areas[k], whole[j])
        assert found.recall[k] == share(areas[k], whole[i])


@pytest.mark.parametrize("round_share", [0.5, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_circles_and_rectangles(seed: int, round_share: float) -> None:
    rng = np.random.default_rng(seed)
    regions = random_regions(rng, 30, round_share)
    asked, processed = random_pairs(rng, 30, 200)
    expected = [by_slices(regions, i, j) for i, j in zip(asked, processed, strict=True)]
    np.testing.assert_allclose(overlap_areas(regions, asked, processed), expected, atol=2e-4)
    np.testing.assert_array_equal(overlap_areas(regions, asked, processed), overlap_areas(regions, processed, asked))


@pytest.mark.parametrize("inner_is_round", [True, False])
@pytest.mark.parametrize("is_round", [True, False])
def test_equal_and_contained_regions_are_just_that(is_round: bool, inner_is_round: bool) -> None:
    """Rounding does not bring what is wholly within below a threshold of 1."""
    rng = np.random.default_rng(1)
    x, y, half = rng.uniform(0, 1e6, 200), rng.uniform(0, 1e6, 200), rng.uniform(0.1, 3e3, 200)
    asked, processed = np.arange(200), np.arange(200) + 200
    equal = PlaneRegions.of(np.tile(x, 2), np.tile(y, 2), np.tile(half, 2), np.tile(half, 2), is_round)
    assert pairs_of(quality_of_regions(equal, None, asked, processed)) == [(1.0, 1.0)] * 200
    dx, dy = half * rng.uniform(-0.3, 0.3, (2, 200))
    halves, shapes = np.append(half, half / 4), np.repeat([is_round, inner_is_round], 200)
    inner = PlaneRegions.of(np.append(x, x + dx), np.append(y, y + dy), halves, halves, shapes)
    assert quality_of_regions(inner, None, asked, processed).precision.tolist() == [1.0] * 200


def test_a_circle_within_a_square_and_a_square_within_a_circle() -> None:
    regions = PlaneRegions.of(
        np.zeros(3), np.zeros(3), np.array([1.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0]), np.array([1, 0, 1])
    )
    areas = overlap_areas(regions, np.array([0, 1]), np.array([1, 2]))
    assert areas.tolist() == [math.pi, 4.0]


def test_regions_that_touch_have_nothing_in_common() -> None:
    regions = PlaneRegions.of(np.array([0.0, 2.0]), np.zeros(2), 1.0, 1.0, np.array([False, True]))
    assert overlap_areas(regions, np.array([0]), np.array([1])).tolist() == [0.0]


def test_a_region_that_is_nowhere() -> None:
    regions = PlaneRegions.of(np.array([0.0, np.nan]), np.zeros(2), 1.0, 1.0, False)
    assert pairs_of(quality_of_regions(regions, None, np.array([0, 1]), np.array([1, 0]))) == [(0.0, 0.0)] * 2


@pytest.mark.parametrize("half", [0.0, -1.0, np.nan, np.inf])
def test_a_region_without_a_size(half: float) -> None:
    with pytest.raises(InputError, match="not a positive number of metres"):
        PlaneRegions.of(np.zeros(2), np.zeros(2), np.array([1.0, half]), 1.0, False)


@pytest.mark.parametrize("seed", range(3))
def test_exact_where_events_are_even_in_space_and_time(seed: int) -> None:
    """An event in the middle of each cell of a lattice, regions and spans along its lines."""
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 6, (3, 20))
    high = low + rng.integers(1, 5, (3, 20))
    lattice = np.stack(np.meshgrid(*3 * (np.arange(12),), indexing="ij")).reshape(3, -1)
    within = ((lattice[:, None] >= low[..., None]) & (lattice[:, None] < high[..., None])).all(axis=0)
    sets = sets_of([set(np.flatnonzero(row).tolist()) for row in within])
    middle, half = (low + high) / 2, (high - low) / 2
    regions = PlaneRegions.of(middle[0], middle[1], half[0], half[1], False)
    asked, processed = random_pairs(rng, 20, 200)
    estimated = quality_of_regions(regions, SelectionSpans(low[2], high[2] - 1), asked, processed)
    exact = quality_of_pairs(sets, asked, processed)
    np.testing.assert_allclose(estimated.precision, exact.precision, rtol=1e-12)
    np.testing.assert_allclose(estimated.recall, exact.recall, rtol=1e-12)
    assert 0 < np.count_nonzero(exact.precision) < 200
