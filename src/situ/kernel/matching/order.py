"""The total order of events (docs/language.md, "Order and time")."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.time import BEGINNING
from situ.kernel.arrays import I64, U64
from situ.kernel.matching.machine import jit
from situ.kernel.prefetch import AHEAD, prefetch

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


def are_among(values: I64, ascending: I64) -> npt.NDArray[np.bool_]:
    """Which values are among others that ascend.

    >>> are_among(np.array([5, 2, 9]), np.array([2, 5, 7])).tolist()
    [True, True, False]
    """
    if not len(ascending):
        return np.zeros(len(values), np.bool_)
    at = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    among: npt.NDArray[np.bool_] = ascending[at] == values
    return among


@jit
def _is_sorted_within(major: I64, time: I64) -> bool:
    """Whether rows that follow each other and agree in `major` are strictly in order of time, and each value of
    `major` is in one place."""
    for row in range(1, len(time)):
        if major[row] < major[row - 1] or (major[row] == major[row - 1] and time[row] <= time[row - 1]):
            return False
    return True


@jit
def _ascends_in_groups(group: I64, time: I64, last: I64) -> bool:
    """Whether each group is strictly in order of time as its rows come. `last` is before all times, for each group."""
    for row in range(len(time)):
        if time[row] <= last[group[row]]:
            return False
        last[group[row]] = time[row]
    return True


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
    for at in range(len(order)):
        if at + AHEAD < len(order):
            prefetch(following, group[order[at + AHEAD]])
        row = order[at]
        position[row] = following[group[row]]
        following[group[row]] += 1


#: Bits of a key that one pass of a radix sort looks at: its counts stay in the processor's first cache.
_DIGIT_BITS = 11
#: Fewer rows than these are sorted by comparing them.
_FEW_ROWS = 512


def lexical_order(columns: Sequence[np.ndarray]) -> I64:
    """Rows by several columns of whole numbers, the last one first, stable: what `np.lexsort` gives, in linear time.

    >>> lexical_order([np.array([3, 1, 2, 1]), np.array([0, 1, 0, 0])]).tolist()
    [3, 2, 0, 1]
    """
    length = len(columns[0])
    if length < _FEW_ROWS:
        order: I64 = np.lexsort(columns)
        return order
    order = np.arange(length)
    scratch = np.empty(length, np.int64)
    keys, moved = np.empty(length, np.uint64), np.empty(length, np.uint64)
    counts = np.empty(1 << _DIGIT_BITS, np.int64)
    with np.errstate(over="ignore"):
        for column in columns:
            order, scratch = _sort_by(column.astype(np.int64, copy=False), order, scratch, keys, moved, counts)
    return order


@jit
def _sort_by(column: I64, order: I64, scratch: I64, keys: U64, moved: U64, counts: I64) -> tuple[I64, I64]:
    """Sort an order by one more column, digit by digit from the last. Returns the order, and room of its size."""
    least, most, is_sorted = column[order[0]], column[order[0]], True
    for at in range(len(order)):
        value = column[order[at]]
        is_sorted &= value >= most
        least, most = min(least, value), max(most, value)
        keys[at] = np.uint64(value)
    if is_sorted:
        return order, scratch
    base, widest = np.uint64(least), np.uint64(most) - np.uint64(least)
    for at in range(len(order)):
        keys[at] -= base
    mask, shift = np.uint64(len(counts) - 1), np.uint64(0)
    while shift < np.uint64(64) and widest >> shift != np.uint64(0):
        counts[:] = 0
        for at in range(len(order)):
            counts[np.int64((keys[at] >> shift) & mask)] += 1
        total = 0
        for digit in range(len(counts)):
            count = counts[digit]
            counts[digit] = total
            total += count
        for at in range(len(order)):
            its_digit = np.int64((keys[at] >> shift) & mask)
            to = counts[its_digit]
            counts[its_digit] += 1
            scratch[to], moved[to] = order[at], keys[at]
        order, scratch, keys, moved = scratch, order, moved, keys
        shift += np.uint64(_DIGIT_BITS)
    return order, scratch


def counting_order(keys: I64, count: int) -> I64:
    """Rows by key, stable.

    >>> counting_order(np.array([2, 0, 2, 1]), 3).tolist()
    [1, 3, 0, 2]
    """
    return order_and_ends(keys, count)[0]


def order_and_ends(keys: I64, count: int) -> tuple[I64, I64]:
    """Rows by key, stable, and where in that order the rows of each key end.

    >>> [numbers.tolist() for numbers in order_and_ends(np.array([2, 0, 2, 1]), 3)]
    [[1, 3, 0, 2], [1, 2, 4]]
    """
    order, offsets = np.empty(len(keys), np.int64), np.zeros(count + 1, np.int64)
    _counting_order(keys, offsets, order)
    return order, offsets[:-1]


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


def is_strictly_sorted(values: I64) -> bool:
    """Whether values ascend, and no two are equal."""
    return bool(_is_sorted(values) == 2)


@jit
def is_sorted_by(first: I64, second: I64, third: I64) -> bool:
    """Whether rows ascend by three columns in turn."""
    for row in range(1, len(first)):
        if first[row] != first[row - 1]:
            if first[row] < first[row - 1]:
                return False
        elif second[row] < second[row - 1] or (second[row] == second[row - 1] and third[row] < third[row - 1]):
            return False
    return True


def total_order(
    group: I64,
    groups: int,
    time: I64,
    rank: np.ndarray,
    tie_keys: TieKeys,
    shared: frozenset[int] = frozenset(),
    major: I64 | None = None,
) -> I64:
    """Rows in an order in which each group is in its total order: as they come where no group has to be sorted and none
    has equal times, else by group, so that only ties within a group need to be decided.

    `rank` orders the event types among equal times; rows of one type and time are ordered by `tie_keys`, which are
    read for tied rows only. Types whose ranks are `shared` have a key in common, their first one, which decides before
    the rank does; they come before all others. Rows of which `major` differs are of different groups.
    """
    sorted_ = _is_sorted(time)
    if sorted_ == 2 or (sorted_ == 0 and major is not None and _is_sorted_within(major, time)):
        return np.arange(len(time))
    if groups > 1 and _ascends_in_groups(group, time, np.full(groups, BEGINNING, np.int64)):
        return np.arange(len(time))
    order = counting_order(group, groups) if groups > 1 else np.arange(len(time))
    if sorted_ == 0 and not _is_sorted_by_group(order, group, time):
        order = lexical_order((time, group))
    segment = np.empty(len(order), np.int64)
    if _tied(order, group, time, segment) == 0:
        return order
    slots = np.flatnonzero(segment >= 0)
    rows = order[slots]
    order[slots] = rows[_tie_order(segment[slots], rank[rows], rows, tie_keys, shared)]
    return order


@jit
def _ascends(segment: I64, ranks: np.ndarray, key: I64) -> bool:
    """Whether rows that are by segment are in order already."""
    for at in range(1, len(segment)):
        if segment[at] == segment[at - 1] and (
            ranks[at] < ranks[at - 1] or (ranks[at] == ranks[at - 1] and key[at] < key[at - 1])
        ):
            return False
    return True


def _tie_order(
    segment: I64, ranks: np.ndarray, rows: I64, tie_keys: TieKeys, shared: frozenset[int] = frozenset()
) -> I64:
    keys: list[I64] = []
    in_common: list[tuple[I64, pa.Array]] = []
    for rank in np.unique(ranks):
        of_type = np.flatnonzero(ranks == rank)
        for number, values in enumerate(tie_keys(int(rank), rows[of_type])):
            if rank in shared and number == 0:
                in_common.append((of_type, values))
            if number == len(keys):
                keys.append(np.zeros(len(rows), np.int64))
            whole = pa.types.is_int64(values.type) and not values.null_count
            keys[number][of_type] = values.to_numpy() if whole else dense_ranks(values)
    if len(in_common) > 1:
        # Streams before complex events: what has no such key comes last.
        leading = np.full(len(rows), np.iinfo(np.int64).max)
        leading[np.concatenate([of_type for of_type, _ in in_common])] = _joint_ranks([v for _, v in in_common])
        return np.lexsort((*reversed(keys), ranks, leading, segment))
    if len(keys) == 1 and _ascends(segment, ranks, keys[0]):
        return np.arange(len(rows))
    return np.lexsort((*reversed(keys), ranks, segment))


def _joint_ranks(columns: list[pa.Array]) -> I64:
    """Ranks by which the values of several columns, one after the other, compare. Narrow integers are integers, too."""
    types = {column.type for column in columns if not pa.types.is_null(column.type)}
    target = pa.int64() if any(map(pa.types.is_integer, types)) else next(iter(types), pa.null())
    return dense_ranks(pa.concat_arrays([column.cast(target) for column in columns]))


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
