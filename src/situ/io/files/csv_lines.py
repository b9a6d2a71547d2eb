"""CSV: a header line with names, commas, double quotes. Everything is read as text and converted afterwards."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from situ.core.errors import InputError
from situ.graph.query import Stream
from situ.io.files.lines import LineBlock, Malformed, Record, open_text, why_not_utf8
from situ.io.rows.conform import require_column

#: A header, or a value over several lines, is not longer than this: beyond it, a quote was forgotten.
HEADER_BYTES = 1 << 20
VALUE_LINES = 100

#: As Arrow reads it: quotes have a meaning only at the beginning of a field.
_QUOTED, _UNQUOTED = rb'"(?:[^"]|"")*+"', rb'[^",\r\n][^,\r\n]*+'
_FIELD = rb"(?:" + _QUOTED + rb"[^,\r\n]*+|" + _UNQUOTED + rb"|)"
_RECORD = re.compile(_FIELD + rb"(?:," + _FIELD + rb")*+\r?")
_COMMA_FIELD = re.compile(rb"," + _FIELD)
#: Over several lines, nothing may stand between a closing quote and the comma: it is more likely an opening one.
_STRICT_FIELD = rb"(?:" + _QUOTED + rb"|" + _UNQUOTED + rb"|)"
_STRICT_RECORD = re.compile(_STRICT_FIELD + rb"(?:," + _STRICT_FIELD + rb")*+\r?")


@dataclass(frozen=True, slots=True)
class CsvHeader:
    """The first line that is not blank, the names in it, and the first whole rows below it."""

    line: bytes
    names: list[str]
    rows: bytes


class CsvFormat:
    """The header of one file, and how its records are read."""

    def __init__(self, preamble: bytes, names: Sequence[str], stream: Stream) -> None:
        self.preamble = preamble
        self._columns = {attribute.name: attribute.column for attribute in stream.attributes}
        declared = list(dict.fromkeys(self._columns.values()))
        # Columns that nobody asked for may have any name, also the same one twice.
        self._names = [name if name in declared else f"#{i}" for i, name in enumerate(names)]
        self._convert = pyarrow.csv.ConvertOptions(
            include_columns=declared,
            column_types={name: pa.string() for name in declared},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,  # nothing is null, "" is an empty text
        )

    @classmethod
    def of_file(cls, path: Path, stream: Stream) -> CsvFormat:
        """InputError unless the header can be read and names the stream's columns. An empty file has no header."""
        header = header_of(path)
        if header is None:
            return cls(b"", list(dict.fromkeys(a.column for a in stream.attributes)), stream)
        for attribute in stream.attributes:
            require_column(attribute.column, stream, header.names, str(path))
        return cls(header.line, header.names, stream)

    def is_plain(self, data: bytes) -> bool:
        # An odd number of quotes: one was forgotten, and could swallow lines up to the end of the block.
        # A carriage return alone would end a line for Arrow, but not for us.
        return data.count(b'"') % 2 == 0 and data.count(b"\r") == data.count(b"\r\n")

    def parse(self, data: bytes, records: int) -> pa.Table | None:
        try:
            table = pyarrow.csv.read_csv(
                pa.BufferReader(data),
                read_options=pyarrow.csv.ReadOptions(column_names=self._names),
                parse_options=pyarrow.csv.ParseOptions(newlines_in_values=b'"' in data),
                convert_options=self._convert,
            )
        except pa.ArrowInvalid:  # a wrong number of fields, bad UTF-8
            return None
        if table.num_rows != records:
            return None
        return pa.table([table.column(column) for column in self._columns.values()], names=list(self._columns))

    def records(self, block: LineBlock) -> tuple[list[Record], list[Malformed]]:
        lines = block.data.split(b"\n")
        good: list[Record] = []
        malformed: list[Malformed] = []
        i = 0
        while i < len(lines):
            length = self._lines_of_record(lines, i)
            record = Record(block.first_line + i, b"\n".join(lines[i : i + length]).rstrip(b"\r"))
            i += length
            if not record.data.strip():
                continue
            reason = self._why_malformed(record.data)
            if reason is None:
                good.append(record)
            else:
                malformed.append(Malformed(record, reason))
        return good, malformed

    def _lines_of_record(self, lines: list[bytes], first: int) -> int:
        """How many lines the record takes: one, unless a quote is open at its end and soon closed.

        A forgotten quote costs its own line only: the following ones are read as if it were not there.
        """
        text = lines[first]
        if _RECORD.fullmatch(text) is None:
            for length, line in enumerate(lines[first + 1 : first + VALUE_LINES], start=2):
                text += b"\n" + line
                if b'"' in line and _STRICT_RECORD.fullmatch(text) and _count_fields(text) == len(self._names):
                    return length
        return 1

    def is_one_record_per_line(self, data: bytes) -> bool:
        return b'"' not in data

    def last_end(self, data: bytes) -> int:
        """The last line end outside of quotes; the last of all where a quote seems to be forgotten long before."""
        last = end = data.rfind(b"\n") + 1
        quotes = data.count(b'"', 0, end)
        for _ in range(VALUE_LINES):
            if quotes % 2 == 0:
                return end
            before = data.rfind(b"\n", 0, end - 1) + 1
            quotes -= data.count(b'"', before, end)
            end = before
        return last

    def _why_malformed(self, data: bytes) -> str | None:
        if _RECORD.fullmatch(data) is None:
            return "a carriage return within the line" if b"\r" in data else "a quote is not closed"
        fields = _count_fields(data)
        if fields != len(self._names):
            return f"{fields} fields, but the header has {len(self._names)}"
        reason = why_not_utf8(data)
        if reason is not None and self.parse(data, 1) is not None:
            return None  # only columns that nobody declared are not UTF-8
        return reason


def header_of(path: Path) -> CsvHeader | None:
    """The header of a file and the rows at its beginning; None where the file is empty."""
    with open_text(path) as file:
        start = file.read(HEADER_BYTES)
        is_whole = not file.read(1)
    if not start.strip():
        return None
    line = _first_line(start)
    try:
        names = next(csv.reader([line.decode("utf-8-sig").strip()]))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"the header line cannot be read: {error}",
            place=f"{path}:1",
            remedy="Write the file as UTF-8, with the names of the columns, separated by commas, first.",
        ) from error
    rows = start[len(line) :]
    return CsvHeader(line, [name.strip() for name in names], rows if is_whole else rows[: rows.rfind(b"\n") + 1])


def _first_line(start: bytes) -> bytes:
    """The text up to the end of the first line that is not blank."""
    text = len(start) - len(start.lstrip())
    end = start.find(b"\n", text)
    return start if end < 0 else start[: end + 1]


def _count_fields(record: bytes) -> int:
    return len(_COMMA_FIELD.findall(b"," + record))
