"""A frame: a small header in JSON and a body of bytes, which is what crosses between two sites.

On the wire a frame is a record batch of one value, the body, with the header as its metadata. So a body that lies in a
journal as Arrow IPC is sent as it lies there, and is not looked into on the way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from situ.core.errors import SituError

#: Larger ones are refused: what sites send is cut into far smaller pieces.
MAX_HEADER_BYTES = 1 << 20
MAX_BODY_BYTES = 64 << 20

SCHEMA = pa.schema([pa.field("body", pa.large_binary(), nullable=False)])
_DEEPEST = 20


class FrameError(SituError):
    """What came over a connection is no frame: the connection ends, and nothing else."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message between sites.

    >>> from_wire(*to_wire(Frame({"kind": "hello"}, b"abc")))
    Frame(header={'kind': 'hello'}, body=b'abc')
    """

    header: Mapping[str, Any]
    body: bytes = b""


def to_wire(frame: Frame) -> tuple[pa.RecordBatch, bytes]:
    """The record batch and the metadata that a frame is on the wire. The body is not copied."""
    header = json.dumps(frame.header, separators=(",", ":"), allow_nan=False).encode()
    if len(header) > MAX_HEADER_BYTES or len(frame.body) > MAX_BODY_BYTES:
        raise FrameError(f"a frame of {len(header):,} and {len(frame.body):,} bytes is too large to send")
    body = pa.py_buffer(frame.body)
    offsets = pa.py_buffer(np.array([0, body.size], np.int64))
    column = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, body])
    return pa.RecordBatch.from_arrays([column], schema=SCHEMA), header


def from_wire(batch: pa.RecordBatch | None, header: pa.Buffer | bytes | None) -> Frame:
    """The frame that came; FrameError if it is none, or too large."""
    if batch is None or header is None or batch.num_rows != 1 or batch.schema != SCHEMA:
        raise FrameError("a frame is one body with a header")
    if len(header) > MAX_HEADER_BYTES:
        raise FrameError(f"a header has {len(header):,} bytes, and at most {MAX_HEADER_BYTES:,} are taken")
    if batch.nbytes > MAX_BODY_BYTES + 1024:
        raise FrameError(f"a frame has {batch.nbytes:,} bytes, and at most {MAX_BODY_BYTES:,} are taken")
    try:
        batch.validate(full=True)  # offsets from outside
    except pa.ArrowInvalid as error:
        raise FrameError(f"a frame is damaged: {error}") from None
    return Frame(json_object(bytes(header)), batch.column(0)[0].as_py())


def json_object(text: bytes) -> dict[str, Any]:
    """The object that a header or a request says; FrameError if it says none.

    >>> json_object(b'{"kind": 1, "kind": 2}')
    Traceback (most recent call last):
    situ.runtime.sites.wire.frames.FrameError: a header is no JSON object: 'kind' is there twice.
    """
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a header is no JSON object: {error}") from None
    if not isinstance(value, dict):
        raise FrameError("a header is no JSON object")
    if _is_deep(value, _DEEPEST):
        raise FrameError("a header is nested too deeply")
    return value


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value: dict[str, object] = {}
    for name, item in pairs:
        if name in value:
            raise ValueError(f"{name!r} is there twice")
        value[name] = item
    return value


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no number")


def _is_deep(value: object, left: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return left == 0 or any(_is_deep(each, left - 1) for each in inner)
