"""Interests that share are served as docs/language.md says, span by span, however the input is cut."""

from __future__ import annotations

import random
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mobility.interests_by_words import Row
from mobility.quality_by_words import Judging, Shared, SpanWords, shared_deliveries
from mobility.test_moving import SCHEMA, STREAMS, by_arrival, shuffled
from runtime.spark.streaming_without_spark import StreamingQuery
from runtime.spark.test_moving_stream import pieces_of
from runtime.spark.without_spark import detect_without_spark, output_without_spark
from seed_blocks import blocks
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.reuse.totals import Totals
from situ.runtime.embedded import Engine
from situ.runtime.spark.stages.output import COMPLEX_EVENT, TaggedOutput


def _is_car(stream: str, row: Row) -> bool:
    return stream == "Car"


#: Rules with what a span of each is.
RULES: dict[str, tuple[str, SpanWords]] = {
    "single": (
        "detect Car(v > 1) as a assign v = a.v",
        SpanWords(taken=lambda s, r: s == "Car" and r["v"] > 1),
    ),
    "sequence": (
        "detect Car(v > 0) as a then each Lamp(v > a.v) as b within 3 s assign v = b.v",
        SpanWords(3, opens=_is_car, taken=lambda s, r: s == "Lamp" or r["v"] > 0),
    ),
    "grouped": (
        "detect Car as a then Car(v < a.v) as b within 4 s assign v = b.v group by id",
        SpanWords(4, taken=_is_car),
    ),
    "and": ("detect Car as a and Lamp as b within 2 s assign v = a.v + b.v", SpanWords(2)),
    "absence": (
        "detect Car(v > 0) as a then not Lamp(v > 2) within 2 s assign v = a.v",
        SpanWords(2, opens=_is_car, taken=lambda s, r: r["v"] > (0 if s == "Car" else 2)),
    ),
    "loop": (
        "detect Car(v > 1){2} as a then Lamp as b within 3 s assign v = b.v, n = count(a)",
        SpanWords(3, opens=_is_car, taken=lambda s, r: s == "Lamp" or r["v"] > 1),
    ),
    "aggregation": (
        "aggr every 2 s over 4 s detect Car and outer Lamp assign n = count(Car), m = count(Lamp)",
        SpanWords(every=2, over=4),
    ),
    "join": ("join every 2 s on id detect Car as a and Lamp as b assign v = a.v - b.v", SpanWords(every=2, over=2)),
    "layered": (
        "detect Mean(v > 1) as m assign v = m.v",
        SpanWords(every=3, over=3, taken=_is_car),
    ),
    "layered pattern": (
        "detect Rise(v > 1) as m assign v = m.v",
        SpanWords(3, taken=_is_car),
    ),
}  # fmt: skip
#: More of them, with steps that may be left out, alternatives, loops without end, and silences.
MORE_RULES: dict[str, tuple[str, SpanWords]] = {
    "or": (
        "detect Car(v > 2) as a or Lamp(v > 2) as b assign v = coalesce(a.v, b.v)",
        SpanWords(taken=lambda s, r: r["v"] > 2),
    ),
    "or first": (
        "detect (Car(v > 2) as a or Lamp(v > 3) as b) then each Car(v < 2) as c within 3 s assign v = c.v",
        SpanWords(
            3,
            opens=lambda s, r: r["v"] > (2 if s == "Car" else 3),
            taken=lambda s, r: r["v"] > (2 if s == "Car" else 3) or (s == "Car" and r["v"] < 2),
        ),
    ),
    "optional": (
        "detect Car(v > 1) as a then Lamp(v > 2)? as b then Car(v < 2) as c within 3 s assign v = c.v, w = b.v",
        SpanWords(
            3,
            opens=lambda s, r: s == "Car" and r["v"] > 1,
            taken=lambda s, r: s == "Car" or r["v"] > 2,
        ),
    ),
    "optional first": (
        "detect Lamp(v > 2)? as a then Car(v > 2) as b within 3 s assign v = b.v, w = a.v",
        SpanWords(3, opens=lambda s, r: r["v"] > 2, taken=lambda s, r: r["v"] > 2),
    ),
    "loop without end": (
        "detect Car(v > 2)+ as a then Lamp(v > 1) as b within 3 s assign v = b.v, n = count(a)",
        SpanWords(3, opens=_is_car, taken=lambda s, r: r["v"] > (2 if s == "Car" else 1)),
    ),
    "immediately": (
        "detect Car(v > 2) as a then immediately Car(v < 2) as b within 3 s assign v = b.v",
        SpanWords(3, opens=lambda s, r: r["v"] > 2, taken=lambda s, r: s == "Car" and r["v"] != 2),
    ),
    "silence": (
        "detect Car(v > 1) as a then no Lamp(v > 2) for 2 s assign v = a.v",
        SpanWords(2, opens=_is_car, taken=lambda s, r: r["v"] > (1 if s == "Car" else 2)),
    ),
    "not between": (
        "detect Car(v > 1) as a then not Lamp(v > 3) then Car(v < 2) as b within 3 s assign v = b.v",
        SpanWords(3, opens=lambda s, r: s == "Car" and r["v"] > 1, taken=lambda s, r: s == "Car" or r["v"] > 3),
    ),
}  # fmt: skip
ALL_RULES = RULES | MORE_RULES
DEFINED = {
    "layered": "define Mean(v) aggr every 3 s detect Car as c assign v = avg(c.v)\n",
    "layered pattern": "define Rise(v) detect Car as a then Car(v > a.v) as b within 3 s assign v = b.v\n",
}
INTERESTS = (
    "around Car square 40 m lifetime 3 s",
    "around Car circle 25 m update every 3 s lifetime 2 s",
    "around Lamp rectangle 60 m x 40 m update moved 6 m",
    "around Car square 50 m update every 5 s",
)
QUALITIES = (
    "precision 0.5 recall 0.6",
    "precision 0.8 recall 0.5",
    "recall 0.7",
    "precision 0.6",
    "precision 1.0 recall 1.0",
)


def text_of(rule: str, interest: str, quality: str) -> str:
    focal = interest.split()[1]
    subscription = f"subscribe Near for {focal}(id)\n  {RULES[rule][0]}\n  {interest} quality {quality}\n"
    return STREAMS + DEFINED.get(rule, "") + subscription


def crowded(rng: np.random.Generator, seconds: int = 12) -> dict[str, list[Row]]:
    """Cars and lamps that move together, so that some are near each other, around a corner of four tiles."""
    events: dict[str, list[Row]] = {"Car": [], "Lamp": []}
    middle = rng.choice([80.0, 400.0, -300.0], 2)
    for stream, number in (("Car", 4), ("Lamp", 3)):
        places = middle + rng.integers(-25, 26, (number, 2)).astype(float)
        for ts in range(seconds):
            for id_ in range(number):
                places[id_] += rng.integers(-4, 5, 2) * (rng.random() < 0.6)
                if rng.random() < 0.35:
                    continue
                x, y = map(float, places[id_])
                lost = rng.random() < 0.05
                row = {"id": id_, "x": None if lost else x, "y": y, "v": int(rng.integers(0, 5)), "ts": ts}
                events[stream].append(row)
    return events


def shared_rows(table: pa.Table) -> list[Shared]:
    own = ("consumer", "interest", "precision", "recall", "region_consumer", "region_interest")
    return [
        (
            row["consumer"],
            row["interest"],
            row["_time"].timestamp(),
            tuple(sorted((name, value) for name, value in row.items() if name not in own and not name.startswith("_"))),
            *(row[name] for name in own[2:]),
        )
        for row in table.to_pylist()
    ]


def run_whole(text: str, events: dict[str, list[Row]], schema: pa.Schema = SCHEMA) -> tuple[list[Shared], Engine]:
    engine = Engine(text)
    tables = {name: pa.Table.from_pylist(rows, schema) for name, rows in events.items()}
    return [row for o in engine.run(tables) for row in shared_rows(o.complex_events["Near"])], engine


def fed(
    text: str, events: dict[str, list[Row]], rng: np.random.Generator, restart: bool, schema: pa.Schema = SCHEMA
) -> tuple[list[Shared], Totals]:
    """In pieces, out of order within the watermark; the engine may start again after each of them."""
    text = text.replace("at (x, y)", "at (x, y) watermark 3 s")
    waiting = {name: by_arrival(rng, rows) for name, rows in events.items()}
    engine, found, before = Engine(text), [], Totals()
    while any(waiting.values()):
        name = str(rng.choice([name for name, rows in waiting.items() if rows]))
        number = int(rng.integers(1, 9))
        piece, waiting[name] = waiting[name][:number], waiting[name][number:]
        found.append(engine.feed(pa.Table.from_pylist(piece, schema), name).complex_events["Near"])
        if restart:
            before += engine.reuse["Near"]
            snapshot, engine = engine.snapshot(), Engine(text)
            engine.restore(snapshot)
    found.append(engine.close().complex_events["Near"])
    return [row for table in found for row in shared_rows(table)], before + engine.reuse["Near"]


def counts_of(totals: Totals) -> dict[str, float]:
    """What was counted, and sums of shares but for the order in which they were added."""
    return {f.name: round(getattr(totals, f.name), 6) for f in fields(Totals)}


def tagged(output: TaggedOutput, rows: pa.Table) -> list[Shared]:
    (operator,) = (o for o in output.operators if o.name == "Near")
    names = {name: output.columns["Near", name][0] for name in operator.schema.names}
    rows = rows.filter((pa.compute.field("_name") == "Near") & (pa.compute.field("_kind") == COMPLEX_EVENT))
    return shared_rows(pa.table({name: rows[column] for name, column in names.items()} | {"_time": rows["_time"]}))


def is_in_order(found: list[Shared]) -> bool:
    """For each consumer, all of an interest before all of the next, and by time within."""
    by_consumer: dict[Any, list[tuple[int, float]]] = {}
    for row in found:
        by_consumer.setdefault(row[0], []).append((row[1], row[2]))
    return all(rows == sorted(rows) for rows in by_consumer.values())


def same(found: list[Shared], expected: list[Shared]) -> bool:
    return sorted(found, key=repr) == expected


def kept_word(text: str, judging: Judging) -> None:
    """Every span that another one's region served is good enough, whether something was found in it or not."""
    for wish in judging.wishes:
        for service in wish.services:
            if service.region.owner is not wish:
                for begin in judging._spans(wish, service.region, service.since):
                    if begin < service.until:
                        precision, recall = judging.quality(wish, service.region, begin)
                        assert precision >= wish.precision, text
                        assert recall >= wish.recall, text


@blocks(1, 1, 40)
@pytest.mark.parametrize("rule", RULES)
def test_what_is_shared_is_what_the_definition_says(rule: str, block: int) -> None:
    covered, fallbacks = 0, 0
    for seed in range(3 * block, 3 * block + 3):
        rng = np.random.default_rng([seed, len(rule)])
        interest, quality = INTERESTS[seed % len(INTERESTS)], QUALITIES[int(rng.integers(len(QUALITIES)))]
        text, events = text_of(rule, interest, quality), crowded(rng)
        expected, judging = shared_deliveries(resolve(parse(text)), events, RULES[rule][1])
        kept_word(text, judging)
        found, engine = run_whole(text, {name: shuffled(rng, rows) for name, rows in events.items()})
        assert is_in_order(found)
        assert same(found, expected), (text, seed)
        for restart in (False, True):
            pieces, counted = fed(text, events, rng, restart)
            assert is_in_order(pieces)
            assert same(pieces, expected), (text, seed, restart)
            assert counts_of(counted) == counts_of(engine.reuse["Near"])
        totals = engine.reuse["Near"]
        assert totals.regions == len(judging.regions)
        covered += totals.covered
        fallbacks += totals.fallbacks
    assert covered > 0


@pytest.mark.parametrize("rule", RULES)
def test_tasks_and_shards_give_the_same(rule: str) -> None:
    """Batches and streams on Spark, in this process, with any number of tasks and shards."""
    for seed in range(2):
        rng = np.random.default_rng([seed, len(rule), 7])
        interest, quality = INTERESTS[(seed + len(rule)) % len(INTERESTS)], QUALITIES[seed]
        text, events = text_of(rule, interest, quality), crowded(rng)
        expected, _ = shared_deliveries(resolve(parse(text)), events, RULES[rule][1])
        tables = {name: pa.Table.from_pylist(rows, SCHEMA) for name, rows in events.items()}
        graph = resolve(parse(text))
        output = output_without_spark(graph)
        assert same(tagged(output, detect_without_spark(graph, tables, random.Random(seed))), expected)
        late = text.replace("at (x, y)", "at (x, y) watermark 3 s")
        for shards in (1, 3):
            query = StreamingQuery(resolve(parse(late)), random.Random(seed), shards)
            rows = [row for piece in pieces_of(rng, events) for row in tagged(query.output, query.micro_batch(piece))]
            assert same([row for row in rows if row[2] < 900], [row for row in expected if row[2] < 900])


STREET = """
stream Car(id int, x double, y double, v int, ts int) time ts in s at (x, y)
stream Driver(id string, x double, y double, ts int) time ts in s at (x, y)
subscribe Near for Driver(id)
  detect   Car as a then each Car as b within 3 s
  assign   v = b.v
  around   Driver square 100 m
  lifetime 10 s
  quality  precision 0.8 recall 0.8
"""


def test_what_only_one_of_two_squares_holds_is_not_lost() -> None:
    """Ten events that both A and B see, then a hundred that only B does, who was covered by A. Whole or second by
    second, B gets what B gets alone, but for what is as good as asked, and says so."""
    drivers = [{"id": "A", "x": 0.0, "y": 0.0, "ts": 0}, {"id": "B", "x": 15.0, "y": 0.0, "ts": 10}]
    cars = [{"id": t, "x": 0.0 if t < 11 else 60.0, "y": 0.0, "v": t, "ts": t} for t in range(1, 111)]
    keys = {"Car": cars, "Driver": drivers}
    whole = Engine(STREET)
    tables = {"Car": pa.Table.from_pylist(cars, SCHEMA), "Driver": pa.Table.from_pylist(drivers)}
    found = [row for o in whole.run(tables) for row in shared_rows(o.complex_events["Near"])]
    expected, judging = shared_deliveries(resolve(parse(STREET)), keys, SpanWords(3, taken=_is_car))
    kept_word(STREET, judging)
    assert same(found, expected)
    stepwise = Engine(STREET)
    pieces = []
    for second in range(112):
        for name, rows in (("Driver", drivers + [drivers[0] | {"ts": t} for t in range(1, 112)]), ("Car", cars)):
            now = [row for row in rows if row["ts"] == second]
            pieces += [stepwise.feed(row, name).complex_events["Near"] for row in now]
    pieces.append(stepwise.close().complex_events["Near"])
    assert same([row for table in pieces for row in shared_rows(table)], expected)
    of_b = [row for row in expected if row[0] == "B"]
    assert {row[6] for row in of_b} == {"A", "B"}  # first A's region, then its own
    assert len(of_b) == len([row for row in shared_alone(keys) if row[0] == "B"])
    assert counts_of(stepwise.reuse["Near"]) == counts_of(whole.reuse["Near"])


def shared_alone(events: dict[str, list[Row]]) -> list[Any]:
    """What everyone gets alone."""
    text = STREET.replace("precision 0.8 recall 0.8", "precision 1 recall 1")
    return shared_deliveries(resolve(parse(text)), events, SpanWords(3, taken=_is_car))[0]
