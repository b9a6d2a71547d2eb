"""What sites say beside events and requests: as predicted, within what chance leaves of some hundred events."""

from __future__ import annotations

import numpy as np
import pytest

from situ.bench.prediction import KINDS, thinned, thinned_text
from situ.lab.panorama.experiments.cases import CaseShape, random_case
from situ.lab.panorama.simulation.draw import draw
from situ.lab.panorama.simulation.on_sites import run_on_sites
from situ.network.generate import antennas
from situ.placement.bursts import Bursts
from situ.placement.link_load import flows_of, way_of
from situ.placement.mechanisms import mechanism
from situ.placement.words import words_of

SHAPE = CaseShape(complex_events=2, sources=3, rates_per_s=(0.5, 3.0), windows_s=(0.5, 2.0), diameter_hops=8)


@pytest.mark.storm
def test_words_of_a_pushed_plan_are_as_many_as_sites_say() -> None:
    rng = np.random.default_rng(3)
    case = random_case(antennas(20, rng), rng, SHAPE)
    graph, problem = thinned(case, Bursts())
    placed = mechanism("naive")(problem).placed
    seconds = 400 / sum(sources.rate_per_s for sources in problem.sources.values())
    run = run_on_sites(thinned_text(case), problem, graph, placed, draw(graph, problem.sources, seconds, rng))
    predicted = dict.fromkeys(KINDS, 0.0)
    for flow in flows_of(problem, placed):
        for kind, per_s in (flow.forth_per_s | flow.back_per_s).items():
            predicted[kind] += per_s * seconds * (len(way_of(problem.network, flow)) - 1)
    counted = {kind: getattr(run.counts, kind) for kind in KINDS}
    assert sum(predicted.values()) == pytest.approx(sum(counted.values()), rel=0.15)
    assert counted["questions"] > 5 * counted["events"]  # what is pushed needs them, and each is answered
    assert predicted["questions"] == pytest.approx(counted["questions"], rel=0.15)


def test_a_request_is_answered_and_its_range_ends() -> None:
    words = words_of(0.0, 0.5, 0.0, window_s=1.0)
    assert (words.questions, words.promises, words.acknowledgements) == (0.0, 1.0, 0.5)


def test_what_comes_together_is_acknowledged_together() -> None:
    assert words_of(1_000.0, 0.0, 0.0).acknowledgements == pytest.approx(5.0, rel=0.01)
    assert words_of(0.01, 0.0, 0.0).acknowledgements == pytest.approx(0.01, rel=0.01)
