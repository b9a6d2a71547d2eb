"""State as bytes: Arrow tables under names, with a version and a checksum. No pickle, no code.

Each table carries the digest of the program that its rows fit; what its rows are, kernel/state/sections.py says.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Mapping

import pyarrow as pa

from situ.core.errors import StateError
from situ.kernel.state.checks import damaged, require

VERSION = 6
#: What bytes begin with: who wrote them, the version, and the checksum of all that follows.
_HEADER = struct.Struct("<4sHI")
_MAGIC = b"situ"
#: Versions 1 and 2 had no header, and this word near the beginning.
_WITHOUT_HEADER = b"situ.version"
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
    names = pa.table({"name": pa.array(list(tables), pa.string())})
    sink = pa.BufferOutputStream()
    for table in (names, *tables.values()):
        with pa.ipc.new_stream(sink, table.schema, options=_WRITE) as writer:
            writer.write_table(table)
    content = sink.getvalue()
    return _HEADER.pack(_MAGIC, VERSION, zlib.crc32(content)) + content


def unpack(data: bytes) -> dict[str, pa.Table]:
    """The tables of `pack`; StateError if the bytes are none, are damaged, or of another version."""
    content = _content(data)
    source = pa.BufferReader(content)
    try:
        names = _read(source).column("name")
        return {name: _read(source) for name in names.to_pylist()}
    except (pa.ArrowException, OSError, MemoryError, ValueError, KeyError) as error:
        raise damaged(str(error).partition("\n")[0]) from error


def _content(data: bytes) -> pa.Buffer:
    """What follows the header, if its checksum is that of the header."""
    version, checksum = 0, 0
    if data.startswith(_MAGIC) and len(data) >= _HEADER.size:
        _, version, checksum = _HEADER.unpack_from(data)
    elif _WITHOUT_HEADER not in data[:1000]:
        raise StateError("these bytes are no snapshot", remedy="Give the bytes that `snapshot` gave.")
    if version != VERSION:
        raise StateError(
            f"the snapshot has version {version or '2 or older'}, this situ reads version {VERSION}",
            remedy="Read it with the situ that wrote it, or start without a snapshot.",
        )
    content = pa.py_buffer(data).slice(_HEADER.size)
    require(zlib.crc32(content) == checksum, "its checksum is another one")
    return content


def _read(source: pa.BufferReader) -> pa.Table:
    table = pa.ipc.open_stream(source, options=_READ).read_all()
    table.validate(full=True)
    return table


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
