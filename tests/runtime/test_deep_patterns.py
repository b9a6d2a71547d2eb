"""Patterns that nest: which shapes the conformance suite asks, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from deep_patterns import deep_scenario
from situ.core.errors import QueryError
from situ.graph.patterns import Absence, And, Follow, Loop, Or, Pattern, Seq, Step
from situ.runtime.embedded import Engine
from strategies import answered


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
