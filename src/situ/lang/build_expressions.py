"""Expressions by Python's operators: `(b.speed < a.speed - 5) & b.lane.is_not_null()`."""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeAlias, assert_never

from situ.core.errors import QueryError, did_you_mean
from situ.core.time import parse_duration
from situ.core.types import TYPE_NAMES, Decimal, Type
from situ.graph.expressions import (
    Aggregate,
    AggregateName,
    Attribute,
    Binary,
    BinaryOperator,
    Call,
    Cast,
    Duration,
    EventTime,
    Expression,
    GroupKey,
    In,
    IsNull,
    Literal,
    Unary,
    WholeEvent,
)

Scalar: TypeAlias = bool | int | float | decimal.Decimal | str | timedelta | None


class NoSuchAttribute(QueryError, AttributeError):
    """An AttributeError too, because Python asks for one wherever a name is missing."""


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """An expression under construction; `node` is the frozen expression inside.

    `== < + ...` build expressions, `& | ~` mean and, or, not: Python's own `and`, `or`, `not` and `a < b < c` ask for
    a truth value, which an expression does not have.

    >>> (this.speed < 5).node
    Binary(operator='<', left=Attribute(alias=None, name='speed'), right=Literal(value=5))
    """

    node: Expression

    def __add__(self, other: Operand) -> Expr:
        return _binary("+", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return _binary("+", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return _binary("-", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return _binary("-", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return _binary("*", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return _binary("*", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return _binary("/", other, self)

    def __mod__(self, other: Operand) -> Expr:
        return _binary("%", self, other)

    def __rmod__(self, other: Operand) -> Expr:
        return _binary("%", other, self)

    def __eq__(self, other: Operand) -> Expr:  # type: ignore[override]
        return _binary("=", self, other)

    def __ne__(self, other: Operand) -> Expr:  # type: ignore[override]
        return _binary("!=", self, other)

    def __lt__(self, other: Operand) -> Expr:
        return _binary("<", self, other)

    def __le__(self, other: Operand) -> Expr:
        return _binary("<=", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return _binary(">", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return _binary(">=", self, other)

    def __and__(self, other: Operand) -> Expr:
        return _binary("and", self, other)

    def __rand__(self, other: Operand) -> Expr:
        return _binary("and", other, self)

    def __or__(self, other: Operand) -> Expr:
        return _binary("or", self, other)

    def __ror__(self, other: Operand) -> Expr:
        return _binary("or", other, self)

    def __neg__(self) -> Expr:
        return Expr(Unary("-", self.node))

    def __invert__(self) -> Expr:
        return Expr(Unary("not", self.node))

    def __bool__(self) -> bool:
        raise TypeError("an expression is neither true nor false: write & | ~ for and, or, not, and (a < b) & (b < c)")

    def is_null(self) -> Expr:
        return Expr(IsNull(self.node))

    def is_not_null(self) -> Expr:
        return Expr(IsNull(self.node, negated=True))

    def in_(self, *values: Scalar) -> Expr:
        return Expr(In(self.node, tuple(map(_literal, values))))

    def not_in(self, *values: Scalar) -> Expr:
        return Expr(In(self.node, tuple(map(_literal, values)), negated=True))

    def between(self, low: Operand, high: Operand) -> Expr:
        """Both bounds included, as in the text."""
        return (self >= low) & (self <= high)

    def cast(self, type_: str | Type) -> Expr:
        return Expr(Cast(self.node, to_type(type_)))


class Aliased:
    """What an alias names: `a.speed` is an attribute of its event.

    `a["speed"]` says the same, also for an attribute that shares its name with a method (`a["first"]`).
    """

    __slots__ = ()

    def _alias(self) -> str:
        raise NotImplementedError

    def _attributes(self) -> tuple[str, ...] | None:
        """The attributes of the event type; None where they are not known."""
        raise NotImplementedError

    def __getitem__(self, name: str) -> Expr:
        attributes = self._attributes()
        if attributes is not None and name not in attributes:
            raise NoSuchAttribute(f"{self._alias()} has no attribute '{name}'", remedy=did_you_mean(name, attributes))
        return Expr(Attribute(self._alias(), name))

    def __getattr__(self, name: str) -> Expr:
        if name.startswith("_"):  # Python and notebooks look for many of these
            raise AttributeError(name)
        return self[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(self._attributes() or ())]


Operand: TypeAlias = Expr | Aliased | Scalar


class This:
    """`this.speed`: an attribute of the event under test, or in a `post` part a name that the `pre` part assigned."""

    def __getattr__(self, name: str) -> Expr:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Expr:
        return Expr(Attribute(None, name))


class FunctionNamespace:
    """`fn.abs(x)`, `fn.FaceDetect(video)`: built-in functions and those that the user registered, by name."""

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*arguments: Operand) -> Expr:
            return Expr(Call(name, tuple(map(to_expression, arguments))))

        return call


this = This()
fn = FunctionNamespace()


def literal(value: Scalar) -> Expr:
    """A constant; needed only where no other expression is near: `literal(1) / 3`.

    >>> literal(timedelta(seconds=3)).node
    Literal(value=Duration(micros=3000000))
    """
    return Expr(_literal(value))


def group_key(name: str) -> Expr:
    """`group.location`: the group's value of a `group by` attribute."""
    return Expr(GroupKey(name))


def time_of(event: Aliased) -> Expr:
    """`time(a)`: the event time of an alias' event."""
    return Expr(EventTime(event._alias()))


def count(what: Operand) -> Expr:
    """`count(jam)` counts events, `count(jam.lane)` values that are not null."""
    return _aggregate("count", what)


def count_distinct(what: Operand) -> Expr:
    return Expr(Aggregate("count", to_expression(what), distinct=True))


def sum_(what: Operand) -> Expr:
    return _aggregate("sum", what)


def avg(what: Operand) -> Expr:
    return _aggregate("avg", what)


def min_(what: Operand) -> Expr:
    return _aggregate("min", what)


def max_(what: Operand) -> Expr:
    return _aggregate("max", what)


def first(what: Operand, offset: int = 0) -> Expr:
    """`first(jam.speed)`, and `first(jam.speed, 1)` of the event after the first one."""
    return Expr(Aggregate("first", to_expression(what), offset=offset))


def last(what: Operand, offset: int = 0) -> Expr:
    """`last(jam.speed)`, and `last(jam.speed, 1)` of the event before the last one."""
    return Expr(Aggregate("last", to_expression(what), offset=offset))


def collect(what: Operand) -> Expr:
    """`collect(jam.speed)`: the values of all events as a list, nulls too. Subscriptions assign lists."""
    return _aggregate("collect", what)


def stddev(what: Operand) -> Expr:
    return _aggregate("stddev", what)


def to_expression(operand: Operand) -> Expression:
    """The frozen expression; an alias becomes a bare name, as `parse` reads it."""
    match operand:
        case Expr(node):
            return node
        case Aliased():
            return Attribute(None, operand._alias())
        case _:
            return _literal(operand)


def to_micros(duration: str | timedelta) -> int:
    """Microseconds of `"3 s"` or a timedelta."""
    if isinstance(duration, timedelta):
        duration = f"{duration // timedelta(microseconds=1)} us"
    try:
        return parse_duration(duration.strip().lower())
    except ValueError:
        raise QueryError(f"'{duration}' is no duration", remedy="Write for example '500 ms', '3 s', '5 min'.") from None


def to_type(type_: str | Type) -> Type:
    """The type that `"double"` or `"decimal(10, 2)"` names."""
    if not isinstance(type_, str):
        return type_
    if type_ in TYPE_NAMES:
        return TYPE_NAMES[type_]
    parameters = re.fullmatch(r"decimal\((\d+), ?(\d+)\)", type_)
    if parameters is None:
        raise QueryError(f"there is no type '{type_}'", remedy=did_you_mean(type_, [*TYPE_NAMES, "decimal(p, s)"]))
    return Decimal(int(parameters[1]), int(parameters[2]))


def without_alias(expression: Expression, alias: str) -> Expression:
    """`b.speed < a.speed` as a condition of b -> `speed < a.speed`.

    Inside an aggregate the alias stays: there it means the events taken so far, not the event under test.
    """

    def inside(child: Expression) -> Expression:
        return without_alias(child, alias)

    match expression:
        case Attribute(qualifier, name):
            return Attribute(None, name) if qualifier == alias else expression
        case Unary(_, operand) | IsNull(operand) | In(operand) | Cast(operand):
            return replace(expression, operand=inside(operand))
        case Binary(_, left, right):
            return replace(expression, left=inside(left), right=inside(right))
        case Call(_, arguments):
            return replace(expression, arguments=tuple(map(inside, arguments)))
        case Literal() | EventTime() | WholeEvent() | GroupKey() | Aggregate():
            return expression
        case _:
            assert_never(expression)


def _binary(operator: BinaryOperator, left: Operand, right: Operand) -> Expr:
    return Expr(Binary(operator, to_expression(left), to_expression(right)))


def _aggregate(function: AggregateName, what: Operand) -> Expr:
    return Expr(Aggregate(function, to_expression(what)))


def _literal(value: Scalar) -> Literal:
    if isinstance(value, float | decimal.Decimal) and not math.isfinite(value):
        raise QueryError(f"{value} is no constant of the language", remedy="Compute it, or write None for null.")
    return Literal(Duration(to_micros(value)) if isinstance(value, timedelta) else value)
