"""RECEP's mobility setup (section 5), on the Ingolstadt trace: what vehicles report, who asks, and for what.

A vehicle reports an event when it begins to accelerate or to brake beyond a threshold, and when it changes lanes. Some
vehicles are consumers. They ask for accidents in a square around them, with an operator graph as in the paper's Figure
1: one operator for changes of speed, one for changes of lanes, and one that reads both. The first two count to three; a
selection has all events of the time in which that must happen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from situ.kernel.arrays import F64, I64
from situ.lab.figure import QUICK, Points, Say, Scale
from situ.lab.ingolstadt import trace
from situ.lab.quality.precision_recall import Mask
from situ.lab.recep.selections import ReuseSettings, Thresholds, reuse

S = 1_000_000
#: With changes of lanes that makes five events a second in all, of 330 vehicles. (The paper: two of 500.) It is hard
#: braking; no vehicle accelerates as much.
BEYOND_M_PER_S2 = 4.0
#: No consumer begins before the town has filled, and events are there from so long before.
FULL_S, BEFORE_S = 400, 60

#: Windows are short beside the time that an interest lasts: each reads anew what they look back on. The paper says
#: neither how often consumers report nor how long windows are.
QUERY = """
stream Speed(time_us int, vehicle string, x double, y double, acceleration double)
  time time_us in us  at (x, y)
stream Lane(time_us int, vehicle string, x double, y double, lane string)
  time time_us in us  at (x, y)
stream Me(time_us int, id string, x double, y double)
  time time_us in us  at (x, y)

define Slowing(acceleration)
  detect   Speed{{3}} as run within 10 s
  assign   acceleration = avg(run.acceleration)
define Swerving(changes)
  detect   Lane{{3}} as run within 20 s
  assign   changes = count(run)
subscribe Accident for Me(id)
  detect   Slowing as slow then Swerving as swerve within 10 s
  assign   acceleration = slow.acceleration, changes = swerve.changes
  around   Me square {side_m:g} m
  update   every 30 s
"""


@dataclass(frozen=True, slots=True)
class RunSetup:
    """One run: so many consumers at random, for so long, with interests of that side, at one threshold of precision and
    recall for all."""

    seed: int
    seconds: int
    cars: int
    side_m: float
    threshold: float
    settings: ReuseSettings


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """What a run did: selections that were processed, and that were covered by others; estimations; and the quality of
    each complex event that was delivered, by its provenance."""

    processed: int
    covered: int
    estimations: int
    precision: F64
    recall: F64
    disparity: F64

    @property
    def quality(self) -> F64:
        """The mean of precision and recall."""
        mean: F64 = (self.precision + self.recall) / 2
        return mean


@cache
def measured(run: RunSetup) -> MeasuredRun:
    """Several figures look at the same runs."""
    query = QUERY.format(side_m=run.side_m)
    thresholds = Thresholds(run.threshold, run.threshold)
    reused = reuse(query, "Accident", tables(run.seed, run.seconds, run.cars), run.settings, thresholds)
    counts = reused.counts.values()
    precision, recall, disparity = (reused.delivered[name].to_numpy() for name in ("precision", "recall", "disparity"))
    processed, covered, estimations = (
        sum(getattr(one, name) for one in counts) for name in ("processed", "covered", "estimations")
    )
    return MeasuredRun(processed, covered, estimations, precision, recall, disparity)


def processed_share(run: RunSetup) -> float:
    """Selections processed, relative to the same run without reuse."""
    alone = measured(replace(run, threshold=1.0, settings=ReuseSettings("none")))
    return measured(run).processed / alone.processed


def crowded(run: RunSetup) -> float:
    """The share of consumers with another one in their interest, on average over a run.

    >>> crowded(RunSetup(1, 30, 5, 5000.0, 0.5, ReuseSettings("mqc")))
    1.0
    """
    me = tables(run.seed, run.seconds, run.cars)["Me"]
    x, y = (me[name].to_numpy().reshape(-1, run.cars) for name in ("x", "y"))  # each reports once in a second
    away = np.maximum(np.abs(x[:, :, None] - x[:, None, :]), np.abs(y[:, :, None] - y[:, None, :]))
    return float((np.sum(away <= run.side_m / 2, axis=2) > 1).mean())


# ---- events and consumers


@cache
def tables(seed: int, seconds: int, cars: int) -> dict[str, pa.Table]:
    """The events of a time that is drawn, and the updates of vehicles that are on the way all of it, one in a second.

    >>> made = tables(1, 30, 5)
    >>> made["Me"].num_rows, [name for name in made]
    (150, ['Speed', 'Lane', 'Me'])
    """
    rng = np.random.default_rng(seed)
    rows, number, time_us, speeds, lanes = _reports(seed)
    begin_us = int(rng.integers(FULL_S, int(time_us.max()) // S - seconds)) * S
    end_us = begin_us + seconds * S
    during = (time_us >= begin_us) & (time_us < end_us)
    able = np.flatnonzero(np.bincount(number[during], minlength=int(number.max()) + 1) == seconds)
    consumers = np.isin(number, rng.permutation(able)[:cars])  # more consumers are those and others
    is_recent = (time_us >= begin_us - BEFORE_S * S) & (time_us < end_us)
    return {
        "Speed": _chosen(rows, speeds & is_recent, "vehicle", "acceleration"),
        "Lane": _chosen(rows, lanes & is_recent, "vehicle", "lane"),
        "Me": _chosen(rows, consumers & during, "vehicle").rename_columns(["time_us", "x", "y", "id"]),
    }


@cache
def _reports(seed: int) -> tuple[pa.Table, I64, I64, Mask, Mask]:
    """All rows of the trace by time, the vehicles' numbers and the times, and which rows report a change of speed or of
    lanes. Each vehicle has a phase of its own, as vehicles do not report in step."""
    rows = trace().sort_by([("vehicle", "ascending"), ("time_us", "ascending")])
    number = rows["vehicle"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    phase_us = np.random.default_rng([seed, 1]).integers(0, S, int(number.max()) + 1)
    time_us = rows["time_us"].to_numpy() + phase_us[number]
    again = np.concatenate([[False], number[1:] == number[:-1]])
    beyond = np.abs(rows["acceleration"].to_numpy()) > BEYOND_M_PER_S2
    speeds = beyond & ~(again & np.roll(beyond, 1))
    lane = rows["lane"].combine_chunks()
    edge = pc.list_element(pc.split_pattern(lane, "_", max_splits=1, reverse=True), 0)
    lane_code, edge_code = (column.dictionary_encode().indices.to_numpy() for column in (lane, edge))
    lanes = again & (lane_code != np.roll(lane_code, 1)) & (edge_code == np.roll(edge_code, 1))
    order = np.argsort(time_us, kind="stable")
    at = rows.schema.get_field_index("time_us")
    timed = rows.set_column(at, "time_us", pa.array(time_us)).take(pa.array(order))
    return timed, number[order], time_us[order], speeds[order], lanes[order]


def _chosen(rows: pa.Table, which: Mask, *names: str) -> pa.Table:
    return rows.filter(pa.array(which)).select(["time_us", "x", "y", *names])


# ---- runs of a figure


def runs(
    scale: Scale, seed: int, thresholds: Sequence[float], cars: int, side_m: float, settings: ReuseSettings
) -> list[RunSetup]:
    """One run at each threshold for each seed.

    >>> len(runs(QUICK, 1, (0.5, 0.9), 5, 500.0, ReuseSettings("mqc")))
    2
    """
    seeds, seconds = (1, 30) if scale is QUICK else (3, 120)
    return [
        RunSetup(one, seconds, cars, side_m, threshold, settings)
        for threshold in thresholds
        for one in range(seed, seed + seeds)
    ]


def told(cases: Mapping[str, Sequence[RunSetup]], say: Say) -> Iterator[tuple[str, RunSetup]]:
    """The runs of each curve, one after another; what is done is said."""
    total = sum(len(runs) for runs in cases.values())
    for number, (name, run) in enumerate((name, run) for name, runs in cases.items() for run in runs):
        say(number, total, name)
        yield name, run


#: By curve and x, one of each run.
Values: TypeAlias = Mapping[str, Mapping[float, Sequence[float]]]


def means(values: Values) -> dict[str, Points]:
    """Over runs.

    >>> means({"ours": {0.5: [1.0, 2.0]}})
    {'ours': ((0.5, 1.5),)}
    """
    return {name: tuple((x, float(np.mean(samples))) for x, samples in by_x.items()) for name, by_x in values.items()}
