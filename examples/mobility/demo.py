"""Drivers are told of waves of hard braking near them: what situ finds with Spark, in tables and on a map that moves.

    .venv/bin/python examples/mobility/demo.py       # writes map.html, map.png and map.gif to out/mobility

The detection is `detect_waves`; the rest shows what came out.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
from drivers import VEHICLES, write_drivers
from map_page import page_of
from picture import TELLING_S, busiest, film, picture
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from scene import QUERY, Scene, scene_of, story_of

import situ


def detect_waves(spark: SparkSession, vehicles: Path, drivers: Path) -> pd.DataFrame:
    """A moving subscription is asked for like any other: the drivers are one more stream."""
    streams = {"Vehicle": spark.read.parquet(str(vehicles)), "Driver": spark.read.parquet(str(drivers))}
    return situ.detect(QUERY, streams)["NearbyWave"].toPandas()


def compile_kernel(drivers: Path) -> None:
    """Numba compiles situ's kernel when it is first used and keeps it on disk, where Spark's workers find it."""
    some = {
        "Vehicle": pq.read_table(VEHICLES).slice(length=10_000),
        "Driver": pq.read_table(drivers).slice(length=1_000),
    }
    list(situ.Engine(QUERY).run(some))


# --- what people see


def driver_table(scene: Scene, limit: int) -> Table:
    """The drivers who are told of most waves. In the past: those that were over when the driver came near."""
    waves = Counter(told.driver for told in scene.told if told.first)
    deliveries = Counter(told.driver for told in scene.told)
    over = [told for told in scene.told if told.first and told.second > scene.waves[told.wave].second]
    before = Counter(told.driver for told in over)
    known = len({told.wave for told in scene.told})
    title = f"drivers who are told: {len(waves)} of {len(scene.drivers)}, of {known} waves"
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    for heading in ("driver", "drives", "squares", "waves", "in the past", "events"):
        table.add_column(heading, justify="left" if heading in ("driver", "drives") else "right", no_wrap=True)
    for number, count in sorted(waves.items(), key=lambda one: (-one[1], one[0]))[:limit]:
        driver = scene.drivers[number]
        drives = f"{clock(driver.interests[0].start_s)} to {clock(driver.interests[-1].end_s)}"
        counts = len(driver.interests), count, before[number], deliveries[number]
        table.add_row(scene.tracks.names[driver.car], drives, *map(str, counts))
    return table


def told_story(scene: Scene) -> str:
    """One driver, from the wave to the place where it was."""
    story = story_of(scene)
    if story is None:
        return "Nobody comes by a wave that was over when they were told."
    told, wave, driver = story.told, scene.waves[story.told.wave], scene.drivers[story.told.driver]
    one, two, three = (scene.tracks.names[car] for car in wave.cars)
    who = scene.tracks.names[driver.car]
    where = "is not near" if driver.drives(wave.second) else "has not set off yet"
    return (
        f"[bold]The story of {who}[/bold]\n"
        f"{clock(wave.second)}  {one}, {two} and {three} have braked hard\n"
        f"       on road {wave.road}. {who} {where}.\n"
        f"{clock(told.second)}  Square {told.interest + 1} of {who} begins, and the place is in it: it is told of\n"
        f"       a wave {story.metres:.0f} m to the {story.direction}, {told.second - wave.second} s before.\n"
        f"{clock(story.passes_s)}  It comes by the place: it had {story.passes_s - told.second} s to slow down."
    )


def clock(second: int) -> str:
    """Minutes and seconds since the start."""
    return f"{second // 60:02}:{second % 60:02}"


@contextmanager
def step(console: Console, text: str, total: int = 1) -> Iterator[Progress]:
    """Says what is going on, with the time that it has taken so far; some steps also how far they are."""
    columns = SpinnerColumn(finished_text=" "), TextColumn("{task.description}"), TimeElapsedColumn()
    counting = (TextColumn("{task.completed} of {task.total}"),) if total > 1 else ()
    if not console.is_terminal:
        console.print(text)
    with Progress(*columns, *counting, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(text, total=total)
        yield progress
        progress.update(task, completed=total)


def write_maps(console: Console, scene: Scene, directory: Path, seconds: int) -> list[Path]:
    """A page, a picture of the moment when most drivers are told, and a film of the busiest minutes."""
    page, still, moving = directory / "map.html", directory / "map.png", directory / "map.gif"
    with step(console, "Writing the page"):
        page.write_text(page_of(scene), encoding="utf-8")
        picture(scene, busiest(scene, TELLING_S) + TELLING_S - 1, 1100).save(still, optimize=True)
    with step(console, "Drawing the film", total=seconds) as progress:
        begin = busiest(scene, seconds)
        moving.write_bytes(film(scene, begin, seconds, 600, lambda done: progress.update(0, completed=done)))
    return [page, still, moving]


def main() -> None:
    parser = argparse.ArgumentParser(description="Tells drivers of waves of hard braking near them, with Spark.")
    parser.add_argument("--out", type=Path, default=Path("out/mobility"), help="directory for the maps (out/mobility)")
    parser.add_argument("--limit", type=int, default=10, help="rows of the table (10)")
    parser.add_argument("--film", type=int, default=240, metavar="SECONDS", help="length of the film (240)")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    drivers = arguments.out / "drivers.parquet"
    with step(console, "Choosing the drivers: every tenth car"):
        number = write_drivers(drivers)
    with step(console, "Numba compiles the kernel: half a minute, only the first time"):
        compile_kernel(drivers)
    with step(console, "Spark starts"):
        spark = situ.spark_session(app_name="mobility")
    with step(console, f"Spark and situ look for waves around {number} drivers in 336,258 rows"):
        found = detect_waves(spark, VEHICLES, drivers)
    spark.stop()
    found.to_parquet(arguments.out / "waves.parquet", index=False)
    scene = scene_of(pq.read_table(VEHICLES), pq.read_table(drivers), found)
    paths = write_maps(console, scene, arguments.out, arguments.film)
    console.print()
    console.print(driver_table(scene, arguments.limit))
    console.print(f"\n{told_story(scene)}\n")
    every = len(scene.told) + scene.too_late
    console.print(
        f"{every:,} complex events; {scene.too_late} of them came after the driver's arrival: to situ,\n"
        "who is silent has not moved. Times are minutes and seconds since the start.\n"
    )
    console.print("Open in a browser:", *paths)


if __name__ == "__main__":
    main()
