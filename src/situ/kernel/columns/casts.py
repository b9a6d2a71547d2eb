"""Casts, as Spark's `try_cast`: a value that does not fit gives null.

Numbers are cast as whole columns. Text is read and written by Python, once per distinct value.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.types import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    Decimal,
    Type,
    to_arrow,
)
from situ.kernel.columns.arithmetic import doubles, fitting, floored, rescaled, scale_of
from situ.kernel.columns.values import (
    EXACT,
    Array,
    Column,
    all_of,
    array_of,
    column_of,
    magnitude,
    null_of,
    text_column,
    unscaled,
    with_room,
)

#: What Java takes for white space around numbers, and Spark around integers and booleans.
_SPACE = "".join(map(chr, range(0x21)))
_SPACE_OR_CONTROL = _SPACE + "\x7f"

#: The texts that Spark reads: an integer of any length, a decimal with any digits that Java knows, a double of Java's.
_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})")
_DECIMAL = re.compile(r"[+-]?(\d+\.?(\d*)|\.(\d+))([eE]([+-]?\d+))?")
_DOUBLE = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_HEX_DOUBLE = re.compile(r"[+-]?0[xX]([0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_NOT_FINITE = re.compile(r"nan|[+-]?inf(inity)?", re.IGNORECASE)
_SIGNED_NAN = re.compile(r"[+-]?NaN")
_TRUE = frozenset({"t", "true", "y", "yes", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "0"})


def cast(column: Column, type_: Type) -> Column:
    """`cast(column as type)`; also how the sides of `coalesce` and the like come to one type.

    >>> from situ.kernel.columns.values import constant
    >>> cast(constant(-2.7), INT).values
    array([-2])
    """
    if column.type == type_:
        return column
    if column.type == NULL:
        return null_of(type_)
    if column.type == STRING:
        return _read(column, type_)
    match type_:
        case Decimal():
            return _to_decimal(column, type_)
        case _ if type_ == INT:
            return _to_int(column)
        case _ if type_ == DOUBLE:
            return Column(DOUBLE, doubles(column), column.valid)
        case _ if type_ == BOOLEAN:
            return Column(BOOLEAN, column.values != 0, column.valid)
        case _ if type_ == STRING:
            return _write(column)
        case _:
            raise TypeError(f"no cast of {column.type} to {type_}")


def whole_numbers(values: Array, column: Column) -> Column:
    """Doubles without a fraction as integers; null for NaN and beyond 64 bits."""
    inside = (values >= -(2.0**63)) & (values < 2.0**63)
    valid = column.valid if inside.all() else all_of(column.valid, inside)
    return Column(INT, np.where(inside, values, 0).astype(np.int64), valid)


def by_distinct_value(array: pa.Array, function: Callable[[Any], Any], arrow: pa.DataType) -> pa.Array:
    """`function` of every value, called once per distinct value; null stays null."""
    encoded = array.dictionary_encode()
    results = [function(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(results, arrow).take(encoded.indices)


def _to_int(column: Column) -> Column:
    """Fractions are cut off."""
    if column.type == DOUBLE:
        return whole_numbers(np.trunc(column.values), column)
    if isinstance(column.type, Decimal):
        down = floored(column.values, column.type.scale)
        up = -floored(-with_room(column.values, magnitude(column.values)), column.type.scale)
        return fitting(INT, np.where(column.values < 0, up, down), column.valid)
    return Column(INT, column.values.astype(np.int64), column.valid)


def _to_decimal(column: Column, type_: Decimal) -> Column:
    """Rounded half up; of a double, its shortest decimal form is rounded, as in Java."""
    if column.type == DOUBLE:
        return _by_distinct_value(column, lambda value: _read_decimal(repr(value), type_), type_)
    integers = with_room(column.values, magnitude(column.values))
    return fitting(type_, rescaled(integers, scale_of(column.type), type_.scale), column.valid)


# --- Text: the first argument is never null ---------------------------------------------------------------------------


def _read(column: Column, type_: Type) -> Column:
    match type_:
        case Decimal():
            return _by_distinct_value(column, lambda text: _read_decimal(text.strip(_SPACE), type_), type_)
        case _ if type_ == INT:
            return _by_distinct_value(column, _read_int, type_)
        case _ if type_ == DOUBLE:
            return _by_distinct_value(column, _read_double, type_)
        case _ if type_ == BOOLEAN:
            return _by_distinct_value(column, _read_boolean, type_)
        case _ if type_ == TIMESTAMP:
            return _by_distinct_value(column, _read_timestamp, type_)
        case _ if type_ == BINARY:
            return text_column(BINARY, column.values.cast(pa.binary()))
        case _:
            raise TypeError(f"no cast of string to {type_}")


def _read_int(text: str) -> int | None:
    digits = _INTEGER.fullmatch(text.strip(_SPACE_OR_CONTROL))
    value = int(digits[1] + digits[2]) if digits else None
    return value if value is not None and -(2**63) <= value < 2**63 else None


def _read_double(text: str) -> float | None:
    """As Java reads it: `1.5`, `1e3`, `1.5d`, `0x1.8p3`, and `NaN` and `inf` in any case."""
    text = text.strip(_SPACE)
    if _NOT_FINITE.fullmatch(text) or _SIGNED_NAN.fullmatch(text):
        return float(text)
    number = text[:-1] if text[-1:] in ("d", "D", "f", "F") else text
    if _DOUBLE.fullmatch(number):
        return float(number)
    if _HEX_DOUBLE.fullmatch(number):
        try:
            return float.fromhex(number)
        except OverflowError:
            return math.copysign(math.inf, -1 if number[0] == "-" else 1)
    return None


def _read_decimal(text: str, type_: Decimal) -> decimal.Decimal | None:
    parts = _DECIMAL.fullmatch(text)
    if parts is None or not _fits_in_java(parts):
        return None
    value = decimal.Decimal(text)
    if value and value.adjusted() >= type_.precision - type_.scale:
        return None  # before 1e999999 becomes an integer of a million digits
    if not value or value.adjusted() < -type_.scale - 1:
        return decimal.Decimal(0)
    rounded = unscaled(value, type_.scale)
    return decimal.Decimal(rounded).scaleb(-type_.scale, EXACT) if abs(rounded) < 10**type_.precision else None


def _fits_in_java(parts: re.Match[str]) -> bool:
    """Java reads the digits of all scripts in the first plane, and keeps the exponent and the scale in 32 bits."""
    exponent = parts[5] or "0"
    if not parts[0].isascii() and any(ord(character) > 0xFFFF for character in parts[0]):
        return False
    if len(exponent.lstrip("+-0")) > 1000:
        return False  # before Python refuses to read it
    scale = len(parts[2] or parts[3] or "") - int(exponent)
    return -(2**31) <= int(exponent) < 2**31 and -(2**31) <= scale < 2**31


def _read_boolean(text: str) -> bool | None:
    word = text.strip(_SPACE_OR_CONTROL).lower()
    return True if word in _TRUE else False if word in _FALSE else None


def _read_timestamp(text: str) -> datetime.datetime | None:
    """`2020-01-31`, `2020-01-31 12:30:00.5`, `2020-01-31T12:30:00+01:00`; UTC unless the text says another zone."""
    text = text.strip()
    try:
        value = datetime.datetime.fromisoformat(text) if text[4:5] == "-" else None
    except ValueError:
        return None
    return value if value is None or value.tzinfo else value.replace(tzinfo=datetime.UTC)


def _write(column: Column) -> Column:
    match column.type:
        case Decimal():
            return _by_distinct_value(column, lambda value: format(value, "f"), STRING)
        case _ if column.type == DOUBLE:
            return _by_distinct_value(column, _write_double, STRING)
        case _ if column.type == TIMESTAMP:
            return text_column(STRING, _write_timestamps(column))
        case _ if column.type == BINARY:
            return _by_distinct_value(column, _write_binary, STRING)
        case _:
            return text_column(STRING, array_of(column, column.height).cast(pa.string()))


def _write_double(value: float) -> str:
    """As Java: `1.0`, `1.0E10`, `NaN`, `Infinity`.

    >>> _write_double(0.1), _write_double(12345678.0), _write_double(1e-5)
    ('0.1', '1.2345678E7', '1.0E-5')
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = decimal.Decimal(repr(value)).normalize().as_tuple()
    first, *rest = map(str, digits)
    return f"{'-' * sign}{first}.{''.join(rest) or '0'}E{int(exponent) + len(rest)}"


def _write_timestamps(column: Column) -> pa.Array:
    """`2020-01-31 12:30:00.5`, in UTC, without zeros at the end of the fraction."""
    shown = column.values if column.valid is None else np.where(column.valid, column.values, 0)
    text = pa.array(np.datetime_as_string(shown.view("M8[us]"), unit="us"), pa.string())
    text = (
        text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
    )  # Arrow cuts long arrays of NumPy's text
    text = pc.utf8_rtrim(pc.utf8_rtrim(pc.replace_substring(text, "T", " "), "0"), ".")
    return text if column.valid is None else pc.if_else(pa.array(column.valid), text, None)


def _write_binary(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _by_distinct_value(column: Column, function: Callable[[Any], Any], type_: Type) -> Column:
    return column_of(by_distinct_value(array_of(column, column.height), function, to_arrow(type_)))
