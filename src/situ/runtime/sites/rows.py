"""Rows of logs as bytes: a record batch as an Arrow IPC stream, with its schema. What comes from outside is checked."""

from __future__ import annotations

import struct

import pyarrow as pa

from situ.core.time import FIRST_TIME_US, LAST_TIME_US
from situ.kernel.arrays import I64
from situ.runtime.sites.messages import MessageError

#: The column of the times of events, beside their attributes.
TIME = "_time"
_WRITE = pa.ipc.IpcWriteOptions(use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)
#: What reading bytes that are no rows ends in.
_DAMAGE = pa.ArrowException, OSError, EOFError, StopIteration, MemoryError, ValueError, KeyError, struct.error


def write_rows(rows: pa.RecordBatch) -> bytes:
    """The bytes of some rows.

    >>> read_rows(write_rows(pa.record_batch({"x": [1, 2]}))).to_pydict()
    {'x': [1, 2]}
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_WRITE) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()


def times_us(rows: pa.RecordBatch) -> I64:
    """The times of events in microseconds, as a view."""
    return rows.column(TIME).view(pa.int64()).to_numpy()


def read_rows(data: bytes) -> pa.RecordBatch:
    """The rows of bytes that `write_rows` made here. They are not copied."""
    with pa.ipc.open_stream(pa.py_buffer(data), options=_READ) as reader:
        return reader.read_next_batch()


def require_plain(data: bytes) -> None:
    """MessageError, if a stream has anything but a schema and rows that lie there as they are. Sites do not compress
    rows: a small body that says it does could become as large as it likes."""
    messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(data))
    for message in messages:
        if message.type not in ("schema", "record batch"):
            raise MessageError(f"a {message.type} is among the rows")
        if message.type == "record batch" and _is_compressed(message.metadata.to_pybytes()):
            raise MessageError("rows are compressed")


def _is_compressed(metadata: bytes) -> bool:
    """Whether the record batch of a message has compressed buffers. The metadata is a flatbuffer, which Arrow has
    verified: the header is field 2 of the message, the compression field 3 of the record batch."""
    (message,) = struct.unpack_from("<I", metadata, 0)
    header = message + _field(metadata, message, 2)
    (batch,) = struct.unpack_from("<I", metadata, header)
    return _field(metadata, header + batch, 3) != 0


def _field(metadata: bytes, table: int, number: int) -> int:
    """Where in a table of a flatbuffer a field lies; 0 if it is not there."""
    (back,) = struct.unpack_from("<i", metadata, table)
    (size,) = struct.unpack_from("<H", metadata, table - back)
    at = 4 + 2 * number
    return int(struct.unpack_from("<H", metadata, table - back + at)[0]) if at < size else 0


def plain_rows(data: bytes, schema: pa.Schema | None = None) -> pa.RecordBatch:
    """The rows of bytes from outside, of this schema, if one is given; MessageError if they are not."""
    try:
        require_plain(data)
        with pa.ipc.open_stream(pa.py_buffer(data), options=_READ) as reader:
            if schema is not None and not reader.schema.equals(schema):
                raise MessageError(
                    f"rows have the columns {_columns(reader.schema)}, and not {_columns(schema)}",
                    remedy="Do both sites run the same plan, with the same situ?",
                )
            rows = reader.read_next_batch()
            if _has_more(reader):
                raise MessageError("there are rows after the rows")
        rows.validate(full=True)
    except (
        pa.ArrowException,
        OSError,
        EOFError,
        StopIteration,
        MemoryError,
        ValueError,
        KeyError,
        struct.error,
    ) as error:
        raise MessageError(f"rows are damaged: {str(error).partition(chr(10))[0]}") from None
    return rows


def checked_rows(data: bytes, schema: pa.Schema, numbers: int) -> pa.RecordBatch:
    """The rows of bytes from outside, if they are rows of this schema and as many as there are numbers; MessageError
    if they are not."""
    rows = plain_rows(data, schema)
    if rows.num_rows != numbers:
        raise MessageError(f"there are {rows.num_rows:,} rows of {numbers:,} numbers")
    if TIME in schema.names and rows.num_rows:
        if rows.column(TIME).null_count:
            raise MessageError("rows have no time")
        times = times_us(rows)
        if times.min() < FIRST_TIME_US or times.max() > LAST_TIME_US:
            raise MessageError("rows have times that no event has")
    return rows


def _has_more(reader: pa.RecordBatchReader) -> bool:
    try:
        reader.read_next_batch()
    except StopIteration:
        return False
    return True


def _columns(schema: pa.Schema) -> str:
    text = ", ".join(f"{field.name} {field.type}" for field in schema)
    return text if len(text) < 300 else f"{text[:300]}..."
