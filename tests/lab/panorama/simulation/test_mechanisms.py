"""The plans of all mechanisms give the embedded engine's complex events."""

from __future__ import annotations

import pytest

from lab.panorama.simulation.scenarios import random_scenario
from lab.panorama.simulation.test_simulate import check_complex_events, check_latencies, run_of
from situ.placement.mechanisms import MECHANISMS


@pytest.mark.storm
@pytest.mark.parametrize("name", [name for name in MECHANISMS if name != "exhaustive"])
def test_plans_give_the_embedded_engines_complex_events(name: str) -> None:
    pulled = 0
    for seed in range(24):
        scenario = random_scenario(seed, others=seed % 2 == 0)
        placed = MECHANISMS[name](scenario.problem).placed
        run = run_of(scenario, placed)
        check_complex_events(scenario, run)
        check_latencies(scenario, placed, run)
        pulled += sum(len(where.steps) > 1 for where in placed)
    assert (pulled > 0) == (name not in ("naive", "grin", "sbon"))


@pytest.mark.slow
def test_plans_of_exhaustive_search_do_so_too() -> None:
    """On queries of one operator: it tries all plans."""
    scenarios = [random_scenario(seed) for seed in range(150)]
    small = [scenario for scenario in scenarios if len(scenario.problem.operators) == 1]
    assert len(small) >= 5
    for scenario in small[:10]:
        placed = MECHANISMS["exhaustive"](scenario.problem).placed
        check_complex_events(scenario, run_of(scenario, placed))
