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
from situ.core.time import END
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.reuse.regions import REST, TRIAL, beginning, share
from situ.runtime.embedded import Engine
from situ.runtime.spark.plan.plan import plan_on_spark
from situ.runtime.spark.stages.output import TaggedOutput
from situ.space.geometry import Shape
from situ.space.pairs import PlacedEvents, Regions

#: Rules whose matches do not depend on each other.
SHARED = [rule for rule in RULES if rule not in DEPENDENT]


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


@pytest.mark.parametrize("is_round", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_shares_are_exact(seed: int, is_round: bool) -> None:
    """Every figure, counted by hand; and every interest that goes its own way could not have been served."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, 40, 200))
    x, y = rng.uniform(0, 60, (2, 200))
    start = np.sort(rng.integers(0, 30, 30))
    asked = Regions(start, start + rng.integers(0, 10, 30), *rng.uniform(10, 50, (2, 30)))
    known = (rng.uniform(10, 50, 3), rng.uniform(10, 50, 3), rng.integers(0, 20, 3))
    shape = Shape(12.0, 12.0, is_round)
    shared = share(PlacedEvents.of(times, x, y, shape), *known, asked, 0.5, 0.6, beginning())
    all_x, all_y = np.concatenate([known[0], asked.x]), np.concatenate([known[1], asked.y])
    since = np.concatenate([known[2], asked.since_us])

    def held(middle: int, k: int) -> set[int]:
        return {
            event
            for event in range(200)
            if asked.since_us[k] <= times[event] <= asked.until_us[k]
            and max(abs(x[event] - all_x[middle]), abs(y[event] - all_y[middle])) <= 12
            and (not is_round or np.hypot(x[event] - all_x[middle], y[event] - all_y[middle]) <= 12)
        }

    chosen = [0, 1, 2]
    for k in range(30):
        mine, by = held(3 + k, k), int(shared.by[k])
        theirs = held(by, k)
        assert shared.precision[k] == (len(mine & theirs) / len(theirs) if theirs else 1.0)
        assert shared.recall[k] == (len(mine & theirs) / len(mine) if mine else 1.0)
        if by != 3 + k:
            assert by in chosen
            assert since[by] <= asked.since_us[k]
            assert shared.precision[k] >= 0.5
            assert shared.recall[k] >= 0.6
        else:
            chosen.append(by)
    assert len(set(shared.by.tolist())) < 30


def test_of_the_time_to_come_regions_say_how_much_they_share() -> None:
    nothing = PlacedEvents.of(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), Shape(10.0, 10.0))
    open_ = Regions(np.zeros(3, np.int64), np.full(3, END), np.array([0.0, 4.0, 0.0]), np.array([0.0, 0.0, 4.1]))
    none = np.zeros(0)
    shared = share(nothing, none, none, none.astype(np.int64), open_, 0.8, 0.8, beginning())
    assert shared.by.tolist() == [0, 0, 2]
    assert shared.precision.tolist() == [1.0, 0.8, 1.0]


@pytest.mark.jit_only
def test_reuse_rests_where_it_does_not_pay() -> None:
    """Interests that overlap by half each, and ask for nearly all: every one is tried in vain."""
    rng = np.random.default_rng(3)
    times, count = np.sort(rng.integers(0, 100, 2000)), 2 * TRIAL + REST
    events = PlacedEvents.of(times, *rng.uniform(0, 60, (2, 2000)), Shape(12.0, 12.0))
    asked = Regions(np.zeros(count, np.int64), np.full(count, 99), *rng.uniform(10, 50, (2, count)))
    none = np.zeros(0)
    strict = share(events, none, none, none.astype(np.int64), asked, 0.999, 0.999, beginning())
    assert strict.untried == REST
    assert (strict.by[TRIAL : TRIAL + REST] == np.arange(TRIAL, TRIAL + REST)).all()
    lax = share(events, none, none, none.astype(np.int64), asked, 0.7, 0.7, beginning())
    assert lax.untried == 0
    # In pieces, it goes as in one.
    going, by = beginning(), []
    for part in np.array_split(np.arange(count), 7):
        shared = share(events, none, none, none.astype(np.int64), asked.take(part), 0.999, 0.999, going)
        by.append(shared.untried)
    assert sum(by) == REST


@pytest.mark.parametrize("rule", DEPENDENT)
def test_matches_that_depend_on_each_other_are_not_shared(rule: str) -> None:
    text = asking(rule, INTERESTS[0], "precision 0.5 recall 0.5")
    events = random_events(np.random.default_rng(1))
    with pytest.warns(SituWarning, match="`quality` has no effect: matches of Near depend on each other"):
        found = found_by_engine(text, events)
    assert Counter(found) == Counter(found_by_engine(text_of(rule, INTERESTS[0]), events))


def test_disparity_alone_is_said_to_share_nothing() -> None:
    with pytest.warns(SituWarning, match="`quality` has no effect: what is shared is judged by"):
        engine = Engine(asking("sequence", INTERESTS[0], "disparity 0.5"))
    assert engine.reuse == {}
