"""Drivers who are near each other share what situ finds with Spark: how much faster that is, and how far off.

    .venv/bin/python examples/reuse/demo.py          # writes reuse.png to out/reuse

The detection is `detect_speeds`; the rest compares and shows what came out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
from drivers import every_third, vehicles_of, write
from moment import QUERY, SUBSCRIPTION, moment_of
from picture import draw, to_png
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import situ
from situ.graph.query import Query
from situ.reuse.totals import Totals
from situ.runtime.spark.detect import Detection

#: The same query without its last line, `quality`.
EXACT = replace(QUERY, subscriptions=(replace(SUBSCRIPTION, quality=None),))


def detect_speeds(spark: SparkSession, query: Query, files: Mapping[str, Path]) -> Detection:
    """Sharing is asked for in the query alone: the program is the same with it and without."""
    return situ.detect(query, {stream: spark.read.parquet(str(path)) for stream, path in files.items()})


def totals_of(detection: Detection) -> Totals:
    """What was shared. `detection.reuse` has means of precision and recall, where totals have sums."""
    (row,) = (row.asDict() for row in detection.reuse.drop("subscription").collect())
    return Totals(**row | {name: row[name] * row["spans"] for name in ("precision", "recall")})


# --- how far off


@dataclass(frozen=True, slots=True)
class Difference:
    """Delivered mean speeds beside the exact ones: `common` are in both, `missing` and `extra` in one of the two."""

    common: int
    missing: int
    extra: int
    speed_m_s: float
    off_m_s: float
    equal: float
    within_1_m_s: float

    def __str__(self) -> str:
        return (
            f"{self.common:,} mean speeds, {self.missing} missing, {self.extra} too many\n"
            f"{self.off_m_s:.2f} m/s off on average, of {self.speed_m_s:.2f} m/s\n"
            f"{self.equal:.0%} are exact, {self.within_1_m_s:.0%} within 1 m/s"
        )


def difference(delivered: pd.DataFrame, exact: pd.DataFrame) -> Difference:
    """By driver, square and time."""
    key = ["consumer", "interest", "_time"]
    both = exact[[*key, "mean_speed"]].merge(
        delivered[[*key, "mean_speed"]], on=key, how="outer", suffixes=("_exact", ""), indicator=True
    )
    counts = both["_merge"].value_counts()
    common = both[both["_merge"] == "both"]
    off = (common["mean_speed"] - common["mean_speed_exact"]).abs()
    means = common["mean_speed_exact"].mean(), off.mean(), (off < 1e-9).mean(), (off <= 1).mean()
    return Difference(len(common), int(counts["left_only"]), int(counts["right_only"]), *map(float, means))


# --- what people see


@contextmanager
def step(console: Console, text: str) -> Iterator[None]:
    """Says what is going on, with the time that it has taken so far."""
    columns = SpinnerColumn(finished_text=" "), TextColumn("{task.description}"), TimeElapsedColumn()
    if not console.is_terminal:
        console.print(text)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(text, total=1)
        yield
        progress.advance(task)


def warm_up(spark: SparkSession, vehicles: pa.Table, directory: Path) -> None:
    """Numba compiles situ's kernel when it is first used and keeps it on disk, and Spark starts its workers. Neither
    belongs to what is compared."""
    some = vehicles.slice(length=10_000)
    tables = {"Vehicle": some, "Driver": every_third(some)}
    for query in (QUERY, EXACT):
        list(situ.Engine(query).run(tables))
    files = {stream: write(table, directory / f"some_{stream}.parquet") for stream, table in tables.items()}
    for query in (QUERY, EXACT):
        timed(detect_speeds(spark, query, files))
    for path in files.values():
        path.unlink()


def timed(detection: Detection) -> tuple[pd.DataFrame, float]:
    """What is delivered, and how many seconds that took."""
    begun = time.perf_counter()
    return detection["NearbySpeed"].toPandas(), time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description="Drivers ask for the mean speed around them and share, with Spark.")
    parser.add_argument("--out", type=Path, default=Path("out/reuse"), help="directory for the picture (out/reuse)")
    parser.add_argument("--minutes", type=int, default=20, help="so much of the trace is read (20)")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    with step(console, "Choosing the drivers: every third car"):
        vehicles = vehicles_of(arguments.minutes)
        drivers = every_third(vehicles)
        tables = {"Vehicle": vehicles, "Driver": drivers}
        files = {stream: write(table, arguments.out / f"{stream}.parquet") for stream, table in tables.items()}
    with step(console, "Spark starts, and Numba compiles the kernel: half a minute, only the first time"):
        spark = situ.spark_session(app_name="reuse")
        warm_up(spark, vehicles, arguments.out)
    asking = f"mean speeds around {len(drivers['vehicle'].unique())} drivers in {len(vehicles):,} rows"
    with step(console, f"Everyone alone: {asking}"):
        exact, exact_s = timed(detect_speeds(spark, EXACT, files))
    with step(console, f"Everyone shares: {asking}"):
        detection = detect_speeds(spark, QUERY, files)
        delivered, shared_s = timed(detection)
    with step(console, "What was shared"):  # Spark runs the query once more: nothing is kept
        totals = totals_of(detection)
    spark.stop()
    with step(console, "Drawing the picture"):
        delivered.to_parquet(arguments.out / "speeds.parquet", index=False)
        path = arguments.out / "reuse.png"
        path.write_bytes(to_png(draw(moment_of(delivered, drivers, 30 * arguments.minutes))))
    console.print(f"\n[bold]Alone {exact_s:.1f} s, shared {shared_s:.1f} s[/bold]")
    console.print(str(totals), soft_wrap=True)
    console.print(f"\n[bold]How far off[/bold]\n{difference(delivered, exact)}\n\nThe picture: {path}")


if __name__ == "__main__":
    main()
