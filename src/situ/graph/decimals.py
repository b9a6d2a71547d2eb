"""Precision and scale of decimal results, as Spark SQL computes them (DecimalPrecision, 38 digits at most)."""

from __future__ import annotations

import decimal
from typing import Literal as OneOf
from typing import TypeAlias

from situ.core.types import Decimal, Type

MAX_PRECISION = 38

#: Digits after the point that a result keeps even where its integral part has no room (Spark's minimum).
MIN_SCALE = 6

#: An integer beside a decimal: 64 bits have at most 19 digits; Spark counts 20.
INT_AS_DECIMAL = Decimal(20, 0)

ArithmeticOperator: TypeAlias = OneOf["+", "-", "*", "/", "%"]


def arithmetic_decimal(operator: ArithmeticOperator, left: Type, right: Type) -> Decimal:
    """The result type of arithmetic on decimals and integers.

    >>> str(arithmetic_decimal("*", Decimal(10, 2), Decimal(3, 1)))
    'decimal(14, 3)'
    """
    (p1, s1), (p2, s2) = _digits(left), _digits(right)
    match operator:
        case "+" | "-":
            scale = max(s1, s2)
            return _limited(max(p1 - s1, p2 - s2) + scale + 1, scale)
        case "*":
            return _limited(p1 + p2 + 1, s1 + s2)
        case "/":
            scale = max(MIN_SCALE, s1 + p2 + 1)
            return _limited(p1 - s1 + s2 + scale, scale)
        case "%":
            scale = max(s1, s2)
            return _limited(min(p1 - s1, p2 - s2) + scale, scale)


def wider_decimal(left: Type, right: Type) -> Decimal:
    """The decimal that holds the values of both; digits after the point go first where 38 are not enough.

    >>> str(wider_decimal(Decimal(5, 2), Decimal(7, 4)))
    'decimal(7, 4)'
    """
    (p1, s1), (p2, s2) = _digits(left), _digits(right)
    integral, scale = max(p1 - s1, p2 - s2), max(s1, s2)
    return Decimal(min(MAX_PRECISION, integral + scale), min(scale, MAX_PRECISION - min(MAX_PRECISION, integral)))


def whole_decimal(type_: Decimal) -> Decimal:
    """The result type of `floor` and `ceil`: one more digit, because 9.5 becomes 10.

    >>> str(whole_decimal(Decimal(5, 2))), str(whole_decimal(Decimal(5, 0)))
    ('decimal(4, 0)', 'decimal(5, 0)')
    """
    return Decimal(min(MAX_PRECISION, type_.precision - type_.scale + 1), 0) if type_.scale else type_


def decimal_of_literal(value: decimal.Decimal) -> Decimal:
    """The smallest decimal type that holds a literal.

    >>> str(decimal_of_literal(decimal.Decimal("0.050")))
    'decimal(3, 3)'
    """
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int), "a literal is finite"
    digits = len(value.as_tuple().digits)
    return Decimal(max(digits + max(exponent, 0), -exponent), max(-exponent, 0))


def _digits(type_: Type) -> tuple[int, int]:
    decimal = type_ if isinstance(type_, Decimal) else INT_AS_DECIMAL
    return decimal.precision, decimal.scale


def _limited(precision: int, scale: int) -> Decimal:
    """Spark's adjustPrecisionScale: the integral digits stay, the scale shrinks, but not below MIN_SCALE."""
    if precision <= MAX_PRECISION:
        return Decimal(precision, scale)
    integral = precision - scale
    return Decimal(MAX_PRECISION, max(MAX_PRECISION - integral, min(scale, MIN_SCALE)))
