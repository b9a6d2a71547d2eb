"""Results that go where all kinds of them meet: each says what it is."""

from __future__ import annotations

import pyarrow as pa

#: The text of a row that was rejected or late; in files it is `_row`, which is a number here.
TEXT = "_text"


def tagged(kind: str, name: str, table: pa.Table) -> pa.Table:
    """A result that says what it is.

    >>> tagged("late", "Car", pa.table({"_row": ["{}"]})).to_pylist()
    [{'_kind': 'late', '_name': 'Car', '_text': '{}'}]
    """
    names = ["_kind", "_name", *(TEXT if column == "_row" else column for column in table.column_names)]
    tags = [pa.repeat(pa.scalar(tag, pa.string()), table.num_rows) for tag in (kind, name)]
    return pa.table([*tags, *table.columns], names=names)
