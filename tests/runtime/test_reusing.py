"""Interests that share regions: exactly the same where the same is asked for, and else as good as was asked."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from mobility.test_moving import (
    DEPENDENT,
    INTERESTS,
    RULES,
    SCHEMA,
    STREAMS,
    UNSHARED,
    by_consumer,
    fed,
    found_by_engine,
    in_order,
    random_events,
    text_of,
    without_quality,
)
from runtime.spark.streaming_without_spark import StreamingQuery
from runtime.spark.test_moving_stream import found_by, near_of, pieces_of, streamed
from runtime.spark.without_spark import detect_without_spark
from seed_blocks import every_one
from situ.core.errors import SituWarning
from situ.core.functions import default
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.reuse.regions import REST, TRIAL
from situ.runtime.embedded import Engine
from situ.runtime.spark.plan.plan import plan_on_spark
from situ.runtime.spark.stages.output import TaggedOutput

#: Rules whose matches do not depend on each other.
SHARED = [rule for rule in RULES if rule not in UNSHARED]


def asking(rule: str, interest: str, quality: str) -> str:
    return f"{text_of(rule, interest).rstrip()} quality {quality}\n"


@every_one("rule", SHARED, "interest", INTERESTS[:3])
def test_a_quality_of_1_changes_nothing(rule: str, interest: str) -> None:
    text = asking(rule, interest, "precision 1.0 recall 1.0")
    for seed in range(2):
        events = random_events(np.random.default_rng(seed))
        expected = found_by_engine(text_of(rule, interest), events)
        assert in_order(without_quality(found_by_engine(text, events))) == in_order(expected)
        for restart in (False, True):
            found = fed(text, events, np.random.default_rng(seed), restart)
            assert in_order(by_consumer(without_quality(found))) == in_order(expected)


@pytest.mark.parametrize("rule", SHARED)
def test_a_quality_of_1_changes_nothing_in_shards(rule: str) -> None:
    rng = np.random.default_rng(len(rule))
    plain = text_of(rule, INTERESTS[0]).replace("at (x, y)", "at (x, y) watermark 3 s")
    text = f"{plain.rstrip()} quality precision 1.0 recall 1.0\n"
    pieces = pieces_of(rng, random_events(rng, seconds=20))
    query = StreamingQuery(resolve(parse(text)), random.Random(1), 3)
    assert in_order(without_quality(streamed(query, pieces))) == in_order(found_by(plain, pieces))


@pytest.mark.parametrize("rule", SHARED)
def test_a_quality_of_1_changes_nothing_in_tasks(rule: str) -> None:
    """Of bounded input, in any number of tasks: near consumers come to one of them, and everyone is served once."""
    for seed in range(3):
        events = random_events(np.random.default_rng(seed), seconds=20)
        tables = {name: pa.Table.from_pylist(rows, SCHEMA) for name, rows in events.items()}
        graph = resolve(parse(asking(rule, INTERESTS[0], "precision 1.0 recall 1.0")))
        output = TaggedOutput.of(plan_on_spark(graph).contexts(default), show_definitions=True, reuses=True)
        found = near_of(output, detect_without_spark(graph, tables, random.Random(seed)))
        expected = found_by_engine(text_of(rule, INTERESTS[0]), events)
        assert in_order(without_quality(sorted(found, key=lambda row: row[:3]))) == in_order(expected)


def crowd(seconds: int) -> dict[str, pa.Table]:
    """Many who drive along one street, and lamps beside it."""
    rng = np.random.default_rng(4)
    rows = {"Car": [], "Lamp": []}
    for ts in range(seconds):
        for id_ in range(12):
            x = 3.0 * ts + 4.0 * id_ + float(rng.normal(0, 0.5))
            rows["Car"].append({"id": id_, "x": x, "y": float(rng.normal(0, 1)), "v": int(rng.integers(5)), "ts": ts})
        x = float(rng.uniform(0, 3 * seconds + 50))
        rows["Lamp"] += [{"id": n, "x": x + n, "y": 0.0, "v": int(rng.integers(5)), "ts": ts} for n in range(6)]
    return {name: pa.Table.from_pylist(some, SCHEMA) for name, some in rows.items()}


def test_work_is_shared_and_what_is_delivered_says_how_good_it_is() -> None:
    tables = crowd(60)
    plain = f"{STREAMS}subscribe Near for Car(id) {RULES['sequence'][0]} around Car square 60 m update every 5 s"
    engine = Engine(plain + " quality precision 0.7 recall 0.6")
    found = pa.concat_tables([output.complex_events["Near"] for output in engine.run(tables)])
    totals = engine.reuse["Near"]
    assert totals.regions < totals.interests / 3
    assert totals.covered > totals.interests / 2
    assert totals.events_read < totals.events_asked / 2
    assert totals.tried >= totals.covered
    assert found["precision"].to_numpy().min() >= 0.7
    assert found["recall"].to_numpy().min() >= 0.6
    assert found["precision"].to_numpy().min() < 1
    exact = sum(output.complex_events["Near"].num_rows for output in Engine(plain).run(tables))
    assert exact / 2 < found.num_rows < 2 * exact


@pytest.mark.jit_only
def test_reuse_rests_where_it_does_not_pay() -> None:
    """Interests that overlap by half each, and ask for nearly all: every one is tried in vain."""
    rng = np.random.default_rng(3)
    count = 2 * TRIAL + REST
    ids = range(count)
    rows = [
        {"id": n, "x": float(rng.uniform(10, 50)), "y": float(rng.uniform(10, 50)), "v": 0, "ts": n // 90} for n in ids
    ]
    lamps = [
        {"id": 0, "x": float(rng.uniform(0, 60)), "y": float(rng.uniform(0, 60)), "v": 0, "ts": ts}
        for ts in range(20)
        for _ in range(60)
    ]
    tables = {"Car": pa.Table.from_pylist(rows, SCHEMA), "Lamp": pa.Table.from_pylist(lamps, SCHEMA)}
    rule = "detect Lamp{2} as a within 9 s assign n = count(a)"
    text = f"{STREAMS}subscribe Near for Car(id) {rule} around Car square 24 m"
    strict, lax = (Engine(f"{text} quality {quality}") for quality in ("recall 0.999", "precision 0.01 recall 0.01"))
    for engine in (strict, lax):
        for _ in engine.run(tables):
            pass
    assert REST / 2 < strict.reuse["Near"].untried <= REST
    assert lax.reuse["Near"].untried == 0
    assert lax.reuse["Near"].covered > count / 2


@pytest.mark.parametrize("rule", DEPENDENT)
def test_matches_that_depend_on_each_other_are_not_shared(rule: str) -> None:
    text = asking(rule, INTERESTS[0], "precision 0.5 recall 0.5")
    events = random_events(np.random.default_rng(1))
    with pytest.warns(SituWarning, match="`quality` has no effect: matches of Near depend on each other"):
        found = found_by_engine(text, events)
    assert Counter(found) == Counter(found_by_engine(text_of(rule, INTERESTS[0]), events))


def test_chains_are_not_shared() -> None:
    text = asking("chain", INTERESTS[0], "precision 0.5 recall 0.5")
    events = random_events(np.random.default_rng(1))
    with pytest.warns(SituWarning, match="`quality` has no effect: Near correlates complex events"):
        found = found_by_engine(text, events)
    assert Counter(found) == Counter(found_by_engine(text_of("chain", INTERESTS[0]), events))


def test_disparity_alone_is_said_to_share_nothing() -> None:
    with pytest.warns(SituWarning, match="`quality` has no effect: what is shared is judged by"):
        engine = Engine(asking("sequence", INTERESTS[0], "disparity 0.5"))
    assert engine.reuse == {}
