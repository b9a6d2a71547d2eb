"""Groups: the values of `group by` as numbers, and back.

A key is written as 64-bit words, so that one hash table serves keys of all types. It is exact: equal hashes are
compared word by word. No Python object is made for a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from situ.kernel.arrays import I64, U8, U64
from situ.kernel.matching.machine import inlined, jit
from situ.kernel.prefetch import AHEAD, prefetch

_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)
_ONE_WORD = np.uint64(1 << 63)
# Counters: one int64 array of these.
_NUMBERS, _WORDS, _FREE = range(3)


class GroupIndex:
    """Numbers keys in the order in which they first come, for as long as a group has something to remember.

    >>> groups = GroupIndex()
    >>> groups.numbers([pa.array(["b", "a", None, "b"])], 4).tolist()
    [0, 1, 2, 0]
    >>> groups.keys(np.array([2, 1]), [pa.string()])[0].to_pylist()
    [None, 'a']
    """

    def __init__(self) -> None:
        # The hash table: a key's hash, and its number plus one, or 0 where nothing is. At most half of it is in use.
        # No two words have one hash, so where a key is one word, _ONE_WORD says so, and nothing need be compared.
        self._slots = np.zeros((64, 2), np.uint64)
        # By number, where the words of its key begin and end; they begin at -1 if no group has the number.
        self._spans = np.zeros((32, 2), np.int64)
        self._words = np.zeros(32, np.uint64)
        self._free = np.zeros(0, np.int64)
        self._counters = np.zeros(3, np.int64)

    def __len__(self) -> int:
        """All numbers that are or have been in use."""
        return int(self._counters[_NUMBERS])

    @property
    def used(self) -> npt.NDArray[np.bool_]:
        """By number, whether a group has it."""
        return self._spans[: len(self), 0] >= 0

    def numbers(self, columns: Sequence[pa.Array], length: int) -> I64:
        """The group of every row; new ones are added. Without columns there is one group."""
        if length == 0:
            return np.zeros(0, np.int64)
        if not columns:
            return np.repeat(self._numbers(np.zeros(0, np.uint64), np.zeros(2, np.int64)), length)
        return self._numbers(*_columns_to_words(columns, length))

    def _numbers(self, words: U64, offsets: I64) -> I64:
        numbers = np.empty(len(offsets) - 1, np.int64)
        at = 0
        with np.errstate(over="ignore"):  # hashes wrap; compiled code does not say so
            while True:
                at = _number(at, words, offsets, numbers, self._slots, self._spans, self._words, self._free,
                             self._counters)  # fmt: skip
                if at == len(numbers):
                    return numbers
                self._grow(int(offsets[at + 1] - offsets[at]))

    def _grow(self, words: int) -> None:
        """Room for one more group at least, with a key of so many words."""
        count = len(self)
        if count == len(self._spans):
            self._spans = np.concatenate([self._spans, np.zeros_like(self._spans)])
        if self._counters[_WORDS] + words > len(self._words):
            self._words = np.concatenate([self._words, np.zeros(len(self._words) + words, np.uint64)])
        if 2 * (count + 1) > len(self._slots):
            slots = np.zeros((4 * len(self._slots), 2), np.uint64)
            _refill(self._slots, self._spans, slots)
            self._slots = slots

    def keys(self, numbers: I64, types: Sequence[pa.DataType]) -> list[pa.Array]:
        """The keys of some groups, in columns of these types."""
        return _words_to_columns(*self._words_of(numbers), types)

    def _words_of(self, numbers: I64) -> tuple[U64, I64]:
        begin, end = self._spans[numbers].T
        offsets = np.concatenate([[0], np.cumsum(end - begin)])
        return self._words[np.arange(offsets[-1]) + np.repeat(begin - offsets[:-1], end - begin)], offsets

    def release(self, idle: npt.NDArray[np.bool_]) -> None:
        """Forget some groups, marked by number; their numbers are given to new ones."""
        kept = np.flatnonzero(self.used & ~idle)
        words, offsets = self._words_of(kept)
        self._spans[:, 0] = -1
        self._spans[kept] = np.stack([offsets[:-1], offsets[1:]], axis=1)
        self._words = np.append(words, np.uint64(0))  # room to grow from
        slots = np.zeros_like(self._slots)
        _refill(self._slots, self._spans, slots)
        self._slots = slots
        self._free = np.flatnonzero(~self.used)
        self._counters[_WORDS], self._counters[_FREE] = len(words), len(self._free)


def is_among(columns: Sequence[pa.Array], keys: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
    """Which rows have one of these keys.

    >>> is_among([pa.array([1, 2, None])], [pa.array([None, 1])]).tolist()
    [True, False, True]
    """
    index = GroupIndex()
    index.numbers(keys, len(keys[0]))
    key_count = len(index)
    among: npt.NDArray[np.bool_] = index.numbers(columns, len(columns[0])) < key_count
    return among


@inlined
def _hash(words: U64, begin: int, end: int) -> np.uint64:
    value = np.uint64(end - begin)
    for at in range(begin, end):
        value = (value ^ words[at]) * _MIX
        value ^= value >> _SHIFT
    return value


@inlined
def _equal(words: U64, begin: int, end: int, others: U64, at: int, last: int) -> bool:
    equal = end - begin == last - at
    while equal and begin < end:
        equal = words[begin] == others[at]
        begin, at = begin + 1, at + 1
    return equal


@jit
def _number(row: int, words: U64, offsets: I64, numbers: I64, slots: U64, spans: I64, known: U64,
            free: I64, counters: I64) -> int:  # fmt: skip
    """Number the rows from `row` on. Returns the row before which there must be more room; if none, their count."""
    mask = np.uint64(len(slots) - 1)
    one = np.uint64(1)
    while row < len(numbers):
        if row + AHEAD < len(numbers):
            later = _hash(words, offsets[row + AHEAD], offsets[row + AHEAD + 1])
            prefetch(slots, np.int64(later & mask))
        begin, end = offsets[row], offsets[row + 1]
        value = _hash(words, begin, end)
        is_short = _ONE_WORD if end - begin == 1 else np.uint64(0)
        at = value & mask
        number = np.int64(slots[at, 1] & ~_ONE_WORD) - 1
        while number >= 0:
            is_like = slots[at, 0] == value and slots[at, 1] & _ONE_WORD == is_short
            if is_like and (is_short != 0 or _equal(words, begin, end, known, spans[number, 0], spans[number, 1])):
                break
            at = (at + one) & mask
            number = np.int64(slots[at, 1] & ~_ONE_WORD) - 1
        if number < 0:
            first = counters[_WORDS]
            if first + end - begin > len(known) or 2 * (counters[_NUMBERS] + 1) > len(slots):
                return row
            if counters[_FREE] > 0:
                counters[_FREE] -= 1
                number = free[counters[_FREE]]
            elif counters[_NUMBERS] < len(spans):
                number = counters[_NUMBERS]
                counters[_NUMBERS] += 1
            else:
                return row
            for i in range(end - begin):
                known[first + i] = words[begin + i]
            counters[_WORDS] = first + end - begin
            spans[number, 0], spans[number, 1] = first, first + end - begin
            slots[at, 0], slots[at, 1] = value, np.uint64(number + 1) | is_short
        numbers[row] = number
        row += 1
    return row


@jit
def _refill(old: U64, spans: I64, new: U64) -> None:
    """Into an empty table, what an old one holds of groups that are not released."""
    mask = np.uint64(len(new) - 1)
    one = np.uint64(1)
    for slot in range(len(old)):
        if old[slot, 1] > 0 and spans[(old[slot, 1] & ~_ONE_WORD) - one, 0] >= 0:
            at = old[slot, 0] & mask
            while new[at, 1] > 0:
                at = (at + one) & mask
            new[at, 0], new[at, 1] = old[slot, 0], old[slot, 1]


# --- keys as words
#
# A number is one word; text and bytes are their length and as many words as they need. A null is zero, or no bytes, and
# the key ends with the numbers of the columns that are null.


@dataclass(frozen=True, slots=True)
class _Bytes:
    """Values that are bytes: where they begin in `data`, and how many they are."""

    data: U8
    begin: I64
    size: I64


def _columns_to_words(columns: Sequence[pa.Array], length: int) -> tuple[U64, I64]:
    """The words of every row's key, one row after another, and where each begins."""
    parts = [_values(column) for column in columns]
    nulls = [(n, _null_rows(column)) for n, column in enumerate(columns) if column.null_count]
    if len(parts) == 1 and isinstance(parts[0], np.ndarray) and not nulls:
        return parts[0], np.arange(length + 1)
    if not nulls and all(isinstance(part, np.ndarray) for part in parts):
        return np.stack([*map(np.asarray, parts)], axis=1).reshape(-1), np.arange(
            0, length * len(parts) + 1, len(parts)
        )
    sizes = np.zeros(length, np.int64)
    for part in parts:
        sizes += 1 + (part.size + 7) // 8 if isinstance(part, _Bytes) else 1
    for _, rows in nulls:
        sizes[rows] += 1
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    words, at = np.zeros(offsets[-1], np.uint64), offsets[:-1].copy()
    for part in parts:
        if isinstance(part, _Bytes):
            _write_bytes(part.data, part.begin, part.size, at, words, words.view(np.uint8))
        else:
            words[at] = part
            at += 1
    for n, rows in nulls:
        words[at[rows]] = n
        at[rows] += 1
    return words, offsets


def _words_to_columns(words: U64, offsets: I64, types: Sequence[pa.DataType]) -> list[pa.Array]:
    """The inverse."""
    at = offsets[:-1].copy()
    parts: list[U64 | _Bytes] = []
    for type_ in types:
        if not _is_bytes(type_):
            parts.append(words[at])
            at += 1
        else:
            size = words[at].astype(np.int64)
            parts.append(_Bytes(words.view(np.uint8), 8 * (at + 1), size))
            at += 1 + (size + 7) // 8
    columns = []
    for n, (part, type_) in enumerate(zip(parts, types, strict=True)):
        null = np.zeros(len(at), np.bool_)
        more = np.flatnonzero(at < offsets[1:])
        null[more] = words[at[more]] == n
        at += null
        columns.append(_column(part, null, type_))
    return columns


_LARGE = (pa.large_string(), pa.large_binary())
_BYTES = (pa.string(), pa.binary(), *_LARGE)


def _is_bytes(type_: pa.DataType) -> bool:
    return type_ in _BYTES or pa.types.is_decimal(type_)


def _null_rows(column: pa.Array) -> I64:
    return np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))


def _values(column: pa.Array) -> U64 | _Bytes:
    """A column's values as words or bytes, zero or empty where they are null."""
    type_ = column.type
    if not _is_bytes(type_):
        if pa.types.is_boolean(type_) or pa.types.is_temporal(type_) or pa.types.is_null(type_):
            column = column.cast(pa.int8() if pa.types.is_boolean(type_) else pa.int64())
        values = (column.fill_null(0) if column.null_count else column).to_numpy()
        if not pa.types.is_floating(type_):
            return values.astype(np.int64).view(np.uint64)
        real = values.astype(np.float64) + 0.0  # both zeros are one value, and so are all NaN
        real[np.isnan(real)] = np.nan
        return real.view(np.uint64)
    if pa.types.is_decimal(type_):
        begin = 16 * (np.arange(len(column)) + column.offset)
        size = np.full(len(column), 16)
    else:
        width = np.int64 if type_ in _LARGE else np.int32
        bounds = np.frombuffer(column.buffers()[1], width)[column.offset : column.offset + len(column) + 1]
        begin, size = bounds[:-1].astype(np.int64), np.diff(bounds).astype(np.int64)
    if column.null_count:
        size[_null_rows(column)] = 0
    data = np.frombuffer(column.buffers()[-1] or b"", np.uint8)
    data.flags.writeable = False  # always: kernels are compiled for each kind of array that they are given
    return _Bytes(data, begin, size)


def _column(part: U64 | _Bytes, null: npt.NDArray[np.bool_], type_: pa.DataType) -> pa.Array:
    """The inverse."""
    if isinstance(part, _Bytes):
        offsets = np.concatenate([[0], np.cumsum(part.size)])
        data = np.empty(offsets[-1], np.uint8)
        _read_bytes(part.data, part.begin, offsets, data)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        values = pa.Array.from_buffers(pa.large_binary(), len(null), buffers)
        if null.any():
            values = pc.if_else(pa.array(null), None, values)
        return values.cast(pa.binary(16)).view(type_) if pa.types.is_decimal(type_) else values.cast(type_)
    if pa.types.is_floating(type_):
        return pa.array(part.view(np.float64), type_, mask=null)
    if pa.types.is_null(type_):
        return pa.nulls(len(null))
    return pa.array(part.view(np.int64), mask=null).cast(type_)


@jit
def _write_bytes(data: U8, begin: I64, size: I64, at: I64, words: U64, bytes_: U8) -> None:
    """Write each row's size and bytes at its place, and move the place behind them. `bytes_` are the words' bytes."""
    for row in range(len(at)):
        count, first = size[row], 8 * (at[row] + 1)
        words[at[row]] = count
        for i in range(count):
            bytes_[first + i] = data[begin[row] + i]
        at[row] += 1 + (count + 7) // 8


@jit
def _read_bytes(data: U8, begin: I64, offsets: I64, bytes_: U8) -> None:
    """Copy each row's bytes to its place."""
    for row in range(len(begin)):
        for i in range(offsets[row + 1] - offsets[row]):
            bytes_[offsets[row] + i] = data[begin[row] + i]
