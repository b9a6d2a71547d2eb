"""From the one tagged table that Spark gives to a table for each subscription, and for what did not become one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from situ.core.types import TIMESTAMP_ARROW, to_arrow
from situ.io.rows.conform import REJECTED as REJECTED_SCHEMA
from situ.kernel.batch import EXTENT
from situ.runtime.spark.stages.output import FAILED_CALL, LATE, LATENESS, REJECTED, REUSE, TIMING, TaggedOutput

_LATE_SCHEMA = pa.schema([("_time", TIMESTAMP_ARROW), (LATENESS, pa.duration("us")), ("_row", pa.string())])


@dataclass(frozen=True)
class Tables:
    """The tables that lie in the tagged one."""

    output: TaggedOutput

    def columns(self, kind: str, name: str) -> list[tuple[str, str, pa.DataType]]:
        """For every column of a table: its name in the tagged one, its own, and its type."""
        if kind in (REJECTED, LATE):
            schema = REJECTED_SCHEMA if kind == REJECTED else _LATE_SCHEMA
            return [(field.name, field.name, field.type) for field in schema]
        (operator,) = (operator for operator in self.output.operators if operator.name == name)
        attributes = [(self.output.columns[name, a][0], a, to_arrow(type_)) for a, type_ in operator.schema.attributes]
        extent = EXTENT if name in self.output.located else ()
        fields = self.output.fields
        return [*attributes, *((column, column, fields[column]) for column in ("_time", *extent))]

    def empty(self, kind: str, name: str) -> pa.Table:
        return pa.schema([(own, type_) for _, own, type_ in self.columns(kind, name)]).empty_table()

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, str, pa.Table]]:
        """Kind, name and table of all that is in a batch; of failed calls, reuse and timing, the tagged rows."""
        tags = pa.table([batch.column("_kind"), batch.column("_name")], names=["kind", "name"])
        for tag in tags.group_by(["kind", "name"], use_threads=False).aggregate([]).to_pylist():
            kind, name = tag["kind"], tag["name"]
            rows = batch.filter(pc.and_(pc.equal(tags["kind"], kind), pc.equal(tags["name"], name)).combine_chunks())
            if kind in (FAILED_CALL, REUSE, TIMING):
                yield kind, name, pa.Table.from_batches([rows])
                continue
            columns = self.columns(kind, name)
            arrays = [_cast(rows.column(tagged), type_) for tagged, _, type_ in columns]
            yield kind, name, pa.table(arrays, names=[own for _, own, _ in columns])


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    return pa.nulls(len(column)) if pa.types.is_null(type_) else column.cast(type_)


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
