"""Built-in functions as Catalyst columns."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from situ.core.types import BOOLEAN, DOUBLE, INT, STRING, Decimal, Type
from situ.runtime.spark.catalyst.values import NotExactError, Value, cast, made_of, negatable, null_of

#: Positions and sizes of `substring` are 32 bit in Spark. No string has so many characters.
_FAR = 2**31 - 1
_SOME = 2**30


def call_built_in(function: str, type_: Type, arguments: Sequence[Value]) -> Value:
    """A built-in function that gives `type_`; raises NotExactError for one that Spark computes otherwise."""
    match function:
        case "coalesce" | "least" | "greatest":
            return made_of(type_, _CHOICES[function], *(cast(argument, type_) for argument in arguments))
        case "if":
            condition, then, otherwise = arguments
            parts = cast(condition, BOOLEAN), cast(then, type_), cast(otherwise, type_)
            return made_of(type_, lambda test, yes, no: F.when(test, yes).otherwise(no), *parts)
    if any(argument.known is None for argument in arguments):
        return null_of(type_)
    match function:
        case "abs":
            return made_of(type_, _absolute_integer if type_ == INT else F.abs, negatable(arguments[0]))
        case "floor" | "ceil":
            return _rounded(function, type_, arguments[0])
        case "sqrt":
            return made_of(type_, F.sqrt, cast(arguments[0], DOUBLE))
        case "distance":
            x1, y1, x2, y2 = (cast(argument, DOUBLE) for argument in arguments)
            sides = (made_of(DOUBLE, lambda a, b: a - b, *pair) for pair in ((x1, x2), (y1, y2)))
            return made_of(type_, lambda dx, dy: F.sqrt(dx * dx + dy * dy), *sides, uses=2)
        case "length":
            return made_of(type_, lambda text: F.length(text).cast("bigint"), arguments[0])
        case "concat":
            return made_of(type_, F.concat, *arguments)
        case "substring":
            return _substring(*arguments)
        case "power":
            raise NotExactError("the last bit differs: Java and C round powers each in their own way")
        case "lower" | "upper":
            raise NotExactError("Python and Spark have different versions of Unicode")
        case _:
            raise NotExactError(f"no function {function!r}")


#: Both engines pass over nulls, take the first of equals, and hold NaN for the largest number.
_CHOICES = {"coalesce": F.coalesce, "least": F.least, "greatest": F.greatest}


def _absolute_integer(column: Column) -> Column:
    """By way of a decimal, which has room for the opposite of the smallest integer: that one gives null."""
    return F.abs(column.cast("decimal(20, 0)")).try_cast("bigint")


def _rounded(function: str, type_: Type, value: Value) -> Value:
    """Spark's `floor` of a double fails, or gives the nearest bigint, where the result does not fit."""
    if value.type == INT:
        return value
    make = F.floor if function == "floor" else F.ceil
    if isinstance(value.type, Decimal):
        return made_of(type_, make, value)

    def inside(column: Column) -> Column:
        return F.when((column >= F.lit(-(2.0**63))) & (column < F.lit(2.0**63)), make(column))

    return made_of(type_, inside, value, uses=3)


def _substring(text: Value, position: Value, size: Value | None = None) -> Value:
    """One of position and size has to be a constant of 30 bits: then the other can be cut to 32 bits."""
    if size is None:
        return made_of(STRING, F.substr, text, _cut(position))
    if not any(isinstance(value.known, int) and abs(value.known) <= _SOME for value in (position, size)):
        raise NotExactError("Spark adds positions and sizes in 32 bits")
    return made_of(STRING, F.substr, text, _cut(position), _cut(size))


def _cut(value: Value) -> Value:
    """An integer as the nearest one of 32 bits. (`least` and `greatest` would pass over a null.)"""
    if isinstance(value.known, int):
        known = max(-_FAR, min(value.known, _FAR))
        return Value(INT, lambda _: F.lit(known), known=known)

    def cut(column: Column) -> Column:
        beyond = F.when(column > F.lit(_FAR), F.lit(_FAR)).when(column < F.lit(-_FAR), F.lit(-_FAR))
        return beyond.otherwise(column.try_cast("int"))

    return made_of(INT, cut, value, uses=3)
