"""Tallies of matches are what all combinations of events give, counted by brute force."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from math import comb
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import situ
from situ.graph.tallies import tallied
from situ.kernel.matching.chains import LARGEST, chains_of
from situ.lang.parse import parse
from situ.lang.resolve import resolve

STREAM = "stream E(id int, key int, kind int, v int, w double, ts int) time ts in s order id\n"
ALIASES = "abcd"
TOTALS = ("n = count(m)", "s = sum(m.v)", "k = count(m.v)", "lo = min(m.w)", "hi = max(m.w)", "z = min(m.v)")


def rows(rng: random.Random, count: int) -> list[dict[str, Any]]:
    """In order of time, many at one time; some values are null, and some numbers are none."""
    times = sorted(rng.randrange(count // 2) for _ in range(count))
    return [
        {
            "id": id_,
            "key": rng.randrange(2),
            "kind": rng.randrange(4),
            "v": rng.choice([None, rng.randrange(-9, 10)]),
            "w": rng.choice([None, float("nan"), rng.random(), rng.random()]),
            "ts": ts,
        }
        for id_, ts in enumerate(times)
    ]


SCHEMA = pa.schema([(n, pa.float64() if n == "w" else pa.int64()) for n in ("id", "key", "kind", "v", "w", "ts")])


def text_of(kinds: list[list[int]], read: str, window: int, every: int, over: int) -> str:
    steps = [f"E(kind in ({', '.join(map(str, of))})) as {alias}" for of, alias in zip(kinds, ALIASES, strict=False)]
    return (
        f"{STREAM} define M(key, v, w) detect {' then each '.join(steps)} within {window} s "
        f"assign key = a.key, v = {read}.v, w = {read}.w group by key "
        f"subscribe S aggr every {every} s over {over} s detect M as m assign key = group.key, {', '.join(TOTALS)} "
        "group by key"
    )


def by_brute_force(
    events: list[dict[str, Any]], kinds: list[list[int]], read: int, window: int, every: int, over: int
) -> list[str]:
    """Every chain of events is looked at."""
    windows = defaultdict(list)
    for chain in itertools.combinations(events, len(kinds)):
        fits = all(event["kind"] in of for event, of in zip(chain, kinds, strict=True))
        first, last = chain[0]["ts"], chain[-1]["ts"]
        if fits and len({event["key"] for event in chain}) == 1 and last - first <= window:
            for end in range(every, last + over + every, every):
                if last < end <= last + over:
                    windows[end, chain[0]["key"]].append(chain[read])
    found = []
    for (end, key), taken in windows.items():
        v, w = ([event[name] for event in taken if event[name] is not None] for name in "vw")
        numbers = [x for x in w if x == x]
        least = min(numbers) if numbers else (float("nan") if w else None)
        most = float("nan") if len(numbers) < len(w) else (max(numbers) if numbers else None)
        found.append((key, len(taken), sum(v) if v else None, len(v), least, most, min(v) if v else None, end))
    return sorted(map(repr, found))


def detected(text: str, events: list[dict[str, Any]], piece: int, restarts: bool = False) -> list[str]:
    engine, found = situ.Engine(text), []
    for at in range(0, len(events), piece):
        found += engine.feed(pa.Table.from_pylist(events[at : at + piece], SCHEMA)).complex_events["S"].to_pylist()
        if restarts:
            snapshot, engine = engine.snapshot(), situ.Engine(text)
            engine.restore(snapshot)
    found += engine.close().complex_events["S"].to_pylist()
    return sorted(
        repr((*(row[name] for name in row if name != "_time"), int(row["_time"].timestamp()))) for row in found
    )


@pytest.mark.parametrize("seed", range(12))
def test_as_by_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.choice([2, 3, 3, 4])
    kinds = [sorted(rng.sample(range(4), rng.choice([1, 2, 3]))) for _ in range(count)]
    events = rows(rng, {2: 60, 3: 36, 4: 22}[count])
    window, every = rng.choice([0, 3, 8, 100]), rng.choice([2, 5])
    over, read = every * rng.choice([1, 2]), rng.randrange(count)
    text = text_of(kinds, ALIASES[read], window, every, over)
    assert "no match is made" in str(situ.Engine(text).program("M"))
    expected = by_brute_force(events, kinds, read, window, every, over)
    assert detected(text, events, 1000) == expected
    assert detected(text, events, 7) == expected
    assert detected(text, events, 5, restarts=True) == expected


def test_switched_off() -> None:
    text = text_of([[0], [1]], "b", 5, 5, 5)
    assert "no match is made" not in str(situ.Engine(text, tallies=False).program("M"))
    assert "no match is made" not in str(situ.Engine(text, show_definitions=True).program("M"))


@pytest.mark.parametrize(
    ("change", "to"),
    [
        ("then each", "then"),  # the next one depends on what lies between
        ("kind in (1)", "kind = 1 and v > a.v"),  # conditions between events
        ("sum(m.v)", "sum(m.w)"),  # the order in which doubles are added
        ("count(m)", "count(distinct m.v)"),
        ("count(m)", "avg(m.v)"),
        ("v = a.v", "v = a.v + b.v"),
        ("within 5 s", "within 5 s from previous"),
        ("group by key subscribe", "group by key after match skip past last subscribe"),
        ("define M", "subscribe Other detect M as x then M as y within 1 s assign t = y.v define M"),
        ("detect M as m", "detect M(v > 1) as m"),  # of an event that is not the last one
    ],
)
def test_what_needs_the_matches(change: str, to: str) -> None:
    text = text_of([[0], [1]], "a", 5, 5, 5)
    assert any(operator.rule.tallied for operator in tallied(resolve(parse(text))).operators)
    assert change in text
    changed = tallied(resolve(parse(text.replace(change, to))))
    assert not any(operator.rule.tallied for operator in changed.operators)


def test_a_condition_on_the_last_event_is_tallied() -> None:
    events = rows(random.Random(5), 50)
    text = text_of([[0, 1], [1, 2]], "b", 9, 5, 10).replace("detect M as m", "detect M(v > 0) as m")
    assert "no match is made" in str(situ.Engine(text).program("M"))
    plain = situ.Engine(text, tallies=False).run({"E": pa.Table.from_pylist(events, SCHEMA)})
    expected = [repr(row) for output in plain for row in output.complex_events["S"].to_pylist()]
    fast = situ.Engine(text).run({"E": pa.Table.from_pylist(events, SCHEMA)})
    assert [repr(row) for output in fast for row in output.complex_events["S"].to_pylist()] == expected != []


def test_no_rule_can_read_what_is_not_made() -> None:
    engine = situ.Engine(text_of([[0], [1]], "a", 5, 5, 5))
    with pytest.raises(situ.QueryError, match="counted and not made"):
        engine.add("subscribe Other detect M as x assign v = x.v")


def test_numbers_that_do_not_fit_are_null() -> None:
    """Eight of three thousand events are more chains than an integer can count."""
    count = 3000
    table = pa.table({"id": range(count), "key": [0] * count, "kind": [0] * count, "v": [1] * count,
                      "w": [1.0] * count, "ts": [0] * count})  # fmt: skip
    steps = " then each ".join(f"E as e{number}" for number in range(8))
    text = (
        f"{STREAM} define M(v) detect {steps} within 5 s assign v = e0.v "
        "subscribe S aggr every 5 s detect M assign n = count(M), lo = min(M.v)"
    )
    (row,) = (r for o in situ.Engine(text).run({"E": table.cast(SCHEMA)}) for r in o.complex_events["S"].to_pylist())
    assert (row["n"], row["lo"]) == (None, 1)


def test_as_many_as_there_are_ways_to_choose() -> None:
    rows_, steps = 200, 7
    group, time = np.zeros(rows_, np.int64), np.zeros(rows_, np.int64)
    fits, ends = np.full(rows_, 127, np.uint64), np.ones(rows_, np.bool_)
    chains = chains_of(group, time, fits, ends, steps, 0)
    expected = [comb(at, steps) for at in range(rows_)]
    assert chains.count_sizes.max() < LARGEST
    assert chains.counts.tolist() == expected
