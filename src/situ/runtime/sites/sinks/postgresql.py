"""Results of a site in PostgreSQL: a row is there once, by its log and number, however often it is written.

A table for each subscription, named as it is; `_late` and `_rejected`; `_timed_out_Jam` for a subscription Jam.
`_query` is the log, `_batch` is 0, and `_row` is the number in the log.
"""

from __future__ import annotations

import pyarrow as pa

from situ.io.files.json_text import column_to_json, rows_to_json, single_chunk
from situ.io.postgresql import PostgresqlAddress, arrow_columns, require_psycopg, upsert_rows
from situ.io.sink_names import TableNames
from situ.io.tagged_results import TEXT
from situ.runtime.sites.sinks.sink import NumberedRows, result_kind


class PostgresqlLogSink:
    """A database."""

    def __init__(self, address: PostgresqlAddress, sink_id: str) -> None:
        require_psycopg()
        self._address, self._sink_id = address, sink_id

    def write(self, results: NumberedRows) -> None:
        log = results.log
        rows = for_table(log.kind, log.type, results.rows)
        columns = arrow_columns(rows.schema)
        for name, type_ in columns.items():
            if type_ == "jsonb":
                texts = column_to_json(single_chunk(rows.column(name)))
                rows = rows.set_column(rows.schema.get_field_index(name), name, texts)
        table = TableNames.table(result_kind(log), log.type)
        upsert_rows(self._address, table, rows, columns, f"{self._sink_id}/{log}", 0, results.first)

    def close(self) -> None:
        """A connection lasts as long as a write."""


def for_table(kind: str, name: str, rows: pa.Table) -> pa.Table:
    """Rows as they stand in the table. `_row` is a number there; late and rejected rows of all streams share one."""
    if kind not in ("late", "rejected"):
        return rows
    if kind == "late":  # streams differ in their columns
        rows = pa.table({"_lateness": rows.column("_lateness"), "_row": rows_to_json(rows.drop_columns("_lateness"))})
    names = ["_stream", *(TEXT if column == "_row" else column for column in rows.column_names)]
    return pa.table([pa.array([name] * rows.num_rows, pa.string()), *rows.columns], names=names)
