"""Measured statistics, for people."""

from __future__ import annotations

from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from situ.network.statistics import Statistics


@dataclass(frozen=True, slots=True)
class MeasuredStatistics:
    """The statistics of some tables, and what a person should know about them."""

    statistics: Statistics
    warnings: tuple[str, ...]


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
    if statistics.latency_ms:
        links = Table(box=box.SIMPLE)
        for name in ("from", "to"):
            links.add_column(name)
        links.add_column("latency, ms", justify="right")
        for site, others in statistics.latency_ms.items():
            for other, latency_ms in others.items():
                links.add_row(Text(site), Text(other), f"{latency_ms:,.4g}")
        console.print(links)
    for warning in measured.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))
