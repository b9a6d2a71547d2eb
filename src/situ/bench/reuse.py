"""Consumers who share their work beside the same consumers alone, on two traces of traffic.

`python -m situ.bench.reuse [--only selections embedded fed resting spark streaming promise covering]`

On the engines, drivers ask for jams around them (bench/sharing_drivers.py); under selection managers for accidents, as
in RECEP's mobility setup.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from situ.bench.reuse_promise import promise_figures
from situ.bench.reuse_streaming import micro_batch_ms, write_pieces
from situ.bench.sections import Say, Sections, main
from situ.bench.sharing_drivers import (
    COUNTING,
    FED_FROM_S,
    FED_S,
    QUALITY,
    STRICT,
    THRESHOLD,
    TRACES,
    WARM_S,
    WINDOWS,
    Tables,
    between,
    second_by_second,
    tables_of,
)
from situ.bench.suite import Bar, BenchFigure
from situ.kernel.arrays import I64
from situ.lab.quality.atoms import AtomSets
from situ.lab.recep.coverings.cover import mqc
from situ.lab.recep.coverings.waiting import WaitingSelections
from situ.lab.recep.experiments.cases import RunSetup, measured, processed_share
from situ.lab.recep.selections import ByCount, ByTime, ReuseSettings
from situ.runtime.embedded import Engine
from situ.runtime.spark.detect import detect
from situ.runtime.spark.session.session import borrowed_session, spark_session

EMBEDDED_DRIVERS, MANY_DRIVERS, CONSUMERS = 200, 1_000, 25
SIDE_M, SECONDS = 2000.0, 120
SEEDS = (1, 2, 3)
REPEATS = 3
#: A micro-batch of the streaming query has so many seconds of the trace; the query has so many shards, and so many of
#: its first micro-batches do not count.
BATCH_S, SHARDS, COLD_BATCHES = 20, 2, 3
STREAM_S, STREAM_REPEATS = 240, 2


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


def _rules(trace: str, bar: Bar) -> Iterator[tuple[str, str, Bar | None]]:
    """Rules by name: the one with a bar on every trace, and, for information, a cheap one on the first."""
    yield "average over 30 events", COUNTING, bar
    if trace == next(iter(TRACES)):
        yield "average over windows of 10 s", WINDOWS, None


def embedded_figures(say: Say) -> Iterator[BenchFigure]:
    """CPU time of the embedded engine."""
    for trace in TRACES:
        tables = tables_of(trace, EMBEDDED_DRIVERS)
        for name, query, bar in _rules(trace, Bar("at least", 5)):
            say(f"embedded, {trace}: {name}")
            shared_s, alone_s, engine = _cpu_s(query, tables)
            totals = engine.reuse["Jam"]
            detail = (
                f"CPU {shared_s:.2f} s, alone {alone_s:.2f} s; {totals.share_read:.0%} of the events, "
                f"precision {totals.mean_precision:.2f}, recall {totals.mean_recall:.2f}"
            )
            title = f"{EMBEDDED_DRIVERS} drivers, embedded, {name}, {trace}"
            yield BenchFigure(title, round(alone_s / shared_s, 1), "x less", detail, totals.to_json(), bar)


def _cpu_s(query: str, tables: Tables) -> tuple[float, float, Engine]:
    """The CPU seconds of the fastest run, shared and alone, by turns; and what ran shared."""
    fastest = {QUALITY: float("inf"), "": float("inf")}
    engines = {}
    for _ in range(REPEATS):
        for clause in fastest:
            engines[clause], begun = Engine(query + clause, threads=1), time.process_time()
            for _ in engines[clause].run(tables):
                pass
            fastest[clause] = min(fastest[clause], time.process_time() - begun)
    return fastest[QUALITY], fastest[""], engines[QUALITY]


def fed_figures(say: Say) -> Iterator[BenchFigure]:
    """CPU time of the embedded engine that is fed second by second, after the first ones."""
    for trace in TRACES:
        say(f"fed second by second, {trace}")
        shared_ms, alone_ms, engine = _fed_ms(QUALITY, trace)
        totals = engine.reuse["Jam"]
        detail = (
            f"CPU {shared_ms:.1f} ms for a second, alone {alone_ms:.1f} ms; {totals.share_read:.0%} of the events, "
            f"{totals.fallbacks} of {totals.spans + totals.fallbacks:,} spans processed alone"
        )
        title = f"{MANY_DRIVERS:,} drivers, fed second by second, average over 30 events, {trace}"
        bar = Bar("at least", 2.5)
        yield BenchFigure(title, round(alone_ms / shared_ms, 1), "x less", detail, totals.to_json(), bar)


def resting_figures(say: Say) -> Iterator[BenchFigure]:
    """What reuse costs where it does not pay: nearly every region that is tried does not suffice."""
    for trace in TRACES:
        say(f"where reuse does not pay, {trace}")
        shared_ms, alone_ms, engine = _fed_ms(STRICT, trace)
        totals = engine.reuse["Jam"]
        detail = (
            f"CPU {shared_ms:.1f} ms for a second, without the clause {alone_ms:.1f} ms; {totals.covered:,} of "
            f"{totals.interests:,} interests covered, {totals.untried:,} not tried"
        )
        title = f"thresholds of 0.98, {MANY_DRIVERS:,} drivers, fed second by second, {trace}: cost"
        bar = Bar("at most", 1.2)
        yield BenchFigure(title, round(shared_ms / alone_ms, 2), "x", detail, totals.to_json(), bar)


def _fed_ms(clause: str, trace: str) -> tuple[float, float, Engine]:
    """CPU milliseconds for a second of a trace, with a clause and without, and what ran with it: on average over the
    seconds, each in the fastest of some runs, which take turns."""
    tables = between(tables_of(trace, MANY_DRIVERS), FED_FROM_S, FED_FROM_S + FED_S)
    pieces = list(second_by_second(tables))
    fastest_s = {each: np.full(len(pieces), np.inf) for each in (clause, "")}
    engines = {}
    for _ in range(REPEATS):
        for each, of_second in fastest_s.items():
            engines[each] = Engine(COUNTING + each, threads=1)
            for second, piece in enumerate(pieces):
                begun = time.process_time()
                for name, table in piece.items():
                    engines[each].feed(table, name)
                of_second[second] = min(of_second[second], time.process_time() - begun)
    with_ms, without_ms = (1e3 * float(np.mean(of_second[WARM_S:])) for of_second in fastest_s.values())
    return with_ms, without_ms, engines[clause]


def spark_figures(say: Say) -> Iterator[BenchFigure]:
    """Wall time on Spark, all cores."""
    spark = spark_session()
    for trace in TRACES:
        with tempfile.TemporaryDirectory() as directory:
            frames = {}
            for name, table in tables_of(trace, MANY_DRIVERS).items():
                pq.write_table(table, Path(directory) / f"{name}.parquet", row_group_size=50_000)
                frames[name] = spark.read.parquet(str(Path(directory) / f"{name}.parquet"))
            for name, query, bar in _rules(trace, Bar("at least", 10)):
                say(f"Spark, {trace}, shared: {name}")
                shared_s = _wall_s(query + QUALITY, frames, REPEATS)
                say(f"Spark, {trace}, alone: {name}")
                alone_s = _wall_s(query, frames, 1)
                detail = f"{shared_s:.1f} s, alone {alone_s:.1f} s"
                title = f"{MANY_DRIVERS:,} drivers, Spark, {name}, {trace}"
                yield BenchFigure(title, round(alone_s / shared_s, 1), "x less", detail, {}, bar)


def _wall_s(query: str, frames: dict[str, DataFrame], repeats: int) -> float:
    fastest = float("inf")
    for _ in range(repeats):
        begun = time.perf_counter()
        detect(query, frames)["Jam"].count()
        fastest = min(fastest, time.perf_counter() - begun)
    return fastest


def streaming_figures(say: Say) -> Iterator[BenchFigure]:
    """Wall time of warm micro-batches of a streaming query, shared and alone by turns."""
    with borrowed_session(conf={"spark.sql.shuffle.partitions": str(SHARDS)}) as spark:
        for trace in TRACES:
            tables = between(tables_of(trace, MANY_DRIVERS), FED_FROM_S, FED_FROM_S + STREAM_S)
            median_ms = {QUALITY: float("inf"), "": float("inf")}
            with tempfile.TemporaryDirectory() as directory:
                write_pieces(tables, BATCH_S, Path(directory))
                for turn in range(STREAM_REPEATS):
                    for clause in median_ms:
                        say(f"Spark streaming, {trace}, {'shared' if clause else 'alone'}, {turn + 1}")
                        took = micro_batch_ms(spark, COUNTING + clause, Path(directory), SHARDS, COLD_BATCHES)
                        median_ms[clause] = min(median_ms[clause], float(np.median(took)))
            detail = f"median {median_ms[QUALITY] / 1e3:.2f} s, alone {median_ms[''] / 1e3:.2f} s"
            title = f"{MANY_DRIVERS:,} drivers, Spark streaming, micro-batches of {BATCH_S} s, {trace}"
            ratio = round(median_ms[""] / median_ms[QUALITY], 1)
            yield BenchFigure(title, ratio, "x less", detail, {}, Bar("at least", 2.5))


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
    "resting": resting_figures,
    "spark": spark_figures,
    "streaming": streaming_figures,
    "promise": promise_figures,
    "covering": covering_figures,
}


if __name__ == "__main__":
    sys.exit(main(__doc__, SECTIONS))
