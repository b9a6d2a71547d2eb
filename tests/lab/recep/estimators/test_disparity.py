"""Disparity against its definition, event by event and region by region."""

from __future__ import annotations

import numpy as np
import pytest

from lab.recep.estimators.random_selections import random_sets, sets_of, share
from situ.lab.recep.estimators.disparity import disparity
from situ.lab.recep.estimators.overlap import PlaneRegions


@pytest.mark.parametrize("seed", range(5))
def test_as_the_definition_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 20, (2, 40)).astype(float)
    x[::13] = np.nan
    middle_x, middle_y, half_x, half_y = rng.integers(1, 20, (4, 12)).astype(float)
    is_round = rng.random(12) < 0.5
    selections, used = random_sets(rng, 60, 40), random_sets(rng, 60, 12, 5)

    def holds(r: int, e: int) -> bool:
        dx, dy = abs(x[e] - middle_x[r]), abs(y[e] - middle_y[r])
        return bool(dx**2 + dy**2 <= half_x[r] ** 2 if is_round[r] else dx <= half_x[r] and dy <= half_y[r])

    expected = [
        share(sum(holds(r, e) for e in events for r in regions), len(events) * len(regions))
        for events, regions in zip(selections, used, strict=True)
    ]
    regions = PlaneRegions.of(middle_x, middle_y, half_x, np.where(is_round, half_x, half_y), is_round)
    assert disparity(sets_of(selections), x, y, sets_of(used), regions).tolist() == expected
    assert len(set(expected)) > 10


def test_interests_that_hardly_overlap_are_near_a_half() -> None:
    """As in Figure 1 of the paper: what one of two interests holds the other does not."""
    x = np.concatenate([np.linspace(0, 9, 10), np.linspace(11, 20, 10)])
    regions = PlaneRegions.of(np.array([5.0, 15.0]), np.zeros(2), 5.0, 5.0, False)
    found = disparity(sets_of([set(range(20))]), x, np.zeros(20), sets_of([{0, 1}]), regions)
    assert found.tolist() == [0.5]


def test_its_own_region_alone_is_good() -> None:
    regions = PlaneRegions.of(np.array([5.0, 50.0]), np.zeros(2), 5.0, 5.0, False)
    x = np.arange(11.0)
    found = disparity(sets_of([set(range(11)), set(range(11)), set()]), x, 0 * x, sets_of([{0}, {1}, {0}]), regions)
    assert found.tolist() == [1.0, 0.0, 1.0]


def test_no_regions() -> None:
    regions = PlaneRegions.of(np.zeros(1), np.zeros(1), 1.0, 1.0, False)
    assert disparity(sets_of([{0}]), np.zeros(1), np.zeros(1), sets_of([set()]), regions).tolist() == [1.0]
