"""How fast queries are on Spark, beside what an expert would write in its SQL, and what is fixed cost.

`python -m situ.bench.spark_speed`, part of `make bench`; `--only sql` and so on for some of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from situ.bench.hand_written_sql import time_sql
from situ.bench.measure import STREAMING_CONF, WARM_RUNS, Disagreement, Timed, TimeQuery
from situ.bench.sections import Say
from situ.bench.sections import main as show
from situ.bench.spark import time_on_dataframe, time_on_spark
from situ.bench.spark_streaming import empty_micro_batch_ms, time_streaming
from situ.bench.suite import Bar, BenchFigure
from situ.bench.workload import FILES, Pattern, Workload, cache_directory, events, query_text, stream_on_disk
from situ.runtime.spark.inputs.own_files import SETTING
from situ.runtime.spark.session.session import borrowed_session
from situ.runtime.spark.session.sliced_keys import SETTING as KEYS

#: How events come: as rows of a DataFrame, which Spark reads and hands over; as a DataFrame in which situ finds the
#: files; or as files that are named to situ. Each with the setting that says so.
DATAFRAME, FILES_OF_DATAFRAME, OWN = "DataFrame", "DataFrame of files", "own source"
_WAYS: dict[str, tuple[str, Callable[[SparkSession], TimeQuery]]] = {
    DATAFRAME: ("spark", time_on_dataframe),
    FILES_OF_DATAFRAME: ("slices", time_on_dataframe),
    OWN: ("slices", time_on_spark),
}

#: Workload, and how many times the speed of hand-written SQL each way must reach. `rising` and `each` have more
#: candidates than beside FlinkCEP, and shorter windows.
BESIDE_SQL: tuple[tuple[Workload, dict[str, float]], ...] = (
    (Workload(Pattern.NEXT, types=3), {DATAFRAME: 2.0, FILES_OF_DATAFRAME: 2.0, OWN: 3.0}),
    (Workload(Pattern.NEXT, types=3, events=32_000_000), {DATAFRAME: 2.5, FILES_OF_DATAFRAME: 2.5, OWN: 4.0}),
    (Workload(Pattern.NEXT, events=32_000_000), {DATAFRAME: 1.2, FILES_OF_DATAFRAME: 1.2, OWN: 1.7}),
    (Workload(Pattern.RISING, types=10, window_ms=100_000), {OWN: 5.0}),
    (Workload(Pattern.EACH, types=10, window_ms=100_000), {OWN: 5.0}),
)
#: One event in ten has a key of its own, all others the same one.
HOT = Workload(Pattern.NEXT, types=10, window_ms=100_000)


def _best(run: Callable[[], Timed]) -> Timed:
    """The fastest of the warm runs: the others had to share the machine."""
    _, *warm = (run() for _ in range(1 + WARM_RUNS))
    return min(warm, key=lambda timed: timed.seconds)


def _read_by(
    spark: SparkSession, way: str, text: str, directory: Path, run: TimeQuery | None = None
) -> Callable[[], Timed]:
    """Runs a query on events that come in a way; `run`: as a stream."""
    setting, in_batch = _WAYS[way]

    def timed() -> Timed:
        spark.conf.set(SETTING, setting)
        return (run or in_batch(spark))(text, directory)

    return timed


def beside_sql(say: Say) -> Iterator[BenchFigure]:
    """All ways in which events come beside hand-written SQL, in one session."""
    with borrowed_session() as spark:
        for workload, bars in BESIDE_SQL:
            name = f"{workload.pattern.value}, {workload.types} types, {workload.events:,} events"
            say(f"{name}: spark beside SQL")
            directory = stream_on_disk(workload, cache_directory())
            peer = _best(partial(time_sql, spark, workload, directory))
            for way, least in bars.items():
                timed = _best(_read_by(spark, way, query_text(workload), directory))
                if timed.matches != peer.matches:
                    found = f"in the same events situ finds {timed.matches:,} matches and SQL {peer.matches:,}"
                    raise Disagreement(found, remedy=f"The query: {query_text(workload)}")
                ratio = peer.seconds / timed.seconds
                measured = {"seconds": timed.seconds, "seconds_of_sql": peer.seconds, "matches": timed.matches}
                detail = f"{timed.seconds:.2f} s, hand-written SQL {peer.seconds:.2f} s"
                yield BenchFigure(
                    f"spark: {name}, {way}", round(ratio, 2), "x SQL", detail, measured, Bar("at least", least)
                )


def fixed_cost(say: Say) -> Iterator[BenchFigure]:
    """What remains of a detection where there are a thousand events only."""
    workload = Workload(events=1_000)
    say("fixed cost: spark, a thousand events")
    directory = stream_on_disk(workload, cache_directory())
    with borrowed_session() as spark:
        for way in _WAYS:
            timed = _best(_read_by(spark, way, query_text(workload), directory))
            name = f"spark: a thousand events, {way}"
            yield BenchFigure(
                name, round(timed.seconds, 3), "s", "warm", {"seconds": timed.seconds}, Bar("at most", 0.4)
            )


def streams(say: Say) -> Iterator[BenchFigure]:
    """The pace of warm micro-batches, as a share of the speed of a batch that reads the same way."""
    for types in (100, 3):
        workload = Workload(types=types)
        name = f"spark-streaming: next, {types} types"
        say(name)
        text, directory = query_text(workload), stream_on_disk(workload, cache_directory())
        with borrowed_session(conf=STREAMING_CONF) as spark:
            batch = _best(_read_by(spark, OWN, text, directory))
            timed = _best(_read_by(spark, OWN, text, directory, time_streaming(spark)))
        measured = {"seconds": timed.seconds, "seconds_of_batch": batch.seconds}
        detail = f"{timed.seconds:.2f} s, as a batch {batch.seconds:.2f} s"
        share = round(100 * batch.seconds / timed.seconds)
        yield BenchFigure(name, share, "% of the batch", detail, measured, Bar("at least", 70))


def empty_micro_batch(say: Say) -> Iterator[BenchFigure]:
    """A micro-batch whose file has no rows."""
    say("spark-streaming: an empty micro-batch")
    with borrowed_session(conf=STREAMING_CONF) as spark:
        milliseconds = empty_micro_batch_ms(spark, query_text(Workload(types=3)))
    measured = {"ms": milliseconds}
    yield BenchFigure(
        "spark-streaming: an empty micro-batch, 2 shards", round(milliseconds), "ms", "the median of 20", measured,
        Bar("at most", 150),
    )  # fmt: skip


def hot_key(say: Say) -> Iterator[BenchFigure]:
    """A key with 90% of the events, against keys that are alike. Those of a DataFrame are divided by slices of time
    only where one is hot, as the session's setting says."""
    text = query_text(HOT)
    with borrowed_session() as spark:
        for way in (OWN, DATAFRAME):
            say(f"spark: a key with 90% of the events, {way}")
            spark.conf.set(KEYS, "whole")
            even = _best(_read_by(spark, way, text, stream_on_disk(HOT, cache_directory())))
            spark.conf.set(KEYS, "slices")
            hot = _best(_read_by(spark, way, text, hot_stream_on_disk(HOT, cache_directory())))
            measured = {"seconds": hot.seconds, "seconds_of_even": even.seconds}
            detail = f"{hot.seconds:.2f} s, keys that are alike {even.seconds:.2f} s"
            yield BenchFigure(
                f"spark: a key with 90% of the events, {way}", round(hot.seconds / even.seconds, 2), "x", detail,
                measured, Bar("at most", 1.3),
            )  # fmt: skip


def hot_stream_on_disk(workload: Workload, cache: Path) -> Path:
    """The workload's events, nine of ten with the key 0; made once, then found."""
    directory = cache / "bench" / f"hot-{workload.events}-types-{workload.types}-keys-{workload.keys}"
    if directory.is_dir():
        return directory
    unfinished = directory.with_name(f"{directory.name}.unfinished")
    unfinished.mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        first, last = (workload.events * n // FILES for n in (number, number + 1))
        table = events(first, last, workload.types, workload.keys)
        keys = np.where(table.column("id").to_numpy() % 10 > 0, 0, table.column("key").to_numpy()).astype(np.int32)
        place = table.column_names.index("key")
        pq.write_table(table.set_column(place, "key", pa.array(keys)), unfinished / f"part-{number:03d}.parquet")
    unfinished.rename(directory)
    return directory


SECTIONS = {
    "sql": beside_sql,
    "fixed-cost": fixed_cost,
    "streams": streams,
    "empty-micro-batch": empty_micro_batch,
    "hot-key": hot_key,
}

if __name__ == "__main__":
    sys.exit(show(__doc__, SECTIONS))
