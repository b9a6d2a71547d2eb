"""A Spark site: two source sites, one whose operators run on Spark, and a root, beside a plain Spark stream from files.

`python -m situ.bench.spark_sites [--only throughput latency restart]`. Clocks run for warm batches only: the first of a
query, in which Spark starts Python and compiles, is left out.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from situ.bench.sections import Say
from situ.bench.sections import main as show
from situ.bench.sites import PAIRS, latencies_ms
from situ.bench.suite import Bar, BenchFigure
from situ.bench.workload import Workload, cache_directory, query_text, stream_on_disk
from situ.core.errors import SituError
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.network import Link, Network, Site
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace
from situ.runtime.sites.process.deploying import Control
from situ.runtime.sites.process.local_sites import LocalSites, SiteArguments

LEFT, RIGHT, SPARK, ROOT = "left", "right", "spark", "root"
NETWORK = Network(
    (Site(LEFT), Site(RIGHT), Site(SPARK, engine="spark"), Site(ROOT)),
    (Link(LEFT, SPARK, 0), Link(RIGHT, SPARK, 0), Link(SPARK, ROOT, 0)),
)
_LOOK_S = 0.05
#: Of the latency: files a second, rows of each, and for how long they come. What the first seconds find is left out.
FILES_PER_S, FILE_ROWS, LATENCY_S, WARM_S, START_S = 10, 100, 30, 10, 180
TRIGGER_MS = 100


@dataclass
class Running:
    """Four sites at work."""

    sites: LocalSites
    control: Control

    def spark(self) -> dict[str, Any]:
        """How the Spark site is."""
        return dict(self.control.status(SPARK))

    def read(self) -> tuple[int, int]:
        """How many batches Spark has made, and how many events they have read."""
        version = self.spark()["versions"]["1"]
        batches = version["batches"]
        committed = sum(log["committed"] for log in version["read"].values())
        return batches["taken"], committed - batches["behind_events"]

    def is_over(self) -> bool:
        return all(version["over"] for version in self.control.status(ROOT)["versions"].values())


@contextmanager
def running(text: str, directory: Path) -> Iterator[Running]:
    """Four sites that run a query over the files of a directory, half of them at each source."""
    graph = resolve(parse(text, "benchmark"))
    (stream,) = graph.streams
    places = {operator.name: OperatorPlace(SPARK) for operator in graph.operators}
    plan = DeployedPlan(1, text, {stream.name: (LEFT, RIGHT)}, places, (ROOT,), bounded=True)
    with tempfile.TemporaryDirectory(prefix="situ-bench-") as work:
        files = sorted(directory.glob("*.parquet"))
        arguments = {ROOT: SiteArguments(out=str(Path(work, "out"))), SPARK: SiteArguments()}
        for number, site in enumerate((LEFT, RIGHT)):
            Path(work, site).mkdir()
            for file in files[number::2]:
                Path(work, site, file.name).symlink_to(file)
            arguments[site] = SiteArguments({stream.name: str(Path(work, site))})
        sites = LocalSites(NETWORK, arguments, Path(work, "sites"), scale=0, proxied=False)
        try:
            sites.start()
            control = Control(sites.control, sites.addresses)
            control.deploy(plan, NETWORK.names)
            yield Running(sites, control)
        finally:
            sites.close()


def throughput(say: Say) -> Iterator[BenchFigure]:
    """Events per second of warm batches, at a Spark site and on a plain stream."""
    from situ.bench.spark_streaming import time_streaming
    from situ.runtime.spark.session.session import borrowed_session

    workload = Workload(types=3)
    directory, text = stream_on_disk(workload, cache_directory()), query_text(workload)
    say("a plain Spark stream from files")
    with borrowed_session(conf={"spark.sql.shuffle.partitions": "2"}) as session:
        plain_per_s = workload.events / time_streaming(session)(text, directory).seconds
    say(f"{workload.events:,} events from two sites through a Spark site")
    with running(text, directory) as sites:
        while (first := sites.read())[0] < 1:
            time.sleep(_LOOK_S)
        begun = time.perf_counter()
        while not sites.is_over():
            time.sleep(_LOOK_S)
        seconds, batches = time.perf_counter() - begun, sites.read()[0]
    per_s = (workload.events - first[1]) / seconds
    detail = f"plain {plain_per_s:,.0f} events/s; {workload.events - first[1]:,} events in {batches - 1} warm batches"
    measured = {"events_per_s": per_s, "plain_events_per_s": plain_per_s}
    name = "Spark site: next, 3 types, two sources -> Spark -> root"
    yield BenchFigure(name, round(per_s / 1e6, 2), "million events/s", detail, measured)
    share = round(100 * per_s / plain_per_s, 1)
    yield BenchFigure(f"{name}, share", share, "% of a plain stream's", detail, measured, Bar("at least", 40))


def latency(say: Say) -> Iterator[BenchFigure]:
    """From a file that is moved in to the file of what it completes: a plain stream of Spark; and a source site, a
    Spark site and a root, with the same trigger."""
    medians: dict[str, float] = {}
    for name, started in (("plain", plain_stream), ("sites", three_sites)):
        say(f"latency of {FILES_PER_S} files a second: {name}")
        with tempfile.TemporaryDirectory(prefix="situ-bench-") as work:
            incoming, out = Path(work, "incoming"), Path(work, "out")
            incoming.mkdir()
            move_in(incoming, 0)
            with started(Path(work), incoming, out):
                medians[name] = float(np.median(latencies_of(incoming, out)))
    detail = f"plain {medians['plain']:.0f} ms, sites {medians['sites']:.0f} ms; a batch every {TRIGGER_MS} ms"
    added = round(medians["sites"] - medians["plain"])
    yield BenchFigure("Spark site: latency added, median", added, "ms", detail, medians, Bar("at most", 100))


@contextmanager
def plain_stream(work: Path, incoming: Path, out: Path) -> Iterator[None]:
    """`situ run --follow` on Spark, as a process."""
    query = work / "pairs.situ"
    query.write_text(PAIRS)
    command = [sys.executable, "-m", "situ.cli.app", "run", str(query), "--follow", "--engine", "spark", "--json"]
    command += ["--source", f"Event={incoming}", "--out", str(out), "--checkpoint", str(work / "state")]
    command += ["--every", f"{TRIGGER_MS}ms", "--shards", "2"]
    with (work / "said.txt").open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def three_sites(work: Path, incoming: Path, out: Path) -> Iterator[None]:
    """A source site, a Spark site and a root."""
    plan = DeployedPlan(1, PAIRS, {"Event": (LEFT,)}, {"Pair": OperatorPlace(SPARK)}, (ROOT,))
    arguments = {LEFT: SiteArguments({"Event": str(incoming)}), ROOT: SiteArguments(out=str(out))}
    arguments[SPARK] = SiteArguments(
        further=("--trigger", f"{TRIGGER_MS} ms", "--conf", "spark.sql.shuffle.partitions=2")
    )
    sites = LocalSites(NETWORK, arguments, work / "sites", scale=0, proxied=False)
    try:
        sites.start()
        Control(sites.control, sites.addresses).deploy(plan, (LEFT, SPARK, ROOT))
        yield
    finally:
        sites.close()


def move_in(incoming: Path, number: int) -> None:
    """A file of rows that happen now; each key of it has had a row before, in the file before."""
    rows = np.arange(number * FILE_ROWS, (number + 1) * FILE_ROWS)
    times = np.full(FILE_ROWS, time.time_ns() // 1000)
    pq.write_table(pa.table({"id": rows, "key": rows % FILE_ROWS, "ts": times}), incoming / ".unfinished")
    (incoming / ".unfinished").rename(incoming / f"{number:09d}.parquet")


def latencies_of(incoming: Path, out: Path) -> np.ndarray:
    """Moves files in, until there are results and then at an even pace; how late what they complete is on disk."""
    parts: Callable[[], list[Path]] = lambda: sorted((out / "Pair").glob("[bp]*-*.parquet"))  # noqa: E731
    number, deadline = 1, time.monotonic() + START_S
    while not any(pq.read_metadata(part).num_rows for part in parts()):
        if time.monotonic() > deadline:
            raise SituError(f"nothing is found in {START_S} s")
        move_in(incoming, number)
        number += 1
        time.sleep(1)
    first = number
    begun = time.time()
    for _ in range(LATENCY_S * FILES_PER_S):
        move_in(incoming, number)
        number += 1
        time.sleep(max(begun + (number - first) / FILES_PER_S - time.time(), 0))
    # Only what happened when Spark was warm; the first result of a later time says that all of it has been found.
    since_us, until_us = (begun + WARM_S) * 1e6, time.time() * 1e6
    deadline = time.monotonic() + START_S
    while not any((times_of(part) >= until_us).any() for part in parts()[-5:]):
        if time.monotonic() > deadline:
            raise SituError(f"what has happened is not found in {START_S} s")
        move_in(incoming, number)
        number += 1
        time.sleep(1)
    found = [latencies_ms(part)[(times_of(part) > since_us) & (times_of(part) < until_us)] for part in parts()]
    return np.concatenate(found)


def times_of(part: Path) -> np.ndarray:
    """The times of the complex events in a file."""
    return np.asarray(pq.read_table(part)["_time"].cast(pa.int64()))


def restart(say: Say) -> Iterator[BenchFigure]:
    """From the kill of the driver to its next batch, less what Spark itself takes to start."""
    workload = Workload(types=3, events=1_000_000)
    directory, text = stream_on_disk(workload, cache_directory()), query_text(workload)
    say("a killed driver is back at work")
    with running(text, directory) as sites:
        while not (Path(sites.sites.sites[SPARK].directory) / "spark/version-1/spark/offsets/0").exists():
            time.sleep(_LOOK_S)
        begun = time.perf_counter()
        sites.sites.kill(SPARK)
        sites.sites.start([SPARK])
        taken = 0
        while not taken:
            with suppress(SituError):
                taken = sites.read()[0]
            time.sleep(_LOOK_S)
        seconds = time.perf_counter() - begun
        started_s = sites.spark()["process"]["spark"]["start_s"]
    detail = f"{seconds:.1f} s in all, of which Spark's session takes {started_s:.1f} s"
    measured = {"seconds": seconds, "spark_start_s": started_s}
    value = round(seconds - started_s, 1)
    yield BenchFigure(
        "Spark site: driver killed and back", value, "s beyond Spark's start", detail, measured, Bar("at most", 3)
    )


SECTIONS = {"throughput": throughput, "latency": latency, "restart": restart}


if __name__ == "__main__":
    sys.exit(show(__doc__, SECTIONS))
