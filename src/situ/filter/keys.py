"""Values as 64-bit keys, so that one index serves attributes of all types.

Where values have an order that 64 bits can hold (numbers, booleans, times, decimals of up to 18 digits), keys compare
as the values do, by Spark SQL's rules: -0.0 is 0.0, and NaN equals itself and is larger than every other number. Of
text and bytes only the values that conditions name have keys, and these know equality alone.
"""

from __future__ import annotations

import decimal
import math
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.types import BINARY, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, Decimal, Type
from situ.kernel.arrays import I64

LEAST, LARGEST = -(2**63), 2**63 - 1
#: Decimals of so many digits fit 64 bits.
_DIGITS = 18
#: Integers up to here are doubles, too, and no other integer is rounded to one of them.
_EXACT_DOUBLES = 2**53
_MAGNITUDE = np.int64(LARGEST)


def has_order(type_: Type) -> bool:
    """Whether keys compare as the values of a type do."""
    return type_ in (INT, DOUBLE, BOOLEAN, TIMESTAMP) or (isinstance(type_, Decimal) and type_.precision <= _DIGITS)


def has_names(type_: Type) -> bool:
    """Whether the values of a type are text or bytes, which have keys only if conditions name them."""
    return type_ in (STRING, BINARY)


def keys_of(column: pa.Array, type_: Type) -> tuple[I64, npt.NDArray[np.bool_] | None]:
    """The key of every value of an ordered type, and where values are not null (None: everywhere).

    >>> keys, valid = keys_of(pa.array([0.0, -0.0, -1.5, None, float("nan")]), DOUBLE)
    >>> (keys[2] < keys[0] == keys[1] < keys[4]).item(), valid.tolist()
    (True, [True, True, True, False, True])
    """
    valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_)
    if isinstance(type_, Decimal):
        return _unscaled(column), valid
    if type_ is DOUBLE:
        filled = column.cast(pa.float64())
        filled = filled.fill_null(0.0) if filled.null_count else filled
        return _float_keys(filled.to_numpy(zero_copy_only=False)), valid
    whole = column.cast(pa.int8()) if type_ is BOOLEAN else column
    whole = whole.cast(pa.int64())
    whole = whole.fill_null(0) if whole.null_count else whole
    return whole.to_numpy(zero_copy_only=False), valid


def _unscaled(column: pa.Array) -> I64:
    """Decimals of up to 18 digits as integers: the lower half of each of them."""
    words = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset :: 2]
    return np.ascontiguousarray(words[: len(column)])


def _float_keys(values: npt.NDArray[np.float64]) -> I64:
    canonical = values + 0.0  # -0.0 becomes 0.0
    bits: I64 = canonical.view(np.int64)
    keys = np.where(bits < 0, bits ^ _MAGNITUDE, bits)
    is_nan = np.isnan(values)
    if is_nan.any():
        keys[is_nan] = LARGEST
    return keys


def interval(operator: str, constant: Any, type_: Type) -> tuple[int, int] | None:
    """The keys of the values that are `operator constant`, from the first to the last (none, if the last comes before
    the first); None where keys cannot say it.

    >>> interval("<", 2.5, INT) == (LEAST, 2), interval("=", 2.5, INT), interval(">", decimal.Decimal("1.25"), DOUBLE)
    (True, (3, 2), None)
    """
    if isinstance(constant, bool) != (type_ is BOOLEAN):
        return None
    if type_ is DOUBLE:
        return _between(operator, *(2 * (_float_key(constant),))) if isinstance(constant, int | float) else None
    if isinstance(constant, float):
        if type_ is not INT or not abs(constant) < _EXACT_DOUBLES:
            return None
        return _between(operator, math.floor(constant), math.ceil(constant))
    if isinstance(type_, Decimal):
        if not isinstance(constant, int | decimal.Decimal):
            return None
        scaled = decimal.Decimal(constant).scaleb(type_.scale, decimal.Context(prec=100))
        return _between(operator, math.floor(scaled), math.ceil(scaled))
    return _between(operator, constant, constant) if isinstance(constant, int) else None


def _float_key(constant: float) -> int:
    """What `_float_keys` gives for one number."""
    if math.isnan(constant):
        return LARGEST
    (bits,) = struct.unpack("<q", struct.pack("<d", float(constant) + 0.0))
    return bits ^ LARGEST if bits < 0 else int(bits)


def _between(operator: str, floor: int, ceiling: int) -> tuple[int, int] | None:
    """The interval of integers that compare with a number between two neighbours, or with an integer."""
    first, last = LEAST, LARGEST
    match operator:
        case "=":
            first, last = ceiling, floor
        case "<":
            last = ceiling - 1
        case "<=":
            last = floor
        case ">":
            first = floor + 1
        case ">=":
            first = ceiling
        case _:
            return None
    if first > LARGEST or last < LEAST or first > last:
        return 3, 2
    return max(first, LEAST), min(last, LARGEST)


def text_of(column: pa.Array) -> pa.Array:
    """A column of text or bytes in one of the forms in which keys are looked up."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return pc.cast(column, pa.string()) if pa.types.is_null(column.type) else column
