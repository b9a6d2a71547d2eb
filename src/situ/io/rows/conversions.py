"""How a column that was found becomes one of the declared type, and which of its values do not.

`native_conversion` is for typed columns (Parquet, tables), `text_conversion` for text (CSV, strings in JSON).
"""

from __future__ import annotations

import base64
import binascii
import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.types import DOUBLE, TIMESTAMP_ARROW, Decimal, List, Row, Simple, Type, to_arrow
from situ.graph.query import TimeUnit

#: Room for the decimals of all declared types, and for more digits than fit.
ANY_DECIMAL = pa.decimal256(76, 38)


@dataclass(frozen=True, slots=True)
class Conversion:
    """`apply` gives a column of type `target`, or raises ArrowInvalid where a value does not fit. It takes a column, or
    a list of Python values (io/rows/python_rows.py).

    None leaves the column as it is. `fallible` says whether a value can fail to fit.
    """

    target: pa.DataType
    apply: Callable[[Any], pa.Array] | None = None
    fallible: bool = False


def convert(column: pa.Array | Sequence[Any], conversion: Conversion) -> tuple[pa.Array, list[int]]:
    """The converted column, and the positions of the values that do not fit (null in the column).

    Halving finds k misfits of n with about k log n conversions, and costs nothing when there are none.

    >>> values, misfits = convert(pa.array(["1", "two", "3"]), text_conversion(Simple.INT))
    >>> values.to_pylist(), misfits
    ([1, None, 3], [1])
    """
    if conversion.apply is None:
        return column, []
    try:
        return conversion.apply(column), []
    except pa.ArrowInvalid:
        if len(column) == 1:
            return pa.nulls(1, conversion.target), [0]
    half = len(column) // 2
    left, left_misfits = convert(column[:half], conversion)
    right, right_misfits = convert(column[half:], conversion)
    return pa.concat_arrays([left, right]), left_misfits + [half + i for i in right_misfits]


def native_conversion(actual: pa.DataType, declared: Type) -> Conversion | None:
    """How a typed column becomes one of the declared type; None where it cannot in principle.

    Nothing is guessed: text is no number, a double is no int or decimal, a number is no timestamp.

    >>> native_conversion(pa.int32(), Simple.INT).apply is None    # narrow integers stay as they are
    True
    >>> native_conversion(pa.uint64(), Simple.INT).fallible, native_conversion(pa.string(), Simple.INT)
    (True, None)
    """
    target = to_arrow(declared)
    if actual == target:
        return Conversion(target)
    if pa.types.is_null(actual):
        return _cast(target)
    if pa.types.is_dictionary(actual):
        inner = native_conversion(actual.value_type, declared)
        return inner and Conversion(inner.target, _decoded(inner), inner.fallible)
    match declared:
        case Simple.INT:
            return _to_int(actual)
        case Simple.DOUBLE:
            # Rounding is what a declared double asks for: 2**53 + 1 fits, as the nearest double.
            if pa.types.is_decimal(actual):
                # Directly, Arrow misses the nearest double for one value in eight of decimal(10, 2).
                return Conversion(target, lambda column: column.cast(pa.string()).cast(target))
            numeric = pa.types.is_integer(actual) or pa.types.is_floating(actual)
            return _cast(target, safe=False) if numeric else None
        case Decimal():
            return _to_decimal(actual, target)
        case Simple.STRING:
            if pa.types.is_large_string(actual) or pa.types.is_string_view(actual):
                return _cast(target)
            return _cast(target, fallible=True) if is_bytes(actual) else None
        case Simple.BINARY:
            text = pa.types.is_string(actual) or pa.types.is_large_string(actual) or pa.types.is_string_view(actual)
            return _cast(target) if text or is_bytes(actual) else None
        case Simple.TIMESTAMP:
            return _to_timestamp(actual)
        case Simple.BOOLEAN | Simple.DURATION | Simple.NULL | Row() | List():
            return None
        case _:
            assert_never(declared)


def text_conversion(declared: Type) -> Conversion:
    """How a column of text becomes one of the declared type. Binary is base64, times are ISO 8601.

    >>> text_conversion(Simple.TIMESTAMP).apply(pa.array(["2024-05-01 12:00:00"])).cast(pa.int64()).to_pylist()
    [1714564800000000]
    """
    target = to_arrow(declared)
    if declared is Simple.STRING:
        return Conversion(target)
    if declared is Simple.BINARY:
        return Conversion(target, _from_base64, fallible=True)
    cast = _iso_to_timestamp if declared is Simple.TIMESTAMP else lambda text: text.cast(target)

    def cast_trimmed(text: pa.Array) -> pa.Array:
        try:
            return cast(text)
        except pa.ArrowInvalid:  # blanks around values are common, but not so common as to trim every value
            return cast(pc.utf8_trim_whitespace(text))

    return Conversion(target, cast_trimmed, fallible=True)


#: How many microseconds each unit has: ten to this power.
_POWERS: dict[TimeUnit, int] = {"s": 6, "ms": 3, "us": 0, "ns": -3}


def epoch_micros(column: pa.Array, declared: Type, unit: TimeUnit) -> tuple[np.ndarray, np.ndarray]:
    """Numbers that count `unit` since the epoch as microseconds, and which of them have one (nulls have none).

    What is finer than a microsecond is cut off downwards; doubles, which are no exact times, are rounded.

    >>> micros, fits = epoch_micros(pa.array([2, 2**60]), Simple.INT, "s")
    >>> micros.tolist(), fits.tolist()
    ([2000000, 0], [True, False])
    """
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    if isinstance(declared, Decimal):
        unscaled = _unscaled(column)
        return _whole_micros(unscaled, valid, _POWERS[unit] - declared.scale)
    if declared is DOUBLE:
        scaled = column.fill_null(0).to_numpy() * float(decimal.Decimal(10) ** _POWERS[unit])
        fits = valid & (np.abs(scaled) < 2.0**63)  # false for NaN
        return np.where(fits, np.rint(scaled), 0).astype(np.int64), fits
    return _whole_micros(column.fill_null(0).cast(pa.int64()).to_numpy(), valid, _POWERS[unit])


def _whole_micros(values: np.ndarray, valid: np.ndarray, power: int) -> tuple[np.ndarray, np.ndarray]:
    """Integers times ten to a power, rounded down, and which of them fit into 64 bits."""
    if power < -18:
        values = values.astype(object)  # so large a divisor is no int64
    if power < 0:
        values = values // 10**-power
    if power <= 0 and values.dtype == np.int64:
        return values, valid
    factor = 10 ** max(power, 0)
    limit = (2**63 - 1) // factor
    fits = valid & (values >= -limit) & (values <= limit)
    return np.where(fits, values, 0).astype(np.int64) * factor, fits


def _unscaled(column: pa.Array) -> np.ndarray:
    """The integers of which a decimal column has so many after the point; as objects where they may be too large.

    Arrow divides wide decimals wrongly now and then, so this is no place for its arithmetic.
    """
    if column.type.precision <= 18:  # then the upper half of the 128 bits is nothing but the sign
        halves = np.frombuffer(column.buffers()[1], np.int64, count=2 * len(column), offset=16 * column.offset)
        return np.where(column.is_valid().to_numpy(zero_copy_only=False), halves[::2], 0)
    with decimal.localcontext(prec=100):
        values = [0 if v is None else int(v.scaleb(column.type.scale)) for v in column.to_pylist()]
    return np.array(values, object)


def _cast(target: pa.DataType, *, safe: bool = True, fallible: bool = False) -> Conversion:
    return Conversion(target, lambda column: column.cast(target, safe=safe), fallible)


def _decoded(inner: Conversion) -> Callable[[pa.Array], pa.Array]:
    def apply(column: pa.Array) -> pa.Array:
        plain = column.dictionary_decode()
        return plain if inner.apply is None else inner.apply(plain)

    return apply


def is_bytes(actual: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(test(actual) for test in tests)


def _to_int(actual: pa.DataType) -> Conversion | None:
    if pa.types.is_uint64(actual) or pa.types.is_decimal(actual):
        return _cast(pa.int64(), fallible=True)
    # Kernels read any width, so widening here would only cost memory; outputs are widened where they are written.
    return Conversion(actual) if pa.types.is_integer(actual) else None


def _to_decimal(actual: pa.DataType, target: pa.DataType) -> Conversion | None:
    if pa.types.is_decimal(actual):
        wider = target.scale >= actual.scale and target.precision - target.scale >= actual.precision - actual.scale
        if wider or target.scale <= actual.scale:
            return _cast(target, fallible=not wider)
        # Directly, Arrow multiplies within 128 bits, and not every overflow is noticed.
        roomy = pa.decimal256(76, target.scale)
        return Conversion(target, lambda column: column.cast(roomy).cast(target), fallible=True)
    if pa.types.is_integer(actual):
        # Directly, Arrow asks the target for room for every 64-bit integer; by way of 20 digits, for the value only.
        integers, roomy = pa.decimal128(20, 0), pa.decimal256(76, target.scale)
        return Conversion(target, lambda column: column.cast(integers).cast(roomy).cast(target), fallible=True)
    return None


def _to_timestamp(actual: pa.DataType) -> Conversion | None:
    if pa.types.is_date(actual):
        return _cast(TIMESTAMP_ARROW, fallible=True)
    if not pa.types.is_timestamp(actual):
        return None
    match actual.unit:
        case "us":  # only the zone differs: no copy
            return _cast(TIMESTAMP_ARROW)
        case "ns":  # unsafe: what is finer than a microsecond is cut off, not refused
            return _cast(TIMESTAMP_ARROW, safe=False)
        case _:
            return _cast(TIMESTAMP_ARROW, fallible=True)


def _from_base64(text: pa.Array) -> pa.Array:
    try:
        values = [None if v is None else base64.b64decode(v, validate=True) for v in text.to_pylist()]
    except (binascii.Error, ValueError) as error:
        raise pa.ArrowInvalid(str(error)) from error
    return pa.array(values, pa.binary())


_ZONE = r"[0-9](Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_FINER_THAN_MICROS = r"(\.[0-9]{6})[0-9]+"


def _iso_to_timestamp(text: pa.Array) -> pa.Array:
    """Reads times in ISO 8601; those without a zone are UTC. The rarer forms (mixed, nanoseconds) are tried last."""
    for zone in ("UTC", None):
        try:
            return text.cast(pa.timestamp("us", tz=zone)).cast(TIMESTAMP_ARROW)
        except pa.ArrowInvalid:
            continue
    text = pc.replace_substring_regex(text, _FINER_THAN_MICROS, r"\1")
    # A date alone ends like a zone (-01): only texts with a time of day can have one.
    zoned = pc.and_(pc.match_substring_regex(text, _ZONE), pc.match_substring(text, ":"))
    with_zone = pc.if_else(zoned, text, None).cast(TIMESTAMP_ARROW)
    without_zone = pc.if_else(zoned, None, text).cast(pa.timestamp("us")).cast(TIMESTAMP_ARROW)
    return pc.coalesce(with_zone, without_zone)
