"""Twenty minutes of traffic in Ingolstadt: what situ finds with Spark, in tables and on a map.

    .venv/bin/python examples/traffic/demo.py          # writes out/traffic.png and out/traffic.svg

The detection is `detect_situations`; the rest shows what came out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from road_map import draw_map, figure_to_png, numbered

import situ

HERE = Path(__file__).resolve().parent
QUERY = (HERE / "traffic.situ").read_text(encoding="utf-8")


def detect_situations(spark: SparkSession) -> dict[str, pd.DataFrame]:
    """For each subscription of the query, the situations that were found. All of them come out of one run."""
    vehicles = spark.read.parquet(str(HERE / "vehicles.parquet"))
    detection = situ.detect(QUERY, {"Vehicle": vehicles})
    events = detection.events.toPandas()
    return {name: events[events["_name"] == name] for name in detection.names}


def compile_kernel() -> None:
    """Numba compiles situ's kernel when it is first used and keeps it on disk, where Spark's workers find it."""
    some_rows = pq.read_table(HERE / "vehicles.parquet").slice(length=10_000)
    list(situ.Engine(QUERY).run({"Vehicle": some_rows}))


#: For each subscription: what it is, and the columns that are its own.
TABLES = {
    "Accident": ("looks like an accident", {"braked first": "car1", "then left the lane": "other"}),
    "Queue": ("queue at a junction, for three minutes", {"vehicles standing": "vehicles"}),
    "HardBraking": ("hard braking", {"vehicle": "vehicle", "slower by m/s": "drop"}),
}


def situation_table(name: str, found: pd.DataFrame, limit: int) -> Table:
    """The first situations of a subscription, in order of time."""
    title, own = TABLES[name]
    more = f", the first {limit}" if limit < len(found) else ""
    table = Table(title=f"{title}: {len(found)}{more}", title_justify="left", title_style="bold", box=None)
    for heading in ("no.", "when", "lane", "place", *own):
        table.add_column(heading, no_wrap=True, max_width=18)
    for row in numbered(found).head(limit).to_dict("records"):
        values = (f"{value:.1f}" if isinstance(value, float) else value for value in map(row.get, own.values()))
        place = f"({row['x']:.0f}, {row['y']:.0f})"
        table.add_row(str(row["number"]), minutes_and_seconds(row["_time"]), row["lane"], place, *values)
    return table


def minutes_and_seconds(time: pd.Timestamp) -> str:
    """The simulation's clock starts with 1 January 1970."""
    return f"{time.hour * 60 + time.minute:02}:{time.second:02}"


def write_map(found: Mapping[str, pd.DataFrame], directory: Path) -> list[Path]:
    directory.mkdir(parents=True, exist_ok=True)
    figure = draw_map(found)
    paths = directory / "traffic.png", directory / "traffic.svg"
    paths[0].write_bytes(figure_to_png(figure, dpi=150))
    figure.savefig(paths[1])
    return list(paths)


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


def main() -> None:
    parser = argparse.ArgumentParser(description="Finds situations in twenty minutes of traffic, with Spark.")
    parser.add_argument("--out", type=Path, default=Path("out"), help="directory for the map (out)")
    parser.add_argument("--limit", type=int, default=15, help="rows of each table (15)")
    arguments = parser.parse_args()
    console = Console()
    with step(console, "Numba compiles the kernel: half a minute, only the first time"):
        compile_kernel()
    with step(console, "Spark starts"):
        spark = situ.spark_session(app_name="traffic")
    with step(console, "Spark and situ look for situations in 336,258 rows"):
        found = detect_situations(spark)
    with step(console, "Drawing the map"):
        paths = write_map(found, arguments.out)
    for name in TABLES:
        console.print()
        console.print(situation_table(name, found[name], arguments.limit))
    console.print("\nTimes are minutes and seconds since the start, places are in metres. The map:", *paths)
    spark.stop()


if __name__ == "__main__":
    main()
