"""Messages of a broker as rows of a stream: each is one event, as JSON, read by the rules of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from situ.core.errors import InputError
from situ.graph.query import Stream
from situ.io.files.json_lines import JsonFormat, require_agreeing_sources
from situ.io.files.lines import BLOCK_BYTES, LineBlock, conform_block
from situ.io.rows.ahead import reasons_ahead, without_events
from situ.io.rows.conform import Conformed, rejected_table

_NO_VALUE = "the message has no value"
_EMPTY = "the message is empty"


def check_json_attributes(stream: Stream, place: str) -> None:
    """InputError where two attributes ask for different things under one key."""
    try:
        require_agreeing_sources(stream, Path())
    except InputError as error:
        raise InputError(error.cause, place=place, remedy=error.remedy) from None


def conform_messages(messages: pa.RecordBatch, form: JsonFormat, stream: Stream, now_us: int) -> Conformed:
    """The events, and the messages that are none or lie too far ahead of `now_us`, with `_row` as they came.

    Messages become the lines of a block. Most are one line already. What is none, or is no text at all, is looked
    at one by one.
    """
    # A message that is no UTF-8 comes as a string, too: Spark does not look.
    values = messages.column("value").cast(pa.binary())
    reasons: dict[int, str] = {}
    numbers: list[int] | range = range(len(values))
    data = _joined(values) if values.null_count == 0 else b""
    whole = _conform_lines(data, form, stream) if data.count(b"\n") == len(values) > 0 else None
    if whole is None or len(whole.times) + whole.rejected.num_rows < len(values):  # blank lines are passed over
        lines, reasons = _lines(values, messages)
        numbers = list(lines)
        whole = _conform_lines(b"".join(line + b"\n" for line in lines.values()), form, stream)
    for reason, place in zip(*(whole.rejected.column(name).to_pylist() for name in ("_reason", "_place")), strict=True):
        reasons[numbers[int(place.removeprefix(":"))]] = reason
    if ahead := reasons_ahead(whole.times, stream, now_us):
        events = [number for number in range(len(values)) if number not in reasons]
        reasons |= {events[row]: reason for row, reason in ahead.items()}
        whole = without_events(whole, list(ahead))
    if not reasons:
        return whole
    rejected = sorted(reasons)
    texts = [_text(values[number].as_py()) for number in rejected]
    places = messages.column("_place").take(pa.array(rejected, pa.int64())).to_pylist()
    return Conformed(whole.events, whole.times, rejected_table([reasons[number] for number in rejected], texts, places))


def _conform_lines(data: bytes, form: JsonFormat, stream: Stream) -> Conformed:
    """Places of rejected lines are `:0`, `:1` and so on."""
    return conform_block(LineBlock("", 0, data), form, stream)


def _joined(values: pa.BinaryArray) -> bytes:
    """All messages, each with a line end. By Arrow, so that no message becomes an object."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    return bytes(pc.binary_join(whole, b"\n")[0].as_py()) + b"\n"


def _lines(values: pa.BinaryArray, messages: pa.RecordBatch) -> tuple[dict[int, bytes], dict[int, str]]:
    """For each message by its number: a line that says the same, or why there is none."""
    lines: dict[int, bytes] = {}
    reasons: dict[int, str] = {}
    given = messages.column("_reason").to_pylist() if "_reason" in messages.schema.names else [None] * len(values)
    for number, (value, why) in enumerate(zip(values.to_pylist(), given, strict=True)):
        if value is None or why is not None:
            reasons[number] = why or _NO_VALUE
        elif not value.strip():
            reasons[number] = _EMPTY
        elif b"\n" in value and (reason := _why_no_json(value)) is not None:
            reasons[number] = reason
        else:
            lines[number] = value.replace(b"\n", b" ")
    return lines, reasons


def _why_no_json(value: bytes) -> str | None:
    """A line end is a space between values, but may not stand in a text: what that is like, one line would not tell."""
    try:
        json.loads(value)
    except json.JSONDecodeError as error:
        return f"malformed JSON: {error.msg} at {error.pos + 1}"
    except (RecursionError, ValueError):
        pass  # what else is wrong with it, the line tells as well
    return None


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", errors="backslashreplace")


def pieces_of_messages(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch has so many messages, whatever their size. Blocks of lines are not to be larger than those of files."""
    rows = max(1, batch.num_rows * BLOCK_BYTES // max(1, batch.column("value").nbytes))
    return (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))
