"""JSON lines: one object per line. Arrow reads whole blocks; Python looks at the lines of a block that it refuses."""

from __future__ import annotations

import decimal
import json
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.json

from situ.core.errors import InputError
from situ.core.types import Decimal, List, Row, Simple, Type, to_arrow
from situ.graph.query import AttributeDeclaration, Stream
from situ.io.files.lines import BLOCK_BYTES, LineBlock, Malformed, Record, open_text, why_not_utf8
from situ.io.rows.conform import attribute_columns, require_column, show_value
from situ.io.rows.conversions import ANY_DECIMAL

_BOM = b"\xef\xbb\xbf"


class JsonFormat:
    """How the objects of a stream are read; keys that are not there are null, other keys are passed over."""

    def __init__(self, preamble: bytes, stream: Stream) -> None:
        self.preamble = preamble
        self._stream = stream
        self._names = [attribute.name for attribute in stream.attributes]
        self._options = pyarrow.json.ParseOptions(
            explicit_schema=pa.schema(list(_json_struct(stream.attributes))),
            unexpected_field_behavior="ignore",
        )

    @classmethod
    def of_files(cls, paths: list[Path], stream: Stream) -> list[JsonFormat]:
        """One per file. InputError if a file is no JSON lines, or an attribute is not to be seen at the beginning."""
        for path in paths[:1]:
            require_agreeing_sources(stream, path)
        formats, unseen = [], True
        for path in paths:
            with open_text(path) as file:
                start = file.read(BLOCK_BYTES if unseen else len(_BOM) + 1)
            preamble = _BOM if start.startswith(_BOM) else b""
            _refuse_array(start[len(preamble) :], path)
            if unseen and start.strip():
                _require_attributes(start[len(preamble) :], stream, path)
                unseen = False
            formats.append(cls(preamble, stream))
        return formats

    @classmethod
    def of_checked_file(cls, path: Path, stream: Stream) -> JsonFormat:
        """The format of a file that `of_files` has checked already."""
        with open_text(path) as file:
            return cls(_BOM if file.read(len(_BOM)) == _BOM else b"", stream)

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
        if table.num_rows != records:
            return None
        return pa.table(attribute_columns(table, self._stream, self._names))

    def records(self, block: LineBlock) -> tuple[list[Record], list[Malformed]]:
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
        misfits = [_misfit(row, attribute) for attribute in self._stream.attributes]
        return "; ".join(dict.fromkeys(filter(None, misfits))) or None


def objects_at_start(path: Path) -> list[dict[str, Any]]:
    """The objects at the beginning of a file; lines that are none are passed over."""
    with open_text(path) as file:
        start = file.read(BLOCK_BYTES).removeprefix(_BOM)
    _refuse_array(start, path)
    objects = []
    for line in start.split(b"\n"):  # the last one may be cut off, and is no object then
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            objects.append(row)
    return objects


def _refuse_array(start: bytes, path: Path) -> None:
    if start.lstrip().startswith(b"["):
        raise InputError(
            "holds a JSON array, not one object per line",
            place=str(path),
            remedy=f"Write one object per line, for example with: jq -c '.[]' {path}",
        )


def _misfit(row: Any, attribute: AttributeDeclaration) -> str | None:
    """Why the attribute's value is not of its type; None if it is, or is not there."""
    value = row
    for depth, name in enumerate(attribute.source):
        if value is None:
            return None
        if not isinstance(value, dict):
            return f"{'.'.join(attribute.source[:depth])}: {show_value(value)} is no object"
        value = value.get(name)
    fits = value is None or _is_kind(value, attribute.type)
    return None if fits else f"{attribute.name}: {show_value(value)} is no {attribute.type}"


def require_agreeing_sources(stream: Stream, path: Path) -> None:
    """InputError where two attributes ask for different things under one key."""
    kinds: dict[tuple[str, ...], str] = {}
    for attribute in stream.attributes:
        *outer, _ = accumulate((name,) for name in attribute.source)
        kind_of = dict.fromkeys(outer, "object") | {attribute.source: str(_json_type(attribute.type))}
        for source, kind in kind_of.items():
            if kinds.setdefault(source, kind) != kind:
                raise InputError(
                    f"'{'.'.join(source)}' cannot be read as {kind} and as {kinds[source]}",
                    place=str(path),
                    remedy=f"Change the attributes of stream {stream.name} that come from it.",
                )


def _json_struct(attributes: Iterable[AttributeDeclaration], depth: int = 0) -> pa.StructType:
    """The keys that attributes come from, of the objects `depth` levels below the line's."""
    fields: dict[str, list[AttributeDeclaration]] = {}
    for attribute in attributes:
        fields.setdefault(attribute.source[depth], []).append(attribute)
    return pa.struct(
        [
            (name, _json_type(inner[0].type) if len(inner[0].source) == depth + 1 else _json_struct(inner, depth + 1))
            for name, inner in fields.items()
        ]
    )


def _json_type(declared: Type) -> pa.DataType:
    """What Arrow reads a value as: what JSON has no word for is text, and decimals keep all their digits."""
    match declared:
        case Simple.TIMESTAMP | Simple.BINARY:
            return pa.string()
        case Decimal():
            return ANY_DECIMAL
        case Simple() | Row() | List():
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
        case Simple.DURATION | Simple.NULL | Row() | List():
            return False
        case _:
            assert_never(declared)


def _require_attributes(start: bytes, stream: Stream, path: Path) -> None:
    """A key may be absent from a line, but one that no line of the first block has is most likely misspelt."""
    unseen = [a for a in stream.attributes if a.path or f'"{a.name}"'.encode() not in start]
    keys: dict[tuple[str, ...], None] = {}
    for line in start.split(b"\n"):
        unseen = [attribute for attribute in unseen if attribute.source not in keys]
        if not unseen:
            return
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        keys |= dict.fromkeys(_keys(row, max(len(attribute.source) for attribute in unseen)))
    for attribute in unseen:
        for key_path in accumulate((name,) for name in attribute.source):
            beside = {".".join(key) for key in keys if key[:-1] == key_path[:-1]}
            if beside:  # without any, each line is null here, or rejected for a reason of its own
                require_column(".".join(key_path), stream, beside, str(path))


def _keys(value: Any, depth: int, outer: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The keys of an object and of the objects in it, down to some depth."""
    if depth and isinstance(value, dict):
        for name, inner in value.items():
            yield (*outer, name)
            yield from _keys(inner, depth - 1, (*outer, name))
