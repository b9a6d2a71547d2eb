"""The random queries and streams of strategies.py are what they claim to be: varied, valid and in time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from oracle import OracleResult
from situ.graph import patterns
from situ.graph.patterns import Absence, And, Loop, Or, Seq
from situ.graph.query import AfterMatch, Pause, Rule, Stream
from strategies import Scenario, answered, arrivals, pieces, random_scenario, scenarios

random_examples = settings(derandomize=True, deadline=None, max_examples=150)


def summary(result: OracleResult) -> dict[str, list[tuple[int, str]]]:
    kept = {**result.matches, **{f"{name} timed out": late for name, late in result.timed_out.items()}}
    return {name: sorted((match.time, str(match.attributes)) for match in found) for name, found in kept.items()}


@random_examples
@given(scenarios() | scenarios(duplicates=True), st.randoms(use_true_random=False))
@pytest.mark.storm
def test_the_order_of_the_input_changes_nothing(scenario: Scenario, random: Any) -> None:
    shuffled = {name: random.sample(given, len(given)) for name, given in scenario.events.items()}
    answer, again = answered(scenario), answered(Scenario(scenario.query, shuffled))
    assume(answer is not None)
    assert answer is not None
    assert again is not None
    assert summary(answer[1]) == summary(again[1])


def test_every_construct_is_in_a_query_that_matches() -> None:
    seen: Counter[str] = Counter()

    for scenario in map(random_scenario, range(800)):
        answer = answered(scenario)
        if answer is None:
            continue
        _, result = answer
        seen["answered"] += 1
        seen["timed-out events"] += bool(result.timed_out.get("M"))
        if result.matches["M"]:
            seen["matches"] += 1
            seen["chain"] += bool(scenario.query.definitions)
            seen.update(set(constructs(scenario.query.subscriptions[0].rule)))
    assert [construct for construct in CONSTRUCTS if not seen[construct]] == []
    assert seen["answered"] > 700
    assert seen["matches"] > 300


def test_duplicates_are_of_every_kind_and_matter() -> None:
    seen: Counter[str] = Counter()
    for scenario in (random_scenario(seed, duplicates=True) for seed in range(300)):
        answer = answered(scenario)
        if answer is None:
            continue
        _, result = answer
        seen["answered"] += 1
        seen["dropped"] += bool(sum(result.duplicates.values()))
        seen["order"] += any(stream.order and result.duplicates.get(stream.name) for stream in scenario.query.streams)
        seen.update({kind for stream in scenario.query.streams for kind in pairs(stream, scenario.events[stream.name])})
        streams = tuple(replace(stream, unique=None) for stream in scenario.query.streams)
        without = answered(Scenario(replace(scenario.query, streams=streams), scenario.events))
        seen["matter"] += without is not None and summary(without[1]) != summary(result)
    assert seen["answered"] > 250
    assert {kind: n for kind, n in seen.items() if n < 30} == {}
    assert {*seen} == {"answered", "dropped", "order", "alike", "unlike", "null", "another time", "matter"}


def pairs(stream: Stream, rows: list[dict[str, Any]]) -> Iterator[str]:
    """What pairs of rows with the same value of the `unique` attribute there are."""
    for one, other in combinations(rows, 2):
        if stream.unique is not None and one[stream.unique] == other[stream.unique]:
            if one["ts"] != other["ts"]:
                yield "another time"
            elif one[stream.unique] is None:
                yield "null"
            else:
                yield "alike" if one == other else "unlike"


CONSTRUCTS = [
    *("chain", "condition", "loop", "group loop", "greedy", "until", "and", "or", "selector"),
    *("not", "not immediately", "not at the end", "within", "from previous", "from alias"),
    *("consuming", "after match", "pause", "once", "group by", "timed-out events", "Aggregation", "Join"),
]


def constructs(rule: Rule) -> Iterator[str]:
    (case,) = rule.cases
    yield from walk(case.detect)
    for name, present in {
        "condition": any(test.condition is not None for test in patterns.tests_of(case.detect)),
        "consuming": case.consuming,
        "after match": isinstance(rule.after_match, AfterMatch) and rule.after_match != AfterMatch(),
        "pause": isinstance(rule.after_match, Pause),
        "once": case.once,
        "group by": rule.group_by,
        type(rule.kind).__name__: rule.kind,
    }.items():
        if present:
            yield name
    if case.within is not None:
        anchor = case.within.anchor
        yield (
            "from alias" if isinstance(anchor, str) else {"first": "within", "previous": "from previous"}[anchor.value]
        )


def walk(node: Any) -> Iterator[str]:
    """The names of the constructs in a pattern."""
    match node:
        case Loop(body):
            yield "group loop" if isinstance(body, Seq) else "loop"
            yield "greedy" if node.greedy else "until" if node.until is not None else "loop"
            yield from walk(body)
        case Seq(parts):
            for part in parts:
                if isinstance(part, Absence):
                    at_end = part is parts[-1]
                    yield "not at the end" if at_end else "not immediately" if part.immediately else "not"
                else:
                    yield from walk(part.pattern)
        case And(parts) | Or(parts):
            yield type(node).__name__.lower()
            for alternative in parts:
                yield from walk(alternative)
        case _:
            if node.selector is not None:
                yield "selector"


@random_examples
@given(st.data(), st.integers(0, 999), st.integers(0, 3))
def test_arrivals_are_never_late_and_pieces_lose_nothing(data: st.DataObject, seed: int, watermark_s: int) -> None:
    events = random_scenario(seed).events
    arrived = data.draw(arrivals(events, watermark_s))
    largest: dict[str, int] = {}
    for name, row in arrived:
        assert row["ts"] >= largest.get(name, 0) - watermark_s
        largest[name] = max(largest.get(name, 0), row["ts"])
    fed = data.draw(pieces(arrived))
    again = [row for name in events for piece in fed for row in piece.get(name, [])]
    assert again == [row for name in events for stream, row in arrived if stream == name]
    assert sorted(row["n"] for row in again) == list(range(sum(map(len, events.values()))))


def test_the_oracle_shares_no_code_with_what_it_checks() -> None:
    for path in Path(__file__).parent.glob("*.py"):
        imported = re.findall(r"^(?:from|import) (situ\.\w+)", path.read_text(), re.MULTILINE)
        allowed = {"situ.core", "situ.graph"} | (
            {"situ.lang"} if path.stem.startswith(("test_", "examples")) else set()
        )
        assert set(imported) <= allowed, path.name
