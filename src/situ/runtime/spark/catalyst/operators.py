"""Operators as Catalyst columns, and what of them a data source may be handed.

Spark gives data sources those conditions of a filter that they can judge by themselves. For doubles and times they
judge otherwise than Spark, and rows are lost.
"""

from __future__ import annotations

import decimal
import math
import operator as python
from collections.abc import Callable
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from situ.core.types import BOOLEAN, DOUBLE, TIMESTAMP, Decimal, Type
from situ.graph.decimals import MAX_PRECISION, ArithmeticOperator
from situ.kernel.columns.comparisons import ComparisonOperator
from situ.runtime.spark.catalyst.values import (
    UNKNOWN,
    NotExactError,
    Value,
    alike,
    as_decimal,
    cast,
    constant,
    in_pairs,
    literal,
    made_of,
    negatable,
    null_of,
)

_COMPARE: dict[ComparisonOperator, Callable[[Any, Any], Any]] = {
    "=": python.eq,
    "!=": python.ne,
    "<": python.lt,
    "<=": python.le,
    ">": python.gt,
    ">=": python.ge,
}
_MIRRORED: dict[ComparisonOperator, ComparisonOperator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}

#: Null where the result does not exist or does not fit.
_COMPUTE: dict[ArithmeticOperator, Callable[[Column, Column], Column]] = {
    "+": F.try_add,
    "-": F.try_subtract,
    "*": F.try_multiply,
    "/": F.try_divide,
    "%": F.try_mod,
}

#: The years 1 to 9999, in microseconds: the times that Spark hands to a data source.
_EARLIEST, _LATEST = -62_135_596_800_000_000, 253_402_300_799_000_000


def minus(value: Value) -> Value:
    """The opposite of the smallest integer does not fit; 0.0 - x would lose the sign of a zero."""
    if value.type == DOUBLE:
        return made_of(DOUBLE, F.negative, value)
    if isinstance(value.type, Decimal):
        return made_of(value.type, F.negative, negatable(value))
    return made_of(value.type, lambda column: F.try_subtract(F.lit(0).cast("bigint"), column), value)


def arithmetic(operator: ArithmeticOperator, type_: Type, left: Value, right: Value) -> Value:
    if left.known is None or right.known is None:
        return null_of(type_)
    match type_:
        case Decimal():
            left, right = as_decimal(left), as_decimal(right)
            if operator == "%":
                _check_quotient(left.type, right.type)
            return made_of(type_, _COMPUTE[operator], left, right)
        case _ if type_ == DOUBLE:
            return made_of(type_, _COMPUTE[operator], cast(left, DOUBLE), cast(right, DOUBLE))
        case _:
            return made_of(type_, _COMPUTE[operator], *(_kept_apart(side, operator) for side in (left, right)))


def _kept_apart(side: Value, operator: ArithmeticOperator) -> Value:
    """Spark's optimizer puts sums of sums and products of products into another order: `(i + 5) + -5` becomes `i + 0`,
    which does not overflow. A difference of 0 in between keeps it from that."""
    if side.make is not _COMPUTE[operator] or operator not in ("+", "*"):
        return side
    return made_of(side.type, lambda column: F.try_subtract(column, F.lit(0).cast("bigint")), side)


def _check_quotient(dividend: Type, divisor: Type) -> None:
    """Spark's remainder fails, and does not give null, where the quotient has more digits than a decimal."""
    match dividend, divisor:
        case Decimal(), Decimal() if dividend.precision - dividend.scale + divisor.scale > MAX_PRECISION:
            raise NotExactError("a remainder of too large a quotient")


def null_check(value: Value, negated: bool) -> Value:
    if value.known is None:
        return constant(not negated, BOOLEAN)
    return made_of(BOOLEAN, F.isnotnull if negated else F.isnull, value.stored or value)


def comparison(operator: ComparisonOperator, left: Value, right: Value, exposed: bool) -> Value:
    if left.known is None or right.known is None:
        return null_of(BOOLEAN)
    types = {left.type, right.type}
    if DOUBLE in types:
        left, right = _as_double(left), _as_double(right)
        if not (exposed and _is_safe_in_sources(operator, left, right)):
            left, right = _hidden(left), _hidden(right)
    elif any(isinstance(type_, Decimal) for type_ in types):
        left, right = alike([left, right])
    elif TIMESTAMP in types:
        left, right = _as_stored_times(left, right)
    return made_of(BOOLEAN, _COMPARE[operator], left, right)


def membership(value: Value, items: list[Value], exposed: bool) -> Value:
    """Each kind of number is compared in its own way, as the kernel does."""
    known = [item for item in items if item.known is not None]
    if value.known is None or not known:
        return null_of(BOOLEAN)
    groups: list[list[Value]] = []
    if reals := [_as_double(item) for item in known if DOUBLE in (item.type, value.type)]:
        double = _as_double(value)
        safe = exposed and all(_is_safe_in_sources("=", double, item) for item in reals)
        groups.append([double if safe else _hidden(double), *reals])
    others = [item for item in known if DOUBLE not in (item.type, value.type)]
    if decimals := [item for item in others if isinstance(item.type, Decimal) or isinstance(value.type, Decimal)]:
        groups.append(alike([value, *decimals]))
    if plain := [item for item in others if not (isinstance(item.type, Decimal) or isinstance(value.type, Decimal))]:
        groups.append([value, *plain])
    memberships = [made_of(BOOLEAN, lambda column, *among: column.isin(*among), *group) for group in groups]
    if len(known) < len(items):
        memberships.append(null_of(BOOLEAN))  # beside the list, not in it: Spark cannot hand a null to ORC
    return in_pairs(lambda one, other: made_of(BOOLEAN, python.or_, one, other), memberships)


def _as_double(value: Value) -> Value:
    known = value.known
    return constant(float(known), DOUBLE) if isinstance(known, int | float | decimal.Decimal) else cast(value, DOUBLE)


# --- Data sources -----------------------------------------------------------------------------------------------------


def _is_safe_in_sources(operator: ComparisonOperator, left: Value, right: Value) -> bool:
    """Whether a data source can compare doubles as Spark does.

    Parquet's statistics know no NaN and its dictionaries tell -0.0 from 0.0, so Spark loses rows: NaN > 1 is true,
    but a row group of 0.5 and NaN is not even read. What no NaN fulfils, with a constant that is no zero, is safe.
    """
    if left.known is not UNKNOWN:
        operator, left, right = _MIRRORED.get(operator, operator), right, left
    known = right.known
    return operator in ("=", "<", "<=") and isinstance(known, float) and known != 0 and not math.isnan(known)


def _hidden(value: Value) -> Value:
    """A double that no data source can filter; -0.0 becomes 0.0, which compares the same."""
    return value if value.stored is None else made_of(DOUBLE, lambda column: column + F.lit(0.0), value)


def _as_stored_times(left: Value, right: Value) -> tuple[Value, Value]:
    """An attribute beside a constant stays a timestamp, which a data source can filter.

    Whole milliseconds only: Spark cuts off the rest for a Parquet column of milliseconds, and loses rows.
    """

    def stored(value: Value) -> Value | None:
        known = value.known
        if isinstance(known, int) and known % 1000 == 0 and _EARLIEST <= known <= _LATEST:
            return Value(TIMESTAMP, lambda _: F.timestamp_micros(literal(known, TIMESTAMP)))
        return value.stored

    sides = stored(left), stored(right)
    return (sides[0], sides[1]) if sides[0] and sides[1] else (left, right)
