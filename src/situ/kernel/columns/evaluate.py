"""Expressions over columns: one value per row, with Spark SQL's meaning (docs/language.md, "Expressions")."""

from __future__ import annotations

import decimal
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol, assert_never

import numpy as np
import pyarrow as pa

from situ.core.functions import BUILT_INS, Functions
from situ.core.functions import default as default_functions
from situ.core.types import BOOLEAN, INT, Decimal
from situ.graph.expressions import (
    Aggregate,
    Attribute,
    Binary,
    BinaryOperator,
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
    aliases_of,
)
from situ.kernel.columns.aggregates import aggregate
from situ.kernel.columns.arithmetic import arithmetic, negated
from situ.kernel.columns.casts import cast
from situ.kernel.columns.comparisons import compare, conjunction, definitely, is_in, negation
from situ.kernel.columns.functions import call_built_in, call_users_function
from situ.kernel.columns.values import Array, Column, Mask, array_of, column_of, constant, everywhere

#: The alias under which the `<post>` part of an aggregation reads the records of `<pre>`, which have no alias.
RECORDS = ""


class Rows(Protocol):
    """What expressions are computed over: for each row, the events of every alias."""

    @property
    def length(self) -> int: ...

    def attribute(self, alias: str, name: str) -> pa.Array:
        """One value per row; null where the alias has no event."""

    def time(self, alias: str) -> pa.Array:
        """Event times, as timestamps in UTC."""

    def group(self, name: str) -> pa.Array:
        """The group's value of a `group by` attribute."""

    def event(self, alias: str) -> pa.Array:
        """Whole events, as structs."""

    def repeated(self, alias: str) -> tuple[Array, Rows]:
        """The events of a repeating alias: row i has those from offsets[i] to offsets[i + 1] of the rows returned,
        in which the alias is single."""


def evaluate(
    expression: Expression,
    rows: Rows,
    *,
    functions: Functions = default_functions,
    errors: Counter[str] | None = None,
) -> pa.Array:
    """The value of a resolved expression for each row; a run-time error gives null.

    `errors` counts the calls of users' functions that failed, by the function's name.

    >>> rows = EventRows("a", pa.record_batch({"x": pa.array([1, None, 2**62])}), pa.nulls(3))
    >>> evaluate(Binary("*", Attribute("a", "x"), Literal(2)), rows).to_pylist()
    [2, None, None]
    """
    evaluation = _Evaluation(rows, functions, Counter() if errors is None else errors)
    if isinstance(expression, Aggregate) and expression.function == "collect":
        return evaluation.aggregated(expression)  # a list is a result: no column of values to compute with
    return array_of(evaluation.column(expression), rows.length)


def evaluate_condition(
    expression: Expression,
    rows: Rows,
    *,
    functions: Functions = default_functions,
    errors: Counter[str] | None = None,
    read: dict[Expression, Column] | None = None,
) -> Mask:
    """Where a condition holds; a null is as good as false. `read` has what other conditions have read of these rows.

    >>> rows = EventRows("a", pa.record_batch({"x": pa.array([1, None, 3])}), pa.nulls(3))
    >>> evaluate_condition(Binary("<", Attribute("a", "x"), Literal(2)), rows)
    array([ True, False, False])
    """
    evaluation = _Evaluation(rows, functions, Counter() if errors is None else errors, {} if read is None else read)
    holds = evaluation.where(expression, True)
    return holds if len(holds) == rows.length else np.repeat(holds, rows.length)


@dataclass(frozen=True, slots=True)
class EventRows:
    """Events of one type, one per row, under one alias: what a condition on a single event sees."""

    alias: str
    events: pa.RecordBatch
    times: pa.Array

    @property
    def length(self) -> int:
        return int(self.events.num_rows)

    def attribute(self, alias: str, name: str) -> pa.Array:
        return self.events.column(name)

    def time(self, alias: str) -> pa.Array:
        return self.times

    def group(self, name: str) -> pa.Array:
        return self.events.column(name)

    def event(self, alias: str) -> pa.Array:
        return self.events.to_struct_array()

    def repeated(self, alias: str) -> tuple[Array, Rows]:
        """Each row has one event."""
        return np.arange(self.length + 1), self


@dataclass(frozen=True, slots=True)
class _Evaluation:
    rows: Rows
    functions: Functions
    errors: Counter[str]
    read: dict[Expression, Column] = field(default_factory=dict)  # a reference is often made twice

    def column(self, expression: Expression) -> Column:
        match expression:
            case Literal(value):
                return constant(value)
            case Attribute() | EventTime() | GroupKey():
                if expression not in self.read:
                    self.read[expression] = column_of(self.reference(expression))
                return self.read[expression]
            case WholeEvent():
                raise TypeError("a whole event is no value: only users' functions and count take one")
            case Aggregate():
                return column_of(self.aggregated(expression))
            case Unary(operator, operand):
                return negated(self.column(operand)) if operator == "-" else negation(self.condition(operand))
            case Binary(operator, left, right):
                return self.binary(operator, left, right)
            case IsNull(operand, is_negated):
                is_known = everywhere(self.column(operand).valid)
                return Column(BOOLEAN, is_known if is_negated else ~is_known)
            case In(operand, items, is_negated):
                is_member = is_in(self.column(operand), items)
                return negation(is_member) if is_negated else is_member
            case Cast(operand, type_):
                return cast(self.column(operand), type_)
            case Call(function, arguments):
                if function in BUILT_INS:
                    return call_built_in(function, [self.column(argument) for argument in arguments])
                return column_of(self.called(expression))
            case _:
                assert_never(expression)

    def binary(self, operator: BinaryOperator, left: Expression, right: Expression) -> Column:
        match operator:
            case "and":
                return conjunction(self.condition(left), self.condition(right))
            case "or":  # not (not left and not right)
                return negation(conjunction(negation(self.condition(left)), negation(self.condition(right))))
            case "=" | "!=" | "<" | "<=" | ">" | ">=":
                return compare(operator, self.column(left), self.column(right))
            case "+" | "-" | "*" | "/" | "%":
                return arithmetic(operator, *self.operands(left, right))
            case _:
                assert_never(operator)

    def where(self, condition: Expression, wanted: bool) -> Mask:
        """Where a condition is `wanted`. Through `and`, `or` and `not` this needs no trace of what is null:
        `a and b` is true where both are true, and false where one is false."""
        match condition:
            case Unary("not", operand):
                return self.where(operand, not wanted)
            case Binary("and" | "or" as operator, left, right):
                sides = self.where(left, wanted), self.where(right, wanted)
                return sides[0] & sides[1] if (operator == "and") == wanted else sides[0] | sides[1]
            case _:
                return definitely(self.condition(condition), wanted)

    def condition(self, expression: Expression) -> Column:
        return cast(self.column(expression), BOOLEAN)

    def reference(self, expression: Attribute | EventTime | GroupKey) -> pa.Array:
        match expression:
            case Attribute(alias, name):
                return self.rows.attribute(RECORDS if alias is None else alias, name)
            case EventTime(alias):
                return self.rows.time(alias)
            case GroupKey(name):
                return self.rows.group(name)
            case _:
                assert_never(expression)

    def operands(self, left: Expression, right: Expression) -> tuple[Column, Column]:
        """The sides of arithmetic. As in Spark, an integer literal beside a decimal counts with its own digits."""
        columns = self.column(left), self.column(right)
        if not any(isinstance(column.type, Decimal) for column in columns):
            return columns
        return self.exact(left, columns[0]), self.exact(right, columns[1])

    def exact(self, expression: Expression, column: Column) -> Column:
        is_integer_literal = isinstance(expression, Literal) and column.type == INT
        return constant(decimal.Decimal(int(column.values[0]))) if is_integer_literal else column

    def aggregated(self, node: Aggregate) -> pa.Array:
        offsets, events = self.rows.repeated(_alias_of(node.argument))
        if isinstance(node.argument, WholeEvent):
            return aggregate(node, offsets, None)
        values = evaluate(node.argument, events, functions=self.functions, errors=self.errors)
        return aggregate(node, offsets, values)

    def called(self, call: Call) -> pa.Array:
        arguments = [
            self.rows.event(argument.alias)
            if isinstance(argument, WholeEvent)
            else array_of(self.column(argument), self.rows.length)
            for argument in call.arguments
        ]
        return call_users_function(call.function, arguments, self.rows.length, self.functions, self.errors)


def _alias_of(expression: Expression) -> str:
    """The one alias that the argument of an aggregate refers to."""
    return next(iter(aliases_of(expression)), RECORDS)
