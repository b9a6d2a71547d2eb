"""`situ bench`: one workload, alone or beside a peer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Literal

import typer
from rich.console import Console
from rich.table import Table

from situ.bench import flinkcep
from situ.bench.measure import Engine, Measurement, TimeQuery, measure, measure_beside, time_embedded, timer
from situ.bench.peer import PeerRun
from situ.bench.sites import time_sites
from situ.bench.where_time_went import embedded_hops, spark_hops
from situ.bench.workload import PEER_EVENTS, Pattern, Workload, cache_directory, query_text, stream_on_disk
from situ.cli.bench_options import BenchOptions
from situ.cli.engines import chosen_spark
from situ.cli.show import timing_table
from situ.core.errors import InputError


def bench_workload(options: BenchOptions) -> Measurement:
    """Measures a workload on Spark, as a batch or as a stream, or on the embedded engine; and the peer that is named on
    the same events."""
    workload = Workload(
        Pattern(options.workload),
        options.types,
        options.keys,
        options.events,
        options.window_ms,
        grouped=not options.no_group,
    )
    on_spark: Engine = "spark-streaming" if options.engine == "spark-streaming" else "spark"
    if options.engine == "sites":
        on: AbstractContextManager[TimeQuery] = nullcontext(time_sites)
    else:
        engine = "spark" if options.engine == "spark-streaming" else options.engine
        spark = chosen_spark(engine, options.master, options.conf or [])
        on = timer("embedded") if spark is None else timer(on_spark, spark.master, spark.conf)
    if options.peer == "sql" and options.engine not in ("spark", None):
        raise InputError(
            "--peer sql is Spark SQL over tables, and another engine is asked for",
            remedy="Say --engine spark, or --peer flinkcep.",
        )
    if options.timing and options.engine not in ("spark", "embedded", None):
        raise InputError(
            f"--timing is for tables, and {options.engine} is asked for",
            remedy="Say --engine spark or --engine embedded.",
        )
    with on as time_query:
        if options.peer is None:
            measurement = measure(time_query, workload, cache_directory())
        else:
            peer_events = options.peer_events or (PEER_EVENTS if options.peer == "flinkcep" else workload.events)
            peer = _peer(options.peer)
            measurement = measure_beside(peer, time_query, workload, peer_events, cache_directory())
        if options.timing:
            hops = embedded_hops if time_query is time_embedded else spark_hops
            directory = stream_on_disk(workload, cache_directory())
            measurement = replace(measurement, hops=hops(query_text(workload), directory))
        return measurement


def _peer(name: Literal["flinkcep", "sql"]) -> Callable[[Workload], PeerRun]:
    """What runs a workload on the peer of this name."""
    if name == "flinkcep":
        # Progress goes to standard error: standard output is for the figures.
        return lambda workload: flinkcep.run(workload, cache_directory(), say=lambda text: typer.echo(text, err=True))
    from situ.bench import hand_written_sql  # needs PySpark

    return lambda workload: hand_written_sql.run(workload, cache_directory())


def show_measurement(measurement: Measurement) -> None:
    """The figures, a line each."""
    table = Table(show_header=False, title=f"{measurement.workload.pattern.value}, from Parquet to matches")
    table.add_column()
    table.add_column(justify="right")
    figures = measurement.to_json()
    peer = figures.pop("peer", {})
    figures.pop("timing", None)
    for name, value in (figures | {f"peer's {name}": value for name, value in peer.items()}).items():
        table.add_row(name.replace("_", " "), f"{value:,}" if isinstance(value, int | float) else str(value))
    Console().print(table)
    if measurement.hops is not None:
        Console().print(timing_table(measurement.hops))
