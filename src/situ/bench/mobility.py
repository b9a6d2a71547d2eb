"""Moving subscriptions beside what one would write without them, on the Ingolstadt trace.

`python -m situ.bench.mobility [--only embedded switching spark streaming initialisation predictor migration]`

Some of the vehicles are drivers who ask for waves of hard braking: three vehicles, one after the other, close together,
within 500 m squares and the last 60 s, and switch every 10 s. Both ways must find the same, or the figure fails.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from situ.bench.sections import Say, Sections, main
from situ.bench.suite import Bar, BenchFigure
from situ.bench.switching import switching_figures
from situ.core.errors import SituError
from situ.graph.query import Update
from situ.lab.figure import FULL
from situ.lab.ingolstadt import trace
from situ.lab.mcep.experiments.migration import saved
from situ.lab.mcep.experiments.prediction import as_long_as_on_demand, traffic
from situ.lab.mcep.experiments.switching import figure_6a, figure_6d
from situ.mobility.interests import Interests, Updates, interests_of
from situ.runtime.embedded import Engine
from situ.runtime.spark.detect import detect
from situ.runtime.spark.session.session import spark_session

SIZE_M = 500.0
LIFETIME_US = 60_000_000
SWITCH_US = 10_000_000
WITHIN_US = 10_000_000
SPARK_DRIVERS, EMBEDDED_DRIVERS = 1_000, 100
SEED = 1
REPEATS = 3

_WAVE = """
  detect   Vehicle(acceleration < -3.5) as a
           then Vehicle(acceleration < -3.5 and vehicle != a.vehicle and distance(x, y, a.x, a.y) < 50) as b
           then Vehicle(acceleration < -3.5 and vehicle != a.vehicle and vehicle != b.vehicle
                        and distance(x, y, b.x, b.y) < 50) as c within 10 s
  assign   first = a.vehicle, last = c.vehicle, x = c.x, y = c.y
"""
_VEHICLE = "time_us int, vehicle string, x double, y double, speed double, acceleration double, lane string"
_TIME = "time time_us in us  order vehicle"

MOVING = f"""
stream Vehicle({_VEHICLE}) {_TIME}  at (x, y)
stream Driver(time_us int, vehicle string, x double, y double) {_TIME}  at (x, y)
subscribe Wave for Driver(vehicle) {_WAVE}
  around   Driver square 500 m
  lifetime 60 s
  update   every 10 s
  deliver  complete
"""
#: The same without what was there before: an interest begins with what is needed for its first complex event.
SWITCHING = MOVING.replace("  lifetime 60 s\n", "")
PLAIN = f"stream Vehicle({_VEHICLE}) {_TIME}\nsubscribe Wave {_WAVE}"
#: What a user writes who has joined vehicles with interests.
JOINED = f"""
stream Vehicle({_VEHICLE}, interest int) {_TIME}
subscribe Wave {_WAVE.rstrip()}, interest = group.interest
  group by interest
"""


def drivers(number: int, rows: pa.Table | None = None) -> pa.Table:
    """The updates of some vehicles of a trace: Ingolstadt's, if not given."""
    rows = trace() if rows is None else rows
    names = np.array(sorted(set(rows["vehicle"].to_pylist())))
    chosen = np.random.default_rng(SEED).choice(names, number, replace=False)
    return rows.filter(pc.is_in(rows["vehicle"], pa.array(chosen))).select(["time_us", "vehicle", "x", "y"])


def interests(of: pa.Table) -> Interests:
    times, x, y = (of[name].to_numpy() for name in ("time_us", "x", "y"))
    return interests_of(Updates(of["vehicle"].combine_chunks(), times, x, y), Update("every", SWITCH_US))


def _fastest(run: Callable[[], int], repeats: int = REPEATS) -> tuple[int, float]:
    """What a run finds, and the seconds of the fastest one."""
    waves, seconds = 0, float("inf")
    for _ in range(repeats):
        begun = time.perf_counter()
        waves = run()
        seconds = min(seconds, time.perf_counter() - begun)
    return waves, seconds


def _compared(name: str, ours: tuple[int, float], theirs: tuple[int, float], detail: str, least: float) -> BenchFigure:
    (waves, seconds), (expected, plain_seconds) = ours, theirs
    if waves != expected:
        raise SituError(f"{name}: {waves:,} waves, and {expected:,} the plain way", remedy="One of the two is wrong.")
    ratio = round(plain_seconds / seconds, 1)
    detail = f"{detail}: {waves:,} waves in {seconds:.2f} s; {plain_seconds:.2f} s the plain way"
    measured = {"seconds": seconds, "plain_seconds": plain_seconds, "found": waves}
    return BenchFigure(name, ratio, "x", detail, measured, Bar("at least", least))


# ---- embedded


def embedded_figures(say: Say) -> Iterator[BenchFigure]:
    """Against one plain query for each interest, on its own slice of time."""
    rows, of = trace(), drivers(EMBEDDED_DRIVERS)
    asking = interests(of)
    say(f"embedded: {len(asking):,} interests of {EMBEDDED_DRIVERS} drivers")
    ours = _fastest(lambda: _found(Engine(MOVING), {"Vehicle": rows, "Driver": of}))
    say("embedded: a query for each interest")
    theirs = _fastest(lambda: _restarted(rows, asking), 1)
    yield _compared(f"{EMBEDDED_DRIVERS} drivers, embedded", ours, theirs, f"{len(asking):,} interests", 5.0)


def _found(engine: Engine, tables: dict[str, pa.Table]) -> int:
    return sum(output.complex_events["Wave"].num_rows for output in engine.run(tables))


def _restarted(rows: pa.Table, asking: Interests) -> int:
    times, x, y = (rows[name].to_numpy() for name in ("time_us", "x", "y"))
    begin = np.searchsorted(times, asking.start_us - LIFETIME_US - WITHIN_US, side="left")
    end = np.searchsorted(times, asking.end_us, side="right")
    waves = 0
    for n in range(len(asking)):
        mine = slice(begin[n], end[n])
        inside = np.maximum(abs(x[mine] - asking.x[n]), abs(y[mine] - asking.y[n])) <= SIZE_M / 2
        table = rows.slice(begin[n], end[n] - begin[n]).filter(pa.array(inside))
        for output in Engine(PLAIN).run({"Vehicle": table}):
            at = output.complex_events["Wave"]["_time"].cast(pa.int64()).to_numpy()
            waves += int(np.count_nonzero((at >= asking.start_us[n] - LIFETIME_US) & (at <= asking.end_us[n])))
    return waves


def switching(say: Say) -> Iterator[BenchFigure]:
    """What it costs that consumers move (bench/switching.py)."""
    yield from switching_figures(SWITCHING, say)


# ---- Spark


def spark_figures(say: Say) -> Iterator[BenchFigure]:
    """Against a join of vehicles and interests by cells and time, every pair of which crosses to Python."""
    spark = spark_session()
    of = drivers(SPARK_DRIVERS)
    asking = interests(of)
    with tempfile.TemporaryDirectory() as directory:
        files = {name: Path(directory) / f"{name}.parquet" for name in ("Vehicle", "Driver")}
        for name, table in (("Vehicle", trace()), ("Driver", of)):
            pq.write_table(table, files[name], row_group_size=50_000)
        say(f"Spark: {len(asking):,} interests of {SPARK_DRIVERS:,} drivers")
        frames = {name: spark.read.parquet(str(path)) for name, path in files.items()}
        ours = _fastest(lambda: detect(MOVING, frames)["Wave"].count())
        say("Spark: a join, every pair of which crosses to Python")
        crossed: list[int] = []
        theirs = _fastest(lambda: _joined(spark, frames["Vehicle"], asking, crossed), 1)
    detail = f"{len(asking):,} interests, {crossed[0]:,} pairs"
    yield _compared(f"{SPARK_DRIVERS:,} drivers, Spark", ours, theirs, detail, 2.0)


def _joined(spark: SparkSession, vehicles: DataFrame, asking: Interests, crossed: list[int]) -> int:
    """Cells are as large as regions, slices of time as long as a region looks back."""
    slice_us = LIFETIME_US + WITHIN_US + SWITCH_US
    last = int(trace()["time_us"].to_numpy().max())
    end = np.minimum(asking.end_us, last)
    columns = {
        "interest": np.arange(len(asking)),
        "start": asking.start_us,
        "end": end,
        "at_x": asking.x,
        "at_y": asking.y,
    }
    regions = spark.createDataFrame(pa.table(columns))
    since = F.col("start") - (LIFETIME_US + WITHIN_US)
    reached = (
        regions.withColumn("cell_x", _cells("at_x"))
        .withColumn("cell_y", _cells("at_y"))
        .withColumn("slice", F.explode(F.sequence(_slice(since, slice_us), _slice(F.col("end"), slice_us))))
    )
    located = vehicles.withColumns(
        {"cell_x": _cell("x"), "cell_y": _cell("y"), "slice": _slice(F.col("time_us"), slice_us)}
    )
    inside = (
        (F.abs(F.col("x") - F.col("at_x")) <= SIZE_M / 2)
        & (F.abs(F.col("y") - F.col("at_y")) <= SIZE_M / 2)
        & (F.col("time_us") >= since)
        & (F.col("time_us") <= F.col("end"))
    )
    pairs = located.join(F.broadcast(reached), ["cell_x", "cell_y", "slice"]).filter(inside)
    pairs = pairs.select(*vehicles.columns, "interest", "start", "end").repartition("interest")
    counted = pairs.mapInArrow(_detected, "found bigint, pairs bigint").agg(F.sum("found"), F.sum("pairs")).collect()
    crossed.append(counted[0][1])
    return int(counted[0][0])


def _detected(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Counts the waves of a partition's interests that are to be delivered, and the pairs that were read."""
    rows = pa.Table.from_batches(list(batches))
    waves = 0
    if rows.num_rows:
        heads = rows.group_by("interest").aggregate([("start", "min"), ("end", "min")])
        key, start, end = (heads[name].to_numpy() for name in ("interest", "start_min", "end_min"))
        order = np.argsort(key)
        for output in Engine(JOINED, threads=1).run({"Vehicle": rows.drop_columns(["start", "end"])}):
            wave = output.complex_events["Wave"]
            at, of = wave["_time"].cast(pa.int64()).to_numpy(), wave["interest"].to_numpy()
            mine = order[np.searchsorted(key[order], of)]
            waves += int(np.count_nonzero((at >= start[mine] - LIFETIME_US) & (at <= end[mine])))
    yield pa.RecordBatch.from_pydict({"found": [waves], "pairs": [rows.num_rows]})


def _cell(place: str) -> Column:
    return F.floor(F.col(place) / SIZE_M)


def _cells(middle: str) -> Column:
    low, high = (F.floor((F.col(middle) + side * SIZE_M / 2) / SIZE_M) for side in (-1, 1))
    return F.explode(F.sequence(low, high))


def _slice(time_us: Column, slice_us: int) -> Column:
    return F.floor(time_us / slice_us)


# ---- MCEP's figures


def streaming_figures(say: Say) -> Iterator[BenchFigure]:
    """Measures, as in Figure 6a, what the streaming optimiser leaves out, and one moving query beside static graphs."""
    say("streaming optimiser, static graphs (minutes)")
    curves = figure_6a(FULL, SEED, lambda *_: None).curves
    fewer = {}
    for name in ("traffic", "video"):
        on, off = (np.array(curves[f"{name}, {how} optimiser"])[:, 1] for how in ("with", "without"))
        fewer[name] = 100 * (1 - on / off)
        detail = ", ".join(f"{edge:g} m {share:.0%}" for edge, share in curves[f"{name}, with optimiser"])
        against = f"{name}: one moving query / static graphs 100 m apart"
        worst = max(share for _, share in curves[f"{name}, with optimiser"])
        yield BenchFigure(against, round(100 * worst, 1), "%", f"of the events, by edge: {detail}", {"curves": curves})
    least = min(float(percent.min()) for percent in fewer.values())
    shown = "; ".join(f"{name} {percent.min():.0f}% to {percent.max():.0f}%" for name, percent in fewer.items())
    yield BenchFigure(
        "streaming optimiser, fewer events", round(least, 1), "%", f"by edge: {shown}", {}, Bar("at least", 60)
    )


def initialisation_figures(say: Say) -> Iterator[BenchFigure]:
    """Measures, as in Figure 6d, how complete results are after window initialisation."""
    say("initialisation by windows")
    curves = figure_6d(FULL, SEED, lambda *_: None).curves
    complete, overhead = ([y for _, y in curves[f"windows: {what}"]] for what in ("completeness", "overhead"))
    detail = f"at {max(overhead):.1%} overhead at most; completeness {min(complete):.2f} to {max(complete):.2f}"
    share = round(float(np.mean(complete)), 2) if max(overhead) < 0.1 else 0.0
    yield BenchFigure(
        "window initialisation, completeness", share, "", detail, {"curves": curves}, Bar("at least", 0.8)
    )


def predictor_figures(say: Say) -> Iterator[BenchFigure]:
    """Measures, as in Figures 6e and 6f, how long switches take with and without prediction."""
    say("query predictor")
    latencies = as_long_as_on_demand(traffic(FULL, SEED))
    for name, seconds, precision in (
        ("eagerness expected for each switch", latencies.expected_s, latencies.expected_precision),
        ("one eagerness for all switches", latencies.fixed_s, latencies.fixed_precision),
    ):
        share = round(100 * seconds / latencies.on_demand_s, 1) if precision >= 0.9 else 100.0
        detail = f"{seconds:.3f} s, {latencies.on_demand_s:.2f} s on demand; precision {precision:.3f}"
        yield BenchFigure(f"predictor, {name}: latency", share, "%", detail, asdict(latencies), Bar("at most", 10))


def migration_figures(say: Say) -> Iterator[BenchFigure]:
    """Measures, as in Figure 6h, how much less migration plans use of the network than greedy migration."""
    say("migration plans")
    share = saved(SEED)
    detail = "bandwidth-delay product; 100,000 KiB of state, 41 brokers, exact future"
    yield BenchFigure("migcep / greedy migration, less", round(100 * share, 1), "%", detail, {}, Bar("at least", 40))


SECTIONS: Sections = {
    "embedded": embedded_figures,
    "switching": switching,
    "spark": spark_figures,
    "streaming": streaming_figures,
    "initialisation": initialisation_figures,
    "predictor": predictor_figures,
    "migration": migration_figures,
}


if __name__ == "__main__":
    sys.exit(main(__doc__, SECTIONS))
