"""Built-in functions over columns, and users' functions, which are called row by row."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.functions import Functions
from situ.core.types import BOOLEAN, DOUBLE, INT, NULL, STRING, Decimal, Type, to_arrow
from situ.graph.decimals import whole_decimal
from situ.graph.typing import common_type
from situ.kernel.columns.arithmetic import absolute, doubles, fitting, floored
from situ.kernel.columns.casts import by_distinct_value, cast, whole_numbers
from situ.kernel.columns.comparisons import choose, compare, definitely
from situ.kernel.columns.values import (
    INT64_MAX,
    Array,
    Column,
    all_of,
    array_of,
    everywhere,
    magnitude,
    null_of,
    text_column,
    with_room,
)

log = logging.getLogger(__name__)


def call_built_in(function: str, arguments: Sequence[Column]) -> Column:
    """A built-in function of its arguments.

    >>> from situ.kernel.columns.values import constant
    >>> call_built_in("power", [constant(2), constant(10)]).values
    array([1024.])
    """
    match function:
        case "coalesce":
            return reduce(_either, _of_one_type(arguments))
        case "least":
            return reduce(_smaller, _of_one_type(arguments))
        case "greatest":
            return reduce(_larger, _of_one_type(arguments))
        case "if":
            condition, *branches = arguments
            then, otherwise = _of_one_type(branches)
            return choose(definitely(cast(condition, BOOLEAN), True), then, otherwise)
        case "abs":
            return absolute(arguments[0])
        case "floor" | "ceil":
            return _rounded(function, arguments[0])
        case "sqrt" | "power" | "distance":
            return _of_doubles(function, [cast(argument, DOUBLE) for argument in arguments])
        case "length":
            return _length(arguments[0])
        case "lower" | "upper" | "concat" | "substring":
            return _text(function, arguments)
        case _:
            raise TypeError(f"no function {function!r}")


def call_users_function(
    name: str, arguments: Sequence[pa.Array], length: int, functions: Functions, errors: Counter[str]
) -> pa.Array:
    """A user's function of each row.

    A call that raises, or returns what its declared type does not hold, gives null: the stream lives on. So that the
    mistake does not go unseen, `errors` counts such calls by the function's name and the first one is logged.
    """
    function, registered = functions.callable_of(name), functions.lookup(name)
    assert registered is not None, "callable_of knows it"
    arrow = to_arrow(registered.returns)
    rows = zip(*(argument.to_pylist() for argument in arguments), strict=True) if arguments else [()] * length
    results: list[object] = []
    for row in rows:
        try:
            results.append(pa.scalar(function(*row), arrow).as_py())
        except Exception as error:
            if not errors[name]:
                log.warning("function %s failed and gave null, for the arguments %r: %r", name, row, error)
            errors[name] += 1
            results.append(None)
    return pa.array(results, arrow)


# --- Choices ----------------------------------------------------------------------------------------------------------


def _of_one_type(columns: Sequence[Column]) -> list[Column]:
    common: Type = NULL
    for column in columns:
        wider = common_type(common, column.type)
        assert wider is not None, "resolving refuses values without a common type"
        common = wider
    return [cast(column, common) for column in columns]


def _either(first: Column, second: Column) -> Column:
    return first if first.valid is None else choose(first.valid, first, second)


def _smaller(left: Column, right: Column) -> Column:
    return _better(left, right, compare("<=", left, right))


def _larger(left: Column, right: Column) -> Column:
    return _better(left, right, compare(">=", left, right))


def _better(left: Column, right: Column, left_wins: Column) -> Column:
    """The winner of two, or the one that is not null."""
    takes_left = everywhere(left.valid) & (left_wins.values | ~everywhere(right.valid))
    return choose(takes_left, left, right)


# --- Numbers ----------------------------------------------------------------------------------------------------------


def _rounded(function: str, column: Column) -> Column:
    """`floor` and `ceil` give whole numbers: of doubles integers (null where they do not fit), of decimals decimals."""
    down = function == "floor"
    match column.type:
        case Decimal() as type_:
            values = with_room(column.values, magnitude(column.values))
            whole = floored(values, type_.scale) if down else -floored(-values, type_.scale)
            return fitting(whole_decimal(type_), whole, column.valid)
        case _ if column.type == DOUBLE:
            return whole_numbers(np.floor(column.values) if down else np.ceil(column.values), column)
        case _:
            return cast(column, INT)


def _of_doubles(function: str, columns: Sequence[Column]) -> Column:
    values = [doubles(column) for column in columns]
    valid = all_of(*(column.valid for column in columns))
    with np.errstate(all="ignore"):
        match function:
            case "sqrt":
                return Column(DOUBLE, np.sqrt(values[0]), valid)  # NaN below 0: no error in Spark
            case "power":
                return Column(DOUBLE, _power(values[0], values[1]), valid)
            case _:
                x1, y1, x2, y2 = values
                return Column(DOUBLE, np.sqrt((x1 - x2) ** 2 + (y1 - y2) ** 2), valid)


def _power(base: Array, exponent: Array) -> Array:
    """Java's power, which differs from C's in one point: 1 and -1 to an infinite or unknown power are NaN."""
    undecided = (np.abs(base) == 1) & ~np.isfinite(exponent)
    return np.where(undecided, np.nan, np.power(base, exponent))


# --- Text -------------------------------------------------------------------------------------------------------------


def _length(column: Column) -> Column:
    """Characters of a string, bytes of a binary."""
    if column.type == NULL:
        return null_of(INT)
    lengths = (pc.utf8_length if column.type == STRING else pc.binary_length)(_stored(column))
    return Column(INT, lengths.fill_null(0).to_numpy().astype(np.int64), column.valid)


def _text(function: str, arguments: Sequence[Column]) -> Column:
    if any(argument.type == NULL for argument in arguments):
        return null_of(STRING)
    match function:
        case "lower":
            return _in_case(arguments[0], pc.ascii_lower, str.lower)
        case "upper":
            return _in_case(arguments[0], pc.ascii_upper, str.upper)
        case "concat":
            return text_column(STRING, pc.binary_join_element_wise(*(text.values for text in arguments), ""))
        case _:
            return _substring(*arguments)


def _in_case(column: Column, of_ascii: Callable[[pa.Array], pa.Array], of_text: Callable[[str], str]) -> Column:
    """Arrow knows only cases that keep the number of characters; Java and Python know that 'ß' becomes 'SS'."""
    texts = _stored(column)
    if pc.all(pc.string_is_ascii(texts), min_count=0).as_py():
        return text_column(STRING, of_ascii(texts))
    return text_column(STRING, by_distinct_value(texts, of_text, pa.string()))


def _substring(text: Column, position: Column, size: Column | None = None) -> Column:
    """Positions count from 1, negative ones from the end, and 0 is taken for 1.

    Works on the bytes of all texts at once, so that positions and sizes may differ from row to row.
    """
    length = np.broadcast_shapes((text.height,), (position.height,), (size.height if size else 1,))[0]
    texts = array_of(text, length)
    bounds, data = _bytes_of(texts)
    # Character i of all texts begins at byte starts[i]; row r has the characters first[r] to first[r + 1].
    starts = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))
    first = np.searchsorted(starts, bounds)
    count = np.diff(first)
    at = position.values.astype(np.int64)
    begin = np.minimum(np.where(at > 0, at - 1, np.where(at < 0, count + at, 0)), count)
    end = count
    if size is not None:
        room = INT64_MAX - np.maximum(begin, 0)  # what can be added to `begin`
        end = np.clip(begin + np.clip(size.values.astype(np.int64), 0, room), 0, count)
    begin = np.maximum(begin, 0)
    lows, highs = starts[first[:-1] + begin], starts[first[:-1] + end]
    valid = all_of(text.valid, position.valid, size.valid if size else None)
    return text_column(STRING, _slices(data, lows, highs, everywhere(valid)))


def _bytes_of(texts: pa.Array) -> tuple[Array, Array]:
    """Where each text begins and ends in the bytes of all of them."""
    _, offsets, data = texts.buffers()
    if offsets is None or not len(texts):
        return np.zeros(len(texts) + 1, np.int64), np.zeros(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    size = bounds[-1] - bounds[0]
    taken = np.frombuffer(data, np.uint8, size, bounds[0]) if size else np.zeros(0, np.uint8)
    return bounds - bounds[0], taken


def _slices(data: Array, lows: Array, highs: Array, valid: Array) -> pa.Array:
    """A string of each slice of the bytes."""
    sizes = highs - lows
    bounds = np.concatenate(([0], np.cumsum(sizes)))
    positions = np.arange(bounds[-1]) + np.repeat(lows - bounds[:-1], sizes)
    valid = np.packbits(np.broadcast_to(valid, sizes.shape), bitorder="little")
    buffers = [valid, bounds.astype(np.int32), data[positions]]
    return pa.Array.from_buffers(pa.string(), len(sizes), [pa.py_buffer(buffer) for buffer in buffers])


def _stored(column: Column) -> pa.Array:
    return array_of(column, column.height)
