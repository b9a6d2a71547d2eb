"""Without the events that lead nowhere, a pattern finds what it finds with them."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import situ
from situ.core.time import END
from situ.kernel.matching import dead_ends
from situ.kernel.matching.dead_ends import DeadEnds

STREAM = "stream E(key int, kind int, v int, ts int) time ts in s\n"
PATTERNS = [
    "E(kind = 0) as a then each E(kind = 1) as b then each E(kind = 2) as c within 6 s",
    "E(kind = 0) as a then E(kind = 1) as b then each E(kind = 2) as c within 6 s",
    "E(kind = 0) as a then each E(kind != 0 and v > a.v) as b then E(kind != 1) as c within 4 s",
    "E(kind < 2) as a then each E(kind < 2) as b then each E(kind < 3) as c within 3 s",
    "last E(kind = 1) as a then each E(kind = 2) as b within 5 s",
]
POLICIES = ["", "after match skip past last", "after match skip to next", "after match pause 3 s"]


def rows(rng: random.Random, count: int) -> pa.Table:
    """In order of time, some at one time; kind 2 is rare."""
    times = sorted(rng.randrange(count) for _ in range(count))
    kinds = [rng.choice([0, 0, 0, 1, 1, 1, 2]) for _ in range(count)]
    numbers = [[rng.randrange(most) for _ in range(count)] for most in (3, 5)]
    return pa.table({"key": numbers[0], "kind": kinds, "v": numbers[1], "ts": times})


def found(text: str, table: pa.Table, piece: int) -> Counter[tuple[Any, ...]]:
    engine = situ.Engine(text)
    outputs = [engine.feed(table.slice(at, piece)) for at in range(0, len(table), piece)]
    tables = [output.complex_events["S"] for output in (*outputs, engine.close())]
    return Counter(tuple(row.values()) for found in tables for row in found.to_pylist())


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_nothing_is_lost(pattern: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{STREAM} subscribe S detect {pattern} assign a = a.v, b = b.v, key = a.key group by key {policy}"
    tables = [rows(random.Random(seed), 60) for seed in range(2)]
    pieces = (1000, 13, 1)
    monkeypatch.setattr(dead_ends, "_RARE", 0)  # whatever comes, one looks
    pruned = [found(text, table, piece) for table in tables for piece in pieces]
    monkeypatch.setattr(DeadEnds, "of", lambda *_: None)
    assert pruned == [found(text, table, 1000) for table in tables for _ in pieces]
    assert sum(answer.total() for answer in pruned) > 0


def test_what_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """a b a b, c only in the first group; a b of the second one would be no match, but for what may still come."""
    monkeypatch.setattr(dead_ends, "_RARE", 0)
    steps = DeadEnds(np.array([1, 2, 4], np.uint64), window_us=10)
    accepted = np.array([1, 2, 4, 1, 2, 1], np.uint64)
    group, time = np.array([0, 0, 0, 1, 1, 0]), np.array([0, 1, 2, 3, 4, 5])
    in_order = np.arange(6)
    assert steps.without(accepted, in_order, group, 2, time, END).tolist() == [1, 2, 4, 0, 0, 0]
    assert steps.without(accepted, in_order, group, 2, time, 14).tolist() == [1, 2, 4, 1, 2, 1]
    assert steps.without(accepted, in_order, group, 2, time, 15).tolist() == [1, 2, 4, 0, 0, 1]


@pytest.mark.parametrize(("ends", "is_left_out"), [(1, True), (2, False)])
def test_one_looks_only_where_a_step_is_rare(ends: int, is_left_out: bool) -> None:
    """Nine a and nine b in a group that has no c, and one c or two of another group."""
    accepted = np.array([1] * 9 + [2] * 9 + [4] * ends, np.uint64)
    group, time = np.array([0] * 18 + [1] * ends), np.arange(18 + ends)
    left = DeadEnds(np.array([1, 2, 4], np.uint64), window_us=100).without(
        accepted, np.arange(18 + ends), group, 2, time, END
    )
    assert left.tolist() == ([0] * 18 + [4] if is_left_out else accepted.tolist())


@pytest.mark.parametrize(
    "rule",
    [
        "detect E as a then E as b within 5 s",  # no step says each
        "detect E as a then each E as b",  # no window
        "detect E as a then each E as b within 5 s from previous",
        "detect E as a then not E(v = 1) then each E as b within 5 s",
        "detect E as a then each E as b within 5 s assign v = a.v report timed out",
        "detect E+ as a then each E as b within 5 s",
        "detect E as a then immediately E as b then each E as c within 5 s",
    ],
)
def test_where_every_event_counts(rule: str) -> None:
    engine = situ.Engine(f"{STREAM} subscribe S {rule}")
    (node,) = engine._flow.nodes.values()
    (case,) = node.operator.cases  # type: ignore[union-attr]
    assert case.dead_ends is None
