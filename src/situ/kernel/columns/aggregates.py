"""Aggregates over contiguous segments of a column: segment i is values[offsets[i]:offsets[i + 1]]."""

from __future__ import annotations

from typing import Any, assert_never

import numba
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.types import DOUBLE, INT, NULL, Decimal
from situ.graph.expressions import Aggregate
from situ.kernel.columns.arithmetic import doubles, fitting
from situ.kernel.columns.values import Array, Column, array_of, column_of, magnitude, null_of, with_room


def aggregate(node: Aggregate, offsets: Array, values: pa.Array | None) -> pa.Array:
    """The aggregate of each segment. `values` is None for `count(alias)`, which counts events.

    >>> from situ.graph.expressions import Attribute
    >>> total = Aggregate("sum", Attribute("a", "x"))
    >>> aggregate(total, np.array([0, 2, 2, 3]), pa.array([1, 2, None])).to_pylist()
    [3, None, None]
    """
    if values is None:
        return pa.array(np.diff(offsets), pa.int64())
    if node.function in ("first", "last"):
        return _element(node.function == "first", node.offset, offsets, values)
    if node.function == "collect":
        return _lists(offsets, values)
    present, offsets = _without_nulls(values, offsets)
    if node.function == "count":
        counts = _distinct_counts(present, offsets) if node.distinct else np.diff(offsets)
        return pa.array(counts, pa.int64())
    if node.function in ("min", "max"):
        return _extremes(node.function == "min", offsets, present)
    return array_of(_of_numbers(node, column_of(present), offsets), len(offsets) - 1)


def _of_numbers(node: Aggregate, column: Column, offsets: Array) -> Column:
    counts = np.diff(offsets)
    if column.type == NULL:
        return null_of(NULL if node.function == "sum" else DOUBLE)
    match node.function:
        case "sum":
            return _sums(column, offsets)
        case "avg":
            sums = _exact_sums(column, offsets)
            return Column(DOUBLE, doubles(sums) / np.maximum(counts, 1), counts > 0)
        case "stddev":
            squares = _squared_deviations(doubles(column), offsets)
            return Column(DOUBLE, np.sqrt(squares / np.maximum(counts - 1, 1)), counts > 1)
        case "count" | "min" | "max" | "first" | "last" | "collect":
            raise AssertionError("these take values of every type")
        case _:
            assert_never(node.function)


def _sums(column: Column, offsets: Array) -> Column:
    """Integers and decimals that do not fit give null; a decimal gets ten more digits, as in Spark."""
    sums = _exact_sums(column, offsets)
    has_values = np.diff(offsets) > 0
    match column.type:
        case Decimal(precision, scale):
            return fitting(Decimal(min(38, precision + 10), scale), sums.values, has_values)
        case _ if column.type == DOUBLE:
            return Column(DOUBLE, sums.values, has_values)
        case _:
            return fitting(INT, sums.values, has_values)


def _exact_sums(column: Column, offsets: Array) -> Column:
    """Sums that may exceed their type, 0 for an empty segment."""
    if column.type == DOUBLE:
        return Column(DOUBLE, _sums_in_order(column.values, offsets))
    longest = int(np.diff(offsets).max(initial=0))
    integers = with_room(column.values, magnitude(column.values) * max(longest, 1))
    return Column(column.type, _reduced(np.add, integers, offsets))


def _reduced(operation: np.ufunc, values: Array, offsets: Array) -> Array:
    """`operation` over each segment, 0 for an empty one (for which `reduceat` would give the value that follows)."""
    results = np.zeros(len(offsets) - 1, values.dtype)
    full = np.flatnonzero(np.diff(offsets))
    if len(full):
        # Without the empty ones, each segment ends where the next begins.
        results[full] = operation.reduceat(values[: offsets[-1]], offsets[full])
    return results


@numba.njit(cache=True)
def _sums_in_order(values: Any, offsets: Any) -> Any:
    """Left to right, as the events came: NumPy adds in blocks, whose rounding depends on the length."""
    sums = np.zeros(len(offsets) - 1)
    for segment in range(len(sums)):
        for i in range(offsets[segment], offsets[segment + 1]):
            sums[segment] += values[i]
    return sums


@numba.njit(cache=True)
def _squared_deviations(values: Any, offsets: Any) -> Any:
    """Two passes per segment, because the one-pass formula cancels where the mean is large."""
    squares = np.zeros(len(offsets) - 1)
    for segment in range(len(squares)):
        low, high = offsets[segment], offsets[segment + 1]
        mean = 0.0
        for i in range(low, high):
            mean += values[i]
        mean /= max(high - low, 1)
        for i in range(low, high):
            squares[segment] += (values[i] - mean) ** 2
    return squares


# --- Values of every type ---------------------------------------------------------------------------------------------


def _element(first: bool, passed: int, offsets: Array, values: pa.Array) -> pa.Array:
    """The value of the event that comes `passed` events after the first or before the last, null or not; null where
    there is no such event."""
    missing = np.diff(offsets) <= passed
    places = offsets[:-1] if first else offsets[1:] - 1
    shift = 0 if missing.all() else passed  # an offset that no segment reaches may not fit beside a place
    return values.take(pa.array(places + shift if first else places - shift, pa.int64(), mask=missing))


def _lists(offsets: Array, values: pa.Array) -> pa.Array:
    """The values of each segment, nulls kept; an empty list of no events."""
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def _extremes(smallest: bool, offsets: Array, values: pa.Array) -> pa.Array:
    """Of doubles, NaN is the largest."""
    has_values = np.diff(offsets) > 0
    column = column_of(values)
    if column.type == NULL:
        return pa.nulls(len(offsets) - 1)
    if column.is_text:
        return _extreme_texts(smallest, offsets, values)
    operation = (np.fmin if column.type == DOUBLE else np.minimum) if smallest else np.maximum
    return array_of(Column(column.type, _reduced(operation, column.values, offsets), has_values), len(offsets) - 1)


def _extreme_texts(smallest: bool, offsets: Array, values: pa.Array) -> pa.Array:
    """By the rank of each text among the distinct ones."""
    encoded = values.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    ranks = rank[encoded.indices.to_numpy()]
    extremes = _reduced(np.minimum if smallest else np.maximum, ranks, offsets)
    return encoded.dictionary.take(pa.array(order)).take(pa.array(extremes, mask=np.diff(offsets) == 0))


def _distinct_counts(values: pa.Array, offsets: Array) -> Array:
    if pa.types.is_floating(values.type):
        values = pa.array(values.to_numpy() + 0.0)  # -0.0 is 0.0
    codes = values.dictionary_encode().indices.to_numpy().astype(np.int64)
    segments = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    # Sorting keeps the segments where they are; within each, a value is new where it differs from the one before.
    pairs = np.sort(segments * (int(codes.max(initial=0)) + 1) + codes)
    is_new = np.diff(pairs, prepend=-1) != 0
    return _reduced(np.add, is_new.astype(np.int64), offsets)


def _without_nulls(values: pa.Array, offsets: Array) -> tuple[pa.Array, Array]:
    """The values that are not null, and where the segments lie among them."""
    values, offsets = values[offsets[0] : offsets[-1]], offsets - offsets[0]
    if values.null_count == 0:
        return values, offsets
    before = np.concatenate(([0], np.cumsum(values.is_valid().to_numpy(zero_copy_only=False))))
    return values.drop_null(), before[offsets]
