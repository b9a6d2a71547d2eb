"""How long after its last event a complex event is in the sink, at a steady pace: figures, and a picture over time.

A feeder moves a file of events into a directory ten times a second; an event is available when its file is there. The
streaming query's sink notes when it has the complex events of a micro-batch. The watermark is zero, as in the other
workloads, so the time between the two is all that detection takes.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import situ
from situ.bench.spark_streaming import SCHEMA
from situ.bench.workload import Workload, events, query_text

#: Files in a second.
FILES_PER_S = 10


@dataclass(frozen=True)
class Latencies:
    """Seconds from the moment in which a complex event's last event was available to that in which the sink had it,
    in order of these moments, without those of the first seconds, in which Spark warms up."""

    events_per_s: int
    moments_s: npt.NDArray[np.float64]
    seconds: npt.NDArray[np.float64]
    warm_from_s: float

    def percentile(self, percent: float) -> float:
        return float(np.percentile(self.seconds[self.moments_s >= self.warm_from_s], percent))

    def to_json(self) -> dict[str, Any]:
        figures = {f"p{percent}_s": round(self.percentile(percent), 3) for percent in (50, 90, 99)}
        warm = int((self.moments_s >= self.warm_from_s).sum())
        return {"events_per_s": self.events_per_s, "complex_events": warm, **figures}


def measure_latency(
    spark: SparkSession, events_per_s: int = 100_000, duration_s: int = 60, warm_up_s: int = 20
) -> Latencies:
    """Feeds events for `warm_up_s` and then `duration_s`, as fast as they come in."""
    workload = Workload()
    arrivals: list[tuple[float, npt.NDArray[np.int64]]] = []

    def sink(rows: DataFrame, batch: int) -> None:
        times = rows.filter("_kind = 'complex event'").selectExpr("unix_micros(_time)").toArrow().column(0)
        arrivals.append((time.time(), times.to_numpy()))

    with tempfile.TemporaryDirectory(prefix="situ-latency-") as work:
        directory = Path(work) / "stream"
        directory.mkdir()
        source = spark.readStream.schema(SCHEMA).parquet(str(directory))
        detection = situ.detect(query_text(workload), {"Event": source})
        writer = detection.events.writeStream.foreachBatch(sink).option("checkpointLocation", f"{work}/checkpoint")
        query = writer.start()
        try:
            feeder = Feeder(directory, workload, events_per_s)
            feeder.run(warm_up_s + duration_s, is_active=lambda: query.isActive)
            query.processAllAvailable()
        finally:
            query.stop()
    return _latencies(feeder, arrivals, events_per_s, warm_up_s)


@dataclass
class Feeder:
    """Writes files of events whose times are the moments at which they are written, and notes when each was there."""

    directory: Path
    workload: Workload
    events_per_s: int

    def __post_init__(self) -> None:
        self.last_times: list[int] = []
        self.available: list[float] = []

    def run(self, duration_s: int, is_active: Callable[[], bool]) -> None:
        per_file = self.events_per_s // FILES_PER_S
        begun = time.time()
        wait = threading.Event()
        for number in range(duration_s * FILES_PER_S):
            due = begun + (number + 1) / FILES_PER_S
            table = events(number * per_file, (number + 1) * per_file, self.workload.types, self.workload.keys)
            times = np.linspace((due - 1 / FILES_PER_S) * 1e6, due * 1e6, per_file, endpoint=False).astype(np.int64)
            table = table.set_column(4, "ts", pa.array(times, pa.timestamp("us", tz="UTC")))
            hidden, shown = (self.directory / f"{prefix}{number:06d}.parquet" for prefix in ("_", "part-"))
            pq.write_table(table, hidden)
            wait.wait(max(due - time.time(), 0))  # the pace is what is measured
            hidden.rename(shown)
            self.last_times.append(int(times[-1]))
            self.available.append(time.time())
            if not is_active():
                return


def _latencies(
    feeder: Feeder, arrivals: list[tuple[float, npt.NDArray[np.int64]]], events_per_s: int, warm_up_s: int
) -> Latencies:
    times = np.concatenate([times for _, times in arrivals])
    in_sink = np.concatenate([np.full(len(times), moment) for moment, times in arrivals])
    files = np.searchsorted(np.array(feeder.last_times), times)  # the first file that reaches so far
    available = np.array(feeder.available)[files]
    begun = feeder.available[0]
    order = np.argsort(available, kind="stable")
    return Latencies(events_per_s, (available - begun)[order], (in_sink - available)[order], warm_up_s)


def draw(latencies: Latencies, path: Path) -> None:
    """Latency over time, with its median and its 99th percentile."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4), layout="constrained")
    axes.scatter(latencies.moments_s, latencies.seconds, s=4, alpha=0.3, linewidths=0, color="tab:blue")
    for percent, style in ((50, "-"), (99, "--")):
        value = latencies.percentile(percent)
        axes.axhline(value, linestyle=style, color="black", linewidth=1, label=f"{percent}% within {value:.2f} s")
    axes.axvspan(0, latencies.warm_from_s, color="lightgrey", alpha=0.5, label="warming up: not counted")
    axes.set(xlabel="seconds since the start", ylabel="seconds from event to sink", ylim=(0, None))
    axes.set_title(f"Detection latency at {latencies.events_per_s:,} events/s, Spark on 2 cores")
    axes.legend(loc="upper right")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
