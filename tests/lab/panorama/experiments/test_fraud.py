"""The fraud case study: one group of customers, five primitive events."""

from __future__ import annotations

import numpy as np

from situ.lab.panorama.experiments.fraud import SHARES, WINDOWS_S, fraud_case
from situ.network.generate import antennas


def test_a_chain_of_three_over_five_events_at_the_same_antennas() -> None:
    network = antennas(100, np.random.default_rng(1))
    case = fraud_case(network, np.random.default_rng(2))
    problem = case.problem()
    assert [operator.name for operator in problem.operators] == ["Suspicious", "Alarming", "Fraud"]
    assert set(problem.sources) == set(SHARES)
    assert len({tuple(sources.sites.tolist()) for sources in problem.sources.values()}) == 1
    assert len({operator.window_s for operator in problem.operators}) == 1
    assert WINDOWS_S[0] <= problem.operators[0].window_s <= WINDOWS_S[1]


def test_premium_calls_are_rare_and_unusual_ones_frequent() -> None:
    network = antennas(100, np.random.default_rng(1))
    for seed in range(5):
        rates = fraud_case(network, np.random.default_rng(seed)).problem().rates
        assert rates["PE1"] < min(rates["PE4"], rates["PE5"]) / 20
