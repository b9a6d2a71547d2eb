"""Switches against a run by words: loops over rows, and the embedded engine for what a region's events mean."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from situ.core.errors import InputError, QueryError
from situ.lab.mcep.prediction.regions import QueryEvents
from situ.lab.mcep.prediction.simulate import PredictionSettings, Predictor, Switches, simulate
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.embedded import Engine

Row = dict[str, Any]
S = 1_000_000
STREAMS = """
stream Car(id int, x double, y double, v int, ts int) time ts in us at (x, y)
stream Lamp(id int, x double, y double, v int, ts int) time ts in us at (x, y)
"""
RULE = "detect Car as a then Lamp(v > a.v) as b within 3 s assign v = b.v"


def text_of(deliver: str, shape: str = "square 40 m", quality: float = 0.0, rule: str = RULE) -> str:
    return f"""{STREAMS}subscribe Near for Car(id) {rule}
  around Car {shape} lifetime 4 s update every 6 s deliver {deliver} quality precision {quality} recall {quality}"""


def random_events(seed: int, seconds: int = 50) -> dict[str, list[Row]]:
    rng = np.random.default_rng(seed)
    events: dict[str, list[Row]] = {"Car": [], "Lamp": []}
    for stream, number in (("Car", 5), ("Lamp", 8)):
        places, speeds = rng.uniform(0, 80, (number, 2)), rng.uniform(-3, 3, (number, 2))
        for second in range(seconds):
            speeds = np.where(rng.random((number, 1)) < 0.1, rng.uniform(-3, 3, (number, 2)), speeds)
            speeds = np.where((places < 0) | (places > 80), -np.sign(places) * np.abs(speeds), speeds)
            places = places + speeds
            for id_ in range(number):
                x, y = places[id_].round(2).tolist()
                ts = second * S + int(rng.integers(S))
                events[stream].append({"id": id_, "x": x, "y": y, "v": int(rng.integers(5)), "ts": ts})
    return events


def tables_of(events: dict[str, list[Row]]) -> dict[str, pa.Table]:
    return {name: pa.Table.from_pylist(rows) for name, rows in events.items()}


def run(
    text: str, events: dict[str, list[Row]], settings: PredictionSettings, consumers: tuple[int, ...] = (0, 1)
) -> Switches:
    located = QueryEvents.of(resolve(parse(text)), tables_of(events))
    return simulate(located, consumers, settings, np.random.default_rng(3))


@dataclass
class Words:
    """The same by words, for squares of 40 m, one place, and a fixed eagerness (None: on demand)."""

    events: dict[str, list[Row]]
    complete: bool
    latency: int
    eagerness: int | None
    threshold: float

    def atoms(self, x: float, y: float, since: int, until: int) -> list[tuple[str, Row]]:
        found = [
            (stream, row)
            for stream, rows in self.events.items()
            for row in rows
            if since <= row["ts"] <= until and abs(row["x"] - x) <= 20 and abs(row["y"] - y) <= 20
        ]
        return sorted(found, key=lambda atom: atom[1]["ts"])

    def found(self, atoms: list[tuple[str, Row]], since: int, until: int) -> list[int]:
        tables = {
            stream: pa.Table.from_pylist([row for s, row in atoms if s == stream], self.schema)
            for stream in self.events
        }
        outputs = Engine(f"{STREAMS}subscribe Near {RULE}").run(tables)
        times = [
            int(row["_time"].timestamp() * S + 0.5) for o in outputs for row in o.complex_events["Near"].to_pylist()
        ]
        return [time for time in times if since <= time <= until]

    @property
    def schema(self) -> pa.Schema:
        return pa.Table.from_pylist(self.events["Car"]).schema

    def enough(self, place: tuple[float, float], now: Row) -> bool:
        recent = now["ts"] - 5 * S, now["ts"]
        processed = [id(row) for _, row in self.atoms(*place, *recent)]
        asked = [id(row) for _, row in self.atoms(now["x"], now["y"], *recent)]
        both = len({*processed} & {*asked})
        precision, recall = (both / len(one) if one else 1.0 for one in (processed, asked))
        return precision >= self.threshold and recall >= self.threshold

    def switches(self, consumer: int) -> list[tuple[Any, ...]]:
        updates = sorted((row for row in self.events["Car"] if row["id"] == consumer), key=lambda row: row["ts"])
        starts = updates[:1]
        for row in updates:
            if row["ts"] - starts[-1]["ts"] >= 6 * S:
                starts.append(row)
        told, free = [], 0
        for number, (now, following) in enumerate(pairwise(starts)):
            start, end = now["ts"], following["ts"]
            place, begin, on_demand = (now["x"], now["y"]), max(free, start), True
            known = [row for row in updates if self.eagerness is not None and row["ts"] <= start - self.eagerness]
            if number and known:
                before, last = (known * 2 if len(known) == 1 else known)[-2:]
                ahead = (start - last["ts"]) / max(last["ts"] - before["ts"], 1)
                predicted = tuple(last[axis] + ahead * (last[axis] - before[axis]) for axis in "xy")
                if self.enough(predicted, now):
                    place, begin, on_demand = predicted, start - (self.eagerness or 0), False
            atoms = self.atoms(*place, start - 7 * S, end)
            done, at = [], begin
            for _, row in atoms:
                at = max(at, row["ts"]) + self.latency
                done.append(at)
            history = [d for d, (_, row) in zip(done, atoms, strict=True) if row["ts"] < start]
            late = max(history[-1] if history else begin, free, start)
            count = len(atoms) if self.complete else sum(d <= end for d in done)
            processed = {id(row) for _, row in atoms[:count]}
            asked = {id(row) for _, row in self.atoms(now["x"], now["y"], start - 7 * S, end)}
            times = self.found(atoms, start - 4 * S, end)
            known_at = [
                max([t, begin, *(d for d, (_, row) in zip(done, atoms, strict=True) if row["ts"] <= t)]) for t in times
            ]
            told.append(
                (
                    (late if self.complete else min(late, end)) - start,
                    len(processed & asked) / len(processed) if processed else 1.0,
                    len(processed & asked) / len(asked) if asked else 1.0,
                    len(times),
                    len(times) if self.complete else sum(k <= end for k in known_at),
                    count,
                    on_demand,
                )
            )
            if self.complete and done:
                free = done[-1]
        return told[1:]


@pytest.mark.parametrize("eagerness", [None, 0, 2 * S, 5 * S, 9 * S])
@pytest.mark.parametrize("deliver", ["complete", "best effort"])
def test_switches_are_what_the_words_say(eagerness: int | None, deliver: str) -> None:
    for seed, threshold, latency in ((1, 0.0, 30_000), (2, 0.8, 90_000)):
        events = random_events(seed)
        predictor = None if eagerness is None else Predictor(eagerness)
        found = run(text_of(deliver, quality=threshold), events, PredictionSettings(latency, 5 * S, predictor))
        words = Words(events, deliver == "complete", latency, eagerness, threshold)
        expected = [switch for consumer in (0, 1) for switch in words.switches(consumer)]
        given_up = found.processed - np.array([switch[5] for switch in expected])
        columns = (found.late_us, found.precision, found.recall, found.found, found.delivered)
        assert list(zip(*(c.tolist() for c in columns), strict=True)) == [switch[:5] for switch in expected]
        assert found.on_demand.tolist() == [switch[6] for switch in expected]
        assert np.all((given_up > 0) <= found.on_demand)
        assert found.found.sum() > 20
        assert eagerness != 5 * S or threshold == 0 or 0 < found.on_demand.sum() < len(found)


def numbers_of_interests(text: str, events: dict[str, list[Row]], consumer: int) -> list[int]:
    """Of what the engine delivers to a consumer, who shares nothing with others."""
    alone = text if "when quality" in text else text.partition(" quality ")[0]
    outputs = [o.complex_events["Near"] for o in Engine(alone).run(tables_of(events)) if "Near" in o.complex_events]
    return [row["interest"] for table in outputs for row in table.to_pylist() if row["consumer"] == consumer]


@pytest.mark.parametrize("consumer", range(5))
@pytest.mark.parametrize("shape", ["square 40 m", "rectangle 60 m x 20 m", "circle 25 m"])
def test_on_demand_and_complete_delivers_what_the_engine_delivers(shape: str, consumer: int) -> None:
    events, text = random_events(4), text_of("complete", shape)
    found = run(text, events, PredictionSettings(), (consumer,))
    numbers = numbers_of_interests(text, events, consumer)
    assert found.delivered.tolist() == [numbers.count(number) for number in range(2, len(found) + 2)]
    assert sum(found.delivered)
    assert found.completeness == 1.0
    assert {*found.precision, *found.recall} == {1.0}
    assert found.on_demand.all()


@pytest.mark.parametrize(
    "rule",
    [
        "detect Car(v > 0) as a then not Lamp(v > 3) within 2 s assign v = a.v",
        "aggr every 2 s over 4 s detect Car and outer Lamp assign n = count(Car), m = count(Lamp)",
        "detect Car(v > 2) as a assign v = a.v",
    ],
)
def test_other_rules_deliver_what_the_engine_delivers(rule: str) -> None:
    events, text = random_events(6), text_of("complete", rule=rule)
    found, numbers = run(text, events, PredictionSettings(), (0,)), numbers_of_interests(text, events, 0)
    assert found.delivered.tolist() == [numbers.count(number) for number in range(2, len(found) + 2)]
    assert sum(found.delivered)


def test_update_when_quality() -> None:
    """As many switches as the engine's consumer has interests, without the first and the last."""
    events = random_events(4)
    text = text_of("complete", quality=0.95).replace("every 6 s", "when quality")
    found = run(text, events, PredictionSettings(recent_us=10 * S), (0,))
    assert len(found) == max(numbers_of_interests(text, events, 0)) - 2
    assert len(found) > 3


# ---- what must hold


def straight(seconds: int = 60) -> dict[str, list[Row]]:
    """A car at a steady pace among lamps that stand everywhere."""
    rng = np.random.default_rng(8)
    cars = [{"id": 0, "x": 2.0 * s, "y": 50.0, "v": 0, "ts": s * S} for s in range(seconds)]
    lamps = []
    for id_ in range(200):
        x, y = rng.uniform(0, 120, 2).tolist()
        lamps += [{"id": id_, "x": x, "y": y, "v": 1, "ts": s * S + 5000 * id_} for s in range(seconds)]
    return {"Car": cars, "Lamp": lamps}


@pytest.mark.parametrize("deliver", ["complete", "best effort"])
def test_a_steady_pace_is_predicted_and_eagerness_makes_switches_quick(deliver: str) -> None:
    late = []
    for eagerness in (0, S, 2 * S, 4 * S):
        found = run(text_of(deliver), straight(), PredictionSettings(20_000, 5 * S, Predictor(eagerness)), (0,))
        assert not found.on_demand.any()
        assert found.precision.min() == 1.0
        late.append(float(found.late_us.mean()))
    assert sorted(late, reverse=True) == late
    assert late[-1] < late[0] / 10


def test_expected_eagerness_is_as_long_as_the_switch_on_demand_takes() -> None:
    on_demand = run(text_of("complete"), straight(), PredictionSettings(20_000), (0,))
    prepared = run(text_of("complete"), straight(), PredictionSettings(20_000, 5 * S, Predictor("expected")), (0,))
    assert prepared.late_us.mean() < on_demand.late_us.mean() / 10
    assert prepared.precision.min() == 1.0


def test_of_more_graphs_one_serves_better_and_all_cost() -> None:
    text, events = text_of("complete", quality=0.7), straight()
    one, many = (
        run(text, events, PredictionSettings(predictor=Predictor(3 * S, count, 15.0)), (0,)) for count in (1, 20)
    )
    assert many.on_demand.sum() < one.on_demand.sum()
    assert many.processed.sum() > one.processed.sum()
    assert one.prepared.max() == 1 < many.prepared.max()


def test_the_limit_of_resources_leaves_switches_on_demand() -> None:
    found = run(
        text_of("complete"), random_events(5), PredictionSettings(predictor=Predictor(S, 9, 5.0, most_events=0)), (0,)
    )
    assert found.on_demand[found.prepared == 0].all()
    assert found.on_demand.any()


def test_before_anything_is_known_switches_are_on_demand() -> None:
    found = run(text_of("complete"), random_events(5), PredictionSettings(predictor=Predictor(500 * S)), (0,))
    assert found.on_demand.all()
    assert not found.prepared.any()


def test_a_consumer_who_stands_or_is_unknown_has_no_switches() -> None:
    with pytest.raises(InputError, match="none of the consumers switches twice"):
        run(text_of("complete"), random_events(5), PredictionSettings(), (77,))


def test_a_query_that_does_not_move_is_refused() -> None:
    graph = resolve(parse(f"{STREAMS}subscribe Near {RULE}"))
    with pytest.raises(QueryError, match="0 subscriptions that move"):
        QueryEvents.of(graph, tables_of(random_events(1)))
