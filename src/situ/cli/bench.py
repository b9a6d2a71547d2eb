"""`situ bench`: one workload, alone or beside FlinkCEP."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from situ.bench import flinkcep
from situ.bench.measure import Engine, Measurement, measure, measure_beside, timer
from situ.bench.workload import Workload, cache_directory
from situ.cli.engines import OnSpark


def bench_workload(
    workload: Workload, peer_events: int | None, spark: OnSpark | None, streaming: bool = False
) -> Measurement:
    """The figures of a workload, on Spark (as a batch or `streaming`) or on the embedded engine; with `peer_events`,
    FlinkCEP's on so many of the same events."""

    def peer(shorter: Workload) -> flinkcep.PeerRun:
        # Progress goes to standard error: standard output is for the figures.
        return flinkcep.run(shorter, cache_directory(), say=lambda text: typer.echo(text, err=True))

    on_spark: Engine = "spark-streaming" if streaming else "spark"
    on = timer("embedded") if spark is None else timer(on_spark, spark.master, spark.conf)
    with on as time_query:
        if peer_events is None:
            return measure(time_query, workload, cache_directory())
        return measure_beside(peer, time_query, workload, peer_events, cache_directory())


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
