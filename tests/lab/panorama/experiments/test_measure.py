"""What is measured of a mechanism's plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from situ.lab.panorama.experiments.cases import CaseShape
from situ.lab.panorama.experiments.measure import TOPOLOGIES, Setting, case_of, discovered, limited, measured
from situ.placement.finish import naive_placement
from situ.placement.mechanisms import mechanism
from situ.placement.plan import Plan, pushed

SMALL = Setting(1.5, 40, CaseShape(sources=4), 1.5)


def test_rows_of_a_case() -> None:
    rows = measured(SMALL, 3, ("cpp", "heuristic+", "optimal"))
    assert [(row.mechanism, row.network, row.x, row.seed) for row in rows] == [
        (name, "antennas", 1.5, 3) for name in ("cpp", "heuristic+", "optimal")
    ]
    assert len({(row.naive_cost, row.naive_latency_ms) for row in rows}) == 1
    assert all(row.factor <= 1 and row.latency_ms <= 1.5 * row.naive_latency_ms + 1e-6 for row in rows)
    assert rows[2].cost <= rows[1].cost * (1 + 1e-9)


def test_sbon_has_no_limit() -> None:
    strict = replace(SMALL, latency_factor=1.0)
    rows = [row for seed in range(6) for row in measured(strict, seed, ("sbon", "grin"))]
    assert any(row.latency_ms > row.naive_latency_ms for row in rows if row.mechanism == "sbon")
    assert all(row.latency_ms <= row.naive_latency_ms + 1e-6 for row in rows if row.mechanism == "grin")


def test_topologies_take_turns() -> None:
    real = Setting(None, None, CaseShape(sources=3, complex_events=1))
    rows = [measured(real, seed, ("cpp",))[0] for seed in range(len(TOPOLOGIES))]
    assert {row.network: row.x for row in rows} == {
        "AttMpls": 25, "Bellcanada": 48, "Geant2010": 37, "Iris": 51, "Uninett2010": 74
    }  # fmt: skip


def test_what_is_varied_leaves_the_rest_of_a_case_alone() -> None:
    wide, narrow = (case_of(replace(SMALL, diameter_hops=hops), 1) for hops in (20, 6))
    assert wide.text == narrow.text
    assert wide.statistics.rates != narrow.statistics.rates
    for event, sites in wide.statistics.rates.items():
        assert sum(sites.values()) == pytest.approx(sum(narrow.statistics.rates[event].values()))
    even, skewed = (case_of(replace(SMALL, shape=CaseShape(sources=4, skew=skew)), 1) for skew in (0.0, 3.0))
    assert [list(sites) for sites in even.statistics.rates.values()] == [
        list(sites) for sites in skewed.statistics.rates.values()
    ]


def test_discovered_is_a_plan_of_its_own() -> None:
    case = case_of(SMALL, 1)
    problem = case.problem()
    naive = naive_placement(problem)
    elsewhere = (replace(naive[0], site=(problem.root + 1) % 40), *naive[1:])
    assert not discovered(problem, Plan("greedy", naive, 1.0, 1.0))
    assert discovered(problem, Plan("greedy", elsewhere, 1.0, 1.0))
    assert discovered(problem, Plan("cpp", naive, 1.0, 1.0))  # all at the root, pushed: it has tried that
    assert naive[0].steps == pushed(problem.operators[0])


def test_a_limited_problem_knows_no_ways_yet() -> None:
    case = case_of(SMALL, 1)
    first = mechanism("naive")(case.problem())
    problem = limited(case, first, 2.0)
    assert problem.network is not case.network
    assert problem.latency_limit_ns(problem.outputs[0]) == round(2 * first.latency_ms * 1e6)
    assert limited(case, first, None).limits.latency_ms is None
