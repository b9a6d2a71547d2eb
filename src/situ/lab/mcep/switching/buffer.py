"""What a producer has streamed for an interest: the outgoing buffer in the event storage (MCEP, section 5.2).

Events have numbers. An event that is produced for an interest and was streamed for the interest before has the same
number: it has the same time, attributes, extent and origins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from situ.flow.clock import ONLY_SOURCE
from situ.kernel.arrays import I64
from situ.kernel.batch import EXTENT, ORIGINS, Batch, concat
from situ.kernel.operator import origins_of
from situ.kernel.state.groups import GroupIndex
from situ.space.event_store import Region, reals

#: A column of every event on a stream: its number.
NUMBER = "_number"


def whole_numbers(batch: Batch, name: str) -> I64:
    """A column of integers as an array."""
    values: I64 = batch.columns[name].to_numpy(zero_copy_only=False).astype(np.int64)
    return values


def origin_numbers(origins: pa.Array) -> tuple[I64, I64]:
    """The numbers of the events behind each row, one row after another, and where those of each row begin."""
    sizes = origins.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    numbers: I64 = origins.flatten().field("row").to_numpy(zero_copy_only=False)
    return numbers, np.concatenate([[0], np.cumsum(sizes)])


def as_bytes(numbers: I64, offsets: I64) -> pa.Array:
    """Lists of numbers as values that can be compared, and be keys."""
    data = np.ascontiguousarray(numbers, np.int64)
    buffers = [None, pa.py_buffer(8 * offsets.astype(np.int64)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def as_origins(event_type: str, times_us: I64, numbers: I64) -> pa.Array:
    """Events as the origins of what an operator makes of them: each is its own, by its number."""
    return origins_of(event_type, ONLY_SOURCE, times_us, numbers)


@dataclass(slots=True)
class Buffer:
    """Events by number: those of the interest before, and those of this one so far (`reused` of which were not
    streamed, but stood there already)."""

    before: Batch
    reused: Batch
    now: list[Batch]

    @classmethod
    def empty(cls, nothing: Batch) -> Buffer:
        return cls(nothing, nothing, [])

    def begin(self, region: Region, reuse_since_us: int | None) -> None:
        """Another interest: what can be reused of the one before?"""
        self.before = _by_number(concat([self.before.take(np.zeros(0, np.int64)), *self.now]))
        rows = np.zeros(len(self.before), np.bool_)
        if reuse_since_us is not None:
            extent = (reals(self.before.columns[name]) for name in EXTENT)
            rows = region.contains(*extent) & (self.before.times >= reuse_since_us)
        self.reused = _by_number(self.before.take(rows))
        self.now = [self.reused]

    def forget(self) -> None:
        """Nothing is kept from the interest before."""
        self.now = []

    def retrieve(self, numbers: I64) -> Batch:
        """Events of the interest before, by their numbers."""
        return self.before.take(np.searchsorted(whole_numbers(self.before, NUMBER), numbers))

    def has_streamed(self, numbers: I64) -> npt.NDArray[np.bool_]:
        return np.isin(numbers, whole_numbers(self.before, NUMBER))

    def has_reused(self, numbers: I64) -> npt.NDArray[np.bool_]:
        return np.isin(numbers, whole_numbers(self.reused, NUMBER))


def _by_number(batch: Batch) -> Batch:
    return batch.take(np.argsort(whole_numbers(batch, NUMBER), kind="stable"))


class Numbering:
    """Gives produced events their numbers: the old one, if the event was produced for the interest before.

    Events may be equal in all that they have; then the first has the number of the first, and so on.
    """

    def __init__(self, fresh: Callable[[int], I64]) -> None:
        self._fresh = fresh
        self.begin(None)

    def begin(self, before: Batch | None) -> None:
        self._index = GroupIndex()
        codes = self._codes(before) if before is not None and len(before) else np.zeros(0, np.int64)
        order = np.argsort(codes, kind="stable")
        self._numbers = whole_numbers(before, NUMBER)[order] if before is not None else codes
        self._count = np.bincount(codes, minlength=len(self._index))
        self._first = np.cumsum(self._count) - self._count
        self._seen = np.zeros(len(self._count), np.int64)

    def numbers(self, batch: Batch) -> I64:
        codes = self._codes(batch)
        more = len(self._index) - len(self._count)
        self._count, self._first, self._seen = (
            np.concatenate([is_known, np.zeros(more, np.int64)]) for is_known in (self._count, self._first, self._seen)
        )
        occurrence = self._seen[codes] + _occurrences(codes)
        np.add.at(self._seen, codes, 1)
        is_known = occurrence < self._count[codes]
        numbers = np.empty(len(codes), np.int64)
        numbers[is_known] = self._numbers[(self._first[codes] + occurrence)[is_known]]
        numbers[~is_known] = self._fresh(int(np.count_nonzero(~is_known)))
        return numbers

    def _codes(self, batch: Batch) -> I64:
        names = [name for name in sorted(batch.columns) if name not in (NUMBER, ORIGINS, "_selection")]
        columns: Sequence[pa.Array] = [batch.columns[name] for name in names]
        origins = as_bytes(*origin_numbers(batch.columns[ORIGINS]))
        return self._index.numbers([pa.array(batch.times), origins, *columns], len(batch))


def _occurrences(codes: I64) -> I64:
    """For each row, how many of those before it are equal to it.

    >>> _occurrences(np.array([5, 3, 5, 5])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(codes, kind="stable")
    first = np.searchsorted(codes[order], codes[order], side="left")
    occurrences = np.empty(len(codes), np.int64)
    occurrences[order] = np.arange(len(codes)) - first
    return occurrences
