"""One benchmark: the clock runs from Parquet files on disk to columns of matches in memory."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from situ.bench.peer import PeerRun
from situ.bench.workload import Workload, query_text, stream_on_disk
from situ.core.errors import SituError

#: What a workload can run on. The third one runs it as a streaming query, the last one as three processes.
Engine: TypeAlias = Literal["embedded", "spark", "spark-streaming", "sites"]

#: The median of this many warm runs is the figure.
WARM_RUNS = 3


#: A streaming query has as many stateful tasks as this says, which Spark would set to 200.
STREAMING_CONF = {"spark.sql.shuffle.partitions": str(os.cpu_count() or 2)}


class Disagreement(SituError):
    """situ and its peer find different numbers of matches in the same events."""


@dataclass(frozen=True, slots=True)
class Timed:
    """What one run over a stream found, and how long it took."""

    matches: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """A workload's figures. `cold` is the first run in this process, the others came after it."""

    workload: Workload
    matches: int
    seconds: float
    cold_seconds: float
    peer: PeerRun | None = None
    hops: dict[str, float] | None = None  # where it is asked for, seconds by `place: hop`

    @property
    def events_per_s(self) -> float:
        return self.workload.events / self.seconds

    @property
    def ratio(self) -> float | None:
        """How many times as many events per second as the peer."""
        return self.events_per_s / self.peer.events_per_s if self.peer else None

    def to_json(self) -> dict[str, Any]:
        """The figures as `situ bench --json` prints them."""
        figures: dict[str, Any] = {
            "workload": self.workload.pattern.value,
            "types": self.workload.types,
            "keys": self.workload.keys,
            "grouped": self.workload.grouped,
            "window_ms": self.workload.window_ms,
            "events": self.workload.events,
            "matches": self.matches,
            "seconds": round(self.seconds, 4),
            "events_per_s": round(self.events_per_s),
            "cold_events_per_s": round(self.workload.events / self.cold_seconds),
        }
        if self.peer and self.ratio:
            figures["peer"] = {
                "name": self.peer.name,
                "events": self.peer.events,
                "matches": self.peer.matches,
                "events_per_s": round(self.peer.events_per_s),
            }
            figures["ratio"] = round(self.ratio, 2)
        if self.hops is not None:
            figures["timing"] = {hop: round(seconds, 3) for hop, seconds in self.hops.items()}
        return figures


#: Runs the query of a text over the stream in a directory.
TimeQuery: TypeAlias = Callable[[str, Path], Timed]


@contextmanager
def timer(engine: Engine, master: str | None = None, conf: Mapping[str, str] | None = None) -> Iterator[TimeQuery]:
    """What runs queries on an engine; a Spark session lives as long as it is needed."""
    if engine == "embedded":
        yield time_embedded
        return
    if engine == "sites":
        from situ.bench.sites import time_sites

        yield time_sites
        return
    from situ.runtime.spark.session.session import borrowed_session

    if engine == "spark-streaming":
        from situ.bench.spark_streaming import time_streaming as time_query

        conf = STREAMING_CONF | dict(conf or {})
    else:
        from situ.bench.spark import time_on_spark as time_query
    with borrowed_session(master, conf) as spark:
        yield time_query(spark)


def median_seconds(time_query: TimeQuery, text: str, directory: Path) -> float:
    """The median time of warm runs of a query."""
    _, *warm = (time_query(text, directory).seconds for _ in range(1 + WARM_RUNS))
    return statistics.median(warm)


def measure(time_query: TimeQuery, workload: Workload, cache: Path) -> Measurement:
    """The workload's figures without a peer; the stream is on disk before the clock starts."""
    directory = stream_on_disk(workload, cache)
    cold, *warm = (time_query(query_text(workload), directory) for _ in range(1 + WARM_RUNS))
    return Measurement(workload, cold.matches, statistics.median(run.seconds for run in warm), cold.seconds)


def measure_beside(
    peer: Callable[[Workload], PeerRun], time_query: TimeQuery, workload: Workload, peer_events: int, cache: Path
) -> Measurement:
    """Measures a workload, and a peer on the first `peer_events` of its events; both must find the same matches there.

    FlinkCEP always groups by key: of a query that does not, only the speed is compared.
    """
    shorter = replace(workload, events=peer_events)
    peer_run = peer(shorter)
    measurement = replace(measure(time_query, workload, cache), peer=peer_run)
    own_matches = measurement.matches
    if shorter != workload:
        own_matches = time_query(query_text(shorter), stream_on_disk(shorter, cache)).matches
    if (workload.grouped or peer_run.name != "flinkcep") and own_matches != peer_run.matches:
        raise Disagreement(
            f"in the same {peer_events:,} events situ finds {own_matches:,} matches and the peer {peer_run.matches:,}",
            remedy=f"The query: {query_text(shorter)}",
        )
    return measurement


def time_embedded(text: str, directory: Path) -> Timed:
    """Times the embedded engine, from text and files to columns of matches."""
    from situ.io.files.by_suffix import open_source
    from situ.lang.parse import parse
    from situ.lang.resolve import resolve
    from situ.runtime.embedded import Engine

    start = time.perf_counter()
    graph = resolve(parse(text, "benchmark"))
    (stream,) = graph.streams
    pieces = list(Engine(graph).run({stream.name: open_source(directory, stream)}))
    seconds = time.perf_counter() - start
    return Timed(sum(table.num_rows for piece in pieces for table in piece.complex_events.values()), seconds)
