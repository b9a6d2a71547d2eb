"""Regions share out the area: every place has one leaf, the nearest one outside."""

from __future__ import annotations

import numpy as np
import pytest

from situ.lab.mcep.migration.broker_regions import Area, BrokerRegions
from situ.network.network import NetworkError

SPLITS = [((1, 1),), ((8, 5),), ((2, 2), (3, 1)), ((1, 4), (2, 1), (2, 3))]


def leaf_areas(regions: BrokerRegions) -> dict[int, Area]:
    """By words: split and split again, and remember the names."""
    areas = {"root": regions.area}
    for columns, rows in regions.splits:
        areas = {
            f"{name}.{number}": part
            for name, area in areas.items()
            for number, part in enumerate(area.split(columns, rows))
        }
    return {regions.network.number(name): area for name, area in areas.items()}


def distance(area: Area, x: float, y: float) -> float:
    away_x = max(area.x_min - x, 0, x - area.x_max)
    away_y = max(area.y_min - y, 0, y - area.y_max)
    return float(np.hypot(away_x, away_y))


@pytest.mark.parametrize("splits", SPLITS)
def test_a_tree_of_brokers(splits: tuple[tuple[int, int], ...]) -> None:
    regions = BrokerRegions(Area(0, 0, 2400, 1000), splits, latency_ms=5.0)
    sizes = np.cumprod([columns * rows for columns, rows in splits])
    assert len(regions.network.sites) == 1 + sizes.sum()
    assert len(regions.network.links) == sizes.sum()
    assert sorted(regions.leaves.tolist()) == list(range(len(regions.network.sites) - sizes[-1], 1 + sizes.sum()))
    ways = regions.network.ways_from(0)
    assert set(ways.hops[regions.leaves].tolist()) == {len(splits)}
    assert set(ways.latency_ns[regions.leaves].tolist()) == {len(splits) * 5_000_000}


@pytest.mark.parametrize("splits", SPLITS)
def test_a_place_has_the_leaf_that_is_nearest(splits: tuple[tuple[int, int], ...]) -> None:
    regions = BrokerRegions(Area(-100, 50, 2300, 1050), splits, latency_ms=5.0)
    areas = leaf_areas(regions)
    rng = np.random.default_rng(1)
    x, y = rng.uniform(-1000, 3000, 500), rng.uniform(-500, 1500, 500)
    for leaf, px, py in zip(regions.leaves_at(x, y).tolist(), x.tolist(), y.tolist(), strict=True):
        assert distance(areas[leaf], px, py) == pytest.approx(min(distance(a, px, py) for a in areas.values()))


def test_a_broker_stands_in_its_own_region() -> None:
    regions = BrokerRegions(Area(0, 0, 2400, 1000), ((2, 2), (3, 1)), latency_ms=5.0)
    middles = np.array([(site.x, site.y) for site in regions.network.sites])[regions.leaves]
    assert regions.leaves_at(middles[:, 0], middles[:, 1]).tolist() == regions.leaves.tolist()


def test_on_a_border_it_is_the_next_one_and_far_away_the_last_one() -> None:
    regions = BrokerRegions(Area(0, 0, 800, 500), ((8, 5),), latency_ms=5.0)
    x, y = np.array([100.0, 800.0, 1e300, -1e300]), np.array([0.0, 500.0, 1e300, -1e300])
    assert regions.leaves_at(x, y).tolist() == [2, 40, 40, 1]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_place_without_coordinates_is_refused(wrong: float) -> None:
    regions = BrokerRegions(Area(0, 0, 800, 500), ((8, 5),), latency_ms=5.0)
    with pytest.raises(NetworkError, match=r"a place has no coordinates.\n  x and y are finite"):
        regions.leaves_at(np.array([1.0, wrong]), np.array([1.0, 1.0]))
    with pytest.raises(NetworkError, match="a place has no coordinates"):
        regions.leaves_at(np.array([1.0]), np.array([wrong]))


def test_regions_that_make_no_sense_are_refused() -> None:
    with pytest.raises(NetworkError, match="no area"):
        Area(0, 0, 0, 10)
    with pytest.raises(NetworkError, match="no area"):
        Area(0, 0, np.nan, 10)
    for splits in ((), ((0, 3),)):
        with pytest.raises(NetworkError, match="regions cannot be split"):
            BrokerRegions(Area(0, 0, 1, 1), splits, latency_ms=5.0)
