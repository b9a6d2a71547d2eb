"""A run's results for people: its first complex events as tables, and one line of totals."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from situ.cli.summary import Summary
from situ.core.hops import in_order
from situ.core.time import format_time

#: Characters of a line in a file or a pipe.
WIDEST = 1000
#: Of more subscriptions than these, those are shown that found most: so many of them.
MANY_SUBSCRIPTIONS, SHOWN_OF_MANY = 20, 5
EXTENT = ("_x_min", "_y_min", "_x_max", "_y_max")


def show_summary(summary: Summary) -> None:
    """The first complex events of each subscription, then the totals."""
    console = console_for_all_columns()
    shown = top_subscriptions(summary)
    for name, count in shown.items():
        if summary.out is None and name in summary.first:
            console.print(complex_event_table(name, count, summary.first[name]))
    if len(shown) < len(summary.complex_events):
        found = sum(count > 0 for count in summary.complex_events.values())
        counts = f"{len(summary.complex_events):,} subscriptions, of which {found:,} found something"
        console.print(f"{counts}; shown are the {len(shown)} that found most\n")
    for name, shared in summary.reuse.items():
        console.print(Text(f"{name}: " + str(shared).replace("\n", "\n  "), style="dim"))
    for demand in summary.demands:
        console.print(Text(str(demand), style="red" if demand.kept is False else ""))
    for warning in summary.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))
    console.print(Text(totals(summary)))
    if summary.timing is not None:
        console.print(timing_table(summary.timing))


def timing_table(seconds: dict[str, float]) -> Table:
    """Where the time went: for each place, what took longest first."""
    table = Table("where", "what", title="seconds of all tasks", title_justify="left", box=box.SIMPLE)
    table.add_column("s", justify="right")
    for place, hop, taken in in_order(seconds):
        table.add_row(place, hop, f"{taken:.3f}")
    return table


def top_subscriptions(summary: Summary) -> dict[str, int]:
    """The subscriptions to show, and what they found: all of them, or of many those that found most."""
    if len(summary.complex_events) <= MANY_SUBSCRIPTIONS:
        return dict(summary.complex_events)
    return dict(summary.complex_events.most_common(SHOWN_OF_MANY))


def console_for_all_columns() -> Console:
    """A console as wide as the terminal; where there is none, so wide that no column of a table is cut."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDEST)


def complex_event_table(name: str, count: int, first: pa.Table) -> Table:
    """A row for each complex event: its attributes, when and where it was."""
    shown = f", the first {first.num_rows:,}" if first.num_rows < count else ""
    table = Table(title=f"{name}: {count:,}{shown}", title_justify="left", title_style="bold", box=box.SIMPLE)
    attributes = [column for column in first.column_names if column not in ("_time", *EXTENT)]
    has_extent = EXTENT[0] in first.column_names
    for column in attributes:
        table.add_column(Text(column), justify="right" if _is_number(first.schema.field(column).type) else "left")
    table.add_column("when", no_wrap=True)
    if has_extent:
        table.add_column("where", no_wrap=True)
    for row in rows_of(first):
        cells = [cell(row[column]) for column in (*attributes, "_time")]
        table.add_row(*map(Text, cells + ([centre(row)] if has_extent else [])))
    return table


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows as Python's values; a time outside Python's calendar, such as a deadline after the last event, as text.

    >>> rows_of(pa.table({"at": pa.array([0, 2**60], pa.timestamp("us"))}))
    [{'at': datetime.datetime(1970, 1, 1, 0, 0)}, {'at': '38504-08-17 21:30:06.846976'}]
    """
    columns = {name: _values(table.column(name)) for name in table.column_names}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (ValueError, OverflowError):
        return [_time_or_text(value) for value in column]


def _time_or_text(value: pa.Scalar) -> datetime | str | None:
    try:
        return value.as_py()  # type: ignore[no-any-return]
    except (ValueError, OverflowError):
        return format_time(value.cast(pa.int64()).as_py())


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def cell(value: Any) -> str:
    """A value in a few characters.

    >>> cell(datetime(2026, 3, 1, 12, 0, 2)), cell(3.14159), cell(None)
    ('2026-03-01 12:00:02', '3.14', '')
    """
    match value:
        case None:
            return ""
        case float():
            return f"{value:.2f}"
        case datetime():
            return value.replace(tzinfo=None).isoformat(sep=" ")
        case _:
            return str(value)


def centre(row: dict[str, Any]) -> str:
    """The middle of a complex event's box; the box itself is in the files that `--out` writes.

    >>> centre({"_x_min": 1.0, "_y_min": 2.0, "_x_max": 30.0, "_y_max": 2.0})
    '(15.5, 2.0)'
    """
    if any(row[name] is None for name in EXTENT):
        return ""
    x_min, y_min, x_max, y_max = (row[name] for name in EXTENT)
    return f"({(x_min + x_max) / 2:.1f}, {(y_min + y_max) / 2:.1f})"


def totals(summary: Summary) -> str:
    """One line about the whole run, and where its results are."""
    matches = sum(summary.complex_events.values())
    rate = summary.events / summary.seconds if summary.seconds else 0.0
    text = f"{summary.events:,} events, {matches:,} complex events in {summary.seconds:.2f} s ({rate:,.0f} events/s)"
    extras = {"rejected": summary.rejected, "late": summary.late, "timed out": summary.timed_out}
    extras |= {f"failed calls of {name}": count for name, count in summary.failed_calls.items()}
    text += "".join(f", {count:,} {label}" for label, count in extras.items() if count)
    if summary.out is None:
        return text
    shown = top_subscriptions(summary)
    counts = [f"  {count:>12,}  {summary.out / name}" for name, count in shown.items()]
    if len(shown) < len(summary.complex_events):
        left = summary.complex_events.total() - sum(shown.values())
        counts.append(f"  {left:>12,}  {len(summary.complex_events) - len(shown):,} more folders")
    return "\n".join([text, *counts])
