"""Expressions: what conditions and assignments are made of.

Frozen and comparable; `place` says where a node stood in a text and takes no part in equality.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf
from typing import TypeAlias, assert_never

from situ.core.errors import Place
from situ.core.types import Type


@dataclass(frozen=True, slots=True)
class Duration:
    """The value of a duration literal, in microseconds."""

    micros: int


@dataclass(frozen=True, slots=True)
class Literal:
    """`3`, `2.5`, `1.10d` (decimal), `'text'`, `true`, `null`, `5 min`.

    The Python class of `value` gives the type: bool, int, float, decimal.Decimal, str, Duration, None.
    """

    value: bool | int | float | decimal.Decimal | str | Duration | None
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __eq__(self, other: object) -> bool:
        """Python says 1 == 1.0 == True and 1.1d == 1.10d, but what is computed with them has different types."""
        return isinstance(other, Literal) and repr(self.value) == repr(other.value)


@dataclass(frozen=True, slots=True)
class Attribute:
    """`a.speed`; `speed` alone (alias None) is the event under test. Resolving fills the alias in."""

    alias: str | None
    name: str
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class EventTime:
    """`time(a)`: the event time of an alias' event."""

    alias: str
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class WholeEvent:
    """`Video` as the argument of a user's function: all attributes of the event."""

    alias: str
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class GroupKey:
    """`group.location`: the group's value of a `group by` attribute."""

    name: str
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


AggregateName: TypeAlias = OneOf["count", "sum", "avg", "min", "max", "first", "last", "stddev", "collect"]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`count(jam)`, `sum(jam.speed * 2)`, `count(distinct jam.lane)`: over all events of one repeating alias.

    `argument` is a WholeEvent for `count(jam)`, else an expression whose references are all to one alias.
    In the `<post>` part of an aggregation the argument refers to pre-assigned names as Attribute(None, name).
    `offset` is how many events `first` passes over from the beginning, and `last` from the end: `last(jam.speed, 1)`.
    """

    function: AggregateName
    argument: Expression
    distinct: bool = False
    offset: int = 0
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


UnaryOperator: TypeAlias = OneOf["-", "not"]
BinaryOperator: TypeAlias = OneOf["+", "-", "*", "/", "%", "=", "!=", "<", "<=", ">", ">=", "and", "or"]


@dataclass(frozen=True, slots=True)
class Unary:
    operator: UnaryOperator
    operand: Expression
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Binary:
    operator: BinaryOperator
    left: Expression
    right: Expression
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class IsNull:
    """`x is null`, `x is not null`."""

    operand: Expression
    negated: bool = False
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class In:
    """`lane in ('a', 'b')`, `lane not in (...)`."""

    operand: Expression
    items: tuple[Literal, ...]
    negated: bool = False
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Cast:
    """`cast(x as double)`; a value that does not fit gives null."""

    operand: Expression
    type: Type
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Call:
    """A built-in function (`abs`, `coalesce`, ...) or one that the user registered by name."""

    function: str
    arguments: tuple[Expression, ...]
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


Expression: TypeAlias = (
    Literal | Attribute | EventTime | WholeEvent | GroupKey | Aggregate | Unary | Binary | IsNull | In | Cast | Call
)


def children(expression: Expression) -> tuple[Expression, ...]:
    """The direct sub-expressions."""
    match expression:
        case Literal() | Attribute() | EventTime() | WholeEvent() | GroupKey():
            return ()
        case Aggregate(_, argument):
            return (argument,)
        case Unary(_, operand) | IsNull(operand) | In(operand) | Cast(operand):
            return (operand,)
        case Binary(_, left, right):
            return (left, right)
        case Call(_, arguments):
            return arguments
        case _:
            assert_never(expression)


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything below it."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def aliases_of(expression: Expression) -> frozenset[str]:
    """The aliases that an expression reads.

    >>> sorted(aliases_of(Binary("<", Attribute("b", "speed"), Attribute("a", "speed"))))
    ['a', 'b']
    """
    return frozenset(
        node.alias
        for node in walk(expression)
        if isinstance(node, Attribute | EventTime | WholeEvent) and node.alias is not None
    )


def conjuncts(condition: Expression | None) -> tuple[Expression, ...]:
    """`a and b and c` -> (a, b, c); no condition -> ()."""
    if condition is None:
        return ()
    if isinstance(condition, Binary) and condition.operator == "and":
        return conjuncts(condition.left) + conjuncts(condition.right)
    return (condition,)


def replace_children(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The expression with `change` applied to its direct sub-expressions."""
    match expression:
        case Literal() | Attribute() | EventTime() | WholeEvent() | GroupKey():
            return expression
        case Aggregate(_, argument):
            return replace(expression, argument=change(argument))
        case Unary() | IsNull() | In() | Cast():
            return replace(expression, operand=change(expression.operand))
        case Binary(_, left, right):
            return replace(expression, left=change(left), right=change(right))
        case Call(_, arguments):
            return replace(expression, arguments=tuple(map(change, arguments)))
        case _:
            assert_never(expression)


def rename_alias(expression: Expression, old: str, new: str) -> Expression:
    """The expression with one alias renamed.

    >>> rename_alias(Attribute("this", "speed"), "this", "a")
    Attribute(alias='a', name='speed')
    """
    match expression:
        case Attribute(alias) | EventTime(alias) | WholeEvent(alias) if alias == old:
            return replace(expression, alias=new)
        case _:
            return replace_children(expression, lambda child: rename_alias(child, old, new))
