"""What `situ up` has found, for people: the results as `situ run` shows them, and what flowed between sites."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from situ.cli.predicted_counted import predicted_table
from situ.cli.show import console_for_all_columns, show_summary
from situ.cli.up import UpSummary


def show_up(summary: UpSummary) -> None:
    console = console_for_all_columns()
    table = Table(title="what flowed", title_justify="left", title_style="bold", box=box.SIMPLE)
    for column in ("from", "to"):
        table.add_column(column)
    columns = ("events", "repeats", "requests", "questions", "promises", "acknowledgements", "bytes")
    for column in columns:
        table.add_column("acks" if column == "acknowledgements" else column, justify="right")
    rows = [(site, to, link) for (site, to), link in summary.links.items() if link.frames]
    for site, to, link in [*rows, ("all links", "", summary.total)]:
        table.add_row(*map(Text, (site, to, *(f"{getattr(link, column):,}" for column in columns))))
    if rows:
        console.print(table)
    if summary.predicted:
        console.print(predicted_table(summary.predicted))
    for site, restarts in summary.restarts.items():
        console.print(Text(f"site {site} was started again {restarts} times"))
    for name, each in summary.delivered.items():
        console.print(Text(f"{name}: {each.complex_events:,} complex events, delivered to {each.actor}"))
    show_summary(summary.results)
