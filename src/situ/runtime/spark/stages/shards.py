"""Rows -> packets, by shard: what travels between Spark's tasks.

A packet is a row for Spark, and many events in one Arrow payload: Spark shuffles a few large rows instead of many small
ones, and Python reads them without converting anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from situ.core.hops import hop
from situ.kernel.arrays import I64
from situ.kernel.matching.machine import jit
from situ.kernel.matching.order import order_and_ends

#: The columns of packets, for Spark and for Arrow.
PACKETS = "stage int, shard int, route int, type string, payload binary"
PACKETS_ARROW = pa.schema(
    [
        ("stage", pa.int32()),
        ("shard", pa.int32()),
        ("route", pa.int32()),
        ("type", pa.string()),
        ("payload", pa.binary()),
    ]
)


#: Payloads are cut into pieces of about this many bytes. With `spark_session`'s settings, Spark hands 32,768 rows to
#: Python at once, whatever their size; so many packets stay below the two gigabytes of a binary column.
PACKET_BYTES = 60_000


#: The stage of packets that hold rows of the tagged table, which no stage reads.
FINISHED = -1
#: The route of packets that tell all shards of a stage how far time has come.
CLOCK = -1
#: The route of packets that tell a task of a batch that it has the shard whose rules begin at the start of the query.
BEGIN = -2


@dataclass(frozen=True, slots=True)
class Address:
    """Whom packets are for: a route of a stage, which reads them as events of a type."""

    stage: int
    route: int
    type: str


def shard_numbers(keys: Sequence[pa.Array], shards: int) -> I64:
    """The shard of each row. Rows with equal keys have equal shards, in every process.

    >>> numbers = shard_numbers([pa.array(["a", "b", "a", None])], 1000)
    >>> bool(numbers[0] == numbers[2]), len(set(numbers.tolist()))
    (True, 3)
    """
    hashes = np.zeros(len(keys[0]), np.uint64)
    with np.errstate(over="ignore"):  # hashes wrap; compiled code does not say so
        for key in keys:
            _mix(hashes, _hashes(key))
    numbers = np.empty(len(hashes), np.int64)
    _modulo(hashes, shards, numbers)
    return numbers


@jit
def _mix(hashes: npt.NDArray[np.uint64], values: npt.NDArray[np.uint64]) -> None:
    """One more value into the hash of each row, by splitmix64's finaliser: neighbouring values become unlike ones."""
    for row in range(len(hashes)):
        value = hashes[row] * np.uint64(31) + values[row]
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes[row] = value ^ (value >> np.uint64(31))


@jit
def _modulo(hashes: npt.NDArray[np.uint64], shards: int, numbers: I64) -> None:
    """Each hash as a number below `shards`."""
    for row in range(len(hashes)):
        numbers[row] = np.int64(hashes[row] % np.uint64(shards))


def _hashes(column: pa.Array) -> npt.NDArray[np.uint64]:
    """Equal values (0.0 and -0.0, all NaN, integers of any width) have equal hashes; null has one too."""
    type_ = column.type
    valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
    if pa.types.is_floating(type_):
        values = column.fill_null(0).cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0
        hashes = np.where(np.isnan(values), np.nan, values).view(np.uint64)
    elif pa.types.is_integer(type_) or pa.types.is_boolean(type_):
        hashes = (
            column.fill_null(False if pa.types.is_boolean(type_) else 0).cast(pa.int64()).to_numpy().view(np.uint64)
        )
    elif pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        hashes = column.cast(pa.int64()).fill_null(0).to_numpy().view(np.uint64)
    elif pa.types.is_null(type_):
        return np.zeros(len(column), np.uint64)
    else:
        hashes = _text_hashes(column.cast(pa.string()).cast(pa.binary()) if pa.types.is_decimal(type_) else column)
    return hashes if valid is None else np.where(valid, hashes, np.uint64(0x9E3779B97F4A7C15))


def _text_hashes(column: pa.Array) -> npt.NDArray[np.uint64]:
    binary = column.cast(pa.binary())
    _, offsets, data = binary.buffers()
    hashes = np.zeros(len(binary), np.uint64)
    if len(binary):
        bounds = np.frombuffer(offsets, np.int32)[binary.offset : binary.offset + len(binary) + 1]
        _hash_texts(bounds, np.frombuffer(data or b"", np.uint8), hashes)
    return hashes


@jit
def _hash_texts(offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8], hashes: npt.NDArray[np.uint64]) -> None:
    """FNV-1a."""
    for row in range(len(hashes)):
        value = np.uint64(0xCBF29CE484222325)
        for at in range(offsets[row], offsets[row + 1]):
            value = (value ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
        hashes[row] = value


def to_packets(rows: pa.RecordBatch, shard: I64 | int, shards: int, address: Address) -> Iterator[pa.RecordBatch]:
    """The rows as packets, each of one shard."""
    if rows.num_rows:
        with hop("packing"):
            packets = _packed(rows, shard, shards, address)
        yield packets


def _packed(rows: pa.RecordBatch, shard: I64 | int, shards: int, address: Address) -> pa.RecordBatch:
    if isinstance(shard, int):
        of_shards, ends = np.array([shard]), np.array([rows.num_rows])
    else:
        order, ends = order_and_ends(shard, shards)
        rows, of_shards = rows.take(pa.array(order)), np.arange(shards)
    most = max(PACKET_BYTES * rows.num_rows // max(rows.nbytes, 1), 1)
    numbers, bounds = _cut(of_shards, ends, most)
    parts = (rows.slice(begin, end - begin) for begin, end in pairwise(bounds.tolist()))
    payload = payloads(parts, rows.schema)
    constant = [pa.array(np.full(len(numbers), n, np.int32)) for n in (address.stage, address.route)]
    types = pa.array([address.type]).take(pa.array(np.zeros(len(numbers), np.int64)))
    columns = [constant[0], pa.array(numbers.astype(np.int32)), constant[1], types, payload]
    return pa.RecordBatch.from_arrays(columns, schema=PACKETS_ARROW)


def _cut(of_shards: I64, ends: I64, most: int) -> tuple[I64, I64]:
    """Rows of shards that follow each other, in parts of at most so many: the shard of each part, and where it begins
    and ends.

    >>> [numbers.tolist() for numbers in _cut(np.array([4, 7, 9]), np.array([5, 5, 6]), 2)]
    [[4, 4, 4, 9], [0, 2, 4, 5, 6]]
    """
    counts = np.diff(ends, prepend=0)
    parts = -(-counts // most)
    into = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    begins = np.repeat(ends - counts, parts) + into * most
    return np.repeat(of_shards, parts), np.append(begins, ends[-1])


def clock_packets(stages: Sequence[int], shards: int, told: Mapping[str, object]) -> pa.RecordBatch:
    """The same words for every shard of some stages."""
    rows = len(stages) * shards
    columns = [
        np.repeat(np.array(stages, np.int32), shards),
        np.tile(np.arange(shards, dtype=np.int32), len(stages)),
        np.full(rows, CLOCK, np.int32),
        pa.repeat("", rows),
        pa.repeat(json.dumps(told).encode(), rows),
    ]
    return pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=PACKETS_ARROW)


def begin_packets(stages: Sequence[int], shard: int) -> pa.RecordBatch:
    """A word for the shard of some stages whose rules begin at the start, so that a task has it even if no event comes
    for it."""
    numbers = [stages, [shard] * len(stages), [BEGIN] * len(stages)]
    columns = [*(pa.array(n, pa.int32()) for n in numbers), pa.repeat("", len(stages)), pa.repeat(b"", len(stages))]
    return pa.RecordBatch.from_arrays(columns, schema=PACKETS_ARROW)


def from_packets(packets: pa.RecordBatch) -> Iterator[tuple[int, str, list[pa.RecordBatch]]]:
    """The rows of each packet, with the route and the type that they are for."""
    routes, types = (packets.column(name).to_pylist() for name in ("route", "type"))
    column = packets.column("payload")
    for at, (route, type_) in enumerate(zip(routes, types, strict=True)):
        yield route, type_, rows_of(column[at].as_buffer())


def payloads(parts: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.BinaryArray:
    """Each part as an Arrow stream: the schema, which is written once for all of them, and one batch."""
    head = schema.serialize()
    batches = [part.serialize() for part in parts]
    ends = np.cumsum([0, *(head.size + batch.size for batch in batches)]).astype(np.int32)
    content = b"".join(message for batch in batches for message in (head, batch))
    return pa.Array.from_buffers(pa.binary(), len(batches), [None, pa.py_buffer(ends), pa.py_buffer(content)])


def rows_of(payload: pa.Buffer | bytes) -> list[pa.RecordBatch]:
    """The rows of one packet.

    >>> rows = pa.record_batch({"n": [1, 2]})
    >>> rows_of(payloads([rows], rows.schema)[0].as_buffer()) == [rows]
    True
    """
    buffer = pa.py_buffer(payload)
    # A message of Arrow begins with a marker and the length of what describes it. A schema is nothing but that.
    head = 8 + int.from_bytes(buffer[4:8].to_pybytes(), "little")
    return [pa.ipc.read_record_batch(buffer[head:], _schema(buffer[:head].to_pybytes()))]


@lru_cache(maxsize=64)
def _schema(content: bytes) -> pa.Schema:
    """Most packets have a schema that was read before."""
    return pa.ipc.read_schema(pa.py_buffer(content))


def even_keys(shards: int) -> list[int]:
    """A number for each shard, such that Spark's hash deals them out evenly to as many partitions, or to a divisor of
    that. The shards' own numbers would meet in one partition as often as not. State is found by these numbers, so they
    depend on nothing else.

    >>> keys = even_keys(4)
    >>> sorted(_murmur3(key) % 4 for key in keys), sorted(_murmur3(key) % 2 for key in keys)
    ([0, 1, 2, 3], [0, 0, 1, 1])
    """
    key_of_shard: dict[int, int] = {}
    for key in count():
        key_of_shard.setdefault(_murmur3(key) % shards, key)
        if len(key_of_shard) == shards:
            break
    return [key_of_shard[shard] for shard in range(shards)]


def _murmur3(value: int, seed: int = 42) -> int:
    """Spark's hash of an int (Murmur3, x86, 32 bits), as a signed number."""
    mask = 0xFFFFFFFF

    def rotated(x: int, by: int) -> int:
        return (x << by | x >> (32 - by)) & mask

    h = seed ^ (rotated(value * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask)
    h = (rotated(h, 13) * 5 + 0xE6546B64) & mask
    h ^= 4  # bytes
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h
