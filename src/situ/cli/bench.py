"""`situ bench`: one workload, alone or beside FlinkCEP."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from situ.bench import flinkcep
from situ.bench.measure import Measurement, measure, measure_beside
from situ.bench.workload import Pattern, Workload, cache_directory


def bench_workload(
    pattern: str, types: int, keys: int, events: int, window_ms: int, peer_events: int | None
) -> Measurement:
    """The figures of a workload; with `peer_events`, FlinkCEP's on so many of the same events."""
    workload = Workload(Pattern(pattern), types, keys, events, window_ms)
    if peer_events is None:
        return measure(workload, cache_directory())

    def peer(shorter: Workload) -> flinkcep.PeerRun:
        # Progress goes to standard error: standard output is for the figures.
        return flinkcep.run(shorter, cache_directory(), say=lambda text: typer.echo(text, err=True))

    return measure_beside(peer, workload, peer_events, cache_directory())


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
