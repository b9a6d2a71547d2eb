"""Consumers that jump, go silent, leave the area or report nonsense; range queries over several leaves."""

from __future__ import annotations

import numpy as np
import pytest

from situ.lab.mcep.migration.broker_regions import Area, BrokerRegions
from situ.lab.mcep.migration.migcep_expected import places_at, range_query
from situ.placement.problem import PlacementError

REGIONS = BrokerRegions(Area(0, 0, 800, 500), ((8, 5),), latency_ms=5.0)
SECONDS_US = np.arange(10) * 1_000_000


def leaves(times_s: list[float], x: list[float], y: list[float]) -> list[int]:
    times_us = (np.array(times_s) * 1_000_000).astype(np.int64)
    return REGIONS.leaves_at(*places_at(times_us, np.array(x), np.array(y), SECONDS_US)).tolist()


def test_who_jumps_is_there_at_once() -> None:
    assert leaves([0, 4], [50, 750], [50, 450]) == [1] * 4 + [40] * 6


def test_who_goes_silent_stays() -> None:
    assert leaves([0, 1, 2], [50, 150, 250], [50, 50, 50]) == [1, 2] + [3] * 8


def test_who_leaves_the_area_keeps_the_nearest_leaf() -> None:
    assert leaves([0, 5], [750, 5000], [50, 50]) == [8] * 10


def test_reports_may_come_in_any_order_and_the_last_of_a_time_counts() -> None:
    assert leaves([5, 0, 5], [150, 50, 250], [50, 50, 50]) == [1] * 5 + [3] * 5


def test_before_the_first_report_it_is_where_that_says() -> None:
    assert leaves([3.5, 7], [50, 150], [50, 50]) == [1] * 7 + [2] * 3


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_report_without_a_place_is_refused(wrong: float) -> None:
    with pytest.raises(PlacementError, match=r"a place has no coordinates.\n  x and y are finite"):
        leaves([0, 1], [50, wrong], [50, 50])


def test_who_never_reported_cannot_be_planned_for() -> None:
    with pytest.raises(PlacementError, match="has not reported any place"):
        leaves([], [], [])


def test_a_range_query_spans_the_leaves_of_its_sources() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.uniform(-100, 900, 20), rng.uniform(-100, 600, 20)
    source_x, source_y, rates = rng.uniform(0, 800, 50), rng.uniform(0, 500, 50), rng.uniform(1, 9, 50)
    found = range_query(REGIONS, x, y, 150.0, source_x, source_y, rates)
    expected = np.zeros((20, 41))
    for step in range(20):
        for k in range(50):
            if abs(source_x[k] - x[step]) <= 75 and abs(source_y[k] - y[step]) <= 75:
                leaf = 1 + int(source_x[k] // 100) + 8 * int(source_y[k] // 100)
                expected[step, leaf] += rates[k]
    np.testing.assert_allclose(found, expected)
    assert ((found > 0).sum(axis=1) > 1).any()


def test_an_interest_without_sources_has_no_bandwidth() -> None:
    nowhere = np.array([])
    assert not range_query(REGIONS, np.zeros(3), np.zeros(3), 100.0, nowhere, nowhere, nowhere).any()
