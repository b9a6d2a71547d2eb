"""Conditions about a single event -> Catalyst columns that say exactly what `situ.kernel.columns.evaluate` says.

Spark then drops rows before they cross to Python. What Catalyst cannot say, or says otherwise in some corner, is
left to the kernel: users' functions, `power` (its last bit), texts of doubles and of times, decimals where Spark
rounds or fails (more than 38 digits in a comparison, 34 in a sign), and what is nested very deeply. `lower` and
`upper` follow Unicode, of which Python and Spark have different versions, so only a comparison with an ASCII constant
is translated.

A run-time error gives null with `spark.sql.ansi.enabled` and without it. The session's time zone does not matter;
`spark.sql.decimalOperations.allowPrecisionLoss` has to be true, as it is unless somebody changes it.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Iterator, Sequence
from typing import Literal as OneOf
from typing import assert_never

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from situ.core.functions import BUILT_INS
from situ.core.types import BOOLEAN, DURATION, NULL, STRING, TIMESTAMP, TIMESTAMP_ARROW, Type
from situ.graph.expressions import (
    Aggregate,
    Attribute,
    Binary,
    Call,
    Cast,
    EventTime,
    Expression,
    GroupKey,
    In,
    IsNull,
    Literal,
    Unary,
    WholeEvent,
    walk,
)
from situ.graph.typing import THIS, Scope, type_of
from situ.kernel.columns.evaluate import EventRows, evaluate
from situ.runtime.spark.catalyst.functions import call_built_in
from situ.runtime.spark.catalyst.operators import arithmetic, comparison, membership, minus, null_check
from situ.runtime.spark.catalyst.values import (
    EventColumns,
    NotExactError,
    Value,
    cast,
    constant,
    event_time,
    in_pairs,
    made_of,
    null_of,
    reference,
    to_column,
)


def expression_to_column(
    expression: Expression, scope: Scope, attribute: Callable[[str], Column], time: Column
) -> Column | None:
    """An expression about one event (alias `this`) as a column; None where the kernel has to evaluate it.

    `attribute` gives the column of a declared attribute, of its declared type (int is bigint), and `time` is the
    event's time as bigint microseconds. A result that is a time or a duration is bigint microseconds, too.

    The column of a condition is for a filter, alone or with `all_of` and `any_of`. A filter by its opposite could lose
    rows in a data source: it would be the column of `not condition`.
    """
    value = _translated(expression, scope)
    if value is None:
        return None
    column = to_column(value, EventColumns(attribute, time))
    return column.cast("boolean") if value.type == NULL else column


def all_of(columns: Sequence[Column]) -> Column:
    """The `and` of conditions, as a tree that Catalyst can walk: of hundreds in a row, Java's stack overflows."""
    return in_pairs(python.and_, columns) if columns else F.lit(True)


def any_of(columns: Sequence[Column]) -> Column:
    """The `or` of conditions."""
    return in_pairs(python.or_, columns) if columns else F.lit(False)


def is_expressible(expression: Expression, scope: Scope) -> bool:
    """Whether `expression_to_column` gives a column; needs no Spark session.

    >>> from situ.core.types import DOUBLE
    >>> from situ.graph.operators import Schema
    >>> scope = Scope({}).with_this("Vehicle", Schema((("speed", DOUBLE),)))
    >>> speed = Attribute("this", "speed")
    >>> is_expressible(Binary(">", speed, Literal(30)), scope)
    True
    >>> is_expressible(Binary(">", Call("power", (speed, Literal(2))), Literal(30)), scope)
    False
    """
    return _translated(expression, scope) is not None


def _translated(expression: Expression, scope: Scope) -> Value | None:
    if not all(map(_is_about_values_of_this, walk(expression))):
        return None
    try:
        return _Translation(scope).value(expression, exposed=True)
    except NotExactError:
        return None


def _is_about_values_of_this(node: Expression) -> bool:
    match node:
        case Attribute(alias) | EventTime(alias):
            return alias == THIS
        case WholeEvent() | Aggregate():
            return False
        case Call(function):
            return function in BUILT_INS
        case _:
            return True


class _Translation:
    """Translates one expression; raises NotExactError where it cannot.

    `exposed` are conditions that hold wherever the whole condition holds: Spark may hand them to a data source. What
    is below a `not` or within other values is not exposed.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def value(self, expression: Expression, exposed: bool = False) -> Value:
        type_ = type_of(expression, self.scope)
        if type_ == NULL:
            return null_of(NULL)
        match expression:
            case Attribute(_, name) | GroupKey(name):
                return reference(name, type_)
            case EventTime():
                return event_time()
            case _ if _is_constant(expression):
                return _folded(expression, type_)
            case Unary(operator, operand):
                if operator == "-":
                    return minus(self.value(operand))
                return made_of(BOOLEAN, python.invert, self.condition(operand))
            case Binary():
                return self.binary(expression, type_, exposed)
            case IsNull(operand, negated):
                return null_check(self.value(operand), negated)
            case In(operand, items, negated):
                return self.membership(operand, items, negated, exposed)
            case Cast(operand):
                return cast(self.value(operand), type_)
            case Call(function, arguments):
                return call_built_in(function, type_, [self.value(argument) for argument in arguments])
            case Literal() | WholeEvent() | Aggregate():
                raise AssertionError("literals are constants, and the others were refused")
            case _:
                assert_never(expression)

    def binary(self, expression: Binary, type_: Type, exposed: bool) -> Value:
        left, right = expression.left, expression.right
        match expression.operator:
            case "and" | "or" as operator:
                return self.chain(operator, expression, exposed)
            case "=" | "!=" as operator:
                sides = self.in_case(left, right) or (self.value(left), self.value(right))
                return comparison(operator, *sides, exposed)
            case "<" | "<=" | ">" | ">=" as operator:
                return comparison(operator, self.value(left), self.value(right), exposed)
            case "+" | "-" | "*" | "/" | "%" as operator:
                return arithmetic(operator, type_, self.operand(left), self.operand(right))
            case _:
                assert_never(expression.operator)

    def condition(self, expression: Expression, exposed: bool = False) -> Value:
        return cast(self.value(expression, exposed), BOOLEAN)

    def chain(self, operator: OneOf["and", "or"], expression: Binary, exposed: bool) -> Value:
        """`a and b and c`: however long it is, it does not nest deeply."""
        parts = [self.condition(part, exposed) for part in _chained(operator, expression)]
        combine = python.and_ if operator == "and" else python.or_
        return in_pairs(lambda left, right: made_of(BOOLEAN, combine, left, right), parts)

    def operand(self, expression: Expression) -> Value:
        """A side of arithmetic. Only an integer that is written down counts with its own digits beside a decimal."""
        value = self.value(expression)
        if isinstance(value.known, int) and not isinstance(expression, Literal):
            return Value(value.type, value.make)
        return value

    def in_case(self, *sides: Expression) -> tuple[Value, Value] | None:
        """`lower(s) = 'bus'`: whether a text has just these ASCII letters, all versions of Unicode agree on."""
        for call, other in (sides, sides[::-1]):
            match call:
                case Call("lower" | "upper" as function, (text,)) if not _is_constant(call):
                    wanted = self.value(other)
                    if isinstance(wanted.known, str) and wanted.known.isascii():
                        return made_of(STRING, F.lower if function == "lower" else F.upper, self.value(text)), wanted
        return None

    def membership(self, operand: Expression, items: tuple[Literal, ...], negated: bool, exposed: bool) -> Value:
        in_case = [self.in_case(operand, item) for item in items if item.value is not None]
        value = in_case[0][0] if in_case and in_case[0] and all(in_case) else self.value(operand)
        is_member = membership(value, [self.value(item) for item in items], exposed and not negated)
        return made_of(BOOLEAN, python.invert, is_member) if negated else is_member


def _chained(operator: str, expression: Expression) -> Iterator[Expression]:
    """`a and b and c` -> a, b, c."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Binary) and node.operator == operator:
            waiting += (node.right, node.left)
        else:
            yield node


# --- Constants --------------------------------------------------------------------------------------------------------


def _is_constant(expression: Expression) -> bool:
    return not any(isinstance(node, Attribute | EventTime | GroupKey) for node in walk(expression))


def _folded(expression: Expression, type_: Type) -> Value:
    """A constant has the value that the kernel gives it: `cast('2020-01-31' as timestamp)`, `power(2, 0.5)`."""
    one_row = EventRows(THIS, pa.record_batch({"_": pa.nulls(1)}), pa.nulls(1, TIMESTAMP_ARROW))
    result = evaluate(expression, one_row)
    if type_ in (TIMESTAMP, DURATION):
        result = result.cast(pa.int64())
    return constant(result[0].as_py(), type_)
