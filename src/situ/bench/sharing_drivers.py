"""What the benchmarks of reuse run on: two traces, some of whose vehicles are drivers who ask, and their queries.

Drivers ask for jams around them: the average speed over 30 events, or over windows, of 500 m squares, with a new square
every 10 s. Next to nothing is delivered, so that detection is what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from situ.bench.mobility import drivers
from situ.lab import ingolstadt, rings

Tables: TypeAlias = dict[str, pa.Table]

TRACES: Mapping[str, Callable[[], pa.Table]] = {"Ingolstadt": ingolstadt.trace, "town of rings": rings.trace}
THRESHOLD = 0.7
#: Of a trace, the seconds that a stream has, and those of them that are not measured.
FED_FROM_S, FED_S, WARM_S = 500, 80, 20

_STREAMS = """
stream Vehicle(time_us int, vehicle string, x double, y double, speed double)
  time time_us in us  order vehicle  at (x, y)
stream Driver(time_us int, vehicle string, x double, y double)
  time time_us in us  order vehicle  at (x, y)
"""
_AROUND = """
  around   Driver square 500 m
  update   every 10 s
"""
COUNTING = f"""{_STREAMS}
define Mean(speed)
  detect   Vehicle{{30}} as run within 25 s
  assign   speed = avg(run.speed)
subscribe Jam for Driver(vehicle)
  detect   Mean(speed < 0.5) as slow
  assign   speed = slow.speed {_AROUND}
"""
WINDOWS = f"""{_STREAMS}
define Mean(speed)
  aggr every 10 s
  detect   Vehicle as cars
  assign   speed = avg(cars.speed)
subscribe Jam for Driver(vehicle)
  detect   Mean(speed < 0.5) as slow
  assign   speed = slow.speed {_AROUND}
"""
QUALITY = f"  quality precision {THRESHOLD} recall {THRESHOLD}\n"
#: So good that hardly any region serves another one's interest.
STRICT = "  quality precision 0.98 recall 0.98\n"
#: Something is found in nearly every span, so that there is nearly always a figure to be judged.
TOLD = f"""{_STREAMS}
subscribe Cars for Driver(vehicle)
  aggr every 10 s
  detect   Vehicle as cars
  assign   cars = count(cars) {_AROUND}
  leave    after 30 s
{QUALITY}
subscribe Slow for Driver(vehicle)
  detect   Vehicle(speed < 3) as slow then Vehicle as later within 5 s
  assign   begin = slow.time_us
  group by vehicle {_AROUND}
  leave    after 30 s
{QUALITY}
"""


def tables_of(trace: str, number: int) -> Tables:
    """Location updates of some vehicles of a trace, and all vehicles."""
    rows = TRACES[trace]()
    return {"Driver": drivers(number, rows), "Vehicle": rows}


def between(tables: Tables, since_s: int, until_s: int) -> Tables:
    """The rows, which are by time, from one second on, and before another one."""
    parts = {}
    for name, table in tables.items():
        first, end = np.searchsorted(table["time_us"].to_numpy(), [since_s * 1_000_000, until_s * 1_000_000])
        parts[name] = table.slice(first, end - first)
    return parts


def second_by_second(tables: Tables, seconds: int = 1) -> Iterator[Tables]:
    """Rows, which are by time, in pieces of so many seconds, without those in which there are none."""
    times_us = np.concatenate([table["time_us"].to_numpy() for table in tables.values()])
    for number in np.unique(times_us // (seconds * 1_000_000)).tolist():
        yield between(tables, number * seconds, (number + 1) * seconds)
