"""Moving subscriptions on the embedded engine equal the definition, in order."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mobility.interests_by_words import Delivered, Row, deliveries
from situ.core.errors import QueryError
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.embedded import Engine

STREAMS = """
stream Car(id int, x double, y double, v int, ts int) time ts in s at (x, y)
stream Lamp(id int, x double, y double, v int, ts int) time ts in s at (x, y)
"""

#: A rule, and how far back from a complex event's time its events may lie in each stream.
RULES = {
    "sequence": ("detect Car as a then Lamp(v > a.v) as b within 3 s assign v = b.v", 3, 3),
    "grouped": ("detect Car as a then Car(v < a.v) as b within 4 s assign v = b.v group by id", 4, 0),
    "and": ("detect Car as a and Lamp as b within 2 s assign v = a.v + b.v", 2, 2),
    "absence": ("detect Car(v > 0) as a then not Lamp(v > 2) within 2 s assign v = a.v", 2, 2),
    "loop": ("detect Car(v > 1)+ as a then Lamp as b within 3 s assign v = b.v, n = count(a)", 3, 3),
    "aggregation": ("aggr every 2 s over 4 s detect Car and outer Lamp assign n = count(Car), m = count(Lamp)", 4, 4),
    "join": ("join every 2 s on id detect Car as a and Lamp as b assign v = a.v - b.v", 2, 2),
    "single": ("detect Car(v > 2) as a assign v = a.v", 0, 0),
    "or": ("detect Car(v > 3) as a or Lamp(v > 3) as b assign v = coalesce(a.v, b.v)", 0, 0),
    "skip": ("detect Car as a then Lamp as b within 3 s assign v = b.v after match skip past last", 3, 3),
    "chain": ("detect Pair as p then Pair as q within 5 s assign v = q.v", 8, 8),
}
PAIR = "define Pair(v) detect Car as a then Lamp as b within 3 s assign v = b.v\n"

INTERESTS = (
    "around Car square 40 m lifetime 3 s",
    "around Car circle 25 m update every 3 s lifetime 2 s",
    "around Lamp rectangle 60 m x 20 m update moved 12 m deliver complete",
    "around Car square 30 m update basic lifetime 10 s deliver best effort",
)


def text_of(rule: str, interest: str) -> str:
    focal = interest.split()[1]
    body, clauses = RULES[rule][0], interest
    return f"{STREAMS}{PAIR if rule == 'chain' else ''}subscribe Near for {focal}(id)\n  {body}\n  {clauses}\n"


def random_events(rng: np.random.Generator, seconds: int = 14) -> dict[str, list[Row]]:
    """Cars and lamps that move, some silent for a while, some without a place, some twice at a time."""
    events: dict[str, list[Row]] = {"Car": [], "Lamp": []}
    for stream, number in (("Car", 3), ("Lamp", 2)):
        places = rng.integers(0, 60, (number, 2)).astype(float)
        for ts in range(seconds):
            for id_ in range(number):
                places[id_] += rng.integers(-9, 10, 2) * (rng.random() < 0.7)
                if rng.random() < 0.3:
                    continue
                x, y = map(float, places[id_])
                lost = rng.random() < 0.05
                row = {"id": id_, "x": None if lost else x, "y": y, "v": int(rng.integers(0, 5)), "ts": ts}
                events[stream] += [row] if rng.random() < 0.95 else [row, row | {"v": 9, "x": x + 5}]
    return events


def shuffled(rng: np.random.Generator, rows: list[Row]) -> list[Row]:
    """Bounded input may come in any order."""
    return [rows[k] for k in rng.permutation(len(rows))]


def found_by_engine(text: str, events: dict[str, list[Row]]) -> list[Delivered]:
    tables = {name: pa.Table.from_pylist(rows) for name, rows in events.items()}
    outputs = [o.complex_events["Near"] for o in Engine(text).run(tables) if "Near" in o.complex_events]
    rows: list[dict[str, Any]] = [row for table in outputs for row in table.to_pylist()]
    return [
        (
            row.pop("consumer"),
            row.pop("interest"),
            row["_time"].timestamp(),
            tuple(sorted((name, value) for name, value in row.items() if not name.startswith("_"))),
        )
        for row in rows
    ]


def in_order(delivered: list[Delivered]) -> list[tuple[Any, list[Delivered]]]:
    """By consumer, interest and time; complex events of one time may come in any order."""
    groups = groupby(delivered, key=lambda found: found[:3])
    return [(key, sorted(group, key=repr)) for key, group in groups]


@pytest.mark.parametrize("interest", INTERESTS)
@pytest.mark.parametrize("rule", RULES)
def test_moving_subscriptions_are_what_the_definition_says(rule: str, interest: str) -> None:
    text = text_of(rule, interest)
    _, cars_s, lamps_s = RULES[rule]
    graph = resolve(parse(text))
    some = 0
    for seed in range(4):
        events = random_events(np.random.default_rng([seed, len(interest), len(rule)]))
        expected = deliveries(graph, events, {"Car": cars_s, "Lamp": lamps_s})
        expected.sort(key=lambda found: found[:3])
        mixed = {name: shuffled(np.random.default_rng(seed), rows) for name, rows in events.items()}
        assert in_order(found_by_engine(text, mixed)) == in_order(expected)
        some += len(expected)
    assert some


def test_other_subscriptions_of_the_query_run_as_ever() -> None:
    text = text_of("single", INTERESTS[0]) + "subscribe All detect Car(v > 2) as a assign v = a.v\n"
    events = random_events(np.random.default_rng(1))
    tables = {name: pa.Table.from_pylist(rows) for name, rows in events.items()}
    found = [row for o in Engine(text).run(tables) for row in o.complex_events.get("All", pa.table({})).to_pylist()]
    assert len(found) == sum(row["v"] > 2 for row in events["Car"])


def test_interests_are_detected_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    events = random_events(np.random.default_rng(3))
    text = text_of("chain", INTERESTS[0])
    whole = found_by_engine(text, events)
    monkeypatch.setattr("situ.runtime.embedded.interest_source.EVENTS_AT_ONCE", 7)
    assert in_order(found_by_engine(text, events)) == in_order(whole)
    assert whole


def test_nobody_who_moves_gives_nothing() -> None:
    events = {"Car": [], "Lamp": [{"id": 1, "x": 0.0, "y": 0.0, "v": 1, "ts": 0}]}
    schema = pa.Table.from_pylist(events["Lamp"]).schema
    tables = {name: pa.Table.from_pylist(rows, schema) for name, rows in events.items()}
    text = text_of("sequence", INTERESTS[0])
    assert all(not o.complex_events.get("Near", pa.table({})).num_rows for o in Engine(text).run(tables))


def test_unbounded_input_is_refused() -> None:
    with pytest.raises(QueryError, match="on bounded input only"):
        Engine(text_of("single", INTERESTS[0])).feed(pa.table({}), "Car")


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("detect Car as a then Lamp as b", "Near has no window"),
        ("aggr every 5 events detect Car assign n = count(Car)", "Near counts events"),
    ],
)
def test_a_rule_without_a_window_of_time_is_refused(rule: str, said: str) -> None:
    text = f"{STREAMS}subscribe Near for Car(id) {rule} around Car square 5 m"
    row = {"id": 1, "x": 0.0, "y": 0.0, "v": 1, "ts": 0}
    with pytest.raises(QueryError, match=said):
        list(Engine(text).run({"Car": pa.Table.from_pylist([row]), "Lamp": pa.Table.from_pylist([row])}))
