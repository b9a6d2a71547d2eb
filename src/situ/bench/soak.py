"""`make soak`: millions of events with ever-new keys through one streaming query. Does anything grow?

Events come from Spark's own generator, as fast as they are processed. Each key lives for three seconds of event time
and never comes again. State, memory and files are measured every few percent; those of the last quarter of the run are
compared with those of its second quarter, when everything has been warm for a while.

    python -m situ.bench.soak [--events 20000000] [--batch 200000]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import situ
from situ.bench.measure import STREAMING_CONF
from situ.core.errors import SituError
from situ.runtime.spark.follow.progress import ProgressFeed
from situ.runtime.spark.follow.query_errors import as_situ_errors, query_error
from situ.runtime.spark.session.session import borrowed_session
from situ.service.figures import StreamTotals

#: A key has so many events, and as many keys live at a time; events are so far apart.
EVENTS_OF_KEY, KEYS, APART_US = 6, 5_000, 100

#: A chain over two groupings, an absence, duplicates to look for: all that keeps state.
QUERY = """
stream Event(id int, key int, step int, region int, ts timestamp) time ts unique id watermark 1 s

define Done(key, region)
  detect   Event(step = 0) as a then Event(step = 2) as b then Event(step = 5) as c within 5 s
  assign   key = a.key, region = c.region
  group by key

subscribe Regions
  aggr every 1 s
  detect   Done
  assign   region = group.region, number = count(Done)
  group by region

subscribe Missed
  detect   Event(step = 0) as a then not Event(step = 3) within 4 s
  assign   key = a.key
  group by key
"""

#: Micro-batches that Spark keeps in the checkpoint, and how often it takes away the others. By default it keeps a
#: hundred, so that in a run of this length files would do nothing but grow.
RETAINED = {
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.stateStore.maintenanceInterval": "5s",
}
#: A small heap, so that what grows without end would show.
CONF = {"spark.driver.memory": "2g", "spark.ui.enabled": "false", **RETAINED, **STREAMING_CONF}

#: How many times a run is measured.
SAMPLES = 20
PERIOD_S = 0.2


# ---- figures, and what they say


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures at a moment; bytes, if nothing else is said. Memory of Java's heap is that after a collection."""

    events: int
    seconds: float
    complex_events: int
    state: int
    heap: int
    java: int
    python: int
    files: int


#: What may not grow, and what of it is mere noise: a collector's slack, a file more or less.
JUDGED: dict[str, tuple[str, int]] = {
    "state": ("state", 64 << 10),
    "heap": ("Java's heap after a collection", 16 << 20),
    "java": ("Java's memory", 96 << 20),
    "python": ("memory of Python workers", 32 << 20),
    "files": ("files in the checkpoint", 40),
}
#: Growth from the second quarter of a run to the last that is none.
TOLERANCE = 0.1


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether something has grown: medians of the second and of the last quarter."""

    name: str
    second: float
    last: float
    flat: bool


def judge(samples: Sequence[Sample]) -> list[Judgement]:
    """Compares the last quarter of a run with the second.

    >>> run = [Sample(n, n, n, 1 << 20, 1 << 28, 1 << 29, (n * 100) << 20, 300) for n in range(8)]
    >>> [judgement.name for judgement in judge(run) if not judgement.flat]
    ['memory of Python workers']
    """
    end = max(sample.events for sample in samples)
    second = [s for s in samples if 0.25 * end < s.events <= 0.5 * end]
    last = [s for s in samples if 0.75 * end < s.events]
    if not second or not last:
        raise SituError("the run is too short to be judged", remedy="Give it more --events, or a smaller --batch.")
    judgements = []
    for name, (label, noise) in JUDGED.items():
        before, after = (statistics.median(getattr(s, name) for s in part) for part in (second, last))
        judgements.append(Judgement(label, before, after, after <= before * (1 + TOLERANCE) + noise))
    return judgements


# ---- the run


def events(spark: SparkSession, batch: int) -> DataFrame:
    """An endless stream: event number n is APART_US after the one before it. KEYS keys take turns, and give way to
    others when each has had its events. One key in seven never comes to its step 3."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", batch)
    numbers = source.option("advanceMillisPerBatch", batch * APART_US // 1000).load()
    return numbers.selectExpr(
        "value AS id",
        f"value DIV {KEYS * EVENTS_OF_KEY} * {KEYS} + value % {KEYS} AS key",
        f"value DIV {KEYS} % {EVENTS_OF_KEY} AS step",
        f"timestamp_micros(value * {APART_US}) AS ts",
    ).selectExpr("id", "key", "if(step = 3 AND key % 7 = 0, -1, step) AS step", "key % 10 AS region", "ts")


def soak(spark: SparkSession, number: int, batch: int, directory: Path, tell: Callable[[Sample], None]) -> list[Sample]:
    """Runs the query until it has read a number of events."""
    detection = situ.detect(QUERY, {"Event": events(spark, batch)})
    measured = _Measured(spark, directory)
    with as_situ_errors():
        writer = detection.events.writeStream.format("noop").option("checkpointLocation", str(directory))
        query = writer.start()
        feed, totals, samples = ProgressFeed(query), StreamTotals(), list[Sample]()
        begun = time.perf_counter()
        try:
            while totals.counts.input < number and query.isActive:
                for micro_batch in feed.new():
                    totals.add(micro_batch)
                    if totals.counts.input >= min(len(samples) + 1, SAMPLES) * number / SAMPLES:
                        samples.append(measured.sample(totals, time.perf_counter() - begun))
                        tell(samples[-1])
                time.sleep(PERIOD_S)  # Spark tells nobody here when a micro-batch ends
        finally:
            query.stop()
        if (error := query.exception()) is not None:
            raise query_error(str(error)) from error
    return samples


class _Measured:
    """The processes of a local session, and its checkpoint."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        jvm: Any = spark._jvm  # nothing public leads to a collection
        self._java = jvm.java.lang
        self._pid = int(self._java.ProcessHandle.current().pid())
        self._directory = directory

    def sample(self, totals: StreamTotals, seconds: float) -> Sample:
        self._java.System.gc()
        heap = self._java.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
        return Sample(
            totals.counts.input,
            seconds,
            totals.counts.complex_events,
            totals.last.state_bytes if totals.last else 0,
            heap,
            memory_of(self._pid),
            sum(map(memory_of, descendants(self._pid))),
            sum(len(files) for _, _, files in os.walk(self._directory)),
        )


def memory_of(pid: int) -> int:
    """The memory of a process, in bytes; what it shares with others, it has a part of. 0 if it has ended.

    >>> memory_of(os.getpid()) > 1 << 20
    True
    """
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), 0)


def descendants(pid: int) -> Iterator[int]:
    """The processes that a process has started, and those that they have."""
    for task in Path(f"/proc/{pid}/task").glob("[0-9]*"):
        try:
            children = (task / "children").read_text().split()
        except OSError:  # it has ended
            continue
        for child in map(int, children):
            yield child
            yield from descendants(child)


# ---- the command


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m situ.bench.soak", description="Does anything grow?")
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--batch", type=int, default=200_000)
    chosen = parser.parse_args(arguments)
    console = Console()
    try:
        samples = _shown(chosen.events, chosen.batch, console)
        judgements = judge(samples)
    except SituError as error:
        console.print(str(error), style="red", markup=False)
        return 1
    for judgement in judgements:
        word, colour = ("flat", "green") if judgement.flat else ("grows", "red")
        console.print(
            f"{judgement.name:32} {_short(judgement.second):>10} -> {_short(judgement.last):>10}  {word}", style=colour
        )
    flat = all(judgement.flat for judgement in judgements)
    console.print("nothing grows" if flat else "something grows", style="bold green" if flat else "bold red")
    return 0 if flat else 1


def _shown(number: int, batch: int, console: Console) -> list[Sample]:
    """Runs, with a line for each sample, and a bar where somebody looks."""
    if not sys.platform.startswith("linux"):
        raise SituError("the memory of processes is read from /proc, which is Linux's", remedy="Run it on Linux.")
    names = ("events", "events/s", "found", "state", "heap", "Java", "Python", "files")
    columns = (TextColumn("soak"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with (
        tempfile.TemporaryDirectory(prefix="situ-soak-") as directory,
        borrowed_session(conf=CONF) as spark,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar,
    ):
        task = bar.add_task("soak", total=number)
        console.print("".join(f"{name:>12}" for name in names), highlight=False, soft_wrap=True)
        before = Sample(0, 0.0, 0, 0, 0, 0, 0, 0)

        def tell(sample: Sample) -> None:
            nonlocal before
            rate = (sample.events - before.events) / (sample.seconds - before.seconds)
            sizes = map(_short, (sample.state, sample.heap, sample.java, sample.python))
            figures = (f"{sample.events:,}", f"{rate:,.0f}", f"{sample.complex_events:,}", *sizes, f"{sample.files:,}")
            console.print("".join(f"{figure:>12}" for figure in figures), highlight=False, soft_wrap=True)
            bar.update(task, completed=min(sample.events, number))
            before = sample

        return soak(spark, number, batch, Path(directory) / "checkpoint", tell)


def _short(number: float) -> str:
    """A number of bytes, or a small number of files.

    >>> _short(3 << 20), _short(70_000), _short(320)
    ('3.0 MB', '68.4 KB', '320')
    """
    if number >= 1 << 20:
        return f"{number / (1 << 20):,.1f} MB"
    return f"{number / (1 << 10):,.1f} KB" if number >= 10_000 else f"{number:g}"


if __name__ == "__main__":
    sys.exit(main())
