"""The applications of MCEP's first experiments (section 6), on the Ingolstadt trace: who moves, and what is asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from situ.kernel.arrays import F64, I64
from situ.lab.ingolstadt import trace
from situ.mobility.interests import Updates

S = 1_000_000
#: History before a trip that the event store has.
BEFORE_S = 120
#: A consumer's mean speed is above this: most have long waits at lights, in which nothing is switched.
DRIVES_M_PER_S = 7.0
#: Cameras stand so far apart, in both directions, and film a square of this size. The first one stands off the grid of
#: static operator graphs, so that none stands on the border of a region.
CAMERAS_M, FIRST_CAMERA_M = 100.0, 37.0
#: One vehicle in so many is a friend's.
FRIENDS = 20

STREAMS = """
stream Vehicle(time_us int, vehicle string, x double, y double, speed double, edge string, lane int)
  time time_us in us  at (x, y)  key vehicle
stream Frame(time_us int, camera int, x double, y double, vehicle string, friend boolean)
  time time_us in us  at (x, y)  key camera
stream Me(time_us int, id string, x double, y double)
  time time_us in us  at (x, y)  key id
"""

#: A sudden speed drop, followed by many lane changes. Its definitions preserve locality.
ACCIDENT_DEFINITIONS = """
define Drop(vehicle, speed)
  detect   Vehicle as fast then each Vehicle(speed < fast.speed - 4) as slow within 2 s
  assign   vehicle = slow.vehicle, speed = slow.speed
  group by vehicle
define Change(vehicle, lane)
  detect   Vehicle as one then each Vehicle(edge = one.edge and lane != one.lane) as two within 1 s
  assign   vehicle = two.vehicle, lane = two.lane
  group by vehicle
"""
ACCIDENT = f"""{ACCIDENT_DEFINITIONS}
subscribe Asked for Me(id)
  detect   Drop as drop then Change{{3}} as changes within 10 s
  assign   vehicle = drop.vehicle, changes = count(changes)
  after match skip past last
"""

#: A friend's vehicle that is filmed by one camera, and by another. All of it preserves locality.
FRIEND_DEFINITIONS = """
define Seen(vehicle, camera)
  detect   Frame(friend) as frame
  assign   vehicle = frame.vehicle, camera = frame.camera
"""
FRIEND = f"""{FRIEND_DEFINITIONS}
subscribe Asked for Me(id)
  detect   Seen as one then each Seen(vehicle = one.vehicle and camera != one.camera) as two within 10 s
  assign   vehicle = two.vehicle, camera = two.camera
"""


def speeding(count: int) -> str:
    """So many speeds above a limit, one after the other."""
    return f"""
subscribe Asked for Me(id)
  detect   Vehicle(speed > 12){{{count}}} as run within 25 s
  assign   mean = avg(run.speed)
"""


def query(rule: str, edge_m: float, lifetime: str = "lifetime 60 s", update: str = "update basic") -> str:
    return f"{STREAMS}{rule}  around Me square {edge_m:g} m {lifetime} {update}\n"


@dataclass(frozen=True, slots=True)
class ConsumerTrip:
    """A consumer on the way: its location updates, one in a second, and the events of that time and of that before."""

    updates: Updates
    events: dict[str, pa.Table]

    @property
    def begin_us(self) -> int:
        return int(self.updates.times_us[0])


def trips(count: int, seconds: int, rng: np.random.Generator) -> list[ConsumerTrip]:
    """Vehicles at random that are on the way for so long, after the town has filled.

    The trace has all vehicles at whole seconds; here each has a phase of its own, as vehicles do not report in step.
    """
    rows = trace()
    coded = rows["vehicle"].combine_chunks().dictionary_encode()
    number, names = coded.indices.to_numpy(), coded.dictionary.to_pylist()
    times = rows["time_us"].to_numpy() + rng.integers(0, S, len(names))[number]
    x, y = rows["x"].to_numpy(), rows["y"].to_numpy()
    first, updates = np.full(len(names), np.iinfo(np.int64).max), np.bincount(number)
    np.minimum.at(first, number, times)
    speed = rows["speed"].to_numpy()
    drives = np.bincount(number, speed) / updates > DRIVES_M_PER_S
    able = np.flatnonzero((updates > seconds) & (first > 2 * BEFORE_S * S) & drives)
    friends = np.isin(number, rng.choice(len(names), len(names) // FRIENDS, replace=False))
    lanes = pc.split_pattern(rows["lane"], "_", max_splits=1, reverse=True).combine_chunks()
    columns = {
        "time_us": times, "vehicle": rows["vehicle"].combine_chunks(), "x": x, "y": y, "speed": speed,
        "edge": pc.list_element(lanes, 0), "lane": pc.list_element(lanes, 1).cast(pa.int64()),
    }  # fmt: skip
    order = np.argsort(times, kind="stable")
    table = pa.table(columns).take(pa.array(order))
    frames = _frames(times[order], x[order], y[order], table["vehicle"], friends[order], rng)
    consumer_trips = []
    for chosen in rng.choice(able, count, replace=False):
        own = np.flatnonzero(number[order] == chosen)[:seconds]
        mine = order[own]
        me = Updates(pa.array([names[chosen]] * len(mine)), times[mine], x[mine], y[mine])
        begin_us, end_us = int(times[mine[0]]) - BEFORE_S * S, int(times[mine[-1]])
        vehicles, images = (_between(events, begin_us, end_us) for events in (table, frames))
        consumer_trips.append(ConsumerTrip(me, {"Vehicle": vehicles, "Frame": images, "Me": _consumer(me)}))
    return consumer_trips


def _consumer(me: Updates) -> pa.Table:
    return pa.table({"time_us": me.times_us, "id": me.consumer, "x": me.x, "y": me.y})


def _between(table: pa.Table, begin_us: int, end_us: int) -> pa.Table:
    times = table["time_us"].to_numpy()
    first, end = np.searchsorted(times, begin_us, side="left"), np.searchsorted(times, end_us, side="right")
    return table.slice(first, end - first)


def _frames(
    times: I64, x: F64, y: F64, vehicles: pa.ChunkedArray, friends: np.ndarray, rng: np.random.Generator
) -> pa.Table:
    """Every camera films once in a second, nothing or the vehicles in its square: a frame is one event for each of
    them, at the camera's place."""
    columns, lines = int(np.ceil(x.max() / CAMERAS_M)), int(np.ceil(y.max() / CAMERAS_M))
    camera = np.minimum(x // CAMERAS_M, columns - 1) * lines + np.minimum(y // CAMERAS_M, lines - 1)
    camera = camera.astype(np.int64)
    phase = rng.integers(0, S, columns * lines)
    second = times // S
    seen = second * S + phase[camera]
    filmed = np.zeros((int(second.max()) + 1, columns * lines), np.bool_)
    filmed[second, camera] = True
    empty_second, empty_camera = np.nonzero(~filmed)
    number = np.concatenate([camera, empty_camera])
    time_us = np.concatenate([seen, empty_second * S + phase[empty_camera]])
    frames = pa.table(
        {
            "time_us": time_us,
            "camera": number,
            "x": number // lines * CAMERAS_M + FIRST_CAMERA_M,
            "y": number % lines * CAMERAS_M + FIRST_CAMERA_M,
            "vehicle": pa.concat_arrays([vehicles.combine_chunks(), pa.nulls(len(empty_camera), pa.string())]),
            "friend": np.concatenate([friends, np.zeros(len(empty_camera), np.bool_)]),
        }
    )
    return frames.take(pa.array(np.argsort(time_us, kind="stable")))
