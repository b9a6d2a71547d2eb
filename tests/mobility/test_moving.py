"""Moving subscriptions on the embedded engine equal the definition, in order."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mobility.interests_by_words import Delivered, Row, deliveries
from seed_blocks import every_one
from situ.core.errors import QueryError
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.embedded import Engine

STREAMS = """
stream Car(id int, x double, y double, v int, ts int) time ts in s at (x, y)
stream Lamp(id int, x double, y double, v int, ts int) time ts in s at (x, y)
"""

SCHEMA = pa.schema({"id": pa.int64(), "x": pa.float64(), "y": pa.float64(), "v": pa.int64(), "ts": pa.int64()})

#: A rule, and how far back from a complex event's time its events may lie in each stream.
RULES = {
    "sequence": ("detect Car as a then Lamp(v > a.v) as b within 3 s assign v = b.v", 3, 3),
    "grouped": ("detect Car as a then Car(v < a.v) as b within 4 s assign v = b.v group by id", 4, 0),
    "and": ("detect Car as a and Lamp as b within 2 s assign v = a.v + b.v", 2, 2),
    "absence": ("detect Car(v > 0) as a then not Lamp(v > 2) within 2 s assign v = a.v", 2, 2),
    "silence": ("detect Car(v > 0) as a then no Lamp(v > 2) for 2 s assign v = a.v", 2, 2),
    "first_silence": ("detect no Lamp(v > 2) for 2 s then Car as a within 3 s assign v = a.v", 5, 5),
    "loop": ("detect Car(v > 1)+ as a then Lamp as b within 3 s assign v = b.v, n = count(a)", 3, 3),
    "aggregation": ("aggr every 2 s over 4 s detect Car and outer Lamp assign n = count(Car), m = count(Lamp)", 4, 4),
    "join": ("join every 2 s on id detect Car as a and Lamp as b assign v = a.v - b.v", 2, 2),
    "single": ("detect Car(v > 2) as a assign v = a.v", 0, 0),
    "or": ("detect Car(v > 3) as a or Lamp(v > 3) as b assign v = coalesce(a.v, b.v)", 0, 0),
    "skip": ("detect Car as a then Lamp as b within 3 s assign v = b.v after match skip past last", 3, 3),
    "pause": ("detect Car as a then Lamp as b within 3 s assign v = b.v after match pause 2 s", 3, 3),
    "once": ("detect once Car as a then Lamp as b within 3 s assign v = b.v", 3, 3),
    "chain": ("detect Pair as p then Pair as q within 5 s assign v = q.v", 8, 8),
}
#: Whose matches depend on each other, and so cannot be shared.
DEPENDENT = ("skip", "pause", "once")
#: Those, and rules that correlate complex events.
UNSHARED = (*DEPENDENT, "chain", "first_silence")
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
    outputs = [o.complex_events["Near"] for o in Engine(text).run(tables)]
    return by_consumer([row for table in outputs for row in rows_of(table)])


def rows_of(table: pa.Table) -> list[Delivered]:
    return [
        (
            row.pop("consumer"),
            row.pop("interest"),
            row["_time"].timestamp(),
            tuple(sorted((name, value) for name, value in row.items() if not name.startswith("_"))),
        )
        for row in table.to_pylist()
    ]


def without_quality(found: list[Delivered]) -> list[Delivered]:
    return [
        (
            *row[:3],
            tuple(kv for kv in row[3] if kv[0] not in ("precision", "recall", "region_consumer", "region_interest")),
        )
        for row in found
    ]


def in_order(delivered: list[Delivered]) -> list[tuple[Any, list[Delivered]]]:
    """By consumer, interest and time; complex events of one time may come in any order."""
    groups = groupby(delivered, key=lambda found: found[:3])
    return [(key, sorted(group, key=repr)) for key, group in groups]


@every_one("rule", RULES, "interest", INTERESTS)
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


@pytest.mark.parametrize("thresholds", ["precision 0.7", "recall 0.8", "precision 0.5 recall 0.6"])
@pytest.mark.parametrize("rule", ["sequence", "aggregation", "and", "chain"])
def test_interests_change_when_quality_is_too_low(rule: str, thresholds: str) -> None:
    """All events count here: no step of these rules leaves one out by itself."""
    text = text_of(rule, f"around Car square 40 m lifetime 3 s update when quality quality {thresholds}")
    _, cars_s, lamps_s = RULES[rule]
    for seed in range(3):
        events = random_events(np.random.default_rng([seed, len(thresholds)]))
        expected = deliveries(resolve(parse(text)), events, {"Car": cars_s, "Lamp": lamps_s})
        expected.sort(key=lambda found: found[:3])
        assert in_order(found_by_engine(text, events)) == in_order(expected)
        assert in_order(by_consumer(fed(text, events, np.random.default_rng(seed), True))) == in_order(expected)


def test_quality_counts_events_that_a_step_takes() -> None:
    """Others may change with the place as they like."""
    rows = [{"id": 1, "x": 10.0 * ts, "y": 0.0, "v": 0, "ts": ts} for ts in range(9)]
    lamps = [{"id": 7, "x": 30.0, "y": 0.0, "v": 5, "ts": 8}]
    text = f"{STREAMS}subscribe Near for Car(id) detect Lamp(v > 2) as a around Car circle 30 m update when quality\n"
    found = found_by_engine(text + "quality recall 1.0", {"Car": rows, "Lamp": lamps})
    assert [(interest, time) for _, interest, time, _ in found] == [(1, 8.0)]


def test_best_effort_delivers_some_of_what_is_complete() -> None:
    some = 0
    for rule in RULES:
        events = random_events(np.random.default_rng(5))
        best = text_of(rule, INTERESTS[3])
        complete = Counter(found_by_engine(best.replace("best effort", "complete"), events))
        delivered = Counter(fed(best, events, np.random.default_rng(5), restart=False))
        assert delivered <= complete
        some += delivered.total()
    assert some


def test_complex_events_of_an_interest_are_made_of_its_events_alone() -> None:
    """Spatial consistency, by provenance."""
    events = random_events(np.random.default_rng(11), seconds=30)
    text = text_of("chain", INTERESTS[0])
    places = {name: [(row["ts"], row["x"], row["y"]) for row in rows] for name, rows in events.items()}
    tables = {name: pa.Table.from_pylist(rows, SCHEMA) for name, rows in events.items()}
    starts: dict[int, list[Row]] = {}
    for row in sorted(events["Car"], key=lambda row: (row["ts"], row["x"] or -1e9, row["y"])):
        if row["x"] is not None:
            mine = starts.setdefault(row["id"], [])
            if mine and mine[-1]["ts"] == row["ts"]:
                mine.pop()
            if not mine or (mine[-1]["x"], mine[-1]["y"]) != (row["x"], row["y"]):
                mine.append(row)
    found = [row for o in Engine(text, provenance=True).run(tables) for row in o.complex_events["Near"].to_pylist()]
    assert found
    for row in found:
        middle = starts[row["consumer"]][row["interest"] - 1]
        for origin in row["_origins"]:
            ts, x, y = places[origin["stream"]][origin["row"]]
            assert max(abs(x - middle["x"]), abs(y - middle["y"])) <= 20
            assert middle["ts"] - 3 - 8 <= ts <= row["_time"].timestamp()


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
    monkeypatch.setattr("situ.flow.moving.PAIRS_AT_ONCE", 7)
    assert in_order(found_by_engine(text, events)) == in_order(whole)
    assert whole


def test_nobody_who_moves_gives_nothing() -> None:
    events = {"Car": [], "Lamp": [{"id": 1, "x": 0.0, "y": 0.0, "v": 1, "ts": 0}]}
    schema = pa.Table.from_pylist(events["Lamp"]).schema
    tables = {name: pa.Table.from_pylist(rows, schema) for name, rows in events.items()}
    text = text_of("sequence", INTERESTS[0])
    assert all(not o.complex_events.get("Near", pa.table({})).num_rows for o in Engine(text).run(tables))


def fed(
    text: str, events: dict[str, list[Row]], rng: np.random.Generator, restart: bool, provenance: bool = False
) -> list[Delivered]:
    """The same on unbounded input: streams come in pieces, out of order within their watermark."""
    text = text.replace("at (x, y)", "at (x, y) watermark 3 s")
    waiting = {name: by_arrival(rng, rows) for name, rows in events.items()}
    engine, found = Engine(text, provenance=provenance), []
    while any(waiting.values()):
        name = str(rng.choice([name for name, rows in waiting.items() if rows]))
        number = int(rng.integers(1, 9))
        piece, waiting[name] = waiting[name][:number], waiting[name][number:]
        output = engine.feed(pa.Table.from_pylist(piece, SCHEMA), name)
        assert not output.late
        found.append(output.complex_events["Near"])
        if restart:
            snapshot, engine = engine.snapshot(), Engine(text, provenance=provenance)
            engine.restore(snapshot)
    found.append(engine.close().complex_events["Near"])
    return [row for table in found for row in rows_of(table)]


def by_arrival(rng: np.random.Generator, rows: list[Row]) -> list[Row]:
    """Each row up to 3 seconds late."""
    return sorted(rows, key=lambda row: row["ts"] + rng.integers(0, 4) - 0.5)


@pytest.mark.parametrize("restart", [False, True])
@every_one("rule", RULES, "interest", INTERESTS[:3])
def test_unbounded_input_gives_the_same_in_order(rule: str, interest: str, restart: bool) -> None:
    for seed in range(2):
        rng = np.random.default_rng(seed)
        text, events = text_of(rule, interest), random_events(np.random.default_rng(seed))
        expected = found_by_engine(text, events)
        found = fed(text, events, rng, restart)
        assert in_order(by_consumer(found)) == in_order(expected)


def by_consumer(found: list[Delivered]) -> list[Delivered]:
    """What each consumer gets, in the order in which it comes."""
    return sorted(found, key=lambda row: row[0])


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("detect Car as a then Lamp as b", "Near has no window"),
        ("detect Car+ as a within 5 s from previous", "Near has a loop without an upper bound"),
        ("aggr every 5 events detect Car assign n = count(Car)", "Near counts events"),
    ],
)
def test_a_rule_without_a_window_of_time_is_refused(rule: str, said: str) -> None:
    text = f"{STREAMS}subscribe Near for Car(id) {rule} around Car square 5 m"
    row = {"id": 1, "x": 0.0, "y": 0.0, "v": 1, "ts": 0}
    with pytest.raises(QueryError, match=said):
        list(Engine(text).run({"Car": pa.Table.from_pylist([row]), "Lamp": pa.Table.from_pylist([row])}))
