"""Rows of a stream that come from several sources, each in its own order and at its own pace."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import situ
from situ.core.errors import InputError

QUERY = """
stream Reading(sensor int, value int, ts int) time ts in s watermark 2 s
stream Door(sensor int, ts int) time ts in s watermark 2 s
subscribe Rise
  detect   Reading as a then Reading(value > a.value) as b then Door as d within 8 s
  assign   sensor = a.sensor, a = a.ts, b = b.ts, d = d.ts
  group by sensor
"""
SOURCES = {"Reading": ["north", "south"]}


def rows_of(rng: random.Random, begin: int) -> list[dict[str, int]]:
    """Rows nearly in order: no more than the watermark out of it, most of them."""
    return [
        {"sensor": rng.randint(0, 1), "value": rng.randint(0, 3), "ts": begin + at + rng.randint(-3, 0)}
        for at in range(0, 25, 2)
    ]


def pieces(rng: random.Random, rows: list[dict[str, int]]) -> list[list[dict[str, int]]]:
    cuts = sorted(rng.sample(range(1, len(rows)), 3))
    return [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def by_words(rows: list[dict[str, int]]) -> list[bool]:
    """Whether each row is late by its own source: more than two seconds before one that came earlier."""
    largest, late = None, []
    for row in rows:
        late.append(largest is not None and row["ts"] < largest - 2)
        if not late[-1]:
            largest = row["ts"] if largest is None else max(largest, row["ts"])
    return late


@pytest.mark.parametrize("seed", range(20))
def test_any_mixture_of_sources_finds_what_is_in_the_rows_that_were_admitted(seed: int) -> None:
    """The north is ten seconds ahead of the south: in one order of arrival, most rows of the south would be late."""
    rng = random.Random(seed)
    given = {"north": rows_of(rng, 110), "south": rows_of(rng, 100)}
    doors = [{"sensor": rng.randint(0, 1), "ts": 100 + at} for at in range(0, 40, 3)]
    feeds = [[("Reading", source, piece) for piece in pieces(rng, rows)] for source, rows in given.items()]
    feeds.append([("Door", "", piece) for piece in pieces(rng, doors)])
    engine = situ.Engine(QUERY, sources=SOURCES)
    complex_events, late = Counter[str](), Counter[str]()
    while any(feeds):
        stream, source, rows = rng.choice([feed for feed in feeds if feed]).pop(0)
        outputs = [engine.feed(rows, stream, source)]
        if rng.random() < 0.3:
            snapshot, engine = engine.snapshot(), situ.Engine(QUERY, sources=SOURCES)
            engine.restore(snapshot)
        if not any(feeds):
            outputs.append(engine.close())
        for output in outputs:
            complex_events.update(map(repr, output.complex_events["Rise"].drop_columns(["_time"]).to_pylist()))
            for table in output.late.values():
                late.update(repr((row["sensor"], row["value"], row["ts"])) for row in table.to_pylist())
    admitted, expected_late = [], Counter[str]()
    for rows in given.values():
        for row, is_late in zip(rows, by_words(rows), strict=True):
            if is_late:
                expected_late[repr((row["sensor"], row["value"], row["ts"]))] += 1
            else:
                admitted.append(row)
    assert late == expected_late
    whole = situ.Engine(QUERY)
    expected = Counter[str]()
    for output in whole.run({"Reading": admitted, "Door": doors}):
        expected.update(map(repr, output.complex_events["Rise"].drop_columns(["_time"]).to_pylist()))
    assert complex_events == expected


def origins(engine: situ.Engine, stages: list[tuple[str, int]], restart: bool) -> list[list[tuple[str, int]]]:
    """Feeds rows with rising values, a source and a time each; the origins of what is found."""
    text, sources = engine.query, engine.sources
    found = []
    for number, (source, ts) in enumerate(stages):
        out = engine.feed({"value": number, "ts": ts}, source=source)
        if restart:
            snapshot = engine.snapshot()
            engine = situ.Engine(text, provenance=True, sources=sources)
            engine.restore(snapshot)
        found += out.complex_events["Pair"].to_pylist()
    found += engine.close().complex_events["Pair"].to_pylist()
    return [[(origin["source"], origin["row"]) for origin in event["_origins"]] for event in found]


@pytest.mark.parametrize("restart", [False, True])
def test_an_atomic_event_has_its_source_and_its_number_there_also_after_a_restart(restart: bool) -> None:
    text = """
    stream Reading(value int, ts int) time ts in s
    subscribe Pair
      detect Reading as a then Reading(value > a.value) as b within 10 s
      assign a = a.value, b = b.value
    """
    engine = situ.Engine(text, provenance=True, sources={"Reading": ["north", "south"]})
    stages = [("north", 1), ("south", 2), ("south", 3), ("north", 4)]
    assert origins(engine, stages, restart) == [
        [("north", 0), ("south", 0)],
        [("south", 0), ("south", 1)],
        [("south", 1), ("north", 1)],
    ]


def test_sources_have_the_names_that_the_engine_was_told() -> None:
    engine = situ.Engine(QUERY, sources=SOURCES)
    row = {"sensor": 0, "value": 1, "ts": 1}
    with pytest.raises(InputError, match=r"Reading has no source 'nord'.*[\s\S]*north"):
        engine.feed(row, "Reading", "nord")
    with pytest.raises(InputError, match="which source of Reading"):
        engine.feed(row, "Reading")
    with pytest.raises(InputError, match=r"Door has no sources with names[\s\S]*sources="):
        engine.feed({"sensor": 0, "ts": 1}, "Door", "north")
    with pytest.raises(InputError, match="which is no stream"):
        situ.Engine(QUERY, sources={"Readings": ["north"]})
    with pytest.raises(InputError, match="no distinct names"):
        situ.Engine(QUERY, sources={"Reading": ["north", "north"]})
