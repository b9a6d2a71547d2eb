"""The engine gives what the oracle says: whole, in pieces, out of order within the watermark, and after restarts."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.comparison import expected, feed, run
from situ.graph.rule_properties import has_unbounded_state
from situ.lang.unparse import unparse
from situ.runtime.embedded import Engine
from strategies import Rows, Scenario, answered, arrivals, pieces, random_scenario, scenarios

#: Seeds are run in blocks: a test each would take longer to report than to run.
BLOCK = 60
CHECKS = settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def restarted(engine: Engine) -> Engine:
    """Another engine that goes on from the first one's snapshot."""
    new = Engine(engine.graph, show_definitions=True)
    new.restore(engine.snapshot())
    return new


def delayed(rng: random.Random, events: Rows, watermark_s: int) -> list[Rows]:
    """The rows in some order of arrival in which none is late, cut into pieces."""
    rows = [
        (row["ts"] + rng.randint(0, watermark_s), rng.random(), name, row) for name in events for row in events[name]
    ]
    fed: list[Rows] = [{}]
    for _, _, name, row in sorted(rows, key=lambda item: item[:2]):
        if rng.random() < 0.4:
            fed.append({})
        fed[-1].setdefault(name, []).append(row)
    return fed


@pytest.mark.parametrize("block", [*range(4), *(pytest.param(b, marks=pytest.mark.slow) for b in range(4, 40))])
def test_whole_input(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        scenario = random_scenario(seed)
        if (answer := answered(scenario)) is not None:
            graph, result = answer
            assert run(graph, scenario.events) == expected(graph, result), f"seed {seed}\n{unparse(scenario.query)}"


@pytest.mark.parametrize("block", [*range(2), *(pytest.param(b, marks=pytest.mark.slow) for b in range(2, 12))])
def test_pieces_out_of_order_and_restarts(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        scenario = random_scenario(seed, watermark_s=2)
        if (answer := answered(scenario)) is None or any(map(has_unbounded_state, answer[0].operators)):
            continue
        graph, result = answer
        want = expected(graph, result)
        fed = delayed(random.Random(seed), scenario.events, 2)
        assert feed(graph, fed) == want, f"seed {seed}\n{unparse(scenario.query)}"
        assert feed(graph, fed, restarted) == want, f"seed {seed}, with restarts\n{unparse(scenario.query)}"


#: Seeds that found a bug once: groups renumbered by a restart, `immediately` and `and` in timed-out output, `last`
#: without a window and with consumption.
HARD = [100762, 101104, 101443, 101678, 102797, 102840, 103059, 103330, 103550, 104157, 104610, 106777, 106866]


@pytest.mark.parametrize("seed", HARD)
def test_seeds_that_were_hard(seed: int) -> None:
    scenario = random_scenario(seed, watermark_s=2)
    answer = answered(scenario)
    assert answer is not None
    graph, result = answer
    want = expected(graph, result)
    assert run(graph, scenario.events) == want
    if not any(map(has_unbounded_state, graph.operators)):
        fed = delayed(random.Random(seed), scenario.events, 2)
        assert feed(graph, fed) == feed(graph, fed, restarted) == want


@CHECKS
@given(scenarios())
def test_whole_input_shrinks(scenario: Scenario) -> None:
    if (answer := answered(scenario)) is not None:
        graph, result = answer
        assert run(graph, scenario.events) == expected(graph, result)


@CHECKS
@given(scenarios(watermark_s=2), st.data())
def test_pieces_shrink(scenario: Scenario, data: st.DataObject) -> None:
    if (answer := answered(scenario)) is None or any(map(has_unbounded_state, answer[0].operators)):
        return
    graph, result = answer
    fed = data.draw(pieces(data.draw(arrivals(scenario.events, 2))))
    assert feed(graph, fed) == expected(graph, result)
