"""From the one tagged table that Spark gives to a table for each subscription, on the way from workers to the command.

Rows travel as Arrow files, packed where they are: many to a row of Spark's, so that no row is an object on the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from situ.cli.summary import earliest
from situ.core.types import to_arrow
from situ.io.conform import REJECTED as REJECTED_SCHEMA
from situ.kernel.batch import EXTENT
from situ.runtime.spark.output import CALLS, COMPLEX_EVENT, FAILED_CALL, REJECTED, TIMED_OUT, Output

#: What comes out of Spark: `rows` counts rows, or calls that failed; `packed` may hold fewer rows, or none.
CARRIED = "kind string, name string, rows bigint, packed binary"
_CARRIED = pa.schema([("kind", pa.string()), ("name", pa.string()), ("rows", pa.int64()), ("packed", pa.binary())])

#: Rows that are packed together: a part file's worth.
ROWS_PER_PACK = 1 << 18


@dataclass(frozen=True)
class Tables:
    """The tables that lie in the tagged one."""

    output: Output

    def columns(self, kind: str, name: str) -> list[tuple[str, str, pa.DataType]]:
        """For every column of a table: its name in the tagged one, its own, and its type."""
        if kind == REJECTED:
            return [(field.name, field.name, field.type) for field in REJECTED_SCHEMA]
        (operator,) = (operator for operator in self.output.operators if operator.name == name)
        attributes = [(self.output.columns[name, a][0], a, to_arrow(type_)) for a, type_ in operator.schema.attributes]
        extent = EXTENT if name in self.output.located else ()
        fields = self.output.fields
        return [*attributes, *((column, column, fields[column]) for column in ("_time", *extent))]

    def empty(self, kind: str, name: str) -> pa.Table:
        return pa.schema([(own, type_) for _, own, type_ in self.columns(kind, name)]).empty_table()

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, str, pa.Table]]:
        """Kind, name and table of all that is in a batch; of failed calls, the tagged rows."""
        tags = pa.table([batch.column("_kind"), batch.column("_name")], names=["kind", "name"])
        for tag in tags.group_by(["kind", "name"], use_threads=False).aggregate([]).to_pylist():
            kind, name = tag["kind"], tag["name"]
            rows = batch.filter(pc.and_(pc.equal(tags["kind"], kind), pc.equal(tags["name"], name)).combine_chunks())
            if kind == FAILED_CALL:
                yield kind, name, pa.Table.from_batches([rows])
                continue
            columns = self.columns(kind, name)
            arrays = [_cast(rows.column(tagged), type_) for tagged, _, type_ in columns]
            yield kind, name, pa.table(arrays, names=[own for _, own, _ in columns])


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    return pa.nulls(len(column)) if pa.types.is_null(type_) else column.cast(type_)


@dataclass(frozen=True)
class CountAndFirst:
    """For every task and table of it: how many rows, and of complex events the first `limit`."""

    tables: Tables
    limit: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts: Counter[tuple[str, str]] = Counter()
        first: dict[tuple[str, str], pa.Table] = {}
        for batch in batches:
            for kind, name, table in self.tables.split(batch):
                calls = pc.sum(table.column(CALLS)).as_py() if kind == FAILED_CALL else None
                counts[kind, name] += table.num_rows if calls is None else calls
                if kind == COMPLEX_EVENT and self.limit:
                    known = [first[kind, name]] if (kind, name) in first else []
                    first[kind, name] = earliest(pa.concat_tables([*known, table]), self.limit)
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
                if kind == FAILED_CALL:
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


def table_to_bytes(table: pa.Table) -> bytes:
    """The table as an Arrow file.

    >>> bytes_to_table(table_to_bytes(pa.table({"lane": ["a", "b"]}))).to_pydict()
    {'lane': ['a', 'b']}
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def bytes_to_table(packed: bytes | bytearray) -> pa.Table:
    return pa.ipc.open_file(pa.BufferReader(packed)).read_all()
