"""Provenance: selections, their atomic events, and running some selections only."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from runtime.comparison import tables
from situ.graph.rule_properties import compares_matches
from situ.lang.resolve import resolve
from situ.runtime.embedded import Engine
from strategies import random_scenario

QUERY = """
stream E(k int, v int, ts int) time ts in s
subscribe Up
  detect   E(v < 5) as a then E(v > a.v) as b {}
  assign   a = a.v, b = b.v
  group by k
"""
EVENTS = pa.table({"k": [1, 1, 2, 1, 2, 1], "v": [1, 9, 2, 3, 1, 4], "ts": [0, 2, 2, 4, 5, 13]})


def selections(within: str, **options: object) -> list[tuple[int, int, list[int]]]:
    """(group, number, rows of the atomic events) of all selections."""
    engine = Engine(QUERY.format(within), provenance=True, **options)  # type: ignore[arg-type]
    found = pa.concat_tables([output.selections["Up"] for output in engine.run({"E": EVENTS})])
    return sorted((row["k"], row["_selection"], [o["row"] for o in row["_origins"]]) for row in found.to_pylist())


def test_a_selection_holds_all_candidates_of_its_window() -> None:
    assert selections("within 5 s") == [(1, 0, [0, 1, 3]), (1, 1, [3]), (1, 2, [5]), (2, 0, [2, 4]), (2, 1, [4])]


def test_from_previous_a_selection_goes_on_while_events_follow() -> None:
    assert selections("within 3 s from previous") == [
        (1, 0, [0, 1, 3]), (1, 1, [3]), (1, 2, [5]), (2, 0, [2, 4]), (2, 1, [4])]  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_selections_do_not_depend_on_pieces_and_restarts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cuts = sorted(rng.integers(0, 7, size=2))
    engine = Engine(QUERY.format("within 5 s"), provenance=True)
    found = []
    for begin, end in zip([0, *cuts], [*cuts, 6], strict=True):
        found.append(engine.feed(EVENTS.slice(begin, end - begin)).selections["Up"])
        data = engine.snapshot()
        engine = Engine(QUERY.format("within 5 s"), provenance=True)
        engine.restore(data)
    found.append(engine.close().selections["Up"])
    rows = pa.concat_tables(found).to_pylist()
    got = sorted((row["k"], row["_selection"], [o["row"] for o in row["_origins"]]) for row in rows)
    assert got == selections("within 5 s")


def test_complex_events_name_their_selection_and_atomic_events() -> None:
    engine = Engine(QUERY.format("within 5 s"), provenance=True)
    found = pa.concat_tables([output.complex_events["Up"] for output in engine.run({"E": EVENTS})]).to_pylist()
    named = sorted((row["a"], row["b"], row["_selection"], [o["row"] for o in row["_origins"]]) for row in found)
    assert named == [(1, 9, 0, [0, 1])]


def by_selection(scenario_seed: int, only: object = None) -> Counter[tuple[object, ...]]:
    scenario = random_scenario(scenario_seed, definitions=0)
    graph = resolve(scenario.query)
    engine = Engine(graph, provenance=True, only_selections=only)  # type: ignore[arg-type]
    found: Counter[tuple[object, ...]] = Counter()
    keyed = bool(graph.operators[-1].rule.group_by)
    for output in engine.run(tables(graph, scenario.events)):
        for row in output.complex_events["M"].to_pylist():
            origins = tuple((o["stream"], o["row"]) for o in row["_origins"])
            found[(row["k"],) if keyed else (), row["_selection"], origins] += 1
    return found


def test_some_selections_give_just_their_complex_events() -> None:
    """For patterns without policies across selections, processing a subset gives the subset of the results."""
    compared = 0
    for seed in range(250):
        rule = random_scenario(seed, definitions=0).query.subscriptions[0].rule
        if compares_matches(rule) is not None:
            continue
        everything = by_selection(seed)
        wanted = {(key, number) for key, number, _ in everything if hash((seed, number)) % 2}
        only: dict[object, list[int]] = {}
        for key, number in wanted:
            only.setdefault(key, []).append(number)  # type: ignore[arg-type]
        expected = Counter({m: n for m, n in everything.items() if (m[0], m[1]) in wanted})
        assert by_selection(seed, {"M": only}) == expected, seed
        compared += bool(expected)
    assert compared > 20
