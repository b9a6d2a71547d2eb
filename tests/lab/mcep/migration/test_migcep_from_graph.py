"""A moving query becomes a problem of migration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from situ.lab.mcep.migration.broker_regions import Area, BrokerRegions
from situ.lab.mcep.migration.migcep import migcep
from situ.lab.mcep.migration.migcep_from_graph import Expected, Sizes, migration_problem_of
from situ.lab.mcep.migration.migcep_problem import MigrationProblem
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.placement.problem import PlacementError

GRAPH = resolve(
    parse("""
    stream Car(id int, x double, y double, speed double, lane int, ts int) time ts in s at (x, y)

    define Slower(id, ts)
      detect Car(speed < 3) as a
      assign id = a.id, ts = a.ts

    subscribe Accident for Car(id)
      detect Slower as s then each Car(lane = 2) as c within 10 s
      assign slow = s.id
      around Car square 500 m
    """)
)
NETWORK = BrokerRegions(Area(0, 0, 300, 100), ((3, 1),), latency_ms=10.0).network
CARS = np.repeat(np.eye(4)[1:], 60, axis=0) * 20.0
EXPECTED = Expected(5_000_000, 1_000_000, np.repeat([1, 2, 3], 60), {"Car": CARS})
SIZES = Sizes({"Car": 50.0, "Slower": 20.0, "Accident": 10.0}, {"Slower": 1000.0})
SELECTIVITY = {"Slower.a": 0.1, "Accident.c": 0.5, "Accident": 0.01}


def problem(expected: Expected = EXPECTED, sizes: Sizes = SIZES) -> MigrationProblem:
    return migration_problem_of(GRAPH, NETWORK, expected, sizes, transfer_bytes_per_s=1e6, selectivity=SELECTIVITY)


def test_streams_are_rates_by_shares_and_sizes() -> None:
    found = problem()
    slower, accident = found.operators
    assert slower.reads == ("Slower.Car",)
    assert accident.reads == ("Slower", "Accident.Car")
    np.testing.assert_allclose(found.range_queries["Slower.Car"], CARS * 0.1 * 50.0)
    np.testing.assert_allclose(found.range_queries["Accident.Car"], CARS * 0.5 * 50.0)
    np.testing.assert_allclose(slower.bytes_per_s, 20.0 * 0.1 * 20.0)
    # 2 slower and 10 others per second make 10 s x 2 x 10 pairs per second, of which 1 in 100 is an accident.
    np.testing.assert_allclose(accident.bytes_per_s, 2.0 * 10.0 * 10 * 0.01 * 10.0)
    assert (slower.state_bytes, accident.state_bytes) == (1000.0, 0.0)
    assert slower.host == accident.host == 1


def test_operators_follow_the_consumer() -> None:
    found = problem()
    for plan in migcep(found).plans:
        assert plan.hosts(found).tolist() == EXPECTED.consumer.tolist()


@pytest.mark.parametrize(
    ("expected", "sizes", "message"),
    [
        (replace(EXPECTED, rates_per_s={}), SIZES, "nothing is known of where Car occurs"),
        (replace(EXPECTED, rates_per_s={"Car": CARS, "Cat": CARS}), SIZES, "rates are given for Cat"),
        (replace(EXPECTED, consumer=np.array([], np.int64)), SIZES, "there are no time steps"),
        (EXPECTED, Sizes({"Car": 50.0, "Slower": 20.0}), "the size of Accident is not known"),
        (EXPECTED, replace(SIZES, state_bytes={"Slow": 1.0}), r"a state is given for Slow.*\n.*'Slower'"),
    ],
)
def test_what_is_missing_or_unknown_is_said(expected: Expected, sizes: Sizes, message: str) -> None:
    with pytest.raises(PlacementError, match=message):
        problem(expected, sizes)
