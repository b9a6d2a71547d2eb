"""The event store against a list of dicts; the store on disk, killed in the middle of a write; eviction is safe."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from situ.core.errors import InputError, StateError
from situ.kernel.arrays import F64, I64
from situ.kernel.batch import EXTENT, Batch
from situ.mobility import disk_store
from situ.mobility.disk_store import DiskStore
from situ.mobility.store import Asking, EventStore, Region, evict_before

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


def check_answers(rng: np.random.Generator, expected: ListStore, stores: list[EventStore | DiskStore]) -> int:
    since = int(rng.integers(-5, 60))
    until, region = since + int(rng.integers(-3, 60)), random_region(rng)
    some = 0
    for event_type in TYPES:
        located = expected.located(event_type, since, until)
        inside = [row["id"] for row in expected.inside(event_type, since, until, region)]
        some += len(inside)
        for store in stores:
            found = store.located(event_type, since, until)
            assert ids(found.batch) == [row["id"] for row in located]
            assert found.batch.times.tolist() == [row["time"] for row in located]
            np.testing.assert_array_equal(found.x, [row["x"] for row in located])
            assert ids(store.inside(event_type, since, until, region)) == inside
    return some


@pytest.mark.parametrize("seed", range(6))
def test_stores_answer_as_a_list_does(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_store, "MOST_FILES", 2)
    rng = np.random.default_rng(seed)
    expected, memory, disk = ListStore(), EventStore(), DiskStore(tmp_path, slice_us=7, cell_m=9.0)
    number = some = 0
    for _ in range(12):
        event_type = str(rng.choice(TYPES))
        rows = random_rows(rng, event_type, number)
        number += len(rows)
        expected.add(rows)
        for store in (memory, disk):
            store.add(event_type, *columns_of(rows, event_type))
        if rng.random() < 0.3:
            before = int(rng.integers(0, 40))
            assert memory.evict(event_type, before) == expected.evict(event_type, before)
            assert disk.evict(event_type, before) <= number
        if rng.random() < 0.3:
            memory, disk = EventStore.from_tables(memory.tables()), DiskStore(tmp_path, slice_us=1)
        some += check_answers(rng, expected, [memory, disk])
    assert some


def add(store: EventStore | DiskStore, times: list[int], first: int = 0) -> None:
    count = len(times)
    batch = Batch(np.array(times), {"id": pa.array(range(first, first + count), pa.int64())})
    store.add("Car", batch, np.arange(count, dtype=float), np.zeros(count))


def test_events_of_a_time_stay_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    for store in (EventStore(), DiskStore(tmp_path, cell_m=1.0)):
        add(store, [5, 5, 5, 4])
        add(store, [5, 5], first=4)
        assert ids(store.located("Car", 0, 9).batch) == [3, 0, 1, 2, 4, 5]


def test_many_small_adds_are_few_segments() -> None:
    store = EventStore()
    for time in range(1000):
        add(store, [time], time)
    assert len(store._segments["Car"]) <= 10
    assert ids(store.located("Car", 0, 999).batch) == list(range(1000))


def test_a_type_that_nobody_added_has_no_events(tmp_path: Path) -> None:
    for store in (EventStore(), DiskStore(tmp_path)):
        assert len(store.located("Car", 0, 9)) == len(store.inside("Car", 0, 9, Region(0, 0, 9, 9, False))) == 0
        assert store.evict("Car", 9) == 0


def test_other_columns_than_before_are_refused(tmp_path: Path) -> None:
    for store in (EventStore(), DiskStore(tmp_path)):
        add(store, [1])
        with pytest.raises(InputError, match=r"stored with the columns \['id'\], and came with \['speed'\]"):
            store.add("Car", Batch(np.array([1]), {"speed": pa.array([1.0])}), np.zeros(1), np.zeros(1))


# ---- on disk


class Killed(Exception):
    """Stands for the death of the process."""


@pytest.mark.parametrize("at", range(9))
def test_an_add_that_is_cut_short_never_was(at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the process dies: before, in or after a file."""
    store = DiskStore(tmp_path, slice_us=10, cell_m=1.0)
    add(store, [1, 2])
    write_whole, written = disk_store._write_whole, 0

    def until_killed(path: Path, write: Any) -> None:
        nonlocal written
        if written == at // 2:
            if at % 2:
                path.with_name(f".{path.name}.tmp").write_bytes(b"half a fi")
            raise Killed
        written += 1
        write_whole(path, write)

    monkeypatch.setattr(disk_store, "_write_whole", until_killed)
    with pytest.raises(Killed):
        add(store, [3, 4, 15, 16], first=2)  # four files, and the state
    monkeypatch.undo()
    again = DiskStore(tmp_path)
    assert ids(again.located("Car", 0, 99).batch) == [0, 1]
    add(again, [3, 4, 15, 16], first=2)
    assert ids(DiskStore(tmp_path).located("Car", 0, 99).batch) == [0, 1, 2, 3, 4, 5]
    assert not list(tmp_path.rglob(".*.parquet.tmp"))


def test_a_file_is_deleted_when_all_its_events_are_forgotten(tmp_path: Path) -> None:
    store = DiskStore(tmp_path, slice_us=10)
    add(store, [1, 9, 11])
    assert store.evict("Car", 9) == 0
    assert ids(store.located("Car", 0, 99).batch) == [1, 2]
    assert len(list(tmp_path.rglob("*.parquet"))) == 2
    assert store.evict("Car", 10) == 2
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
    assert not (tmp_path / "type=Car" / "slice=0").exists()


def test_files_elsewhere_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DiskStore(tmp_path, slice_us=10, cell_m=10.0)
    times = np.repeat(np.arange(0, 100, 10), 20)
    x = np.tile(np.arange(0.0, 200.0, 10.0), 10)
    store.add("Car", Batch(times, {"id": pa.array(np.arange(200))}), x, np.zeros(200))
    read: list[Path] = []
    parquet_file = disk_store.pq.ParquetFile
    monkeypatch.setattr(disk_store.pq, "ParquetFile", lambda path: read.append(path) or parquet_file(path))
    assert ids(store.inside("Car", 20, 30, Region(100.0, 0.0, 10.0, 1.0, False))) == [49, 50, 51, 69, 70, 71]
    assert len(read) == 6


def test_many_files_are_merged(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    times = np.random.default_rng(2).integers(0, 9, 100).tolist()
    for number, time in enumerate(times):
        add(store, [time], number)
        assert len(list(tmp_path.rglob("*.parquet"))) <= disk_store.MOST_FILES
    expected = sorted(range(100), key=lambda number: times[number])
    for one in (store, DiskStore(tmp_path)):
        assert ids(one.located("Car", 0, 9).batch) == expected


@pytest.mark.parametrize("deleted", [0, 1, 16])
def test_a_merge_that_is_cut_short_doubles_nothing(
    deleted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The merged file is there, and some of its parts still are."""
    store = DiskStore(tmp_path)
    unlink, left = Path.unlink, deleted

    def until_killed(path: Path, missing_ok: bool = False) -> None:
        nonlocal left
        if left == 0:
            raise Killed
        left -= 1
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", until_killed)
    for number in range(disk_store.MOST_FILES):
        add(store, [number], number)
    with pytest.raises(Killed):
        add(store, [number + 1], number + 1)
    monkeypatch.undo()
    assert ids(DiskStore(tmp_path).located("Car", 0, 99).batch) == list(range(disk_store.MOST_FILES + 1))
    assert len(list(tmp_path.rglob("*.parquet"))) == 1


def test_names_of_types_may_be_anything(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    store.add("mean/speed=%@Near", Batch(np.array([1]), {"id": pa.array([7])}), np.zeros(1), np.zeros(1))
    assert ids(DiskStore(tmp_path).located("mean/speed=%@Near", 0, 9).batch) == [7]


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text('{"answer": 42}')
    with pytest.raises(StateError, match="does not describe an event store"):
        DiskStore(tmp_path)


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
    assert store._segments["Car"][0].allocated == 1000
    assert store.evict("Car", 600) == 200
    assert store._segments["Car"][0].allocated == 400
    assert times_of(store).tolist() == list(range(600, 1000))
