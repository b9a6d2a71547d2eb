"""The event store against a list of dicts; eviction is safe."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from situ.core.errors import InputError
from situ.kernel.arrays import F64, I64
from situ.kernel.batch import EXTENT, Batch
from situ.space.event_store import Asking, EventStore, Region, evict_before
from situ.space.geometry import Shape
from situ.space.pairs import Regions

Row = dict[str, Any]
TYPES = ("Car", "Jam")


class ListStore:
    """What a store is, by words: all events in the order in which they were added."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.evicted: dict[str, int] = {}

    def add(self, rows: list[Row]) -> None:
        self.rows += [row for row in rows if row["time"] >= self.evicted.get(row["type"], -math.inf)]

    def located(self, event_type: str, since: int, until: int) -> list[Row]:
        found = [row for row in self.rows if row["type"] == event_type and since <= row["time"] <= until]
        return sorted(found, key=lambda row: row["time"])

    def inside(self, event_type: str, since: int, until: int, region: Region) -> list[Row]:
        return [row for row in self.located(event_type, since, until) if all(holds(region, c) for c in corners(row))]

    def evict(self, event_type: str, before: int) -> int:
        number = len(self.rows)
        self.evicted[event_type] = max(before, self.evicted.get(event_type, before))
        self.rows = [row for row in self.rows if row["type"] != event_type or row["time"] >= before]
        return number - len(self.rows)


def corners(row: Row) -> list[tuple[float, float]]:
    if row["type"] == "Car":
        return [(row["x"], row["y"])]
    return [(x, y) for x in (row["_x_min"], row["_x_max"]) for y in (row["_y_min"], row["_y_max"])]


def holds(region: Region, corner: tuple[float, float]) -> bool:
    dx, dy = abs(corner[0] - region.x), abs(corner[1] - region.y)
    if region.is_round:
        return dx**2 + dy**2 <= region.half_x**2
    return dx <= region.half_x and dy <= region.half_y


def random_rows(rng: np.random.Generator, event_type: str, first: int) -> list[Row]:
    rows = []
    for id_ in range(first, first + int(rng.integers(0, 30))):
        x, y = (float(v) for v in rng.integers(-40, 40, 2))
        row = {"type": event_type, "time": int(rng.integers(0, 60)), "x": x, "y": y, "id": id_, "name": f"n{id_}"}
        if event_type == "Jam":
            width, height = (float(v) for v in rng.integers(0, 15, 2))
            row |= {"_x_min": x, "_y_min": y, "_x_max": x + width, "_y_max": y + height}
        elif rng.random() < 0.1:
            row["x"] = math.nan
        rows.append(row)
    return rows


def columns_of(rows: list[Row], event_type: str) -> tuple[Batch, F64, F64]:
    columns = {"id": pa.array([row["id"] for row in rows], pa.int64()), "name": pa.array([row["name"] for row in rows])}
    columns["name"] = columns["name"].cast(pa.string())
    if event_type == "Jam":
        columns |= {name: pa.array([row[name] for row in rows], pa.float64()) for name in EXTENT}
    times = np.array([row["time"] for row in rows], np.int64)
    return Batch(times, columns), np.array([r["x"] for r in rows], float), np.array([r["y"] for r in rows], float)


def ids(batch: Batch) -> list[int]:
    return batch.columns["id"].to_pylist() if batch.columns else []


def random_region(rng: np.random.Generator) -> Region:
    x, y, half_x, half_y = (float(v) for v in rng.integers((-40, -40, 1, 1), (40, 40, 40, 40)))
    return Region(x, y, half_x, half_x, True) if rng.random() < 0.5 else Region(x, y, half_x, half_y, False)


def check_answers(rng: np.random.Generator, expected: ListStore, store: EventStore) -> int:
    since = int(rng.integers(-5, 60))
    until, region = since + int(rng.integers(-3, 60)), random_region(rng)
    some = 0
    for event_type in TYPES:
        located = expected.located(event_type, since, until)
        inside = [row["id"] for row in expected.inside(event_type, since, until, region)]
        some += len(inside)
        found = store.located(event_type, since, until)
        assert ids(found.batch) == [row["id"] for row in located]
        assert found.batch.times.tolist() == [row["time"] for row in located]
        np.testing.assert_array_equal(found.x, [row["x"] for row in located])
        assert ids(store.inside(event_type, since, until, region)) == inside
    for types in (TYPES, TYPES[:1]):
        rows = [row for event_type in types for row in expected.located(event_type, since, until)]
        count = sum(abs(row["x"] - region.x) <= 9 and abs(row["y"] - region.y) <= 9 for row in rows)
        asked = Regions(np.array([since]), np.array([until]), np.array([region.x]), np.array([region.y]))
        assert store.placed(types, since, Shape(9.0, 9.0)).counts(asked).tolist() == [count]
    return some


@pytest.mark.parametrize("seed", range(6))
def test_the_store_answers_as_a_list_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    expected, store = ListStore(), EventStore()
    number = some = 0
    for _ in range(12):
        event_type = str(rng.choice(TYPES))
        rows = random_rows(rng, event_type, number)
        number += len(rows)
        expected.add(rows)
        store.add(event_type, *columns_of(rows, event_type))
        if rng.random() < 0.3:
            before = int(rng.integers(0, 40))
            assert store.evict(event_type, before) == expected.evict(event_type, before)
        if rng.random() < 0.3:
            store = EventStore.from_tables(store.tables())
        some += check_answers(rng, expected, store)
    assert some


def add(store: EventStore, times: list[int], first: int = 0) -> None:
    count = len(times)
    batch = Batch(np.array(times), {"id": pa.array(range(first, first + count), pa.int64())})
    store.add("Car", batch, np.arange(count, dtype=float), np.zeros(count))


def test_events_of_a_time_stay_in_the_order_in_which_they_came() -> None:
    store = EventStore()
    add(store, [5, 5, 5, 4])
    add(store, [5, 5], first=4)
    assert ids(store.located("Car", 0, 9).batch) == [3, 0, 1, 2, 4, 5]


def test_many_small_adds_are_few_segments() -> None:
    store = EventStore()
    for time in range(1000):
        add(store, [time], time)
    assert len(store._segments["Car"]) <= 10
    assert ids(store.located("Car", 0, 999).batch) == list(range(1000))


def test_one_segment_is_indexed_once() -> None:
    store = EventStore()
    add(store, [1, 2, 3])
    shape = Shape(1.0, 1.0)
    assert store.placed(["Car", "Lamp"], 2, shape) is store.placed(["Car"], 0, shape)
    store.evict("Car", 2)
    assert store.placed(["Car"], 2, shape).times_us.tolist() == [1, 2, 3]
    assert store.placed(["Car"], 0, shape).times_us.tolist() == [2, 3]


def test_a_type_that_nobody_added_has_no_events() -> None:
    store = EventStore()
    assert len(store.located("Car", 0, 9)) == len(store.inside("Car", 0, 9, Region(0, 0, 9, 9, False))) == 0
    assert store.evict("Car", 9) == 0


def test_other_columns_than_before_are_refused() -> None:
    store = EventStore()
    add(store, [1])
    with pytest.raises(InputError, match=r"stored with the columns \['id'\], and came with \['speed'\]"):
        store.add("Car", Batch(np.array([1]), {"speed": pa.array([1.0])}), np.zeros(1), np.zeros(1))


# ---- eviction


@pytest.mark.parametrize("seed", range(10))
def test_what_is_evicted_nobody_asks_for(seed: int) -> None:
    """Time passes; interests of two subscriptions begin, each no earlier than the time that has passed, and read their
    history, some of them late. They find all of it."""
    rng = np.random.default_rng(seed)
    expected, store = ListStore(), EventStore()
    subscriptions = [(4, {"Car": 3, "Jam": 9}), (7, {"Car": 1})]
    waiting: list[tuple[int, int]] = []
    gone = some = 0
    for now in range(0, 60, 3):
        for event_type in TYPES:
            rows = [row | {"time": now + int(rng.integers(0, 3))} for row in random_rows(rng, event_type, 100 * now)]
            expected.add(rows)
            store.add(event_type, *columns_of(rows, event_type))
        waiting += [(int(rng.integers(2)), now + int(rng.integers(0, 3))) for _ in range(int(rng.integers(3)))]
        asking = []
        for number, (lifetime, history) in enumerate(subscriptions):
            starts = [start for whose, start in waiting if whose == number]
            asking.append(Asking(min([now, *starts]), lifetime, history))
        gone += sum(store.evict(event_type, before) for event_type, before in evict_before(asking).items())
        read = [one for one in waiting if rng.random() < 0.5]
        waiting = [one for one in waiting if one not in read]
        for number, start in read:
            lifetime, history = subscriptions[number]
            for event_type, before in history.items():
                found = store.located(event_type, start - lifetime - before, now + 3)
                rows = expected.located(event_type, start - lifetime - before, now + 3)
                assert ids(found.batch) == [row["id"] for row in rows]
                some += len(rows)
    assert gone
    assert some


def test_evict_before_is_as_late_as_it_may_be() -> None:
    """One microsecond more, and an interest that begins at once would miss an event."""
    before = evict_before([Asking(100, 30, {"Car": 5})])["Car"]
    store = EventStore()
    add(store, [before - 1, before])
    assert store.evict("Car", before) == 1
    assert len(store.located("Car", 100 - 30 - 5, 100)) == 1


def times_of(store: EventStore) -> I64:
    return store.located("Car", 0, 10**6).batch.times


def test_memory_of_evicted_events_is_given_back() -> None:
    store = EventStore()
    add(store, list(range(1000)))
    assert store.evict("Car", 400) == 400
    assert len(store._segments["Car"][0].events) == 1000
    assert store.evict("Car", 600) == 200
    assert len(store._segments["Car"][0].events) == 400
    assert times_of(store).tolist() == list(range(600, 1000))
