"""Where there is no plan: what the message says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from network.networks import line, random_network
from situ.network.network import Network
from situ.placement.coverage import Coverage
from situ.placement.exhaustive import exhaustive
from situ.placement.mechanisms import MECHANISMS, mechanism
from situ.placement.problem import Input, Kind, Limits, PlacementError, PlannedOperator, Problem, Sources

QUICK = [name for name in MECHANISMS if name != "exhaustive"]


def chain(network: Network, root: int = 0, limits: Limits | None = None, inputs: int = 2) -> Problem:
    """`C` reads events that occur at the last site; `D` reads `C` and one more."""
    last = len(network.sites) - 1
    events = [f"E{k}" for k in range(inputs)]
    operators = (
        PlannedOperator("C", Kind.AND, tuple(map(Input, events)), 1.0, can_pull=True),
        PlannedOperator("D", Kind.SEQ, (Input("C"), Input("F")), 1.0, each=(True,), can_pull=True),
    )
    sources = {event: Sources(np.array([last]), np.array([1.0])) for event in [*events, "F"]}
    return Problem(operators, sources, network, root, Coverage(), limits=limits or Limits())


def capped(network: Network, **limits: float) -> Network:
    return replace(network, sites=tuple(replace(site, **limits) for site in network.sites))


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("limits", [Limits(9.0), Limits(None, {"D": 9.0}), Limits(50.0, {"D": 9.0})], ids=str)
def test_a_limit_that_nothing_can_meet_names_the_best_that_is_possible(name: str, limits: Limits) -> None:
    problem = chain(line(4.0, 8.0), limits=limits)
    with pytest.raises(PlacementError) as caught:
        MECHANISMS[name](problem)
    assert str(caught.value) == (
        "no plan gives D to a within 9 ms: its events alone take 12 ms.\n"
        "  Allow a latency of at least 12 ms, or choose a root nearer to the sources."
    )
    assert MECHANISMS[name](replace(problem, limits=Limits(12.0))).latency_ms == 12.0


@pytest.mark.parametrize("name", [name for name in QUICK if not name.startswith("edgecep")])
@pytest.mark.parametrize("limits", [{"operators": 0}, {"load_per_s": 0.0}], ids=str)
def test_capacities_that_cannot_be_met_name_the_site_that_is_full(name: str, limits: dict[str, float]) -> None:
    with pytest.raises(PlacementError) as caught:
        MECHANISMS[name](chain(capped(line(4.0, 8.0), **limits)))
    assert str(caught.value) == (
        "no plan was found within the capacities of sites; the fastest one, of 12 ms, is too much for a.\n"
        "  Allow more operators or load there, a larger latency, or try --mechanism optimal."
    )


@pytest.mark.parametrize("limits", [{"operators": 0}, {"load_per_s": 0.0}], ids=str)
def test_edgecep_exceeds_capacities_that_cannot_be_met_and_its_optimum_says_so(limits: dict[str, float]) -> None:
    problem = chain(capped(line(4.0, 8.0), **limits))
    with pytest.raises(PlacementError) as caught:
        MECHANISMS["edgecep-optimal"](problem)
    assert str(caught.value) == (
        "no sites for the operators are within the capacities of sites and links.\n"
        "  Allow more there, or try --mechanism edgecep, which exceeds them as little as it can."
    )
    assert len(MECHANISMS["edgecep"](problem).placed) == 2


def test_one_operator_per_site_is_possible() -> None:
    problem = chain(capped(line(4.0, 8.0), operators=1))
    for name in ("optimal", "exhaustive"):
        assert len({placed.site for placed in MECHANISMS[name](problem).placed}) == 2


def test_exhaustive_says_how_many_plans_are_too_many() -> None:
    with pytest.raises(PlacementError) as caught:
        exhaustive(chain(random_network(60, 80, np.random.default_rng(1)), inputs=5))
    assert str(caught.value) == (  # 541 x 60 of C, 3 x 60 of D
        "there are 5.8e+06 plans to try, and exhaustive tries at most 5,000,000.\n"
        "  Try --mechanism optimal, which is exact where no event has two readers."
    )


def test_an_unknown_mechanism_is_likened_to_a_known_one() -> None:
    with pytest.raises(PlacementError) as caught:
        mechanism("heuristics")
    assert str(caught.value) == (
        "there is no mechanism 'heuristics'.\n"
        "  known: auto, central, cpp, edgecep, edgecep-optimal, exhaustive, greedy, greedy+, grin, heuristic, "
        "heuristic+, hop, mobile, naive, optimal, producer-consumer, random, relaxation, sbon. "
        "Did you mean 'heuristic'?"
    )
    assert all(mechanism(name) is function for name, function in MECHANISMS.items())
