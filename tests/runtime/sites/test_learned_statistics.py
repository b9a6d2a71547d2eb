"""What simulated sites have counted is what is known of their streams."""

from __future__ import annotations

import json

import numpy as np
import pytest

from situ.core.errors import InputError
from situ.lab.panorama.experiments.cases import CaseShape, random_case
from situ.lab.panorama.experiments.thinned_cases import thinned, thinned_text
from situ.lab.panorama.simulation.draw import draw
from situ.lab.panorama.simulation.on_sites import run_on_sites
from situ.network.generate import antennas
from situ.placement.coverage import Coverage
from situ.placement.mechanisms import mechanism
from situ.placement.selectivities import selectivities
from situ.runtime.sites.learned_statistics import counted_types, learned_statistics

SHAPE = CaseShape(complex_events=2, sources=3, rates_per_s=(0.5, 3.0), windows_s=(0.5, 2.0), diameter_hops=8)


@pytest.mark.parametrize("name", ["heuristic+", "naive"])
def test_sites_learn_what_the_streams_are(name: str) -> None:
    rng = np.random.default_rng(3)
    case = random_case(antennas(8, rng), rng, SHAPE)
    graph, problem = thinned(case, Coverage())
    placed = mechanism(name)(problem).placed
    seconds = 200 / sum(sources.rate_per_s for sources in problem.sources.values())
    events = draw(graph, problem.sources, seconds, rng)
    run = run_on_sites(thinned_text(case), problem, graph, placed, events)
    learned = learned_statistics(graph, json.loads(json.dumps(run.reports)))

    times = np.concatenate([occurred.rows.column("us").to_numpy() for occurred in events.values()])
    span_s = (times.max() - times.min()) / 1e6
    for event, occurred in events.items():
        for site in problem.sources[event].sites.tolist():
            rate = max(np.count_nonzero(occurred.sites == site), 0.5) / span_s  # half an event where none came yet
            assert learned.rates[event][problem.network.names[site]] == pytest.approx(rate)
    made = {event: len(occurred.rows) / span_s for event, occurred in events.items()}
    made |= {operator.name: 0.0 for operator in problem.operators}
    made |= {of.type: of.per_s for of in counted_types(run.reports) if of.type in problem.number}
    (output,) = (problem.operators[number].name for number in problem.outputs)
    assert made[output] == pytest.approx(run.complex_events[output].num_rows / span_s)
    assert {k: learned.selectivity[k] for k in problem.number} == pytest.approx(selectivities(graph, made, {}))


def test_a_site_that_was_started_again_counts_from_then_on() -> None:
    def report(events: int, first_us: int, latest_us: int, since_us: int | None) -> dict[str, object]:
        tally = {"events": events, "first_us": first_us, "latest_us": latest_us, "since_us": since_us, "passing": {}}
        return {"versions": {"1": {"counted": {"A": tally}}}, "sources": {"A": {}}}

    first = {"x": report(10, 0, 9_000_000, None), "y": report(4, 1_000_000, 9_000_000, None)}
    assert {of.site: of.per_s for of in counted_types(first)} == {"x": 10 / 9, "y": 4 / 9}
    later = {"x": report(40, 0, 29_000_000, None), "y": report(3, 22_000_000, 28_000_000, 19_000_000)}
    assert {of.site: of.per_s for of in counted_types(later, first)} == {"x": 30 / 20, "y": 3 / 10}
    with pytest.raises(InputError, match="have not counted two events"):
        list(counted_types(first, first))
