"""Patterns that nest: the engine gives what the oracle says, whole, in pieces, out of order and after restarts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given

from deep_patterns import MOST_EVENTS, DeepPen, deep_scenario
from runtime.comparison import expected, feed, run
from runtime.test_oracle import CHECKS, delayed, restarted
from situ.core.errors import QueryError
from situ.graph.patterns import Absence, And, Follow, Loop, Or, Pattern, Seq, Step
from situ.lang.resolve import has_unbounded_state
from situ.lang.unparse import unparse
from situ.runtime.embedded import Engine
from strategies import Scenario, answered, scenarios

BLOCK = 60


@pytest.mark.parametrize("block", [*range(2), *(pytest.param(b, marks=pytest.mark.slow) for b in range(2, 20))])
def test_whole_input(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        scenario = deep_scenario(seed)
        if (answer := answered(scenario)) is not None:
            graph, result = answer
            assert run(graph, scenario.events) == expected(graph, result), f"seed {seed}\n{unparse(scenario.query)}"


@pytest.mark.parametrize("block", [0, *(pytest.param(b, marks=pytest.mark.slow) for b in range(1, 6))])
def test_pieces_out_of_order_and_restarts(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        scenario = deep_scenario(seed, watermark_s=2)
        if (answer := answered(scenario)) is None or any(map(has_unbounded_state, answer[0].operators)):
            continue
        graph, result = answer
        want = expected(graph, result)
        fed = delayed(random.Random(seed), scenario.events, 2)
        assert feed(graph, fed) == want, f"seed {seed}\n{unparse(scenario.query)}"
        assert feed(graph, fed, restarted) == want, f"seed {seed}, with restarts\n{unparse(scenario.query)}"


@CHECKS
@given(scenarios(definitions=0, most=MOST_EVENTS, pen=DeepPen))
def test_whole_input_shrinks(scenario: Scenario) -> None:
    if (answer := answered(scenario)) is not None:
        graph, result = answer
        assert run(graph, scenario.events) == expected(graph, result)


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("A as first then ", "more than 62 alternatives follow one step"),
        ("", "more than 62 ways past the greedy loops"),
    ],
)
def test_very_many_ways_past_greedy_loops_are_refused(before: str, said: str) -> None:
    """Twenty pairs of alternatives would be a million ways."""
    pairs = " then ".join(f"(A? greedy as a{i} or B? greedy as b{i})" for i in range(20))
    streams = "stream A(ts int) time ts in s stream B(ts int) time ts in s"
    with pytest.raises(QueryError, match=said):
        Engine(f"{streams} subscribe M detect {before}{pairs} then B as end within 5 s")


@pytest.mark.slow
def test_the_shapes_occur_in_queries_that_match() -> None:
    seen: Counter[str] = Counter()
    for scenario in map(deep_scenario, range(400)):
        answer = answered(scenario)
        if answer is not None and answer[1].matches["M"]:
            (case,) = scenario.query.subscriptions[0].rule.cases
            seen.update(set(shapes(case.detect)))
    assert {shape for shape in SHAPES if seen[shape] < 3} == set()


SHAPES = {
    *("a group begins with a greedy loop that may be empty", "an alternative may be empty"),
    *("a loop in a loop", "an optional loop in an optional loop", "an `and` in a loop", "three levels"),
    *("absences in a row", "absences in a row at the end", "until in a loop"),
}


def shapes(pattern: Pattern, depth: int = 0, around: tuple[Loop, ...] = ()) -> Iterator[str]:
    """What of SHAPES occurs in a pattern."""
    if depth == 3:
        yield "three levels"
    match pattern:
        case Step():
            return
        case And():
            yield from ["an `and` in a loop"] if around else []
        case Or(parts):
            yield from ["an alternative may be empty"] if any(map(may_be_empty, parts)) else []
            for part in parts:
                yield from shapes(part, depth + 1, around)
        case Loop(body, low):
            yield from ["a loop in a loop"] if around else []
            yield from ["an optional loop in an optional loop"] if low == 0 and any(o.low == 0 for o in around) else []
            yield from ["until in a loop"] if around and pattern.until is not None else []
            yield from shapes(body, depth + 1, (*around, pattern))
        case Seq(parts):
            in_a_row = [i for i in range(1, len(parts)) if all(isinstance(p, Absence) for p in parts[i - 1 : i + 1])]
            yield from ["absences in a row"] if in_a_row else []
            yield from ["absences in a row at the end"] if len(parts) - 1 in in_a_row else []
            first = parts[0].pattern if isinstance(parts[0], Follow) else None
            if depth > 0 and isinstance(first, Loop) and first.greedy and first.low == 0:
                yield "a group begins with a greedy loop that may be empty"
            for follow in parts:
                if isinstance(follow, Follow):
                    yield from shapes(follow.pattern, depth + 1, around)


def may_be_empty(pattern: Pattern) -> bool:
    return isinstance(pattern, Loop) and pattern.low == 0
