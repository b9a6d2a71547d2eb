"""Mobile phone fraud among a million calls, on Spark: what is found, where, and how much of it was planted.

python examples/telecom/demo.py
python examples/telecom/demo.py --calls 200000 --master 'local[2]' --directory /tmp/telecom
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
from generate import RULES, generate, made_with, write
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich import box
from rich.console import Console
from rich.table import Table

import situ

QUERY = Path(__file__).with_name("fraud.situ")
PRIMITIVES = ("premium", "long", "expensive", "unusually_long", "unusually_expensive")


def prepare(directory: Path, calls: int, seed: int) -> str:
    """The data, made if they are not there already."""
    truth = directory / "truth.parquet"
    if truth.exists() and made_with(calls, seed).items() <= (pq.read_schema(truth).metadata or {}).items():
        return "used again"
    truth.unlink(missing_ok=True)
    write(generate(calls, seed), directory)
    return "made"


def detect_to_files(spark: SparkSession, directory: Path) -> None:
    """Everything that the query finds to `events/`, in one run over the calls."""
    calls = spark.read.parquet(str(directory / "calls"))
    detection = situ.detect(QUERY.read_text(), {"Call": calls})
    detection.events.write.mode("overwrite").parquet(str(directory / "events"))


# --- ordinary Spark from here on


def situations(events: DataFrame) -> DataFrame:
    """Who, when, by which rule. All three rules assign these attributes, so that they share the columns."""
    found = events.where(F.col("_name").isin(*RULES))
    return found.select(F.col("_name").alias("rule"), "caller", "first", "last", "cost")


def cost_by_region(found: DataFrame, customers: DataFrame) -> DataFrame:
    return (
        found.join(customers, "caller")
        .groupBy("region")
        .agg(F.count("*").alias("situations"), F.countDistinct("caller").alias("callers"), F.sum("cost").alias("cost"))
        .orderBy("region")
    )


def scores(found: DataFrame, truth: DataFrame) -> DataFrame:
    """For each rule: what it found, how much of that is fraud, what was planted for it, how much of that it found.

    A situation is fraud if it overlaps a planted case of its caller, whichever rule the case was made for. A case is
    caught if its own rule found it. No caller has two cases, so no situation is counted twice.
    """
    f, t = found.alias("f"), truth.alias("t")
    overlap = F.expr("f.caller = t.caller and f.first <= t.last and f.last >= t.first")
    fraud = (
        f.join(t, overlap, "left").groupBy("f.rule").agg(F.count("*").alias("found"), F.count("t.rule").alias("fraud"))
    )
    caught = (
        t.join(f, overlap & F.expr("f.rule = t.rule"), "left_semi").groupBy("rule").agg(F.count("*").alias("caught"))
    )
    planted = truth.groupBy("rule").agg(F.count("*").alias("planted"), F.count_if("careful").alias("careful"))
    return planted.join(fraud, "rule", "left").join(caught, "rule", "left").na.fill(0).orderBy("rule")


# --- what people see


@contextmanager
def step(console: Console, what: str) -> Iterator[list[str]]:
    """A line for each step: what it does while it runs, what it did and how long it took when it is over."""
    begin, remarks = time.perf_counter(), list[str]()
    with console.status(f"{what} ..."):
        yield remarks
    console.print(f"{what}: {', '.join([*remarks, f'{time.perf_counter() - begin:.1f} s'])}")


def table_of(title: str, *headings: str) -> Table:
    table = Table(box=box.SIMPLE, title=title, title_justify="left", title_style="bold")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    return table


def share(part: int, whole: int) -> str:
    return f"{part:,} ({part / whole:.0%})" if whole else "0"


def show_primitives(console: Console, events: DataFrame) -> None:
    table = table_of("Calls that one rule alone marks", "rule", "calls")
    counts = events.where("_name = 'DailyReport'").agg(*(F.sum(name).alias(name) for name in PRIMITIVES)).collect()[0]
    for name in PRIMITIVES:
        table.add_row(name.replace("_", " "), f"{counts[name] or 0:,}")
    console.print(table)


def show_scores(console: Console, rows: DataFrame) -> None:
    table = table_of("Combinations", "rule", "found", "precision", "planted", "recall", "careful")
    for row in rows.collect():
        precision, recall = share(row.fraud, row.found), share(row.caught, row.planted)
        table.add_row(row.rule, f"{row.found:,}", precision, f"{row.planted:,}", recall, f"{row.careful:,}")
    console.print(table)
    console.print("  precision: of what was found, planted fraud of any kind")
    console.print("  recall:    of what was planted for a rule, found by it")
    console.print("  careful:   planted below the thresholds\n")


def show_regions(console: Console, rows: DataFrame) -> None:
    table = table_of("Regions", "region", "situations", "callers", "cost")
    for row in rows.collect():
        table.add_row(row.region, f"{row.situations:,}", f"{row.callers:,}", f"{row.cost:,}")
    console.print(table)


def run(spark: SparkSession, directory: Path, console: Console) -> None:
    with step(console, "situations detected") as remarks:
        detect_to_files(spark, directory)
        events = spark.read.parquet(str(directory / "events"))
        rejected = events.where("_kind = 'rejected'").count()
        remarks.append(f"{rejected:,} rows rejected")
    found = situations(events)
    with step(console, "joined with the customers, written by region"):
        regions = cost_by_region(found, spark.read.parquet(str(directory / "customers.parquet")))
        regions.write.mode("overwrite").parquet(str(directory / "regions"))
    console.print()
    show_primitives(console, events)
    show_scores(console, scores(found, spark.read.parquet(str(directory / "truth.parquet"))))
    show_regions(console, spark.read.parquet(str(directory / "regions")).orderBy("region"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, default=Path("out/telecom"), help="data and results")
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--master", default=None, help="where Spark runs; this machine, if nothing is said")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    with step(console, f"{arguments.calls:,} calls in {arguments.directory}") as remarks:
        remarks.append(prepare(arguments.directory, arguments.calls, arguments.seed))
    with step(console, "Spark started"):
        spark = situ.spark_session(master=arguments.master, app_name="telecom fraud")
    try:
        run(spark, arguments.directory, console)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
