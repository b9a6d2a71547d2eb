"""What happened, as the tables and the maps need it: where cars were, what drivers asked for, what they were told.

Times are whole seconds since the start of the trace, places are metres.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import atan2, hypot, pi
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from situ.lang.parse import parse
from situ.mobility.interests import Updates, interests_of

QUERY = (Path(__file__).resolve().parent / "wave.situ").read_text(encoding="utf-8")
(SUBSCRIPTION,) = parse(QUERY).subscriptions
SQUARE_M = SUBSCRIPTION.around.sizes_m[0]
LIFETIME_S = SUBSCRIPTION.lifetime_us // 1_000_000
CARS = ["car1", "car2", "car3"]


@dataclass(frozen=True, slots=True)
class Tracks:
    """A row for each car and second, car by car: those of car i begin at row `begins[i]`, at second `first_s[i]`."""

    names: list[str]
    begins: np.ndarray
    first_s: np.ndarray
    x: np.ndarray
    y: np.ndarray
    braking: np.ndarray

    def last_s(self, car: int) -> int:
        return int(self.first_s[car] + self.begins[car + 1] - self.begins[car] - 1)

    def rows_at(self, second: int) -> np.ndarray:
        """The rows of the cars that drive at a second."""
        rows = self.begins[:-1] + second - self.first_s
        return rows[(rows >= self.begins[:-1]) & (rows < self.begins[1:])]

    def place(self, car: int, second: int) -> tuple[float, float]:
        row = self.begins[car] + second - self.first_s[car]
        return float(self.x[row]), float(self.y[row])


@dataclass(frozen=True, slots=True)
class Interest:
    """The square around (x, y), from `start_s` until the driver switches, or arrives."""

    start_s: int
    end_s: int
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Driver:
    """Interest number n of the query is `interests[n - 1]`."""

    car: int
    interests: list[Interest]

    def drives(self, second: int) -> bool:
        return self.interests[0].start_s <= second <= self.interests[-1].end_s

    def interest_at(self, second: int) -> int:
        """The index of the interest that began last."""
        return sum(interest.start_s <= second for interest in self.interests) - 1


@dataclass(frozen=True, slots=True)
class Wave:
    """Three cars have braked; `second` is when the third did, (x, y) the middle of the three."""

    second: int
    road: str
    x: float
    y: float
    cars: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """A driver learns of a wave for an interest: when the wave happens, or when the interest begins after it."""

    driver: int
    interest: int
    wave: int
    second: int
    first: bool


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that a map shows. `too_late` counts what came for drivers who had arrived before."""

    tracks: Tracks
    drivers: list[Driver]
    waves: list[Wave]
    told: list[Told]
    too_late: int


def scene_of(vehicles: pa.Table, drivers: pa.Table, found: pd.DataFrame) -> Scene:
    """`found` are the complex events of NearbyWave."""
    tracks = tracks_of(vehicles)
    cars = {name: car for car, name in enumerate(tracks.names)}
    asking = drivers_of(drivers, tracks, cars)
    numbers = {tracks.names[driver.car]: number for number, driver in enumerate(asking)}
    seconds = (pd.to_datetime(found["_time"], utc=True) - pd.Timestamp(0, tz="UTC")).dt.total_seconds().astype(int)
    # `itertuples` has no names that begin with _
    found = found.assign(second=seconds).rename(columns=lambda name: name.removeprefix("_"))
    found = found.sort_values(["second", *CARS, "consumer", "interest"])
    waves, told, known, too_late = list[Wave](), list[Told](), set[tuple[int, int]](), 0
    for row in found.itertuples(index=False):
        wave = wave_of(row, cars)
        if not waves or waves[-1] != wave:
            waves.append(wave)
        number = numbers[row.consumer]
        second = max(wave.second, asking[number].interests[row.interest - 1].start_s)
        if not asking[number].drives(second):
            too_late += 1
            continue
        pair = number, len(waves) - 1
        told.append(Told(number, row.interest - 1, pair[1], second, pair not in known))
        known.add(pair)
    return Scene(tracks, asking, waves, sorted(told, key=lambda one: (one.second, one.wave, one.driver)), too_late)


def wave_of(row: tuple, cars: dict[str, int]) -> Wave:
    """The middle of its extent is where the wave is."""
    x, y = (row.x_min + row.x_max) / 2, (row.y_min + row.y_max) / 2
    return Wave(row.second, row.road, x, y, tuple(cars[name] for name in (row.car1, row.car2, row.car3)))


def tracks_of(vehicles: pa.Table) -> Tracks:
    rows = vehicles.sort_by([("vehicle", "ascending"), ("time_s", "ascending")])
    names, counts = np.unique(rows["vehicle"].to_numpy(), return_counts=True)
    begins = np.concatenate([[0], np.cumsum(counts)])
    seconds = rows["time_s"].to_numpy().astype(int)
    x, y, acceleration = (rows[name].to_numpy().astype(float) for name in ("x", "y", "acceleration"))
    return Tracks(names.tolist(), begins, seconds[begins[:-1]], x, y, acceleration < -4)


def drivers_of(drivers: pa.Table, tracks: Tracks, cars: dict[str, int]) -> list[Driver]:
    """With the interests that situ makes of their location updates, by the query's update condition."""
    times_us = pc.cast(pc.multiply(drivers["time_s"].cast(pa.float64()), 1e6), pa.int64()).to_numpy()
    x, y = (drivers[name].to_numpy().astype(float) for name in ("x", "y"))
    consumers = drivers["vehicle"].combine_chunks()
    found = interests_of(Updates(consumers, times_us, x, y), SUBSCRIPTION.update)
    by_driver: dict[int, list[Interest]] = {}
    columns = found.consumer.to_pylist(), found.start_us // 1_000_000, found.end_us // 1_000_000, found.x, found.y
    for name, start, end, middle_x, middle_y in zip(*columns, strict=True):
        end_s = min(int(end), tracks.last_s(cars[name]))
        interest = Interest(int(start), end_s, float(middle_x), float(middle_y))
        by_driver.setdefault(cars[name], []).append(interest)
    return [Driver(car, interests) for car, interests in by_driver.items()]


# --- a story


@dataclass(frozen=True, slots=True)
class Story:
    """A driver is told of a wave that was over, and comes by its place afterwards."""

    told: Told
    metres: float
    direction: str
    passes_s: int


def story_of(scene: Scene) -> Story | None:
    """Of those who are told of a wave 20 s old or older, and come by within a minute, the one with the most notice."""
    old = [told for told in scene.told if told.first and told.second >= scene.waves[told.wave].second + 20]
    stories = [story for told in old if (story := _story(scene, told)) is not None]
    return max(stories, key=lambda story: story.passes_s - story.told.second, default=None)


def _story(scene: Scene, told: Told) -> Story | None:
    """If the driver comes within 30 m of the place."""
    car, wave = scene.drivers[told.driver].car, scene.waves[told.wave]
    for second in range(told.second, min(told.second + 60, scene.tracks.last_s(car)) + 1):
        x, y = scene.tracks.place(car, second)
        if hypot(wave.x - x, wave.y - y) < 30:
            x, y = scene.tracks.place(car, told.second)
            return Story(told, hypot(wave.x - x, wave.y - y), direction(wave.x - x, wave.y - y), second)
    return None


def direction(dx: float, dy: float) -> str:
    """Where something is that lies so far to the east and to the north.

    >>> direction(0, 5), direction(-3, -3)
    ('north', 'south-west')
    """
    winds = ("east", "north-east", "north", "north-west", "west", "south-west", "south", "south-east")
    return winds[round(atan2(dy, dx) / (pi / 4)) % 8]
