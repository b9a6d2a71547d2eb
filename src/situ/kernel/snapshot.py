"""State as bytes: Arrow tables under names, with a version. No pickle, no code.

Each table carries the digest of the program that its rows fit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import pyarrow as pa

from situ.core.errors import StateError

VERSION = 2
_MAGIC = b"situ.version"
_DIGEST = b"situ.program"
# Compressed, the state of a pattern with very many groups is a quarter as large. Arrow's threads would only be in the
# way: there are many small columns, and engines run shards side by side.
_WRITE = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)


def pack(tables: Mapping[str, pa.Table]) -> bytes:
    """Tables as bytes: one after another, after a table of their names.

    >>> unpack(pack({"a": pa.table({"x": [1]})}))["a"].to_pylist()
    [{'x': 1}]
    """
    names = pa.table({"name": pa.array(list(tables), pa.string())}, metadata={_MAGIC: str(VERSION).encode()})
    sink = pa.BufferOutputStream()
    for table in (names, *tables.values()):
        with pa.ipc.new_stream(sink, table.schema, options=_WRITE) as writer:
            writer.write_table(table)
    return sink.getvalue().to_pybytes()


def unpack(data: bytes) -> dict[str, pa.Table]:
    """The tables of `pack`; StateError if the bytes are none, or of another version."""
    source = pa.BufferReader(data)
    try:
        names = _read(source)
        version = (names.schema.metadata or {}).get(_MAGIC)
        if version == str(VERSION).encode():
            return {name: _read(source) for name in names.column("name").to_pylist()}
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise StateError("these bytes are no snapshot", remedy=f"Arrow says: {error}") from error
    found = version.decode() if version else "none"
    raise StateError(
        f"the snapshot has version {found}, this situ reads version {VERSION}",
        remedy="Read it with the situ that wrote it, or start without a snapshot.",
    )


def _read(source: pa.BufferReader) -> pa.Table:
    return pa.ipc.open_stream(source, options=_READ).read_all()


def digest(*parts: object) -> str:
    """A short hash of what a state must fit: texts, and what prints itself.

    >>> digest("program", ("a", "b")) == digest("program", ("a", "b")) != digest("program", ("b", "a"))
    True
    """
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]


def with_digest(table: pa.Table, digest: str) -> pa.Table:
    return table.replace_schema_metadata({_DIGEST: digest.encode()})


def digest_of(table: pa.Table) -> str:
    return (table.schema.metadata or {}).get(_DIGEST, b"").decode()
