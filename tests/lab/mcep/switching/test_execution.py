"""The execution model: what rules are in MCEP's words, and which preserve locality."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from lab.mcep.switching.scenarios import ALL_RULES, LOCAL, events_of, graph_of
from mobility.test_moving import INTERESTS
from oracle import detect
from situ.lab.mcep.switching.execution import execution_of
from situ.lab.mcep.switching.locality import preserves_locality, why_not_local
from situ.lang.resolve import resolve
from strategies import random_scenario


def root(rule: str) -> object:
    return execution_of(graph_of(rule, INTERESTS[0]).operators[-1])


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("sequence", "relevance time span 3 s, shifted by one event"),
        ("sequence", "a < b"),
        ("loop", "a: 1 or more of Car"),
        ("aggregation", "relevance time span 4 s, shifted by 2 s"),
        ("aggregation", "Car: all of Car in 4 s"),
        ("join", "preserves locality: yes"),
        ("consuming", "consumes a"),
        ("skip", "skips past last"),
        ("previous", "relevance time span 2 s"),
        ("loop each", "a: 2 of Car"),
        ("or", "a: 0 to 1 of Car"),
    ],
)
def test_an_execution_says(rule: str, said: str) -> None:
    assert said in str(root(rule))


def test_windows_in_an_and_have_no_order() -> None:
    assert all(" < " not in line for line in str(root("and")).splitlines())


@pytest.mark.parametrize("rule", ALL_RULES)
def test_locality_is_preserved_where_it_is_said(rule: str) -> None:
    """All that is found among some events is found among more, or there is a reason why not."""
    graph = graph_of(rule, INTERESTS[0])
    assert preserves_locality(graph, "Near") == (rule in LOCAL)
    if rule not in LOCAL:
        assert any(why_not_local(operator) for operator in graph.operators)
        return
    found = 0
    for seed in range(4):
        events = events_of(seed, rule, seconds=9)
        rng = np.random.default_rng(seed)
        some = {name: [row for row in rows if rng.random() < 0.7] for name, rows in events.items()}
        few, many = (
            Counter((m.time, tuple(sorted(m.attributes.items()))) for m in detect(graph, read).matches["Near"])
            for read in (some, events)
        )
        assert few <= many
        found += few.total()
    assert found


@pytest.mark.parametrize("rule", ["sequence", "absence", "aggregation", "skip", "last", "immediately"])
def test_other_rules_do_lose_what_they_found(rule: str) -> None:
    """The reasons are real: more events can take away a complex event."""
    graph = graph_of(rule, INTERESTS[0])
    lost = 0
    for seed in range(8):
        events = events_of(seed, rule)
        rng = np.random.default_rng(seed)
        some = {name: [row for row in rows if rng.random() < 0.6] for name, rows in events.items()}
        few, many = (
            Counter((m.time, tuple(sorted(m.attributes.items()))) for m in detect(graph, read).matches["Near"])
            for read in (some, events)
        )
        lost += (few - many).total()
    assert lost


@pytest.mark.storm
def test_random_patterns_keep_what_they_found_where_locality_is_preserved() -> None:
    compared = 0
    for seed in range(400):
        scenario = random_scenario(seed, definitions=0)
        graph = resolve(scenario.query)
        if not preserves_locality(graph, "M"):
            continue
        rng = np.random.default_rng(seed)
        some = {name: [row for row in rows if rng.random() < 0.7] for name, rows in scenario.events.items()}
        few, many = (
            Counter((m.time, repr(sorted(m.attributes.items()))) for m in detect(graph, read).matches["M"])
            for read in (some, scenario.events)
        )
        assert few <= many, seed
        compared += bool(few)
    assert compared > 10
