"""`situ bench`: one workload, alone or beside FlinkCEP."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from situ.bench import flinkcep
from situ.bench.measure import Engine, Measurement, measure, measure_beside, timer
from situ.bench.sites import time_sites
from situ.bench.workload import Pattern, Workload, cache_directory
from situ.cli.bench_options import BenchOptions
from situ.cli.engines import chosen_spark


def bench_workload(options: BenchOptions) -> Measurement:
    """Measures a workload on Spark, as a batch or as a stream, or on the embedded engine; and FlinkCEP on some of the
    same events, if it is named as the peer."""
    workload = Workload(
        Pattern(options.workload),
        options.types,
        options.keys,
        options.events,
        options.window_ms,
        grouped=not options.no_group,
    )
    if options.engine == "sites":
        return measure(time_sites, workload, cache_directory())
    on_spark: Engine = "spark-streaming" if options.engine == "spark-streaming" else "spark"
    spark = chosen_spark(
        "spark" if options.engine == "spark-streaming" else options.engine, options.master, options.conf or []
    )

    def peer(shorter: Workload) -> flinkcep.PeerRun:
        # Progress goes to standard error: standard output is for the figures.
        return flinkcep.run(shorter, cache_directory(), say=lambda text: typer.echo(text, err=True))

    on = timer("embedded") if spark is None else timer(on_spark, spark.master, spark.conf)
    with on as time_query:
        if options.peer is None:
            return measure(time_query, workload, cache_directory())
        return measure_beside(peer, time_query, workload, options.peer_events, cache_directory())


def show_measurement(measurement: Measurement) -> None:
    """The figures, a line each."""
    table = Table(show_header=False, title=f"{measurement.workload.pattern.value}, from Parquet to matches")
    table.add_column()
    table.add_column(justify="right")
    figures = measurement.to_json()
    peer = figures.pop("peer", {})
    for name, value in (figures | {f"peer's {name}": value for name, value in peer.items()}).items():
        table.add_row(name.replace("_", " "), f"{value:,}" if isinstance(value, int | float) else str(value))
    Console().print(table)
