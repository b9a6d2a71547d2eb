"""Columns of values while an expression is computed: NumPy for everything with a fixed width, Arrow for text.

A value of type int, timestamp or duration is an integer (microseconds for the latter two), and a decimal is its
unscaled integer. Integers are int64 arrays as long as they fit, else arrays of Python integers: that makes integer and
decimal arithmetic exact with one set of functions, and costs Python objects only where 64 bits do not suffice.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from situ.core.types import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    DURATION,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_ARROW,
    Decimal,
    Type,
    to_arrow,
)
from situ.graph.decimals import decimal_of_literal
from situ.graph.expressions import Duration

Mask: TypeAlias = NDArray[np.bool_]
Array: TypeAlias = NDArray[Any]

INT64_MAX = 2**63 - 1

#: Rounds as Spark does, and only where told to: no double or decimal has more digits before or after its point.
EXACT = decimal.Context(prec=400, rounding=decimal.ROUND_HALF_UP)


@dataclass(frozen=True, slots=True)
class Column:
    """One value per row; a constant has one value for all rows, which NumPy broadcasts.

    `values` is a NumPy array, for text an Arrow array; a single value is as good as a constant, and for text it is an
    Arrow scalar, which Arrow broadcasts. `valid` says which values are not null (None: all); what stands in the NumPy
    values at a null has no meaning.
    """

    type: Type
    values: Any
    valid: Mask | None = None

    @property
    def height(self) -> int:
        """How many values are held: one per row, or 1."""
        if self.is_text:
            return len(self.values) if isinstance(self.values, pa.Array) else 1
        shape = (
            np.shape(self.values) if self.valid is None else np.broadcast_shapes(self.values.shape, self.valid.shape)
        )
        return int(shape[0])

    @property
    def is_text(self) -> bool:
        return self.type in (STRING, BINARY)


def column_of(array: pa.Array) -> Column:
    """The column of an Arrow array, without a copy for integers and doubles.

    >>> column_of(pa.array([1, None], pa.int32())).valid
    array([ True, False])
    """
    arrow = array.type
    valid = validity(array)
    if pa.types.is_uint64(arrow):
        signed = _buffer(array, np.dtype(np.int64))
        return Column(INT, signed, all_of(valid, signed >= 0))  # beyond 64 bit signed: negative here, null
    if pa.types.is_integer(arrow):
        return Column(INT, _buffer(array, np.dtype(arrow.to_pandas_dtype())), valid)
    if pa.types.is_floating(arrow):
        values = _buffer(array, np.dtype(arrow.to_pandas_dtype()))
        return Column(DOUBLE, values.astype(np.float64, copy=False), valid)
    if pa.types.is_boolean(arrow):
        return Column(BOOLEAN, bits(array), valid)
    if pa.types.is_timestamp(arrow):
        return Column(TIMESTAMP, _buffer(array.cast(TIMESTAMP_ARROW, safe=False), np.dtype(np.int64)), valid)
    if pa.types.is_duration(arrow):
        return Column(DURATION, _buffer(array.cast(pa.duration("us"), safe=False), np.dtype(np.int64)), valid)
    if pa.types.is_decimal(arrow):
        array = array.cast(pa.decimal128(arrow.precision, arrow.scale))
        return Column(Decimal(arrow.precision, arrow.scale), _halves_to_integers(array), valid)
    if pa.types.is_null(arrow):
        return Column(NULL, np.zeros(len(array), np.int64), np.zeros(len(array), np.bool_))
    if pa.types.is_dictionary(arrow):
        return column_of(array.dictionary_decode())
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow):
        return text_column(STRING, array.cast(pa.string()))
    return text_column(BINARY, array.cast(pa.binary()))


def array_of(column: Column, length: int) -> pa.Array:
    """The Arrow array of a column, with constants repeated.

    >>> array_of(constant(2), 3).to_pylist()
    [2, 2, 2]
    """
    arrow = to_arrow(column.type)
    if column.type == NULL:
        return pa.nulls(length)
    if column.is_text:
        return column.values if isinstance(column.values, pa.Array) else pa.repeat(column.values, length)
    values = np.broadcast_to(column.values, (length,))
    valid = None if column.valid is None else np.broadcast_to(column.valid, (length,))
    match column.type:
        case Decimal():
            return _decimals(values, valid, arrow)
        case _ if column.type in (TIMESTAMP, DURATION):
            return pa.array(values, pa.int64(), mask=_inverse(valid)).view(arrow)
        case _:
            return pa.array(values, arrow, mask=_inverse(valid))


def constant(value: bool | int | float | decimal.Decimal | str | Duration | None) -> Column:
    """The column of a literal.

    >>> constant(decimal.Decimal("0.05")).type
    Decimal(precision=2, scale=2)
    """
    match value:
        case None:
            return null_of(NULL)
        case bool():
            return Column(BOOLEAN, np.array([value]))
        case int():
            return Column(INT, np.array([value], np.int64))
        case float():
            return Column(DOUBLE, np.array([value]))
        case str():
            return Column(STRING, pa.scalar(value))
        case Duration(micros):
            return Column(DURATION, np.array([micros], np.int64))
        case decimal.Decimal():
            type_ = decimal_of_literal(value)
            return Column(type_, fitted(np.array([unscaled(value, type_.scale)], object)))


def unscaled(value: decimal.Decimal, scale: int) -> int:
    """The integer that stands for a decimal, rounded half up to the scale.

    >>> unscaled(decimal.Decimal("1.25"), 1)
    13
    """
    return int(value.scaleb(scale, EXACT).to_integral_value(context=EXACT))


def null_of(type_: Type) -> Column:
    """The constant null of a type."""
    no = np.zeros(1, np.bool_)
    match type_:
        case Decimal():
            return Column(type_, np.zeros(1, np.int64), no)
        case _ if type_ in (STRING, BINARY):
            return Column(type_, pa.scalar(None, to_arrow(type_)), no)
        case _ if type_ == BOOLEAN:
            return Column(type_, np.zeros(1, np.bool_), no)
        case _ if type_ == DOUBLE:
            return Column(type_, np.zeros(1, np.float64), no)
        case _:
            return Column(type_, np.zeros(1, np.int64), no)


def text_column(type_: Type, values: pa.Array | pa.Scalar) -> Column:
    """A column of the text that an Arrow function returned."""
    if isinstance(values, pa.Scalar) or len(values) == 1:
        single = values[0] if isinstance(values, pa.Array) else values
        return Column(type_, single, None if single.is_valid else np.zeros(1, np.bool_))
    return Column(type_, values, validity(values))


def flags_of(result: pa.Array | pa.Scalar) -> Mask:
    """What an Arrow predicate returned; false at a null."""
    return bits(result) if isinstance(result, pa.Array) else np.array([bool(result.as_py())])


def all_of(*masks: Mask | None) -> Mask | None:
    """Where all masks hold; None stands for a mask that holds everywhere.

    >>> all_of(None, np.array([True, False]))
    array([ True, False])
    """
    present = [mask for mask in masks if mask is not None]
    return reduce(np.bitwise_and, present) if present else None


def everywhere(mask: Mask | None) -> Mask:
    """A mask that can be computed with."""
    return np.ones(1, np.bool_) if mask is None else mask


def validity(array: pa.Array) -> Mask | None:
    """Where an Arrow array is not null; None: everywhere."""
    return None if array.null_count == 0 else bits(pc.is_valid(array))


# --- Integers that are int64 where they fit, else Python integers -----------------------------------------------------


def magnitude(values: Array) -> int:
    """The largest absolute value, 0 of no values."""
    return max(-int(values.min()), int(values.max()), 0) if len(values) else 0


def fitted(values: Array) -> Array:
    """The same integers as int64 if all fit."""
    if values.dtype != object:
        return values.astype(np.int64, copy=False)
    return values.astype(np.int64) if magnitude(values) <= INT64_MAX else values


def with_room(values: Array, bound: int) -> Array:
    """The same integers in a form that holds integers up to `bound`, which they do not exceed."""
    return values.astype(np.int64 if bound <= INT64_MAX else object, copy=False)


# --- Arrow's memory ---------------------------------------------------------------------------------------------------


def _inverse(mask: Mask | None) -> Mask | None:
    return None if mask is None else ~mask


def _buffer(array: pa.Array, dtype: np.dtype[Any]) -> Array:
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(len(array), dtype)
    return np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)


def bits(array: pa.Array) -> Mask:
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(len(array), np.bool_)
    first, end = array.offset, array.offset + len(array)
    packed = np.frombuffer(data, np.uint8)[first // 8 : (end + 7) // 8]
    return np.unpackbits(packed, count=first % 8 + len(array), bitorder="little")[first % 8 :].view(np.bool_)


def _halves_to_integers(array: pa.Array) -> Array:
    """Decimals as integers: the low and the high half of 128 bits."""
    if not len(array):
        return np.zeros(0, np.int64)
    halves = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    low, high = halves[0::2], halves[1::2]
    if np.array_equal(low >> 63, high):
        return low
    return (high.astype(object) << 64) + low.view(np.uint64).astype(object)


def _decimals(values: Array, valid: Mask | None, arrow: pa.DataType) -> pa.Array:
    halves = np.empty(2 * len(values), np.int64)
    if values.dtype == object:
        shown = values if valid is None else np.where(valid, values, 0)
        halves[0::2] = (shown & (2**64 - 1)).astype(np.uint64).view(np.int64)
        halves[1::2] = (shown >> 64).astype(np.int64)
    else:
        halves[0::2], halves[1::2] = values, values >> 63
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(arrow, len(values), [bitmap, pa.py_buffer(halves)])
