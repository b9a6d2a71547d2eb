"""Values of the language as Catalyst columns: constants, casts, and the digits of decimals.

Times and durations are microseconds in a bigint, so that their arithmetic is exact and knows no session time zone.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from pyspark.sql import Column
from pyspark.sql import functions as F

from situ.core.types import BINARY, DOUBLE, DURATION, INT, NULL, STRING, TIMESTAMP, Decimal, Row, Type
from situ.graph.decimals import INT_AS_DECIMAL, MAX_PRECISION, decimal_of_literal

#: Nodes of one column. Some translations name an operand twice, which would double the size at every level of nesting.
LARGEST = 5_000

#: Levels of one column, each of which is up to three of Catalyst's. Its analyzer overflows Java's stack from 200 on.
DEEPEST = 60


class NotExactError(Exception):
    """Catalyst cannot say this, or not exactly: the kernel will."""


class Unknown:
    """The value of what is no constant."""


#: What a constant may be; a time or a duration is its microseconds.
Known: TypeAlias = bool | int | float | decimal.Decimal | str | bytes | None
UNKNOWN: Final = Unknown()

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A sub-expression: how its column is made of the columns of its parts.

    No column is made before `to_column`, so that one can ask without a Spark session what Catalyst can say.
    `known` is the value of a constant. `stored` is the attribute that a plain reference reads: what a data source
    can filter by itself.
    """

    type: Type
    make: Callable[..., Column]
    parts: tuple[Value, ...] = ()
    size: int = 1
    depth: int = 1
    known: Known | Unknown = UNKNOWN
    stored: Value | None = None


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Where the columns of an event are: of its attributes, and of its time in microseconds."""

    attribute: Callable[[str], Column]
    time: Column


def to_column(value: Value, source: EventColumns) -> Column:
    """The column of a value; what only refers is made of the source, all else of the columns of its parts."""
    parts = [to_column(part, source) for part in value.parts]
    return value.make(*parts) if parts else value.make(source)


def made_of(type_: Type, make: Callable[..., Column], *parts: Value, uses: int = 1) -> Value:
    """The value that `make` makes of its parts, each of which it names `uses` times."""
    size = 1 + uses * sum(part.size for part in parts)
    depth = 1 + max(part.depth for part in parts)
    if size > LARGEST or depth > DEEPEST:
        raise NotExactError(f"{size} nodes, {depth} levels")
    return Value(type_, make, parts, size, depth)


def in_pairs(combine: Callable[[Item, Item], Item], items: Sequence[Item]) -> Item:
    """All items combined, from left to right, as a tree of little depth.

    >>> in_pairs(lambda left, right: f"({left} {right})", ["a", "b", "c", "d", "e"])
    '(((a b) (c d)) e)'
    """
    while len(items) > 1:
        pairs = [items[n : n + 2] for n in range(0, len(items), 2)]
        items = [combine(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return items[0]


def reference(name: str, type_: Type) -> Value:
    """An attribute of the event."""
    stored = Value(type_, lambda source: source.attribute(name))
    if type_ == TIMESTAMP:
        return Value(type_, F.unix_micros, (stored,), 2, 2, stored=stored)
    return Value(type_, stored.make, stored=stored)


def event_time() -> Value:
    """The time of the event."""
    return Value(TIMESTAMP, lambda source: source.time)


def constant(value: Known, type_: Type) -> Value:
    """The constant `value`, which `type_` holds."""
    return Value(type_, lambda _: literal(value, type_), known=value)


def null_of(type_: Type) -> Value:
    """The constant null of a type."""
    return constant(None, type_)


def literal(value: Known, type_: Type) -> Column:
    """The column of a constant."""
    if isinstance(value, decimal.Decimal):
        value = format(value, "f")  # as text: a decimal literal of Spark's would choose its digits by itself
    plain = F.lit(value)
    return plain if type_ in (DOUBLE, STRING, BINARY) and value is not None else plain.cast(spark_type(type_))


def spark_type(type_: Type) -> str:
    """The Spark SQL type of the column of a value.

    >>> spark_type(Decimal(10, 2)), spark_type(TIMESTAMP)
    ('decimal(10, 2)', 'bigint')
    """
    if isinstance(type_, Row):
        raise NotExactError("a whole event is no value")
    if type_ in (INT, TIMESTAMP, DURATION):
        return "bigint"
    return "void" if type_ == NULL else str(type_)


# --- Casts ------------------------------------------------------------------------------------------------------------


def cast(value: Value, type_: Type) -> Value:
    """`cast(value as type)`: null where it does not fit, in ANSI mode and without it."""
    if value.type == type_:
        return value
    if value.known is None:
        return null_of(type_)
    return made_of(type_, _caster(value.type, type_), value)


def _caster(source: Type, target: Type) -> Callable[[Column], Column]:
    """How a column of one type becomes one of another."""
    if source == DOUBLE and target == INT:
        return _double_to_int
    if source == BINARY and target == STRING:
        # Spark takes any bytes for a string, the language only UTF-8.
        return lambda column: F.try_validate_utf8(column.cast("string"))
    if source == DOUBLE and (target == STRING or isinstance(target, Decimal)):
        raise NotExactError("Java before 19 does not write the shortest text of a double, and makes decimals of it")
    if TIMESTAMP in (source, target):
        raise NotExactError("Spark reads other texts as times than the language, and writes the session's time zone")
    # In both modes `try_cast` reads and writes as ANSI mode does: '1.5' is no integer, a decimal has no exponent.
    return lambda column: column.try_cast(spark_type(target))


def _double_to_int(column: Column) -> Column:
    """Spark gives the largest bigint for 2^63, and for no other double: one up and one down makes that null."""
    one = F.lit(1).cast("bigint")
    return F.try_subtract(F.try_add(column.try_cast("bigint"), one), one)


# --- Decimals ---------------------------------------------------------------------------------------------------------


def as_decimal(value: Value) -> Value:
    """An integer or decimal as a decimal; a constant gets only the digits that it needs."""
    if isinstance(value.type, Decimal):
        return value
    if isinstance(value.known, int):
        exact = decimal.Decimal(value.known)
        return constant(exact, decimal_of_literal(exact))
    return cast(value, INT_AS_DECIMAL)


def alike(values: list[Value]) -> list[Value]:
    """Integers and decimals at one precision and scale that loses no digit of any: so they compare exactly."""
    decimals = [as_decimal(value) for value in values]
    types = [value.type for value in decimals if isinstance(value.type, Decimal)]
    scale = max(type_.scale for type_ in types)
    precision = max(type_.precision - type_.scale for type_ in types) + scale
    if precision > MAX_PRECISION:
        raise NotExactError(f"a comparison of {precision} digits")
    common = Decimal(precision, scale)
    return [
        constant(value.known, common) if isinstance(value.known, decimal.Decimal) else cast(value, common)
        for value in decimals
    ]


def negatable(value: Value) -> Value:
    """The value, if Spark can negate it: it rounds decimals to 34 digits there."""
    if isinstance(value.type, Decimal) and value.type.precision > 34:
        raise NotExactError("the opposite of a decimal of more than 34 digits")
    return value
