"""A Spark site: two source sites, one whose operators run on Spark, and a root, beside a plain Spark stream from files.

`python -m situ.bench.spark_sites [--only throughput restart]`. Both clocks run for warm batches only: the first of a
query, in which Spark starts Python and compiles, is left out.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from situ.bench.sections import Say
from situ.bench.sections import main as show
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


SECTIONS = {"throughput": throughput, "restart": restart}


if __name__ == "__main__":
    sys.exit(show(__doc__, SECTIONS))
