"""`situ stats`: rates, selectivities and times between events, measured in event tables for `situ plan`."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from situ.cli.engines import OnSpark
from situ.cli.plan import without_demands
from situ.cli.planning_options import StatsOptions
from situ.cli.query_file import import_functions, read_query
from situ.cli.run import paths_of_streams, say_if_compiling
from situ.cli.run_spark import interruptible, ship
from situ.cli.spark_progress import progress_of, waiting
from situ.io.files.by_suffix import files_below
from situ.lang.resolve import resolve, warnings
from situ.network.statistics import Statistics, write_statistics
from situ.runtime.spark.inputs.tables import files_to_input
from situ.runtime.spark.measure_statistics import measure_statistics, with_site
from situ.runtime.spark.session.errors import spark_errors
from situ.runtime.spark.session.session import borrowed_session


@dataclass(frozen=True, slots=True)
class MeasuredStatistics:
    """The statistics of some tables, and what a person should know about them."""

    statistics: Statistics
    warnings: tuple[str, ...]


def stats_file(options: StatsOptions, spark: OnSpark) -> MeasuredStatistics:
    """Measures what the query in a file reads, and writes it to the file that --out names, for `situ plan --rates`."""
    module = import_functions(options.functions)
    graph = resolve(read_query(options.file))
    paths, site = paths_of_streams(graph, options.source), options.site
    for path in paths.values():
        files_below(path)  # what is not there is said at once, not when Spark has started
    if spark.is_here:
        say_if_compiling()
    with ExitStack() as stack:
        with waiting("starting Spark"):
            session = stack.enter_context(borrowed_session(spark.master, spark.conf))
        stack.enter_context(spark_errors("Spark gives up"))
        ship(module, session)
        inputs = {s.name: files_to_input(session, paths[s.name], with_site(s, site)) for s in graph.streams}
        with progress_of(session, "measuring"):
            statistics = interruptible(session, lambda: measure_statistics(graph, inputs, site))
            misfits = reduce(DataFrame.union, [input_.rejected for input_ in inputs.values()])
            rejected = interruptible(session, misfits.count)
    if options.out is not None:
        write_statistics(statistics, options.out)
    lost = f"{rejected:,} rows do not fit the declaration of their stream, and are not counted."
    return MeasuredStatistics(statistics, (*warnings(without_demands(graph)), *[lost] * bool(rejected)))


def show_measured(measured: MeasuredStatistics) -> None:
    console = Console()
    statistics = measured.statistics
    rates = Table(box=box.SIMPLE)
    rates.add_column("event type")
    for name in ("sites", "events/s", "mean time between, s"):
        rates.add_column(name, justify="right")
    for stream, by_site in statistics.rates.items():
        between = statistics.inter_arrival_s.get(stream)
        figures = f"{len(by_site):,}", f"{sum(by_site.values()):,.4g}", "" if between is None else f"{between:,.4g}"
        rates.add_row(Text(stream), *figures)
    console.print(rates)
    if statistics.selectivity:
        shares = Table(box=box.SIMPLE)
        shares.add_column("operator, or filter of an input")
        shares.add_column("selectivity", justify="right")
        for name, share in statistics.selectivity.items():
            shares.add_row(Text(name), f"{share:,.4g}")
        console.print(shares)
    for warning in measured.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))
