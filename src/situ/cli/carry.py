"""From the one tagged table that Spark gives to a table for each subscription, on the way from workers to the command.

Rows travel as Arrow files, packed where they are: many to a row of Spark's, so that no row is an object on the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from situ.flow.earliest import earliest
from situ.runtime.spark.sinks.result_tables import Tables, table_to_bytes
from situ.runtime.spark.stages.output import (
    CALLS,
    COMPLEX_EVENT,
    FAILED_CALL,
    HOP,
    REUSE,
    SECONDS,
    TIMED_OUT,
    TIMING,
    TOTALS,
)

#: What comes out of Spark: `rows` counts rows, or calls that failed; `packed` may hold fewer rows, or none.
CARRIED = "kind string, name string, rows bigint, packed binary"
_CARRIED = pa.schema([("kind", pa.string()), ("name", pa.string()), ("rows", pa.int64()), ("packed", pa.binary())])

#: Rows that are packed together: a part file's worth.
ROWS_PER_PACK = 1 << 18


@dataclass(frozen=True)
class CountAndFirst:
    """Gives, for every task and every table, the number of rows, and of complex events the first `limit`."""

    tables: Tables
    limit: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts: Counter[tuple[str, str]] = Counter()
        first: dict[tuple[str, str], pa.Table] = {}
        for batch in batches:
            for kind, name, table in self.tables.split(batch):
                if kind in (REUSE, TIMING):
                    columns = [TOTALS] if kind == REUSE else [HOP, SECONDS]
                    yield _carried(kind, name, table.num_rows, table.select(columns))
                    continue
                calls = pc.sum(table.column(CALLS)).as_py() if kind == FAILED_CALL else None
                counts[kind, name] += table.num_rows if calls is None else calls
                if kind == COMPLEX_EVENT and self.limit:
                    earlier = [first[kind, name]] if (kind, name) in first else []
                    first[kind, name] = earliest(pa.concat_tables([*earlier, table]), self.limit)
        for (kind, name), count in counts.items():
            yield _carried(kind, name, count, first.get((kind, name)))


@dataclass(frozen=True)
class AllRows:
    """Every row of every table, in packs, each of them in the order of time."""

    tables: Tables

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: dict[tuple[str, str], list[pa.Table]] = {}
        for batch in batches:
            for kind, name, table in self.tables.split(batch):
                if kind in (FAILED_CALL, REUSE, TIMING):
                    continue
                parts = waiting.setdefault((kind, name), [])
                parts.append(table)
                if sum(part.num_rows for part in parts) >= ROWS_PER_PACK:
                    yield _pack(kind, name, waiting.pop((kind, name)))
        for (kind, name), parts in waiting.items():
            yield _pack(kind, name, parts)


def _pack(kind: str, name: str, parts: list[pa.Table]) -> pa.RecordBatch:
    table = pa.concat_tables(parts)
    if kind in (COMPLEX_EVENT, TIMED_OUT):  # tasks get their rows in any order: the files are to be the same each time
        table = earliest(table, table.num_rows)
    return _carried(kind, name, table.num_rows, table)


def _carried(kind: str, name: str, rows: int, table: pa.Table | None) -> pa.RecordBatch:
    packed = None if table is None else table_to_bytes(table)
    return pa.RecordBatch.from_pylist([{"kind": kind, "name": name, "rows": rows, "packed": packed}], schema=_CARRIED)
