"""Value types of the language and their Arrow form."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import pyarrow as pa


class Simple(Enum):
    """Types without parameters. Integers are 64 bit, times and durations are microseconds."""

    BOOLEAN = "boolean"
    INT = "int"
    DOUBLE = "double"
    STRING = "string"
    BINARY = "binary"
    TIMESTAMP = "timestamp"
    DURATION = "duration"
    NULL = "null"  # the type of the literal null; fits everywhere

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Decimal:
    """Exact decimal numbers, as Spark's decimal(precision, scale)."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True)
class Row:
    """A whole event of a type, as a user's function receives it (a dict of its attributes)."""

    event_type: str

    def __str__(self) -> str:
        return f"event {self.event_type}"


@dataclass(frozen=True, slots=True)
class List:
    """The values of several events, in order, as `collect` gives them. Results have lists, streams do not."""

    element: Simple | Decimal

    def __str__(self) -> str:
        return f"list of {self.element}"


Type: TypeAlias = Simple | Decimal | Row | List

BOOLEAN, INT, DOUBLE, STRING = Simple.BOOLEAN, Simple.INT, Simple.DOUBLE, Simple.STRING
BINARY, TIMESTAMP, DURATION, NULL = Simple.BINARY, Simple.TIMESTAMP, Simple.DURATION, Simple.NULL

TIMESTAMP_ARROW = pa.timestamp("us", tz="UTC")

#: The names that a `stream` declaration may use for each type; the first one is how it is printed.
TYPE_NAMES: dict[str, Type] = {
    "boolean": BOOLEAN,
    "bool": BOOLEAN,
    "int": INT,
    "integer": INT,
    "long": INT,
    "bigint": INT,
    "smallint": INT,
    "double": DOUBLE,
    "float": DOUBLE,
    "string": STRING,
    "binary": BINARY,
    "timestamp": TIMESTAMP,
}

_ARROW: dict[Simple, pa.DataType] = {
    BOOLEAN: pa.bool_(),
    INT: pa.int64(),
    DOUBLE: pa.float64(),
    STRING: pa.string(),
    BINARY: pa.binary(),
    TIMESTAMP: TIMESTAMP_ARROW,
    DURATION: pa.duration("us"),
    NULL: pa.null(),
}


def to_arrow(type_: Type) -> pa.DataType:
    """The Arrow type that columns of `type_` have inside situ.

    >>> to_arrow(Decimal(10, 2))
    Decimal128Type(decimal128(10, 2))
    >>> to_arrow(List(INT))
    ListType(list<item: int64>)
    """
    match type_:
        case Simple():
            return _ARROW[type_]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case List(element):
            return pa.list_(to_arrow(element))
        case Row():
            raise TypeError("a whole event has no column type")


def is_numeric(type_: Type) -> bool:
    return type_ in (INT, DOUBLE, NULL) or isinstance(type_, Decimal)
