"""Comparisons of columns and choices between them, and three-valued logic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, assert_never
from typing import Literal as OneOf

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.types import BOOLEAN, DOUBLE, INT, NULL, Decimal
from situ.graph.expressions import Literal
from situ.kernel.columns.arithmetic import doubles, rescaled, scale_of
from situ.kernel.columns.values import (
    Array,
    Column,
    Mask,
    all_of,
    constant,
    everywhere,
    flags_of,
    null_of,
    text_column,
)

ComparisonOperator: TypeAlias = OneOf["=", "!=", "<", "<=", ">", ">="]

_TEXT: dict[ComparisonOperator, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}

#: From so many items on, looking a value up is faster than comparing it with each (measured).
MANY_INTEGERS = 32
MANY_TEXTS = 5


def compare(operator: ComparisonOperator, left: Column, right: Column) -> Column:
    """`left operator right`; null where one side is. NaN equals itself and is larger than every other number.

    >>> compare("<", constant(1.5), constant(float("nan"))).values
    array([ True])
    """
    if NULL in (left.type, right.type):
        return null_of(BOOLEAN)
    valid = all_of(left.valid, right.valid)
    if left.is_text:
        return Column(BOOLEAN, flags_of(_TEXT[operator](left.values, right.values)), valid)
    if DOUBLE in (left.type, right.type):
        return Column(BOOLEAN, _compare_doubles(operator, left, right), valid)
    if isinstance(left.type, Decimal) or isinstance(right.type, Decimal):
        scale = max(scale_of(left.type), scale_of(right.type))
        sides = (rescaled(side.values, scale_of(side.type), scale) for side in (left, right))
        return Column(BOOLEAN, _compare_exact(operator, *sides), valid)
    return Column(BOOLEAN, _compare_exact(operator, left.values, right.values), valid)


def is_in(operand: Column, items: tuple[Literal, ...]) -> Column:
    """`operand in (items)`: null where the operand is null, or where it is not found and an item is null."""
    if operand.type == NULL:
        return null_of(BOOLEAN)
    candidates = [item.value for item in items if item.value is not None]
    if operand.is_text and len(candidates) >= MANY_TEXTS:
        is_member = flags_of(pc.is_in(operand.values, value_set=pa.array(candidates, operand.values.type)))
    elif operand.type == INT and len(candidates) >= MANY_INTEGERS and all(type(value) is int for value in candidates):
        is_member = np.isin(operand.values, np.array(candidates, np.int64))
    else:
        is_member = np.zeros(operand.height, np.bool_)
        for value in candidates:
            is_member |= compare("=", operand, constant(value)).values
    return Column(BOOLEAN, is_member, all_of(operand.valid, is_member if len(candidates) < len(items) else None))


def conjunction(left: Column, right: Column) -> Column:
    """Kleene's `and`: false where a side is false, null where that is not known, else true."""
    if left.valid is None and right.valid is None:
        return Column(BOOLEAN, left.values & right.values)
    true = definitely(left, True) & definitely(right, True)
    return Column(BOOLEAN, true, true | definitely(left, False) | definitely(right, False))


def negation(column: Column) -> Column:
    """`not x`."""
    return Column(BOOLEAN, ~column.values, column.valid)


def definitely(column: Column, wanted: bool) -> Mask:
    """Where a condition is `wanted` and not null."""
    values = column.values if wanted else ~column.values
    return np.asarray(values if column.valid is None else values & column.valid)


def choose(condition: Mask, then: Column, otherwise: Column) -> Column:
    """One of two columns of the same type, row by row."""
    if then.is_text:
        test = pa.array(condition) if len(condition) != 1 else pa.scalar(bool(condition[0]))
        return text_column(then.type, pc.if_else(test, then.values, otherwise.values))
    values = np.where(condition, then.values, otherwise.values)
    if then.valid is None and otherwise.valid is None:
        return Column(then.type, values)
    return Column(then.type, values, np.where(condition, everywhere(then.valid), everywhere(otherwise.valid)))


def _compare_exact(operator: ComparisonOperator, left: Array, right: Array) -> Mask:
    """Integers and booleans. A constant becomes a Python number, so that NumPy widens no column for its sake."""
    a: Any = left.item() if len(left) == 1 != len(right) else left
    b: Any = right.item() if len(right) == 1 != len(left) else right
    match operator:
        case "=":
            return np.asarray(a == b)
        case "!=":
            return np.asarray(a != b)
        case "<":
            return np.asarray(a < b)
        case "<=":
            return np.asarray(a <= b)
        case ">":
            return np.asarray(a > b)
        case ">=":
            return np.asarray(a >= b)
        case _:
            assert_never(operator)


def _compare_doubles(operator: ComparisonOperator, left: Column, right: Column) -> Mask:
    a, b = doubles(left), doubles(right)
    match operator:
        case "=":
            return _equal(a, b)
        case "!=":
            return ~_equal(a, b)
        case "<":
            return _less(a, b)
        case "<=":
            return ~_less(b, a)
        case ">":
            return _less(b, a)
        case ">=":
            return ~_less(a, b)
        case _:
            assert_never(operator)


def _equal(a: Array, b: Array) -> Mask:
    if _is_plain(a) or _is_plain(b):
        return np.asarray(a == b)
    return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)))


def _less(a: Array, b: Array) -> Mask:
    if _is_plain(b):
        return np.asarray(a < b)  # false for NaN in a, as it should be
    if _is_plain(a):
        return ~np.asarray(b <= a)  # true for NaN in b
    return np.asarray((a < b) | (np.isnan(b) > np.isnan(a)))


def _is_plain(values: Array) -> bool:
    """A constant that is a number: no NaN needs care, and one pass over the other side suffices."""
    return len(values) == 1 and not np.isnan(values[0])
