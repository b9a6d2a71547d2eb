"""`situ stats`: rates, selectivities and times between events, measured in event tables for `situ plan`."""

from __future__ import annotations

from contextlib import ExitStack
from functools import reduce

from pyspark.sql import DataFrame

from situ.cli.engines import OnSpark
from situ.cli.measured import MeasuredStatistics
from situ.cli.plan import without_demands
from situ.cli.planning_options import StatsOptions
from situ.cli.query_file import import_functions, read_query
from situ.cli.run import paths_of_streams, say_if_compiling
from situ.cli.run_spark import interruptible, ship
from situ.cli.spark_progress import progress_of, waiting
from situ.io.files.by_suffix import files_below
from situ.lang.resolve import resolve, warnings
from situ.network.statistics import write_statistics
from situ.runtime.spark.inputs.tables import files_to_input
from situ.runtime.spark.measure_statistics import measure_statistics, with_site
from situ.runtime.spark.session.errors import spark_errors
from situ.runtime.spark.session.session import borrowed_session


def stats_file(options: StatsOptions, spark: OnSpark) -> MeasuredStatistics:
    """Measures what the query in a file reads, and writes it to the file that --out names, for `situ plan --rates`."""
    module = import_functions(options.functions)
    graph = resolve(read_query(options.file))
    assert options.source is not None
    assert options.site is not None
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
