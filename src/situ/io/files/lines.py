"""Text files, one record per line: read in blocks, fast where all lines are well-formed, line by line where not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from situ.core.errors import InputError
from situ.core.types import BINARY, Type
from situ.graph.query import Stream
from situ.io.files.json_text import single_chunk
from situ.io.rows.conform import Conformed, asked_columns, convert_columns, judge, rejected_table
from situ.io.rows.conversions import Conversion, native_conversion, text_conversion

#: Some hundred thousand lines: enough to keep Arrow's threads busy, and to let the next block wait in memory.
BLOCK_BYTES = 16 << 20
#: Some hundred lines: so many are looked at one by one to find the malformed ones.
LINE_BY_LINE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Whole lines of a file; lines count from 1."""

    file: str
    first_line: int
    data: bytes

    def halves(self) -> list[LineBlock]:
        """Two blocks of whole lines; itself alone if there is no line end in the first half."""
        end = self.data.rfind(b"\n", 0, len(self.data) // 2) + 1
        if end == 0:
            return [self]
        second_line = self.first_line + self.data.count(b"\n", 0, end)
        return [
            LineBlock(self.file, self.first_line, self.data[:end]),
            LineBlock(self.file, second_line, self.data[end:]),
        ]


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it stands in the file, without its line end."""

    line: int
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", errors="backslashreplace")


@dataclass(frozen=True, slots=True)
class Malformed:
    """A record that cannot be read, and why."""

    record: Record
    reason: str


class LineFormat(Protocol):
    """CSV or JSON lines, as one file has them. `preamble` is what stands before the first record."""

    preamble: bytes

    def is_plain(self, data: bytes) -> bool:
        """Whether the lines look so regular that they may be parsed at once."""
        ...

    def parse(self, data: bytes, records: int) -> pa.Table | None:
        """A column for each attribute, typed or as text; None unless `data` holds that many well-formed records."""
        ...

    def records(self, block: LineBlock) -> tuple[list[Record], list[Malformed]]:
        """The block's records one by one: those that look well-formed, and the others."""
        ...

    def is_one_record_per_line(self, data: bytes) -> bool:
        """Whether no record can go on in the next line."""
        ...

    def last_end(self, data: bytes) -> int:
        """Where the last whole record ends, line end included; 0 if there is none."""
        ...


class LineChunk:
    """A block of lines, parsed when it is first read; rows are judged by all declared columns."""

    time_range: tuple[int, int] | None = None

    def __init__(self, block: LineBlock, line_format: LineFormat, stream: Stream) -> None:
        self._block, self._format, self._stream = block, line_format, stream

    @property
    def rows(self) -> int:
        return len(self._conformed.times) + int(self._conformed.rejected.num_rows)

    def read(self, columns: Sequence[str]) -> Conformed:
        conformed = self._conformed
        return Conformed(
            conformed.events.select(asked_columns(self._stream, columns)), conformed.times, conformed.rejected
        )

    @cached_property
    def _conformed(self) -> Conformed:
        return conform_block(self._block, self._format, self._stream)


class LineSource:
    """Text files of one format, each with its own header."""

    rows: int | None = None

    def __init__(self, files: Sequence[tuple[Path, LineFormat]], stream: Stream) -> None:
        self._files, self._stream = files, stream

    def chunks(self) -> Iterator[LineChunk]:
        for path, line_format in self._files:
            for block in blocks(path, line_format):
                yield LineChunk(block, line_format, self._stream)


def conform_block(block: LineBlock, line_format: LineFormat, stream: Stream) -> Conformed:
    """All declared columns of a block's events, and the lines that are none.

    Halving keeps a malformed line from sending all others of its block through the slow way.
    """
    malformed: list[Malformed] = []
    records: list[Record] | None = None
    lines = block.data.count(b"\n") + (not block.data.endswith(b"\n"))
    table = line_format.parse(block.data, lines) if line_format.is_plain(block.data) else None
    if table is None and len(block.data) > LINE_BY_LINE_BYTES and line_format.is_one_record_per_line(block.data):
        halves = block.halves()
        if len(halves) == 2:
            return Conformed.concat([conform_block(half, line_format, stream) for half in halves])
    if table is None:
        records, malformed = line_format.records(block)
        tables, records, unreadable = parse_each(records, line_format.parse)
        malformed += unreadable
        table = pa.concat_tables(tables) if tables else _no_rows(stream)
    conversions = {a.name: _conversion(table.schema.field(a.name).type, a.type) for a in stream.attributes}
    columns = {name: single_chunk(table.column(name)) for name in table.column_names}
    converted, misfits = convert_columns(columns, stream, conversions)
    verdict = judge(converted, misfits, stream)
    if verdict.reasons:
        # Where the block was parsed at once, each line is a record.
        records = records or [
            Record(line, data.rstrip(b"\r")) for line, data in enumerate(block.data.split(b"\n"), block.first_line)
        ]
        malformed += [Malformed(records[row], reason) for row, reason in verdict.reasons.items()]
    malformed.sort(key=lambda m: m.record.line)
    rejected = rejected_table(
        [m.reason for m in malformed],
        [m.record.text for m in malformed],
        [f"{block.file}:{m.record.line}" for m in malformed],
    )
    return Conformed(verdict.select(converted, asked_columns(stream, None)), verdict.times, rejected)


def parse_each(
    records: list[Record], parse: Callable[[bytes, int], pa.Table | None]
) -> tuple[list[pa.Table], list[Record], list[Malformed]]:
    """The records that can be parsed, and the others, found by halving.

    This is the last resort for what looks well-formed and still is refused (a duplicate key, half a surrogate pair).
    """
    if not records:
        return [], [], []
    table = parse(b"\n".join(record.data for record in records) + b"\n", len(records))
    if table is not None:
        return [table], records, []
    if len(records) == 1:
        return [], [], [Malformed(records[0], "the line cannot be read")]
    half = len(records) // 2
    left, right = parse_each(records[:half], parse), parse_each(records[half:], parse)
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def blocks(path: Path, line_format: LineFormat) -> Iterator[LineBlock]:
    """A file in blocks of whole records; a last line without an end is one too."""
    line = 1 + line_format.preamble.count(b"\n")
    with open_text(path) as file:
        file.read(len(line_format.preamble))
        remainder, data = b"", file.read(BLOCK_BYTES)
        while data:
            data, following = remainder + data, file.read(BLOCK_BYTES)
            end = line_format.last_end(data) if following else len(data)
            if data[:end].strip():
                yield LineBlock(str(path), line, data[:end])
            line += data.count(b"\n", 0, end)
            remainder, data = data[end:], following


@contextmanager
def open_text(path: Path) -> Iterator[pa.NativeFile]:
    """A file, unpacked if its name ends in .gz; trouble with it is an InputError."""
    try:
        with pa.input_stream(str(path), compression="gzip" if path.suffix == ".gz" else None) as file:
            yield file
    except OSError as error:
        raise InputError(
            f"cannot be read: {error}", place=str(path), remedy="Check that the file is whole and that you may read it."
        ) from error


def why_not_utf8(data: bytes) -> str | None:
    """Says where the bytes are not UTF-8; None if they are.

    >>> why_not_utf8("Müller".encode("latin-1"))
    'not UTF-8: byte 0xfc at 2'
    """
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return f"not UTF-8: byte 0x{data[error.start]:02x} at {error.start + 1}"
    return None


def _conversion(actual: pa.DataType, declared: Type) -> Conversion:
    native = native_conversion(actual, declared)
    return native if native is not None and declared is not BINARY else text_conversion(declared)


def _no_rows(stream: Stream) -> pa.Table:
    return pa.table({a.name: pa.array([], pa.string()) for a in stream.attributes})
