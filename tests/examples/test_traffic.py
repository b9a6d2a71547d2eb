"""The traffic example finds what plain loops over the same rows find; they share no code with situ."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from math import hypot
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd
import pyarrow.parquet as pq
import pytest

import situ

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRAFFIC = Path(__file__).parents[2] / "examples" / "traffic"
QUERY = (TRAFFIC / "traffic.situ").read_text(encoding="utf-8")

Found = dict[str, pd.DataFrame]


class Braking(NamedTuple):
    time: float
    vehicle: str
    lane: str
    x: float
    y: float
    drop: float


class LaneChange(NamedTuple):
    time: float
    vehicle: str
    lane: str
    into: str
    x: float
    y: float


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """As doubles, which is what the stream declares: the file has floats."""
    table = pd.read_parquet(TRAFFIC / "vehicles.parquet")
    return table.astype(dict.fromkeys(("time_s", "x", "y", "speed"), "float64")).sort_values(["vehicle", "time_s"])


@pytest.fixture(scope="module")
def found() -> Found:
    """What the embedded engine finds, with the time in seconds."""
    outputs = list(situ.Engine(QUERY).run({"Vehicle": pq.read_table(TRAFFIC / "vehicles.parquet")}))
    return {
        name: in_seconds(pd.concat([output.complex_events[name].to_pandas() for output in outputs]))
        for name in ("HardBraking", "Queue", "Accident")
    }


def in_seconds(table: pd.DataFrame) -> pd.DataFrame:
    times = pd.to_datetime(table["_time"], utc=True)
    return table.assign(_time=(times - pd.Timestamp(0, tz="UTC")).dt.total_seconds())


def brakings(rows: pd.DataFrame) -> list[Braking]:
    """The first loss of more than 8 m/s in 2 s, then on behind it, in order of time and vehicle."""
    result = []
    for vehicle, track in rows.groupby("vehicle"):
        steps = list(track[["time_s", "speed", "lane", "x", "y"]].itertuples(index=False))
        begin = 0
        while begin < len(steps):
            fast = steps[begin]
            soon = [i for i in range(begin + 1, min(begin + 4, len(steps))) if steps[i].time_s <= fast.time_s + 2]
            end = next((i for i in soon if steps[i].speed < fast.speed - 8), None)
            if end is not None:
                slow = steps[end]
                result.append(Braking(slow.time_s, vehicle, slow.lane, slow.x, slow.y, fast.speed - slow.speed))
            begin = begin + 1 if end is None else end + 1
    return sorted(result)


def lane_changes(rows: pd.DataFrame) -> list[LaneChange]:
    """Another lane of the same road, one second later, outside of junctions."""
    result = []
    for vehicle, track in rows.groupby("vehicle"):
        for before, after in pairwise(track[["time_s", "lane", "x", "y"]].itertuples(index=False)):
            same_road = before.lane.rpartition("_")[0] == after.lane.rpartition("_")[0]
            if same_road and before.lane != after.lane and before.lane[0] != ":" and after.time_s - before.time_s <= 1:
                result.append(LaneChange(after.time_s, vehicle, before.lane, after.lane, after.x, after.y))
    return sorted(result)


def hard_brakings(rows: pd.DataFrame) -> set[tuple[str, float, str, float]]:
    """Vehicle, time, lane and drop of those that are not below 3 m/s in the five seconds after braking."""
    slow = {(row.vehicle, row.time_s) for row in rows[rows["speed"] < 3].itertuples()}
    return {
        (braking.vehicle, braking.time + 5, braking.lane, braking.drop)
        for braking in brakings(rows)
        if not any((braking.vehicle, braking.time + second) in slow for second in range(1, 6))
    }


def queues(rows: pd.DataFrame) -> set[tuple[str, float]]:
    """Lane and end, in seconds, of three minutes in a row with more than 5 x 60 rows that stand; each minute once."""
    still = rows[(rows["speed"] < 0.5) & ~rows["lane"].str.startswith(":")]
    counts = still.groupby(["lane", still["time_s"] // 60]).size()
    crowded = set(counts[counts > 5 * 60].index)
    found, taken = set(), set()
    for lane, minute in sorted(crowded):
        three = {(lane, minute + i) for i in range(3)}
        if three <= crowded and not three & taken:
            found.add((lane, (minute + 3) * 60))
            taken |= three
    return found


def near(one: Braking | LaneChange, other: Braking | LaneChange) -> bool:
    return hypot(one.x - other.x, one.y - other.y) < 50


def slowdowns(rows: pd.DataFrame) -> dict[str, list[tuple[Braking, Braking, Braking]]]:
    """For each lane, three vehicles that brake one after the other; the next three begin behind them."""
    by_lane = defaultdict(list)
    for braking in brakings(rows):
        by_lane[braking.lane].append(braking)
    result = defaultdict(list)
    for lane, events in by_lane.items():
        begin = 0
        while begin < len(events):
            three = three_from(events, begin)
            if three is not None:
                result[lane].append(tuple(events[i] for i in three))
            begin = begin + 1 if three is None else three[-1] + 1
    return result


def three_from(events: list[Braking], begin: int) -> tuple[int, int, int] | None:
    one = events[begin]
    later = range(begin + 1, len(events))
    second = next((i for i in later if events[i].vehicle != one.vehicle and near(one, events[i])), None)
    if second is None:
        return None
    two, others = events[second], {one.vehicle, events[second].vehicle}
    later = range(second + 1, len(events))
    third = next((i for i in later if events[i].vehicle not in others and near(two, events[i])), None)
    if third is None or events[third].time - one.time > 30:
        return None
    return begin, second, third


def accidents(rows: pd.DataFrame) -> set[tuple[str, float, tuple[str, ...], str]]:
    """Lane, time, the vehicles that brake, and the other one that leaves the lane near the third of them.

    At one time, a LaneChange comes before a Slowdown: both are made of complex events, and L is before S.
    """
    changes = lane_changes(rows)
    found = set()
    for lane, triples in slowdowns(rows).items():
        free_from = float("-inf")
        for three in triples:
            last, vehicles = three[-1], tuple(braking.vehicle for braking in three)
            leaving = (c for c in changes if c.lane == lane and c.time > last.time and c.vehicle not in vehicles)
            other = next((change for change in leaving if near(change, last)), None)
            if last.time >= free_from and other is not None and other.time - last.time <= 30:
                found.add((lane, other.time, vehicles, other.vehicle))
                free_from = other.time
    return found


def check(found: Found, rows: pd.DataFrame) -> None:
    braking = found["HardBraking"]
    expected = hard_brakings(rows)
    assert set(zip(braking["vehicle"], braking["_time"], braking["lane"], braking["drop"], strict=True)) == expected
    assert len(braking) == len(expected) == 299

    queue = found["Queue"]
    assert set(zip(queue["lane"], queue["_time"], strict=True)) == queues(rows)
    assert len(queue) == len(queues(rows)) == 19

    accident = found["Accident"]
    braked = zip(accident["car1"], accident["car2"], accident["car3"], strict=True)
    assert set(zip(accident["lane"], accident["_time"], braked, accident["other"], strict=True)) == accidents(rows)
    assert len(accident) == len(accidents(rows)) == 13


@pytest.mark.storm
def test_the_engine_finds_what_loops_find(found: Found, rows: pd.DataFrame) -> None:
    check(found, rows)


@pytest.mark.slow
def test_every_situation_is_inside_the_map_and_in_its_own_extent(found: Found) -> None:
    for table in found.values():
        assert table["_x_min"].min() >= 0
        assert table["_y_min"].min() >= 0
        assert table["_x_max"].max() <= 2_670
        assert table["_y_max"].max() <= 2_680
        assert table["x"].between(table["_x_min"], table["_x_max"]).all()
        assert table["y"].between(table["_y_min"], table["_y_max"]).all()


@pytest.mark.storm
@pytest.mark.storm
def test_spark_finds_what_loops_find(spark: SparkSession, found: Found, rows: pd.DataFrame) -> None:
    detection = situ.detect(QUERY, {"Vehicle": spark.read.parquet(str(TRAFFIC / "vehicles.parquet"))})
    assert set(detection.names) == set(found)
    distributed = {name: in_seconds(detection[name].toPandas()) for name in detection.names}
    check(distributed, rows)
    for name, table in found.items():
        order = ["_time", "lane"] if name != "HardBraking" else ["_time", "vehicle"]
        one, other = (t.sort_values(order, ignore_index=True) for t in (table, distributed[name]))
        pd.testing.assert_frame_equal(other, one)  # floats to 1e-5 of their size: averages add in another order
