"""What sites say beside events and requests: as predicted, within what chance leaves of some hundred events."""

from __future__ import annotations

import numpy as np
import pytest

from situ.bench.prediction import KINDS
from situ.lab.panorama.experiments.cases import CaseShape, random_case
from situ.lab.panorama.experiments.thinned_cases import thinned, thinned_text
from situ.lab.panorama.simulation.draw import draw
from situ.lab.panorama.simulation.on_sites import run_on_sites
from situ.network.generate import antennas
from situ.network.network import Link, Network, Site
from situ.placement import one_by_one
from situ.placement.bursts import Bursts
from situ.placement.link_load import flows_of, way_of
from situ.placement.mechanisms import mechanism
from situ.placement.plan import Placed
from situ.placement.problem import Input, Kind, PlannedOperator, Problem, Sources
from situ.placement.words import questions_of, words_of

SHAPE = CaseShape(complex_events=2, sources=3, rates_per_s=(0.5, 3.0), windows_s=(0.5, 2.0), diameter_hops=8)


@pytest.mark.storm
@pytest.mark.parametrize("in_order", [False, True])
def test_words_of_a_pushed_plan_are_as_many_as_sites_say(in_order: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if in_order:  # as where more is in a window
        monkeypatch.setattr(one_by_one, "MOST_IN_WINDOW", 0)
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
    if in_order:  # each event is waited for, and each question is answered
        assert counted["questions"] > 5 * counted["events"]
        assert predicted["questions"] == pytest.approx(counted["questions"], rel=0.15)
    else:
        assert counted["questions"] == 0
        assert predicted["questions"] < 0.05 * counted["events"]


def test_a_request_is_answered_and_its_range_ends() -> None:
    words = words_of(0.0, 0.001, 0.0, window_s=1.0)
    assert (words.questions, words.promises) == (0.0, 0.002)
    assert words.acknowledgements == pytest.approx(0.001, rel=0.01)


def test_acknowledgements_ride_on_requests() -> None:
    assert words_of(0.0, 3.0, 0.0, window_s=1.0).acknowledgements < 0.01


def test_what_comes_together_is_acknowledged_together() -> None:
    assert words_of(1_000.0, 0.0, 0.0).acknowledgements == pytest.approx(0.5, rel=0.01)
    assert words_of(0.001, 0.0, 0.0).acknowledgements == pytest.approx(0.001, rel=0.01)


def test_who_makes_events_that_are_pulled_asks_for_time_at_the_end_of_each_range() -> None:
    sites, links = ("field", "maker", "reader"), (Link("field", "maker", 1.0), Link("maker", "reader", 1.0))
    network = Network(tuple(map(Site, sites)), links)
    made = PlannedOperator("Made", Kind.SEQ, (Input("A"), Input("B")), 1.0, 0.5, (True,), can_pull=True)
    found = PlannedOperator("Found", Kind.SEQ, (Input("Made"), Input("Rare")), 1.0, 1.0, (True,), can_pull=True)
    sources_of = {
        "A": Sources(np.array([0]), np.array([1.0])),
        "B": Sources(np.array([1]), np.array([1.0])),
        "Rare": Sources(np.array([2]), np.array([0.01])),
    }
    problem = Problem((made, found), sources_of, network, 2, Bursts())
    pulled = Placed(1, ((0, 1),)), Placed(2, ((1,), (0,)))
    pushed = Placed(1, ((0, 1),)), Placed(2, ((0, 1),))
    requests_per_s = Bursts().need(found, problem.input_bursts(found), (1,), (0,)).requests_per_s
    asked = [questions_of(problem, placed)["A", 0, 1] for placed in (pulled, pushed)]
    assert asked[0] - asked[1] == pytest.approx(requests_per_s, rel=0.05)
