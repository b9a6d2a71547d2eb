"""Random cases are what their shape says."""

from __future__ import annotations

import numpy as np
import pytest

from situ.lab.panorama.experiments.cases import CaseShape, PlacementCase, random_case, scattered_again
from situ.network.generate import antennas
from situ.network.network import Network
from situ.placement.problem import Kind

SHAPES = [
    CaseShape(),
    CaseShape(complex_events=1),
    CaseShape(complex_events=5, inputs=2),
    CaseShape(shared_events=2),
    CaseShape(tree=True),
]


@pytest.fixture(scope="module")
def network() -> Network:
    return antennas(120, np.random.default_rng(1))


def drawn(network: Network, seed: int, shape: CaseShape) -> PlacementCase:
    return random_case(network, np.random.default_rng(seed), shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(5))
def test_a_case_has_its_shape(network: Network, shape: CaseShape, seed: int) -> None:
    problem = drawn(network, seed, shape).problem()
    assert len(problem.operators) == shape.complex_events
    assert len(problem.outputs) == 1
    for operator in problem.operators:
        assert len(operator.inputs) == shape.inputs
        assert operator.kind in (Kind.SEQ, Kind.AND)
        assert operator.can_pull
        assert shape.windows_s[0] - 1e-6 <= operator.window_s <= shape.windows_s[1] + 1e-6
    for sources in problem.sources.values():
        assert len(sources.sites) == shape.sources
        assert shape.rates_per_s[0] * 0.999 <= sources.rate_per_s <= shape.rates_per_s[1] * 1.001
    assert sum(len(readers) > 1 for readers in problem.readers.values()) == shape.shared_events


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(5))
def test_an_operator_puts_out_at_most_as_much_as_its_rarest_input(
    network: Network, shape: CaseShape, seed: int
) -> None:
    problem = drawn(network, seed, shape).problem()
    for operator in problem.operators:
        assert problem.rates[operator.name] <= problem.input_rates(operator).min() * (1 + 1e-9)


def test_a_chain_and_a_tree(network: Network) -> None:
    def complex_inputs(shape: CaseShape) -> list[set[str]]:
        problem = drawn(network, 3, shape).problem()
        return [{event for event in operator.events if event in problem.number} for operator in problem.operators]

    assert complex_inputs(CaseShape()) == [set(), {"C1"}, {"C2"}]
    assert complex_inputs(CaseShape(tree=True)) == [set(), set(), {"C1", "C2"}]


def test_a_seed_is_a_case(network: Network) -> None:
    assert drawn(network, 4, CaseShape()) == drawn(network, 4, CaseShape())
    assert drawn(network, 4, CaseShape()).text != drawn(network, 5, CaseShape()).text


def test_scattered_again_keeps_rates(network: Network) -> None:
    case = drawn(network, 6, CaseShape())
    again = scattered_again(case, np.random.default_rng(7), CaseShape(sources=3, diameter_hops=5))
    assert again.text == case.text
    assert again.statistics.selectivity == case.statistics.selectivity
    for event, sites in again.statistics.rates.items():
        assert len(sites) == 3
        assert sum(sites.values()) == pytest.approx(sum(case.statistics.rates[event].values()))
        hops = network.ways_from(network.number(next(iter(sites)))).hops
        assert all(hops[network.number(site)] <= 5 for site in sites)
