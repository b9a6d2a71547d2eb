"""Plain dynamic programming and `optimal` are two ways to the same plans."""

from __future__ import annotations

import numpy as np
import pytest

from placement.compare import same_front
from situ.bench.plain_dp import plain_dp
from situ.lab.panorama.experiments.cases import CaseShape, PlacementCase, random_case
from situ.network.generate import antennas
from situ.placement.coverage import Coverage
from situ.placement.evaluate import evaluate
from situ.placement.naive import naive
from situ.placement.optimal import optimal
from situ.placement.paper_costs import PaperCosts
from situ.placement.problem import CostModel

CHAIN = CaseShape(sources=3)
TREE = CaseShape(sources=3, tree=True)


def case(seed: int, shape: CaseShape) -> PlacementCase:
    rng = np.random.default_rng(seed)
    return random_case(antennas(8, rng), rng, shape)


@pytest.mark.storm
@pytest.mark.jit_only
@pytest.mark.parametrize("model", [Coverage(), PaperCosts()], ids=lambda model: model.name)
@pytest.mark.parametrize("limit", [None, 1.0, 1.5, 3.0])
@pytest.mark.parametrize("shape", [CHAIN, pytest.param(TREE, marks=pytest.mark.slow)], ids=["chain", "tree"])
def test_the_same_as_optimal(shape: CaseShape, limit: float | None, model: CostModel) -> None:
    for seed in range(4):
        drawn = case(seed, shape)
        latency_ms = None if limit is None else limit * naive(drawn.problem(model)).latency_ms
        problem = drawn.problem(model, latency_ms)
        plain, best = plain_dp(problem), optimal(problem)
        assert plain.cost == pytest.approx(best.cost, rel=1e-9)
        assert evaluate(problem, plain.placed).cost == pytest.approx(plain.cost, rel=1e-9)
        assert same_front(plain.pareto, best.pareto)
