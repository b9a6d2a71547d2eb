"""The reuse example delivers what plain loops find in the squares that serve, and its picture shows these squares.

The loops share no code with situ. Spark runs once, in the demo.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import situ
from examples.scripts import run_demo, script
from situ.reuse.totals import Totals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "reuse"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
MINUTES = 4


example = partial(script, "reuse")


class Run(NamedTuple):
    """A part of the trace: with sharing, and without."""

    vehicles: pa.Table
    drivers: pa.Table
    delivered: pd.DataFrame
    exact: pd.DataFrame
    totals: Totals


def embedded(minutes: int) -> Run:
    vehicles = example("drivers").vehicles_of(minutes)
    drivers = example("drivers").every_third(vehicles)
    engines = [situ.Engine(query) for query in (example("moment").QUERY, example("demo").EXACT)]
    delivered, exact = (
        pd.concat([output.complex_events["NearbySpeed"].to_pandas() for output in outputs])
        for outputs in (engine.run({"Vehicle": vehicles, "Driver": drivers}) for engine in engines)
    )
    return Run(vehicles, drivers, delivered, exact, engines[0].reuse["NearbySpeed"])


@pytest.fixture(scope="module")
def part() -> Run:
    return embedded(MINUTES)


def seconds(times: pd.Series) -> np.ndarray:
    return (pd.to_datetime(times, utc=True) - pd.Timestamp(0, tz="UTC")).dt.total_seconds().to_numpy()


Speeds = dict[tuple[str, int, float], float]


def speeds(found: pd.DataFrame) -> Speeds:
    keys = zip(found["consumer"], found["interest"], seconds(found["_time"]), strict=True)
    result = dict(zip(keys, found["mean_speed"], strict=True))
    assert len(result) == len(found)
    return result


# --- by plain loops


class Square(NamedTuple):
    driver: str
    number: int
    start: float
    end: float
    x: float
    y: float


def squares(drivers: pa.Table) -> list[Square]:
    """A new one after ten seconds or more, if the driver has moved. By start, and of one second by driver."""
    result = []
    for driver, track in drivers.to_pandas().sort_values("time_s").groupby("vehicle"):
        begun = [next(track.itertuples())]
        for row in track.itertuples():
            last = begun[-1]
            if row.time_s - last.time_s >= 10 and (row.x, row.y) != (last.x, last.y):
                begun.append(row)
        ends = [row.time_s for row in begun[1:]] + [np.inf]
        for number, (row, end) in enumerate(zip(begun, ends, strict=True), 1):
            result.append(Square(driver, number, row.time_s, end, row.x, row.y))
    return sorted(result, key=lambda one: (one.start, one.driver))


def mean_speeds(vehicles: pa.Table, asked: list[Square], read: list[Square]) -> Speeds:
    """For each square, the mean speeds of the times that it asks for, of what is in the square that is read for it."""
    time, x, y, speed = (vehicles[name].to_numpy().astype(float) for name in ("time_s", "x", "y", "speed"))
    result = {}
    for mine, other in zip(asked, read, strict=True):
        inside = np.flatnonzero((abs(x - other.x) <= 250) & (abs(y - other.y) <= 250))
        for end in range(10, 60 * MINUTES + 10, 10):
            if mine.start <= end <= mine.end:
                window = inside[(time[inside] >= end - 10) & (time[inside] < end)]
                if len(window):
                    result[mine.driver, mine.number, float(end)] = speed[window].mean()
    return result


@pytest.mark.storm
def test_alone_everyone_gets_what_loops_find(part: Run) -> None:
    own = squares(part.drivers)
    assert speeds(part.exact) == pytest.approx(mean_speeds(part.vehicles, own, own))


@pytest.mark.slow
def test_shared_everyone_gets_what_loops_find_in_the_square_that_serves(part: Run) -> None:
    """Every row says which one that is."""
    own = {(one.driver, one.number): one for one in squares(part.drivers)}
    rows = part.delivered[["consumer", "interest", "region_consumer", "region_interest"]].drop_duplicates()
    served = [(own[row[0], row[1]], own[row[2], row[3]]) for row in rows.itertuples(index=False, name=None)]
    found = speeds(part.delivered)
    by_loops = [mean_speeds(part.vehicles, [mine], [other]) for mine, other in served]
    expected = {key: [one[key] for one in by_loops if key in one] for key in found}
    assert all(any(speed == pytest.approx(one) for one in expected[key]) for key, speed in found.items())
    assert any(mine is not other for mine, other in served)


@pytest.mark.slow
def test_what_is_delivered_is_as_good_as_asked(part: Run) -> None:
    for name in ("precision", "recall"):
        assert part.delivered[name].between(0.8, 1).all()
        assert part.delivered[name].min() < 1
    off = example("demo").difference(part.delivered, part.exact)
    assert off.within_1_m_s > 0.9


def test_differences_are_counted_by_driver_square_and_time() -> None:
    columns = ["consumer", "interest", "_time", "mean_speed"]
    exact = pd.DataFrame([("a", 1, 10, 4.0), ("a", 1, 20, 5.0), ("b", 1, 10, 6.0)], columns=columns)
    delivered = pd.DataFrame([("a", 1, 10, 4.0), ("b", 1, 10, 8.0), ("b", 2, 10, 6.0)], columns=columns)
    off = example("demo").difference(delivered, exact)
    assert (off.common, off.missing, off.extra) == (2, 1, 1)
    assert (off.speed_m_s, off.off_m_s, off.equal, off.within_1_m_s) == (5.0, 1.0, 0.5, 0.5)
    assert "2 mean speeds, 1 missing, 1 too many" in str(off)


@pytest.mark.slow
def test_the_picture_has_everyone_who_drives_and_squares_that_are_near(part: Run) -> None:
    moment = example("moment").moment_of(part.delivered, part.drivers, 30 * MINUTES)
    now = [one for one in squares(part.drivers) if one.start <= moment.second <= one.end]
    driving = {row.consumer for row in part.delivered[seconds(part.delivered["_time"]) == moment.second].itertuples()}
    assert {tuple(place) for place in moment.squares} <= {(one.x, one.y) for one in now}
    assert len(moment.squares) == len(driving)
    assert moment.count < len(driving)
    assert abs(moment.squares - moment.served_by).max() <= 250
    colours = example("picture").colours_of(moment)
    assert len(set(zip(moment.regions, colours, strict=True))) == moment.count
    assert len(set(colours)) == moment.count
    figure = example("picture").draw(moment)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[0].startswith(f"{len(driving)} drivers")
    assert titles[1].startswith(f"{moment.count} squares")


# --- what people see


@pytest.mark.storm
def test_the_figures_of_the_readme() -> None:
    run = embedded(20)
    for line in str(run.totals).splitlines():  # of `situ explain`
        assert line in README
    asked = f"{run.totals.interests:,} interests", f"would have read {run.totals.events_asked:,}"
    assert all(README.count(words) >= 2 for words in asked)  # on Spark, too
    assert f"around {len(run.drivers['vehicle'].unique())} drivers in {len(run.vehicles):,} rows" in README
    moment = example("moment").moment_of(run.delivered, run.drivers, 600)
    assert f"{len(moment.squares)} drivers" in README
    assert f"{moment.count} squares" in README


def test_the_query_of_the_readme_is_that_of_the_example() -> None:
    query = (EXAMPLE / "traffic.situ").read_text(encoding="utf-8")
    assert query[query.index("subscribe") :] in README


def test_the_picture_of_the_readme_is_small() -> None:
    assert "(reuse.png)" in README
    assert (EXAMPLE / "reuse.png").stat().st_size < 200_000


@pytest.mark.slow
@pytest.mark.storm
def test_the_demo_on_spark_shares_and_shows_it(
    spark: SparkSession, tmp_path: Path, part: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run_demo(example("demo"), tmp_path / "shared", "--minutes", str(MINUTES), spark=spark)
    printed = capsys.readouterr().out
    delivered = pd.read_parquet(tmp_path / "shared" / "speeds.parquet")
    assert delivered[["precision", "recall"]].to_numpy().min() >= 0.8
    off: Any = example("demo").difference(utc(delivered), utc(part.exact))
    assert off.within_1_m_s > 0.9
    assert str(off) in printed
    assert re.search(r"^Alone [\d.]+ s, shared [\d.]+ s$", printed, re.MULTILINE)
    words = re.search(r"^([\d,]+) interests, ([\d,]+) of them covered", printed, re.MULTILINE)
    assert words is not None
    interests, covered = (int(number.replace(",", "")) for number in words.groups())
    assert interests == part.totals.interests
    assert interests / 2 < covered < interests
    assert f"would have read {part.totals.events_asked:,} " in printed
    assert pq.read_table(tmp_path / "shared" / "Driver.parquet").num_rows == part.drivers.num_rows
    with Image.open(tmp_path / "shared" / "reuse.png") as picture:
        assert picture.width == 1_320


def utc(found: pd.DataFrame) -> pd.DataFrame:
    """Spark's times have no zone, and are UTC."""
    return found.assign(_time=pd.to_datetime(found["_time"], utc=True))
