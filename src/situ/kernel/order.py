"""The total order of events (docs/language.md, "Order and time"), and groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from situ.kernel.arrays import I64
from situ.kernel.machine import jit

#: For rows of the event type with this rank, the values that decide between equal times, most important first.
TieKeys = Callable[[int, I64], Sequence[pa.Array]]


@jit
def _counting_order(keys: I64, offsets: I64, order: I64) -> None:
    """Rows by key, stable, in linear time. `offsets` is zero and one longer than there are keys."""
    for key in keys:
        offsets[key + 1] += 1
    for key in range(1, len(offsets)):
        offsets[key] += offsets[key - 1]
    for row in range(len(keys)):
        key = keys[row]
        order[offsets[key]] = row
        offsets[key] += 1


@jit
def _is_sorted(values: I64) -> int:
    """0: no, 1: with equal neighbours, 2: strictly."""
    result = 2
    for row in range(1, len(values)):
        if values[row] < values[row - 1]:
            return 0
        if values[row] == values[row - 1]:
            result = 1
    return result


@jit
def _is_sorted_by_group(order: I64, group: I64, time: I64) -> bool:
    """Whether each group is in order of time, where `order` has the groups one after another."""
    for at in range(1, len(order)):
        if group[order[at]] == group[order[at - 1]] and time[order[at]] < time[order[at - 1]]:
            return False
    return True


@jit
def _tied(order: I64, group: I64, time: I64, segment: I64) -> int:
    """Numbers runs of equal (group, time) in `order`; -1 for events alone. Returns how many events are in runs."""
    tied, runs = 0, 0
    for at in range(len(order)):
        segment[at] = -1
    for at in range(1, len(order)):
        a, b = order[at - 1], order[at]
        if group[a] == group[b] and time[a] == time[b]:
            if segment[at - 1] < 0:
                segment[at - 1] = runs
                runs += 1
                tied += 1
            segment[at] = segment[at - 1]
            tied += 1
    return tied


@jit
def number_positions(order: I64, group: I64, position: I64, following: I64) -> None:
    """Positions within each group, going on from `following`."""
    for row in order:
        position[row] = following[group[row]]
        following[group[row]] += 1


def counting_order(keys: I64, count: int) -> I64:
    """Rows by key, stable.

    >>> counting_order(np.array([2, 0, 2, 1]), 3).tolist()
    [1, 3, 0, 2]
    """
    order = np.empty(len(keys), np.int64)
    _counting_order(keys, np.zeros(count + 1, np.int64), order)
    return order


def union_of_sorted(arrays: Sequence[I64]) -> I64:
    """The values of several sorted arrays, sorted, each once.

    >>> union_of_sorted([np.array([1, 4]), np.array([2, 4])]).tolist()
    [1, 2, 4]
    """
    if len(arrays) == 1:
        return arrays[0]
    joined = np.sort(np.concatenate(arrays), kind="stable")  # merges runs that are sorted already
    fresh = np.ones(len(joined), np.bool_)
    fresh[1:] = joined[1:] != joined[:-1]
    return joined if fresh.all() else joined[fresh]


def is_sorted(values: I64) -> bool:
    return bool(_is_sorted(values) > 0)


def total_order(group: I64, groups: int, time: I64, rank: np.ndarray, tie_keys: TieKeys) -> I64:
    """Rows in an order in which each group is in its total order: by time alone where no two times are equal, else by
    group, so that only ties within a group need to be decided.

    `rank` orders the event types among equal times; rows of one type and time are ordered by `tie_keys`, which are
    read for tied rows only.
    """
    sorted_ = _is_sorted(time)
    if sorted_ == 2:
        return np.arange(len(time))
    order = counting_order(group, groups) if groups > 1 else np.arange(len(time))
    if sorted_ == 0 and not _is_sorted_by_group(order, group, time):
        order = np.lexsort((time, group))
    segment = np.empty(len(order), np.int64)
    if _tied(order, group, time, segment) == 0:
        return order
    slots = np.flatnonzero(segment >= 0)
    rows = order[slots]
    order[slots] = rows[_tie_order(segment[slots], rank[rows], rows, tie_keys)]
    return order


def _tie_order(segment: I64, ranks: np.ndarray, rows: I64, tie_keys: TieKeys) -> I64:
    keys: list[I64] = []
    for rank in np.unique(ranks):
        of_type = np.flatnonzero(ranks == rank)
        for number, values in enumerate(tie_keys(int(rank), rows[of_type])):
            if number == len(keys):
                keys.append(np.zeros(len(rows), np.int64))
            keys[number][of_type] = dense_ranks(values)
    return np.lexsort((*reversed(keys), ranks, segment))


def dense_ranks(values: pa.Array) -> I64:
    """Ranks from 1 by which values compare; equal values have equal ranks, and nulls have rank 0.

    >>> dense_ranks(pa.array(["b", None, "a", "b"])).tolist()
    [2, 0, 1, 2]
    """
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if pa.types.is_null(values.type):
        return np.zeros(len(values), np.int64)
    ranks = pc.rank(values, tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    return np.where(values.is_null().to_numpy(zero_copy_only=False), 0, ranks) if values.null_count else ranks


class GroupIndex:
    """Numbers the values of `group by`, for as long as a group has something to remember."""

    def __init__(self) -> None:
        self.keys: list[tuple[object, ...] | None] = []
        self._numbers: dict[tuple[object, ...], int] = {}
        self._free: list[int] = []
        self._table = np.zeros(0, np.int64)  # for one integer key: the number of key i - base, or -1
        self._base = 0

    @classmethod
    def of(cls, keys: Sequence[tuple[object, ...]]) -> GroupIndex:
        """The groups of a snapshot: key i has number i."""
        index = cls()
        for key in keys:
            index._number(tuple(_NAN if isinstance(value, float) and value != value else value for value in key))
        return index

    @property
    def known(self) -> list[tuple[object, ...]]:
        """The keys by number, where none has been released."""
        return [key for key in self.keys if key is not None]

    def __len__(self) -> int:
        """All numbers that are or have been in use."""
        return len(self.keys)

    def numbers(self, columns: Sequence[pa.Array], length: int) -> I64:
        """The group of every row; new ones are added. Without columns there is one group."""
        if not columns:
            self._number(())
            return np.zeros(length, np.int64)
        if len(columns) == 1 and pa.types.is_integer(columns[0].type) and columns[0].null_count == 0 and length:
            keys_ = columns[0].to_numpy()
            if self._cover(int(keys_.min()), int(keys_.max()), 4 * length):
                return self._by_table(keys_)
        codes, values = _encoded(columns[0])
        keys: list[tuple[object, ...]] = [(value,) for value in values]
        for column in columns[1:]:
            more, values = _encoded(column)
            used, codes = np.unique(codes * len(values) + more, return_inverse=True)
            keys = [(*keys[code // len(values)], values[code % len(values)]) for code in used.tolist()]
        known = np.fromiter((self._number(key) for key in keys), np.int64, len(keys))
        return known[codes]

    def _number(self, key: tuple[object, ...]) -> int:
        number = self._numbers.get(key)
        if number is None:
            if self._free:
                number = self._free.pop()
                self.keys[number] = key
            else:
                number = len(self.keys)
                self.keys.append(key)
            self._numbers[key] = number
        return number

    def _cover(self, least: int, most: int, room: int) -> bool:
        """Let the table reach from `least` to `most`, unless that makes it large for what it holds."""
        if len(self._table):
            least, most = min(least, self._base), max(most, self._base + len(self._table) - 1)
        if most - least >= room + 4 * len(self.keys) + 4096:
            return False
        if (least, most) != (self._base, self._base + len(self._table) - 1):
            table = np.full(most - least + 1, -1, np.int64)
            table[self._base - least : self._base - least + len(self._table)] = self._table
            for key, number in self._numbers.items():  # known from before there was a table
                if isinstance(key[0], int) and least <= key[0] <= most:
                    table[key[0] - least] = number
            self._table, self._base = table, least
        return True

    def _by_table(self, keys: np.ndarray) -> I64:
        """Known integers are numbered by the table alone."""
        places = keys if self._base == 0 else keys.astype(np.int64) - self._base
        numbers = self._table[places]
        if len(numbers) and numbers.min() < 0:
            for place in np.unique(places[numbers < 0]).tolist():
                self._table[place] = self._number((place + self._base,))
            numbers = self._table[places]
        return numbers

    def release(self, numbers: list[int]) -> None:
        """Forget these groups; their numbers are given to new ones."""
        for number in numbers:
            key = self.keys[number]
            if key is not None:
                del self._numbers[key]
                self.keys[number] = None
                self._free.append(number)
                if len(self._table) and isinstance(key[0], int) and 0 <= key[0] - self._base < len(self._table):
                    self._table[key[0] - self._base] = -1


_NAN = float("nan")


def _encoded(column: pa.Array) -> tuple[I64, list[object]]:
    """Codes and the values they stand for; a null is a value like any other, and all NaN are one."""
    encoded = column.dictionary_encode(null_encoding="encode")
    values = encoded.dictionary.to_pylist()
    if pa.types.is_floating(column.type):
        values = [_NAN if value is not None and value != value else value for value in values]
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), values
