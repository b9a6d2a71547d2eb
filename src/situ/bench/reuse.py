"""Consumers who share their work beside the same consumers alone, on the Ingolstadt trace.

`python -m situ.bench.reuse [--only selections embedded fed spark covering]`

On the engines, drivers ask for jams around them: the average speed over 30 events, of 500 m squares, with a new square
every 10 s. Next to nothing is delivered, so that detection is what is measured. Under selection managers they ask for
accidents, as in RECEP's mobility setup.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from situ.bench.mobility import drivers
from situ.bench.sections import Say, Sections, main
from situ.bench.suite import Bar, BenchFigure
from situ.kernel.arrays import I64
from situ.lab.ingolstadt import trace
from situ.lab.quality.atoms import AtomSets
from situ.lab.recep.coverings.cover import mqc
from situ.lab.recep.coverings.waiting import WaitingSelections
from situ.lab.recep.experiments.cases import RunSetup, measured, processed_share
from situ.lab.recep.selections import ByCount, ByTime, ReuseSettings
from situ.runtime.embedded import Engine
from situ.runtime.spark.detect import detect
from situ.runtime.spark.session.session import spark_session

EMBEDDED_DRIVERS, SPARK_DRIVERS, CONSUMERS = 200, 1_000, 25
THRESHOLD, SIDE_M, SECONDS = 0.7, 2000.0, 120
SEEDS = (1, 2, 3)
REPEATS = 3
#: Of the trace, the seconds that an engine is fed with, and those of them that are not measured.
FED_FROM, FED_SECONDS, FED_WARM = 500, 80, 20

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
_QUALITY = f"  quality precision {THRESHOLD} recall {THRESHOLD}\n"


def selection_figures(say: Say) -> Iterator[BenchFigure]:
    """Under selection managers: how much is processed, how good it is, what batches save."""
    shares, quality, single, batched = [], [], [], []
    for seed in SEEDS:
        say(f"selection managers: seed {seed}")
        by_time = RunSetup(seed, SECONDS, CONSUMERS, SIDE_M, THRESHOLD, ReuseSettings("mqc", ByTime(10_000_000)))
        batched_run = measured(by_time)
        shares.append(processed_share(by_time))
        quality.append(min(float(batched_run.precision.mean()), float(batched_run.recall.mean())))
        batched.append(batched_run.estimations / batched_run.covered)
        alone = measured(replace(by_time, settings=ReuseSettings("mqc", ByCount(1))))
        single.append(alone.estimations / alone.covered)
    setup = f"{CONSUMERS} consumers, {SIDE_M:g} m, thresholds {THRESHOLD}, batches of 10 s, mqc; {len(SEEDS)} seeds"
    worst = 100 * max(shares)
    detail = f"{setup}: " + ", ".join(f"{share:.0%}" for share in shares)
    yield BenchFigure("selections processed", round(worst, 1), "%", detail, {"shares": shares}, Bar("at most", 30))
    detail = "the lower of average precision and recall, by provenance: " + ", ".join(f"{q:.3f}" for q in quality)
    yield BenchFigure("measured quality", round(min(quality), 3), "", detail, {}, Bar("at least", THRESHOLD))
    fewer = [
        single_estimates / batched_estimates
        for single_estimates, batched_estimates in zip(single, batched, strict=True)
    ]
    detail = ", ".join(
        f"{single_estimates:.1f} / {batched_estimates:.2f}"
        for single_estimates, batched_estimates in zip(single, batched, strict=True)
    )
    name = "estimations per covered selection, single / batches"
    yield BenchFigure(name, round(min(fewer), 1), "x", detail, {}, Bar("at least", 10))


# ---- engines


def embedded_figures(say: Say) -> Iterator[BenchFigure]:
    """CPU time of the embedded engine."""
    tables = {"Vehicle": trace(), "Driver": drivers(EMBEDDED_DRIVERS)}
    for name, query, bar in (
        ("average over 30 events", COUNTING, Bar("at least", 5)),
        ("average over windows of 10 s", WINDOWS, None),
    ):
        say(f"embedded: {name}")
        run_of = {how: _cpu_s(query + clause, tables) for how, clause in (("alone", ""), ("shared", _QUALITY))}
        (alone_s, _), (shared_s, engine) = run_of["alone"], run_of["shared"]
        totals = engine.reuse["Jam"]
        detail = (
            f"CPU {shared_s:.2f} s, alone {alone_s:.2f} s; {totals.share_read:.0%} of the events, "
            f"precision {totals.mean_precision:.2f}, recall {totals.mean_recall:.2f}"
        )
        title = f"{EMBEDDED_DRIVERS} drivers, embedded, {name}"
        yield BenchFigure(title, round(alone_s / shared_s, 1), "x less", detail, totals.to_json(), bar)


def _cpu_s(query: str, tables: dict[str, pa.Table]) -> tuple[float, Engine]:
    """The CPU seconds of the fastest run, and what ran."""
    fastest = float("inf")
    for _ in range(REPEATS):
        engine, begun = Engine(query, threads=1), time.process_time()
        for _ in engine.run(tables):
            pass
        fastest = min(fastest, time.process_time() - begun)
    return fastest, engine


def fed_figures(say: Say) -> Iterator[BenchFigure]:
    """CPU time of the embedded engine that is fed second by second, after the first ones."""
    tables = {"Driver": drivers(SPARK_DRIVERS), "Vehicle": trace()}
    say("fed second by second")
    shared_ms, engine = _fed_ms(COUNTING + _QUALITY, tables)
    alone_ms, _ = _fed_ms(COUNTING, tables)
    totals = engine.reuse["Jam"]
    detail = (
        f"CPU {shared_ms:.1f} ms for a second, alone {alone_ms:.1f} ms; {totals.share_read:.0%} of the events, "
        f"{totals.fallbacks} of {totals.spans + totals.fallbacks:,} spans processed alone"
    )
    title = f"{SPARK_DRIVERS:,} drivers, fed second by second, average over 30 events"
    yield BenchFigure(title, round(alone_ms / shared_ms, 1), "x less", detail, totals.to_json(), Bar("at least", 2.5))


def _fed_ms(query: str, tables: dict[str, pa.Table]) -> tuple[float, Engine]:
    """CPU milliseconds for a second of the trace, on average, and what ran."""
    engine, spent_s = Engine(query, threads=1), []
    seconds = {name: table["time_us"].to_numpy() // 1_000_000 for name, table in tables.items()}
    for second in range(FED_FROM, FED_FROM + FED_SECONDS):
        pieces = {name: table.filter(pa.array(seconds[name] == second)) for name, table in tables.items()}
        begun = time.process_time()
        for name, piece in pieces.items():
            engine.feed(piece, name)
        spent_s.append(time.process_time() - begun)
    return 1e3 * float(np.mean(spent_s[FED_WARM:])), engine


def spark_figures(say: Say) -> Iterator[BenchFigure]:
    """Wall time on Spark, all cores."""
    spark = spark_session()
    with tempfile.TemporaryDirectory() as directory:
        frames = {}
        for name, table in (("Vehicle", trace()), ("Driver", drivers(SPARK_DRIVERS))):
            pq.write_table(table, Path(directory) / f"{name}.parquet", row_group_size=50_000)
            frames[name] = spark.read.parquet(str(Path(directory) / f"{name}.parquet"))
        for name, query, bar in (
            ("average over 30 events", COUNTING, Bar("at least", 10)),
            ("average over windows of 10 s", WINDOWS, None),
        ):
            say(f"Spark, shared: {name}")
            shared_s = _wall_s(query + _QUALITY, frames, REPEATS)
            say(f"Spark, alone: {name}")
            alone_s = _wall_s(query, frames, 1)
            detail = f"{shared_s:.1f} s, alone {alone_s:.1f} s"
            title = f"{SPARK_DRIVERS:,} drivers, Spark, {name}"
            yield BenchFigure(title, round(alone_s / shared_s, 1), "x less", detail, {}, bar)


def _wall_s(query: str, frames: dict[str, DataFrame], repeats: int) -> float:
    fastest = float("inf")
    for _ in range(repeats):
        begun = time.perf_counter()
        detect(query, frames)["Jam"].count()
        fastest = min(fastest, time.perf_counter() - begun)
    return fastest


# ---- mqc


def covering_figures(say: Say) -> Iterator[BenchFigure]:
    """The time of mqc, and how it grows with pairs that overlap."""
    say("mqc")
    _covering_s(*_selections(1_000, 20, 1))
    seconds, pairs = _covering_s(*_selections(10_000, 200, 1))
    detail = f"{pairs:,} pairs that overlap"
    yield BenchFigure("mqc, 10,000 selections of 200 operators", round(seconds, 2), "s", detail, {}, Bar("at most", 2))
    for shift in (5, 30):
        seconds, pairs = _covering_s(*_selections(10_000, 200, shift))
        detail = f"windows shifted by {shift} events, so fewer overlap: {pairs:,} pairs"
        yield BenchFigure(f"mqc, the same, shift {shift}", round(seconds, 2), "s", detail, {})


def _covering_s(sets: AtomSets, owner: I64) -> tuple[float, int]:
    thresholds = np.full(int(owner.max()) + 1, THRESHOLD)
    begun = time.process_time()
    covering = mqc(WaitingSelections(sets, owner, thresholds, thresholds))
    return time.process_time() - begun, covering.estimations


def _selections(count: int, operators: int, shift: int, length: int = 30) -> tuple[AtomSets, I64]:
    """Sliding windows over the events of interests at random places, each a quarter of the area."""
    rng = np.random.default_rng(1)
    each = count // operators
    needed = ((each - 1) * shift + length) * 6
    x, y = rng.random((2, needed))
    atoms = []
    for left, low in rng.random((operators, 2)) / 2:
        inside = np.flatnonzero((x >= left) & (x <= left + 0.5) & (y >= low) & (y <= low + 0.5))
        atoms.append(np.lib.stride_tricks.sliding_window_view(inside, length)[::shift][:each])
    rows = np.concatenate(atoms)
    sets = AtomSets(rows.reshape(-1).astype(np.int64), np.arange(len(rows) + 1) * length)
    return sets, np.repeat(np.arange(operators), [len(windows) for windows in atoms])


SECTIONS: Sections = {
    "selections": selection_figures,
    "embedded": embedded_figures,
    "fed": fed_figures,
    "spark": spark_figures,
    "covering": covering_figures,
}


if __name__ == "__main__":
    sys.exit(main(__doc__, SECTIONS))
