"""Sites: a source site, an operator site and a root, three processes with TLS and journals on disk.

`python -m situ.bench.sites [--only throughput latency restart soak] [--minutes 10]`, part of `make bench`. The clock of
a run begins when the plan begins to run, and ends when the root has written everything.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from situ.bench.measure import Timed, median_seconds, time_embedded
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
from situ.runtime.sites.wire.identity import Identities
from situ.runtime.sites.wire.producing import Producer
from situ.service.certificates import Credentials, make_producer_keys, producer_identity

SOURCE, OPERATOR, ROOT, PRODUCER = "source", "operator", "root", "producer"
NETWORK = Network((Site(SOURCE), Site(OPERATOR), Site(ROOT)), (Link(SOURCE, OPERATOR, 0), Link(OPERATOR, ROOT, 0)))
_LOOK_S = 0.02

RATE, FILES_PER_S, PUSHES_PER_S, LATENCY_S = 10_000, 100, 250, 20
PAIRS = """
stream Event(id int, key int, ts int) time ts in us order id
subscribe Pair
  detect   Event as a then Event as b within 10 s
  assign   key = a.key, first = a.id, second = b.id
  group by key
  after match skip past last
"""
#: Matches that wait for a window that does not end here: a state of some 8 MB.
HELD_ROWS = 60_000
HELD = """
stream Event(id int, key int, ts int) time ts in us order id
subscribe Held
  detect   Event as a then Event(id < 0) as b within 1 h
  assign   key = a.key, first = a.id
  group by key
"""


def time_sites(text: str, directory: Path) -> Timed:
    """Times three sites, from files at the source to files at the root."""
    graph = resolve(parse(text, "benchmark"))
    (stream,) = graph.streams
    places = {operator.name: OperatorPlace(OPERATOR) for operator in graph.operators}
    plan = DeployedPlan(1, text, {stream.name: (SOURCE,)}, places, (ROOT,), bounded=True)
    with tempfile.TemporaryDirectory(prefix="situ-bench-") as work:
        out = Path(work, "out")
        arguments = {
            SOURCE: SiteArguments({stream.name: str(directory)}),
            OPERATOR: SiteArguments(),
            ROOT: SiteArguments(out=str(out)),
        }
        sites = LocalSites(NETWORK, arguments, Path(work, "sites"), scale=0, proxied=False)
        try:
            sites.start()
            control = Control(sites.control, sites.addresses)
            control.deploy(plan, NETWORK.names)
            begun = time.perf_counter()
            while not is_over(control):
                time.sleep(_LOOK_S)
            seconds = time.perf_counter() - begun
        finally:
            sites.close()
        names = [operator.name for operator in graph.subscriptions]
        return Timed(sum(pq.read_table(out / name).num_rows for name in names if (out / name).exists()), seconds)


def is_over(control: Control) -> bool:
    """Whether all sites have done all; SituError if one of them does not answer."""
    for site, report in control.of_all(control.status, [ROOT]).items():
        if isinstance(report, SituError):
            raise SituError(f"site {site} does not answer: {report.cause}")
        if not report["versions"] or not all(version["over"] for version in report["versions"].values()):
            return False
    return True


# ---- figures of `make bench`


@dataclass
class AtWork:
    """A source site that follows a directory, and a root with the operator."""

    sites: LocalSites
    control: Control
    incoming: Path
    out: Path
    files: int = 0

    def move_in(self, columns: dict[str, np.ndarray]) -> None:
        """One more file for the source."""
        pq.write_table(pa.table(columns), self.incoming / ".unfinished")
        (self.incoming / ".unfinished").rename(self.incoming / f"{self.files:09d}.parquet")
        self.files += 1

    def has_read(self, rows: int) -> bool:
        """Whether the root has read so many rows."""
        versions = self.control.status(ROOT)["versions"].values()
        logs = [log for version in versions for name, log in version["read"].items() if name.startswith("events/")]
        return rows <= int(sum(log["committed"] for log in logs))

    def has_written(self, rows: int) -> bool:
        """Whether the root has written so many complex events."""
        return rows <= int(sum(self.control.status(ROOT)["process"]["written"].values()))


@contextmanager
def at_work(query: str, pushed: bool = False) -> Iterator[AtWork]:
    """Two sites that run a query, over files that are moved in, or over what a producer pushes."""
    graph = resolve(parse(query, "benchmark"))
    (stream,) = graph.streams
    places = {operator.name: OperatorPlace(ROOT) for operator in graph.operators}
    plan = DeployedPlan(1, query, {stream.name: (SOURCE,)}, places, (ROOT,))
    with tempfile.TemporaryDirectory(prefix="situ-bench-") as work:
        incoming, out = Path(work, "incoming"), Path(work, "out")
        incoming.mkdir()
        address = f"flight://{PRODUCER}" if pushed else str(incoming)
        arguments = {SOURCE: SiteArguments({stream.name: address}), ROOT: SiteArguments(out=str(out))}
        sites = LocalSites(NETWORK, arguments, Path(work, "sites"), scale=0, proxied=False)
        try:
            sites.start()
            control = Control(sites.control, sites.addresses)
            control.deploy(plan, (SOURCE, ROOT))
            yield AtWork(sites, control, incoming, out)
        finally:
            sites.close()


def producer_of(running: AtWork) -> Producer:
    """A producer for the source site of `at_work`."""
    folder = make_producer_keys([PRODUCER], running.sites.directory / "keys")[PRODUCER]
    identities = Identities.of(PRODUCER, NETWORK.names, Credentials.read(folder, producer_identity(PRODUCER)))
    return Producer(identities, SOURCE, running.sites.addresses[SOURCE], "Event")


def latency(say: Say) -> Iterator[BenchFigure]:
    """From the moment at which a row is handed to the source to the moment at which the result that it completes is on
    disk: as a file that is moved in, and pushed by a producer."""
    for pushed in (False, True):
        how = "pushed" if pushed else "files"
        say(f"sites: latency at {RATE:,} events/s, {how}")
        with at_work(PAIRS, pushed) as running:
            measured = hand_over(running, producer_of(running) if pushed else None)
        median, p99 = np.percentile(measured[RATE:], [50, 99])  # without the first seconds, which load the kernel
        detail = f"{len(measured):,} complex events; {PUSHES_PER_S if pushed else FILES_PER_S} pieces a second"
        figures = {"median_ms": float(median), "p99_ms": float(p99)}
        name = f"sites: detection latency, {how}"
        yield BenchFigure(name, round(float(median), 1), "ms, median", detail, figures, Bar("at most", 25))
        yield BenchFigure(name, round(float(p99), 1), "ms, p99", detail, figures, Bar("at most", 100))


def hand_over(running: AtWork, producer: Producer | None) -> np.ndarray:
    """Hands rows to the source at an even pace; the latencies of what is found in them, in milliseconds."""
    pieces_per_s = FILES_PER_S if producer is None else PUSHES_PER_S
    per_piece, begun, last = RATE // pieces_per_s, time.time(), LATENCY_S * pieces_per_s
    for number in range(last):
        rows = np.arange(number * per_piece, (number + 1) * per_piece)
        columns = {"id": rows, "key": rows % 1000, "ts": np.full(per_piece, time.time_ns() // 1000)}
        if producer is None:
            running.move_in(columns)
        else:
            producer.send(pa.table(columns))
        time.sleep(max(begun + (number + 1) / pieces_per_s - time.time(), 0))
    if producer is not None:
        producer.flush()
        producer.close()
    wait_until(running.has_written, (last - 20) * per_piece // 2)  # what waits for time stays out
    return np.concatenate([latencies_ms(part) for part in sorted((running.out / "Pair").glob("part-*"))])


def latencies_ms(part: Path) -> np.ndarray:
    """How long after its time each complex event of a part was on disk."""
    times_us = pq.read_table(part)["_time"].cast(pa.int64()).to_numpy()
    # A part gets its name when its rows are on disk, and a name changes the time of the file's status.
    return np.asarray((part.stat().st_ctime_ns / 1000 - times_us) / 1000)


def restart(say: Say) -> Iterator[BenchFigure]:
    """From a kill to the moment at which the site has read what came meanwhile."""
    say("sites: a killed site is back at work")
    seconds: list[float] = []
    with at_work(HELD) as running:
        for number in range(3):
            rows = np.arange(number * HELD_ROWS, (number + 1) * HELD_ROWS)
            begun = time.perf_counter()
            if number:
                running.sites.kill(ROOT)
            running.move_in({"id": rows, "key": rows, "ts": 1_000_000 + rows})
            if number:
                running.sites.start([ROOT])
            wait_until(running.has_read, int(rows[-1]) + 1)
            seconds.append(time.perf_counter() - begun)
    detail = f"{HELD_ROWS:,} open matches more at each start: process, journal, what came meanwhile"
    figures = {"seconds": seconds}
    yield BenchFigure("sites: killed and back", round(seconds[-1], 2), "s", detail, figures, Bar("at most", 2))


def wait_until(holds: Callable[[int], bool], count: int) -> None:
    """Looks until something holds; SituError if it does not in two minutes."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with suppress(SituError):  # a site that is just being started
            if holds(count):
                return
        time.sleep(_LOOK_S)
    raise SituError("the sites do not get on")


def throughput(say: Say) -> Iterator[BenchFigure]:
    """Three processes at full speed, beside the embedded engine on the same files."""
    workload = Workload(types=3)
    say(f"sites: {workload.events:,} events through three processes")
    directory = stream_on_disk(workload, cache_directory())
    text = query_text(workload)
    embedded = median_seconds(time_embedded, text, directory)
    seconds = median_seconds(time_sites, text, directory)
    per_s, ratio = workload.events / seconds, seconds / embedded
    detail = f"embedded takes {embedded:.2f} s, sites {seconds:.2f} s"
    measured = {"events_per_s": per_s, "embedded_seconds": embedded, "seconds": seconds}
    name = "sites: next, 3 types, source -> operator -> root"
    yield BenchFigure(name, round(per_s / 1e6, 2), "million events/s", detail, measured, Bar("at least", 1))
    yield BenchFigure(f"{name}, time", round(ratio, 1), "x the embedded engine's", detail, measured, Bar("at most", 8))


SECTIONS = {"throughput": throughput, "latency": latency, "restart": restart}


def main() -> int:
    """The figures as a table; the soak takes as long as `--minutes` says."""
    from situ.bench.site_soak import MINUTES, soak

    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    options, sys.argv[1:] = parser.parse_known_args()
    return show(__doc__, SECTIONS | {"soak": partial(soak, minutes=options.minutes)})


if __name__ == "__main__":
    sys.exit(main())
