"""An `Output` for people: how many events of each kind, and the first of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from situ.graph.html import table_to_html

#: Rows of a table that a notebook shows.
SHOWN_ROWS = 10


def output_in_words(kinds: Mapping[str, Mapping[str, pa.Table]], events: int) -> str:
    """`Rise: 2, late Reading: 1; 300 events read`; kinds of which there are none are left out."""
    counts = [f"{title}: {table.num_rows:,}" for title, table in _tables(kinds)]
    return f"{', '.join(counts) or 'nothing'}; {events:,} events read"


def output_to_html(kinds: Mapping[str, Mapping[str, pa.Table]], events: int) -> str:
    """A table for each, with its first rows."""
    tables = []
    for title, table in _tables(kinds):
        count = f"{title}: {table.num_rows:,}" + f", the first {SHOWN_ROWS}" * (table.num_rows > SHOWN_ROWS)
        rows = [row.values() for row in table.slice(0, SHOWN_ROWS).to_pylist()]
        tables.append(table_to_html(count, table.column_names, (tuple(row) for row in rows)))
    return f"{''.join(tables)}<p>{events:,} events read</p>"


def _tables(kinds: Mapping[str, Mapping[str, pa.Table]]) -> Iterator[tuple[str, pa.Table]]:
    for kind, by_name in kinds.items():
        for name, table in by_name.items():
            if table.num_rows or not kind:
                yield f"{kind} {name}".strip(), table
