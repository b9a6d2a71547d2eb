"""Arithmetic on columns: exact for integers and decimals, and null where a result does not exist or does not fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal as OneOf
from typing import TypeAlias, assert_never

import numpy as np

from situ.core.types import DOUBLE, DURATION, INT, NULL, TIMESTAMP, Decimal, Type
from situ.graph.decimals import arithmetic_decimal
from situ.kernel.columns.values import (
    INT64_MAX,
    Array,
    Column,
    Mask,
    all_of,
    fitted,
    magnitude,
    null_of,
    with_room,
)

ArithmeticOperator: TypeAlias = OneOf["+", "-", "*", "/", "%"]

#: Doubles are exact for integers up to here.
EXACT_DOUBLE = 2**53


def arithmetic(operator: ArithmeticOperator, left: Column, right: Column) -> Column:
    """`left operator right`.

    >>> from situ.kernel.columns.values import constant
    >>> arithmetic("/", constant(7), constant(2)).values
    array([3.5])
    """
    type_ = _result_type(operator, left.type, right.type)
    if NULL in (left.type, right.type):
        return null_of(type_)
    valid = all_of(left.valid, right.valid)
    match type_:
        case Decimal():
            return _decimal_arithmetic(operator, left, right, type_, valid)
        case _ if type_ == DOUBLE:
            return _double_arithmetic(operator, doubles(left), doubles(right), valid)
        case _:
            return _integer_arithmetic(operator, left, right, type_, valid)


def negated(column: Column) -> Column:
    """`-x`; null for the smallest integer, whose opposite does not fit."""
    if column.type == DOUBLE:
        return replace(column, values=-column.values)
    return fitting(column.type, -with_room(column.values, magnitude(column.values)), column.valid)


def absolute(column: Column) -> Column:
    """`abs(x)`."""
    if column.type == DOUBLE:
        return replace(column, values=np.abs(column.values))
    return fitting(column.type, np.abs(with_room(column.values, magnitude(column.values))), column.valid)


def fitting(type_: Type, values: Array, valid: Mask | None) -> Column:
    """A column of integers or unscaled decimals, null where one does not fit its type."""
    if values.dtype == np.int64 and not isinstance(type_, Decimal):
        return Column(type_, values, valid)
    largest = 10**type_.precision - 1 if isinstance(type_, Decimal) else INT64_MAX
    if magnitude(values) > largest:
        smallest = -largest if isinstance(type_, Decimal) else -largest - 1
        inside = np.asarray((values >= smallest) & (values <= largest))
        values, valid = np.where(inside, values, 0), all_of(valid, inside)
    return Column(type_, fitted(values), valid)


def doubles(column: Column) -> Array:
    """The values of a numeric column as doubles, each the nearest one."""
    if isinstance(column.type, Decimal):
        return quotients(column.values, np.array([10**column.type.scale], object))
    return np.asarray(column.values.astype(np.float64, copy=False))


def quotients(dividends: Array, divisors: Array) -> Array:
    """Integers divided to doubles, rounded once."""
    if max(magnitude(dividends), magnitude(divisors)) <= EXACT_DOUBLE:
        return np.asarray(dividends.astype(np.float64) / divisors.astype(np.float64))
    return np.asarray((dividends.astype(object) / divisors.astype(object)).astype(np.float64))


def scale_of(type_: Type) -> int:
    """Digits after the point: none for an integer."""
    return type_.scale if isinstance(type_, Decimal) else 0


def rescaled(values: Array, scale: int, to_scale: int) -> Array:
    """Unscaled decimals at another scale, rounded half up (away from zero), as Spark does.

    >>> rescaled(np.array([125, -125]), 2, 1)
    array([ 13, -13])
    """
    if to_scale >= scale:
        return _exactly(np.multiply, values, np.array([10 ** (to_scale - scale)], object))
    return _divided(values, np.array([10 ** (scale - to_scale)], object))


def floored(values: Array, scale: int) -> Array:
    """Unscaled decimals rounded down to whole numbers.

    >>> floored(np.array([19, -11]), 1)
    array([ 1, -2])
    """
    unit = 10**scale
    return np.asarray(with_room(values, max(magnitude(values), unit)) // unit)


def _result_type(operator: ArithmeticOperator, left: Type, right: Type) -> Type:
    """As `situ.graph.typing` has it, which refused what does not fit. A null takes the other side's type."""
    types = {left, right}
    if TIMESTAMP in types:
        return DURATION if left == right else TIMESTAMP
    if DURATION in types:
        return DURATION
    if DOUBLE in types:
        return DOUBLE
    if any(isinstance(type_, Decimal) for type_ in types):
        return arithmetic_decimal(operator, right if left == NULL else left, left if right == NULL else right)
    if operator == "/":
        return DOUBLE
    return INT if INT in types else NULL


# --- One kind of number each ------------------------------------------------------------------------------------------


def _double_arithmetic(operator: ArithmeticOperator, left: Array, right: Array, valid: Mask | None) -> Column:
    with np.errstate(all="ignore"):
        match operator:
            case "+":
                return Column(DOUBLE, left + right, valid)
            case "-":
                return Column(DOUBLE, left - right, valid)
            case "*":
                return Column(DOUBLE, left * right, valid)
            case "/":
                return Column(DOUBLE, left / right, all_of(valid, _not_zero(right)))
            case "%":
                return Column(DOUBLE, np.fmod(left, right), all_of(valid, _not_zero(right)))
            case _:
                assert_never(operator)


def _integer_arithmetic(
    operator: ArithmeticOperator, left: Column, right: Column, type_: Type, valid: Mask | None
) -> Column:
    """Integers, timestamps and durations. `/` never comes here: it gives doubles."""
    match operator:
        case "+":
            return fitting(type_, _exactly(np.add, left.values, right.values), valid)
        case "-":
            return fitting(type_, _exactly(np.subtract, left.values, right.values), valid)
        case "*":
            return fitting(type_, _exactly(np.multiply, left.values, right.values), valid)
        case "%":
            valid = all_of(valid, _not_zero(right.values))
            return fitting(type_, _remainders(left.values, right.values), valid)
        case "/":
            raise TypeError(f"no division of {left.type} by {right.type}")
        case _:
            assert_never(operator)


def _decimal_arithmetic(
    operator: ArithmeticOperator, left: Column, right: Column, type_: Decimal, valid: Mask | None
) -> Column:
    """Exact, then rounded once to the scale of the result."""
    scales = scale_of(left.type), scale_of(right.type)
    common = max(scales)
    match operator:
        case "+" | "-":
            sides = rescaled(left.values, scales[0], common), rescaled(right.values, scales[1], common)
            exact = _exactly(np.add if operator == "+" else np.subtract, *sides)
            return fitting(type_, rescaled(exact, common, type_.scale), valid)
        case "*":
            exact = _exactly(np.multiply, left.values, right.values)
            return fitting(type_, rescaled(exact, sum(scales), type_.scale), valid)
        case "/":
            # a / 10^s0 / (b / 10^s1) = (a * 10^(s1 - s0 + s)) / b / 10^s; where the exponent is negative, b takes it.
            shift = scales[1] - scales[0] + type_.scale
            dividend = rescaled(left.values, 0, max(shift, 0))
            divisor = rescaled(right.values, 0, max(-shift, 0))
            return fitting(type_, _divided(dividend, divisor), all_of(valid, _not_zero(right.values)))
        case "%":
            sides = rescaled(left.values, scales[0], common), rescaled(right.values, scales[1], common)
            exact = _remainders(*sides)
            return fitting(type_, rescaled(exact, common, type_.scale), all_of(valid, _not_zero(right.values)))
        case _:
            assert_never(operator)


# --- Exact integers ---------------------------------------------------------------------------------------------------


def _exactly(operation: Callable[[Array, Array], Array], left: Array, right: Array) -> Array:
    """A sum, difference or product, in int64 where the largest possible result fits."""
    bounds = magnitude(left), magnitude(right)
    bound = bounds[0] * bounds[1] if operation is np.multiply else sum(bounds)
    return operation(with_room(left, max(bound, *bounds)), with_room(right, max(bound, *bounds)))


def _divided(dividend: Array, divisor: Array) -> Array:
    """Quotients rounded half up (away from zero). Where the divisor is 0 the result has no meaning."""
    dividend, divisor = _alike(dividend, divisor)
    size = np.where(divisor == 0, 1, np.abs(divisor))
    quotient, rest = np.abs(dividend) // size, np.abs(dividend) % size
    quotient = quotient + (rest >= size - rest)
    return np.where((dividend < 0) != (divisor < 0), -quotient, quotient)


def _remainders(dividend: Array, divisor: Array) -> Array:
    """Remainders with the sign of the dividend. Where the divisor is 0 the result has no meaning."""
    dividend, divisor = _alike(dividend, divisor)
    divisor = np.where(divisor == 0, 1, divisor)
    if dividend.dtype != object:
        return np.fmod(dividend, divisor)
    rest = np.abs(dividend) % np.abs(divisor)
    return np.where(dividend < 0, -rest, rest)


def _alike(left: Array, right: Array) -> tuple[Array, Array]:
    """Both in the form that suffices for absolute values."""
    bound = max(magnitude(left), magnitude(right))
    return with_room(left, bound), with_room(right, bound)


def _not_zero(values: Array) -> Mask | None:
    nonzero = values != 0
    return None if nonzero.all() else nonzero
