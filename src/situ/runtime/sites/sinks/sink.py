"""What a site writes to: rows of a log from a number on, again as often as need be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from situ.kernel.batch import as_timestamps
from situ.runtime.sites.messages import LogName
from situ.runtime.sites.rows import TIME


@dataclass(frozen=True, slots=True)
class NumberedRows:
    """Rows of a log: the first of them has number `first`, the last one `first + rows - 1`."""

    log: LogName
    first: int
    rows: pa.Table

    @property
    def following(self) -> int:
        return self.first + int(self.rows.num_rows)


class SiteSink(Protocol):
    """Takes results. It is called from one thread."""

    def write(self, results: NumberedRows) -> None:
        """Writes rows; when this returns, they are there for good. The same numbers again replace themselves, however
        they are cut into calls. Calls of one log come in order of numbers."""
        ...

    def close(self) -> None:
        """Ends connections."""
        ...


def result_table(log: LogName, rows: pa.RecordBatch) -> pa.Table:
    """Rows of a log as users see them, with the columns that the embedded engine gives."""
    table = pa.Table.from_batches([rows])
    if TIME not in table.column_names or log.kind in ("late", "rejected"):
        return table
    times = as_timestamps(table.column(TIME).to_numpy())
    return table.set_column(table.schema.get_field_index(TIME), TIME, times)


def result_kind(log: LogName) -> str:
    """What a log has, in the words of sinks."""
    return "complex event" if log.kind == "events" else log.kind
