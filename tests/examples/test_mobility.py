"""The mobility example delivers what plain loops over the same rows deliver, and its page shows just that.

The loops share no code with situ. Spark runs once, in the demo.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from math import hypot, inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from PIL import Image

import situ
from examples.scripts import run_demo, script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "mobility"
QUERY = (EXAMPLE / "wave.situ").read_text(encoding="utf-8")
VEHICLES = EXAMPLE.parent / "traffic" / "vehicles.parquet"

Delivered = tuple[str, int, float, str, str, str, str]


example = partial(script, "mobility")


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """As doubles, which is what the stream declares: the file has floats."""
    table = pd.read_parquet(VEHICLES)
    numbers = ("time_s", "x", "y", "speed", "acceleration")
    return table.astype(dict.fromkeys(numbers, "float64")).sort_values(["time_s", "vehicle"])


@pytest.fixture(scope="module")
def found() -> pd.DataFrame:
    """What the embedded engine delivers, in its order."""
    vehicles = pq.read_table(VEHICLES)
    streams = {"Vehicle": vehicles, "Driver": example("drivers").every_tenth(vehicles)}
    return pd.concat([output.complex_events["NearbyWave"].to_pandas() for output in situ.Engine(QUERY).run(streams)])


@pytest.fixture(scope="module")
def scene(found: pd.DataFrame) -> Any:
    vehicles = pq.read_table(VEHICLES)
    return example("scene").scene_of(vehicles, example("drivers").every_tenth(vehicles), found)


def seconds(times: pd.Series) -> pd.Series:
    return (pd.to_datetime(times, utc=True) - pd.Timestamp(0, tz="UTC")).dt.total_seconds()


def delivered(table: pd.DataFrame) -> list[Delivered]:
    columns = (table[name] for name in ("consumer", "interest"))
    cars = (table[name] for name in ("road", "car1", "car2", "car3"))
    return list(zip(*columns, seconds(table["_time"]), *cars, strict=True))


# --- by plain loops


class Braking(NamedTuple):
    time: float
    vehicle: str
    road: str
    x: float
    y: float


class Interest(NamedTuple):
    driver: str
    number: int
    start: float
    end: float
    x: float
    y: float


def interests(rows: pd.DataFrame) -> Iterator[Interest]:
    """Of every tenth vehicle in order of departure: a new one after ten seconds or more, if it has moved."""
    departures = list(dict.fromkeys(rows["vehicle"]))
    for driver, track in rows[rows["vehicle"].isin(departures[9::10])].groupby("vehicle"):
        begun = [next(track.itertuples())]
        for row in track.itertuples():
            last = begun[-1]
            if row.time_s - last.time_s >= 10 and (row.x, row.y) != (last.x, last.y):
                begun.append(row)
        ends = [row.time_s for row in begun[1:]] + [inf]
        for number, (row, end) in enumerate(zip(begun, ends, strict=True), 1):
            yield Interest(driver, number, row.time_s, end, row.x, row.y)


def brakings(hard: list[Any]) -> list[Braking]:
    """Two rows of a vehicle, a second apart; each row counts once. The rows are by vehicle and time."""
    result, last = [], None
    for row in hard:
        if last is not None and row.vehicle == last.vehicle and row.time_s - last.time_s <= 1:
            result.append(Braking(row.time_s, row.vehicle, row.lane[:-2], row.x, row.y))
            last = None
        else:
            last = row
    return sorted(result)


def near(one: Braking, other: Braking) -> bool:
    return hypot(one.x - other.x, one.y - other.y) < 50


def wave_from(events: list[Braking], begin: int) -> tuple[int, int, int] | None:
    one = events[begin]
    later = range(begin + 1, len(events))
    second = next((i for i in later if events[i].vehicle != one.vehicle and near(one, events[i])), None)
    if second is None:
        return None
    two, cars = events[second], {one.vehicle, events[second].vehicle}
    later = range(second + 1, len(events))
    third = next((i for i in later if events[i].vehicle not in cars and near(two, events[i])), None)
    return None if third is None or events[third].time - one.time > 10 else (begin, second, third)


def waves(events: list[Braking]) -> Iterator[tuple[Braking, ...]]:
    """On each road, one after the other: the next one begins behind the last car of this one."""
    by_road = defaultdict(list)
    for event in events:
        by_road[event.road].append(event)
    for own in by_road.values():
        begin = 0
        while begin < len(own):
            three = wave_from(own, begin)
            if three is not None:
                yield tuple(own[i] for i in three)
            begin = begin + 1 if three is None else three[-1] + 1


def deliveries(rows: pd.DataFrame) -> set[Delivered]:
    """For each interest: waves among the rows in its square, of the last minute when it begins, until it ends."""
    hard = rows[rows["acceleration"] < -4].sort_values(["vehicle", "time_s"])
    x, y, time = (hard[name].to_numpy() for name in ("x", "y", "time_s"))
    events = list(hard.itertuples())
    result = set()
    for interest in interests(rows):
        inside = (abs(x - interest.x) <= 250) & (abs(y - interest.y) <= 250)
        inside &= (time >= interest.start - 60 - 10 - 1) & (time <= interest.end)
        read = [events[i] for i in np.flatnonzero(inside)]
        for one, two, three in waves(brakings(read)):
            if interest.start - 60 <= three.time <= interest.end:
                cars = one.vehicle, two.vehicle, three.vehicle
                result.add((interest.driver, interest.number, three.time, three.road, *cars))
    return result


@pytest.mark.slow
def test_drivers_are_told_what_loops_find(found: pd.DataFrame, rows: pd.DataFrame) -> None:
    assert len(found) == 1_127
    assert set(delivered(found)) == deliveries(rows)


@pytest.mark.slow
def test_for_each_driver_all_of_a_square_comes_before_the_next_and_by_time(found: pd.DataFrame) -> None:
    for _, own in found.groupby("consumer", sort=False):
        order = list(zip(own["interest"], own["_time"], strict=True))
        assert order == sorted(order)


@pytest.mark.slow
def test_no_wave_has_cars_outside_of_the_square(found: pd.DataFrame, rows: pd.DataFrame) -> None:
    squares = {(interest.driver, interest.number): interest for interest in interests(rows)}
    for row in found.rename(columns=lambda name: name.removeprefix("_")).itertuples():
        square = squares[row.consumer, row.interest]
        assert square.x - 250 <= row.x_min <= row.x_max <= square.x + 250
        assert square.y - 250 <= row.y_min <= row.y_max <= square.y + 250


@pytest.mark.slow
def test_the_figures_of_the_readme(scene: Any, found: pd.DataFrame) -> None:
    """The town's waves are those of the same query without what makes it move."""
    plain = QUERY.replace(" for Driver(vehicle)", "").split("  around")[0]
    streams = {"Vehicle": pq.read_table(VEHICLES), "Driver": example("drivers").every_tenth(pq.read_table(VEHICLES))}
    outputs = [output.complex_events["NearbyWave"].to_pandas() for output in situ.Engine(plain).run(streams)]
    cars = ["_time", "car1", "car2", "car3"]
    town = {tuple(row) for row in pd.concat(outputs)[cars].itertuples(index=False)}
    names = scene.tracks.names
    told = {scene.waves[one.wave] for one in scene.told}
    known = {(pd.Timestamp(w.second, unit="s", tz="UTC"), *(names[car] for car in w.cars)) for w in told}
    firsts = [one for one in scene.told if one.first]
    over = [one for one in firsts if one.second > scene.waves[one.wave].second]
    assert (len(found), len(firsts), len(over), scene.too_late) == (1_127, 302, 131, 145)
    assert (len(town), len(known & town), len(known - town)) == (57, 56, 7)


# --- what people see


class Page(HTMLParser):
    """What a page would load, and its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.scripts: dict[str, str] = {}
        self._script: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.loads += [f"{tag} {name}" for name in ("src", "href", "data", "srcset", "action") if name in given]
        self._script = (given.get("id") or "program") if tag == "script" else None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._script = None


@pytest.fixture(scope="module")
def page(scene: Any) -> Page:
    text = example("map_page").page_of(scene)
    assert len(text) < 5_000_000
    assert not re.search(r"https?://|@import|url\(|fetch\(|XMLHttpRequest|import\(", text)
    return Page(text)


@pytest.mark.slow
def test_the_page_loads_nothing(page: Page) -> None:
    assert page.loads == []
    assert set(page.scripts) == {"data", "program"}


@pytest.mark.slow
def test_the_page_has_every_car_where_it_was(page: Page, rows: pd.DataFrame) -> None:
    data = json.loads(page.scripts["data"])
    places = np.frombuffer(b64decode(data["places"]), "<i2").reshape(-1, 2) / 10
    braking = np.unpackbits(np.frombuffer(b64decode(data["braking"]), np.uint8), bitorder="little")
    in_order = rows.sort_values(["vehicle", "time_s"])
    assert np.abs(places - in_order[["x", "y"]].to_numpy()).max() < 0.0501
    assert (braking[: len(rows)] == (in_order["acceleration"] < -4)).all()
    counts = np.diff(data["begins"])
    cars = np.repeat(data["cars"], counts)
    times = np.concatenate([first + np.arange(n) for first, n in zip(data["first"], counts, strict=True)])
    assert (cars == in_order["vehicle"]).all()
    assert (times == in_order["time_s"]).all()


@pytest.mark.slow
def test_the_page_tells_drivers_what_situ_delivers(page: Page, found: pd.DataFrame, rows: pd.DataFrame) -> None:
    """Nothing is told after a driver has arrived: to situ, who is silent has not moved."""
    data = json.loads(page.scripts["data"])
    cars, last = data["cars"], rows.groupby("vehicle")["time_s"].max()
    told = set()
    for driver, interest, wave, second, _ in data["told"]:
        when, x, y, road, *braked = data["waves"][wave]
        start, middle_x, middle_y = data["interests"][driver][interest]
        assert second == max(when, start)
        assert max(abs(x - middle_x), abs(y - middle_y)) <= 2_500
        told.add((cars[data["drivers"][driver]], interest + 1, float(when), road, *(cars[car] for car in braked)))
    starts = {(interest.driver, interest.number): interest.start for interest in interests(rows)}
    expected = {one for one in delivered(found) if max(one[2], starts[one[:2]]) <= last[one[0]]}
    assert told == expected
    assert len(data["told"]) == len(expected)
    firsts = [(driver, wave) for driver, _, wave, _, first in data["told"] if first]
    assert len(firsts) == len(set(firsts)) == len({(one[0], *one[2:]) for one in expected})


@pytest.mark.slow
def test_where_nothing_is_found_there_are_cars_and_squares_and_no_story(found: pd.DataFrame) -> None:
    vehicles = pq.read_table(VEHICLES)
    quiet = example("scene").scene_of(vehicles, example("drivers").every_tenth(vehicles), found[:0])
    data = json.loads(Page(example("map_page").page_of(quiet)).scripts["data"])
    assert (data["waves"], data["told"], len(data["drivers"])) == ([], [], 141)
    assert example("picture").busiest(quiet, 6) == 0
    assert example("picture").picture(quiet, 600, 200).width == 200
    assert example("scene").story_of(quiet) is None


@pytest.mark.slow
def test_the_story_is_true(scene: Any, rows: pd.DataFrame) -> None:
    story = example("scene").story_of(scene)
    driver = scene.tracks.names[scene.drivers[story.told.driver].car]
    wave = scene.waves[story.told.wave]
    track = rows[rows["vehicle"] == driver].set_index("time_s")
    away = np.hypot(track["x"] - wave.x, track["y"] - wave.y)
    assert wave.second + 20 <= story.told.second < story.passes_s <= story.told.second + 60
    assert away[story.told.second] == pytest.approx(story.metres)
    assert away[story.passes_s] < 30 <= away.loc[story.told.second : story.passes_s - 1].min()


@pytest.mark.slow
def test_the_demo_on_spark_delivers_the_same_and_shows_it(
    spark: SparkSession, tmp_path: Path, found: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    run_demo(example("demo"), tmp_path / "maps", "--limit", "3", "--film", "8", spark=spark)
    printed = capsys.readouterr().out
    on_spark = pd.read_parquet(tmp_path / "maps" / "waves.parquet")
    assert sorted(delivered(on_spark)) == sorted(delivered(found))
    assert "drivers who are told: 98 of 141, of 63 waves" in printed
    assert re.search(r"^ h19054c1:1 +03:20 to 19:04 +50 +12 +1 +38 *$", printed, re.MULTILINE)
    assert "The story of h7178c1:1" in printed
    data = json.loads(Page((tmp_path / "maps" / "map.html").read_text(encoding="utf-8")).scripts["data"])
    assert len(data["drivers"]) == 141
    assert len(data["waves"]) == 64
    with Image.open(tmp_path / "maps" / "map.png") as still:
        assert still.width == 1_100
    with Image.open(tmp_path / "maps" / "map.gif") as film:
        assert film.n_frames == 8
        assert film.info["duration"] == 250
        brake = np.abs(np.asarray(film.convert("RGB")).astype(int) - (255, 90, 79)).sum(axis=2) < 30
    assert brake.any()  # in the legend, at least: its colour survives the palette
