"""What it costs that consumers move: the CPU time of the embedded engine, fed second by second.

Consumers go round in circles, say every second where they are, and switch every 10 s, a tenth of them in each second.
Beside them, the same consumers say where they are once, so that all that differs is the switching. Vehicles are those
of the Ingolstadt trace, and there is no lifetime.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from situ.bench.sections import Say
from situ.bench.suite import Bar, BenchFigure
from situ.lab.ingolstadt import trace
from situ.runtime.embedded import Engine

#: The seconds of the trace that are measured, after some that are not.
FIRST_S, WARM_UP_S, MEASURED_S = 600, 20, 40
SWITCH_S = 10
#: A consumer's way: a circle of so many metres, at 10 m/s.
RADIUS_M, SPEED_M_PER_S = 100.0, 10.0
FEW, MANY = 1_000, 5_000
SEED = 1
REPEATS = 3


@dataclass(frozen=True, slots=True)
class Crowd:
    """So many consumers, who move or stand still."""

    count: int
    moves: bool

    def updates(self) -> list[pa.Table]:
        """The location updates of every second. A row without a place, which nobody heeds, tells the time."""
        rows, random = trace(), np.random.default_rng(SEED)
        middle = random.integers(0, rows.num_rows, self.count)
        begin = random.uniform(0, 2 * np.pi, self.count)
        x, y = (rows[name].to_numpy()[middle] for name in ("x", "y"))
        names = np.array([f"consumer {number}" for number in range(self.count)])
        first_s = np.arange(self.count) % SWITCH_S
        tables = []
        for second in range(WARM_UP_S + MEASURED_S):
            who = np.flatnonzero(first_s <= second if self.moves else first_s == second)
            angle = begin[who] + second * SPEED_M_PER_S / RADIUS_M
            columns = {
                "time_us": np.full(len(who) + 1, (FIRST_S + second) * 1_000_000),
                "vehicle": np.append(names[who], "nobody"),
                "x": np.append(x[who] + RADIUS_M * np.cos(angle), np.nan),
                "y": np.append(y[who] + RADIUS_M * np.sin(angle), np.nan),
            }
            tables.append(pa.table(columns))
        return tables


def vehicles() -> list[pa.Table]:
    """The vehicles of every second."""
    rows = trace()
    times_us = (FIRST_S + np.arange(WARM_UP_S + MEASURED_S + 1)) * 1_000_000
    bounds = np.searchsorted(rows["time_us"].to_numpy(), times_us)
    return [rows.slice(begin, end - begin) for begin, end in pairwise(bounds)]


def cpu_ms_per_s(query: str, crowds: dict[str, Crowd], repeats: int = REPEATS) -> dict[str, float]:
    """Milliseconds of CPU time for a second of stream, by crowd.

    All crowds take turns in every second, and of each second the fastest repetition counts, so that a machine that is
    busy for a while is so for all of them.
    """
    events = vehicles()
    updates = {name: crowd.updates() for name, crowd in crowds.items()}
    fastest = {name: np.full(WARM_UP_S + MEASURED_S, np.inf) for name in crowds}
    for _ in range(repeats):
        engines = {name: Engine(query) for name in crowds}
        for second, rows in enumerate(events):
            for name, engine in engines.items():
                begun = time.process_time()
                engine.feed(rows, "Vehicle")
                engine.feed(updates[name][second], "Driver")
                fastest[name][second] = min(fastest[name][second], time.process_time() - begun)
    return {name: 1000 * float(seconds[WARM_UP_S:].mean()) for name, seconds in fastest.items()}


def switching_figures(query: str, say: Say) -> Iterator[BenchFigure]:
    """Consumers who switch beside those who do not, and many of them beside few, for each consumer."""
    say(f"switching: {FEW:,} and {MANY:,} consumers, second by second")
    crowds = {"still": Crowd(FEW, False), "few": Crowd(FEW, True), "many": Crowd(MANY, True)}
    cpu_ms = cpu_ms_per_s(query, crowds)
    still, few, many = cpu_ms["still"], cpu_ms["few"], cpu_ms["many"]
    detail = f"CPU for a second of stream: {few:.1f} ms, {still:.1f} ms if nobody moves"
    name = f"{FEW:,} consumers who switch every {SWITCH_S} s"
    yield BenchFigure(name, round(few / still, 2), "x standing still", detail, cpu_ms, Bar("at most", 2))
    detail = f"CPU for a second of stream: {many:.1f} ms for {MANY:,}, {few:.1f} ms for {FEW:,}"
    ratio = round(many / few * FEW / MANY, 2)
    yield BenchFigure(f"{MANY:,} such consumers, each", ratio, f"x one of {FEW:,}", detail, cpu_ms, Bar("at most", 1.2))
