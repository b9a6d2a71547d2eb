"""TCEP's evaluation query (figure 8): a join over windows of two road sections, in situ's language.

((vehiclesAtSectionV1 window WINDOW_SIZE) join (vehiclesAtSectionV2 window WINDOW_SIZE) on 'highwayId
  where { (enteredVehicles, exitVehicles) => enteredVehicles.count > exitVehicles.count } demand QOS_DEMANDS)
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from itertools import count

import pyarrow as pa
import pytest

from situ import Engine, Output

FIGURE_8 = """
stream vehiclesAtSectionV1(highwayId int, sectionId int, count int, time int) time time in ms
stream vehiclesAtSectionV2(highwayId int, sectionId int, count int, time int) time time in ms

subscribe vehicleInfo
  join every 5 s on highwayId
  detect   vehiclesAtSectionV1 as enteredVehicles
           and vehiclesAtSectionV2(count < enteredVehicles.count) as exitVehicles
  assign   highwayId = enteredVehicles.highwayId, `from` = enteredVehicles.sectionId, `to` = exitVehicles.sectionId,
           entered = enteredVehicles.count, exited = exitVehicles.count
  demand   latency < 100 ms
"""
SLIDING = FIGURE_8.replace("join every 5 s", "join every 5 s over 12 s")

Event = tuple[int | None, int, int, int]  # highwayId, sectionId, count, time in ms
Pair = tuple[int, int, int, int, int, int]  # highwayId, from, to, entered, exited, end of the window in ms


def to_table(events: list[Event]) -> pa.Table:
    names = ("highwayId", "sectionId", "count", "time")
    return pa.table({name: pa.array([e[i] for e in events], pa.int64()) for i, name in enumerate(names)})


def to_pairs(outputs: Iterable[Output]) -> Counter[Pair]:
    """The complex events, with `_time` in milliseconds."""
    found = pa.concat_tables(output.complex_events["vehicleInfo"] for output in outputs)
    times = found.column("_time").cast(pa.int64()).to_numpy() // 1000
    columns = [found.column(name).to_pylist() for name in ("highwayId", "from", "to", "entered", "exited")]
    return Counter(zip(*columns, times.tolist(), strict=True))


def by_hand(v1: list[Event], v2: list[Event], every_ms: int, over_ms: int) -> Counter[Pair]:
    """Two loops over the events, and one over the windows that hold both."""
    found: Counter[Pair] = Counter()
    for highway, entry, entered, t1 in v1:
        for other, leave, exited, t2 in v2:
            if highway is None or highway != other or not entered > exited:
                continue
            for end in range(0, 100_000, every_ms):
                if all(end - over_ms <= t < end for t in (t1, t2)):
                    found[highway, entry, leave, entered, exited, end] += 1
    return found


def test_heavy_sections() -> None:
    v1: list[Event] = [
        (9, 1, 40, 1_000),
        (9, 1, 10, 2_000),
        (3, 7, 50, 4_999),
        (9, 1, 60, 5_000),  # the next window
    ]
    v2: list[Event] = [
        (9, 2, 20, 1_500),
        (9, 2, 40, 3_000),  # as many have left as have entered
        (3, 8, 49, 0),
        (4, 5, 0, 2_000),  # another highway
        (9, 2, 5, 10_000),  # the window after next
    ]
    engine = Engine(FIGURE_8)
    outputs = list(engine.run({"vehiclesAtSectionV1": to_table(v1), "vehiclesAtSectionV2": to_table(v2)}))
    assert to_pairs(outputs) == Counter([(9, 1, 2, 40, 20, 5_000), (3, 7, 8, 50, 49, 5_000)])


def random_events(generator: random.Random, rows: int) -> list[Event]:
    return [
        (
            generator.choice([1, 2, 3, None]),
            generator.randint(1, 4),
            generator.randint(0, 100),
            generator.randint(0, 60_000),
        )
        for _ in range(rows)
    ]


@pytest.mark.parametrize(("query", "over_ms"), [(FIGURE_8, 5_000), (SLIDING, 12_000)], ids=["tumbling", "sliding"])
@pytest.mark.parametrize("seed", range(3))
def test_random_events(query: str, over_ms: int, seed: int) -> None:
    generator = random.Random(seed)
    v1, v2 = random_events(generator, 120), random_events(generator, 120)
    expected = by_hand(v1, v2, 5_000, over_ms)
    assert expected.total() > 50

    sources = {"vehiclesAtSectionV1": to_table(v1), "vehiclesAtSectionV2": to_table(v2)}
    assert to_pairs(Engine(query).run(sources)) == expected

    engine, outputs = Engine(query), []
    for end_ms in range(7_000, 67_000, 7_000):  # pieces that are no windows
        for name, events in (("vehiclesAtSectionV1", v1), ("vehiclesAtSectionV2", v2)):
            piece = [event for event in events if end_ms - 7_000 <= event[3] < end_ms]
            outputs.append(engine.feed(to_table(sorted(piece, key=lambda event: event[3])), name))
    assert to_pairs(outputs).total() > 0, "windows come out as soon as time has passed them"
    assert to_pairs([*outputs, engine.close()]) == expected


def test_the_demanded_latency_is_measured() -> None:
    """Rows come every 10 ms of the engine's clock; a result waits for those that tell that time has passed."""
    now = iter(count(0.0, 0.01))
    engine = Engine(FIGURE_8, clock=lambda: next(now))
    assert [str(demand) for demand in engine.demands] == ["vehicleInfo: demand latency < 100 ms is not measured yet"]
    generator = random.Random(5)
    v1, v2 = random_events(generator, 120), random_events(generator, 120)
    for events, name in ((v1, "vehiclesAtSectionV1"), (v2, "vehiclesAtSectionV2")):
        engine.feed(to_table(sorted(events, key=lambda event: event[3])), name)
    engine.close()
    (demand,) = engine.demands
    assert (demand.demand.metric, demand.demand.limit) == ("latency", 100_000)
    assert demand.measured is not None
    assert 10_000 <= demand.measured <= 100_000
