"""JSON lines: one object per line. Arrow reads whole blocks; Python looks at the lines of a block that it refuses."""

from __future__ import annotations

import decimal
import json
from pathlib import Path
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.json

from situ.core.errors import InputError
from situ.core.types import Decimal, Row, Simple, Type, to_arrow
from situ.graph.query import Stream
from situ.io.conform import require_columns, show_value
from situ.io.lines import BLOCK_BYTES, Block, Malformed, Record, open_text, why_not_utf8

_BOM = b"\xef\xbb\xbf"
_ANY_DECIMAL = pa.decimal256(76, 38)


class JsonFormat:
    """How the objects of a stream are read; keys that are not there are null, other keys are passed over."""

    def __init__(self, preamble: bytes, stream: Stream) -> None:
        self.preamble = preamble
        self._attributes = stream.attributes
        self._options = pyarrow.json.ParseOptions(
            explicit_schema=pa.schema([(a.name, _json_type(a.type)) for a in stream.attributes]),
            unexpected_field_behavior="ignore",
        )

    @classmethod
    def of_files(cls, paths: list[Path], stream: Stream) -> list[JsonFormat]:
        """One per file. InputError if a file is no JSON lines, or an attribute is not to be seen at the beginning."""
        formats, unseen = [], True
        for path in paths:
            with open_text(path) as file:
                start = file.read(BLOCK_BYTES if unseen else len(_BOM) + 1)
            preamble = _BOM if start.startswith(_BOM) else b""
            if start[len(preamble) :].lstrip().startswith(b"["):
                raise InputError(
                    "holds a JSON array, not one object per line",
                    place=str(path),
                    remedy=f"Write one object per line, for example with: jq -c '.[]' {path}",
                )
            if unseen and start.strip():
                _require_attributes(start[len(preamble) :], stream, path)
                unseen = False
            formats.append(cls(preamble, stream))
        return formats

    def is_plain(self, data: bytes) -> bool:
        # Arrow crashes on a line that is only `null`, and does not check the encoding.
        objects = data.startswith(b"{") + data.count(b"\n{")
        lines = data.count(b"\n") + (not data.endswith(b"\n"))
        return objects == lines and why_not_utf8(data) is None

    def parse(self, data: bytes, records: int) -> pa.Table | None:
        try:
            # A line that is longer than a block would be refused.
            block_size = 1 << 20 if records > 1 else len(data) + 1
            table = pyarrow.json.read_json(
                pa.BufferReader(data),
                read_options=pyarrow.json.ReadOptions(block_size=block_size),
                parse_options=self._options,
            )
        except pa.ArrowInvalid:
            return None
        return table if table.num_rows == records else None

    def records(self, block: Block) -> tuple[list[Record], list[Malformed]]:
        good: list[Record] = []
        malformed: list[Malformed] = []
        for line, data in enumerate(block.data.split(b"\n"), start=block.first_line):
            record = Record(line, data.rstrip(b"\r"))
            if not record.data.strip():
                continue
            reason = self._why_malformed(record.data)
            if reason is None:
                good.append(record)
            else:
                malformed.append(Malformed(record, reason))
        return good, malformed

    def is_one_record_per_line(self, data: bytes) -> bool:
        return True

    def last_end(self, data: bytes) -> int:
        return data.rfind(b"\n") + 1

    def _why_malformed(self, data: bytes) -> str | None:
        reason = why_not_utf8(data)
        if reason is not None:
            return reason
        try:
            row = json.loads(data, parse_float=decimal.Decimal)
        except json.JSONDecodeError as error:
            return f"malformed JSON: {error.msg} at {error.pos + 1}"
        except (RecursionError, ValueError):
            return None  # nested too deep, or a number with too many digits for Python: Arrow decides
        if not isinstance(row, dict):
            return "the line is no JSON object"
        misfits = [
            f"{a.name}: {show_value(row[a.name])} is no {a.type}"
            for a in self._attributes
            if row.get(a.name) is not None and not _is_kind(row[a.name], a.type)
        ]
        return "; ".join(misfits) or None


def _json_type(declared: Type) -> pa.DataType:
    """What Arrow reads a value as: what JSON has no word for is text, and decimals keep all their digits."""
    match declared:
        case Simple.TIMESTAMP | Simple.BINARY:
            return pa.string()
        case Decimal():
            return _ANY_DECIMAL
        case Simple() | Row():
            return to_arrow(declared)
        case _:
            assert_never(declared)


def _is_kind(value: Any, declared: Type) -> bool:
    match declared:
        case Simple.BOOLEAN:
            return isinstance(value, bool)
        case Simple.INT:
            return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
        case Simple.DOUBLE:
            return isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool)
        case Decimal():
            return isinstance(value, int | decimal.Decimal | str) and not isinstance(value, bool)
        case Simple.STRING | Simple.BINARY | Simple.TIMESTAMP:
            return isinstance(value, str)
        case Simple.DURATION | Simple.NULL | Row():
            return False
        case _:
            assert_never(declared)


def _require_attributes(start: bytes, stream: Stream, path: Path) -> None:
    """A key may be absent from a line, but one that no line of the first block has is most likely misspelt."""
    if all(f'"{attribute.name}"'.encode() in start for attribute in stream.attributes):
        return
    keys: dict[str, None] = {}
    for line in start.split(b"\n"):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        keys |= dict.fromkeys(row if isinstance(row, dict) else ())
    if keys:  # without any, each line is rejected for a reason of its own
        require_columns(stream, list(keys), str(path))
