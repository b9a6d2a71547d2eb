"""Random typed expressions about one event, and rows with the values at which engines tend to differ."""

from __future__ import annotations

import decimal
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from situ.core.errors import QueryError
from situ.core.types import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_ARROW,
    Decimal,
    Type,
    to_arrow,
)
from situ.graph.expressions import (
    Attribute,
    Binary,
    Call,
    Cast,
    Duration,
    EventTime,
    Expression,
    In,
    IsNull,
    Literal,
    Unary,
)
from situ.graph.operators import Schema
from situ.graph.typing import THIS, Scope, type_of

SMALL, WIDE, FINE, WHOLE, LONG = Decimal(9, 2), Decimal(38, 10), Decimal(18, 18), Decimal(38, 0), Decimal(38, 37)
SCHEMA = Schema((
    ("i", INT), ("j", INT), ("d", DOUBLE), ("e", DOUBLE), ("s", STRING), ("t", STRING), ("b", BOOLEAN), ("c", BINARY),
    ("m", SMALL), ("w", WIDE), ("f", FINE), ("n", WHOLE), ("l", LONG), ("at", TIMESTAMP),
))  # fmt: skip
SCOPE = Scope({}).with_this("A", SCHEMA)

SMALLEST, LARGEST = -(2**63), 2**63 - 1
INTEGERS = [0, 1, -1, 2, 3, 7, -9, 10, 2**31, -(2**31), 2**53, 2**53 + 1, 10**18, SMALLEST, SMALLEST + 1, LARGEST]
DOUBLES = [0.0, -0.0, 0.5, -0.5, 0.1, -2.25, 1.5, 3.0, 7.0, 1e15, 2.0**53, 2.0**62, 2.0**63, -(2.0**63), 1e300, 5e-324,
           9.223372036854775e18, -9.223372036854778e18, math.pi, math.nan, math.inf, -math.inf]  # fmt: skip
TEXTS = ["", "a", "ab", "Ab", "AB", "Straße", "STRASSE", "é😀x", "İi", "ΑΣ", "\x00", " ", "true", "T", "yes", "N",
         "fAlse", "0", "1", "12", "-3", "+7", "--1", "+", "1 2", "1_0", " 7 ", "\t8\n", "\x7f9\x00", "\u00a07", "٣",
         "𝟏", "1.5", "-.5", "1.", ".", "1e3", "1E-3", "5e-11", "1e400", "-1e-400", "1e2147483648", "0e99999999999",
         "-0", "-0.0", "NaN", "-NaN", "-nan", "inf", "-Infinity", "+INF", " infinity ", "1.5d", "2F", "1e3f", "0x1p3",
         "0x1.8P-1d", "-0x1p9999", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "0" * 30 + "1",
         "99999999.995", "9999999.994", "0." + "3" * 40, "1234567890" * 3 + "12345678", "1234567890" * 3 + "123456789",
         "2020-01-31"]  # fmt: skip
BYTES = [b"", b"a", b"\xff", b"\x80", "é😀".encode(), b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"ab\x00"]
MICROS = [0, 1, -1, 999, 1000, 1_000_000, 1_580_468_400_123_456, 2**53 + 1, -62_135_596_800_000_000]
DURATIONS = [0, 1, 1000, 1_000_000, 60_000_000, 2**60]


def decimals(type_: Decimal) -> list[decimal.Decimal]:
    """Some that fit."""
    largest = 10**type_.precision - 1
    unscaled = [0, 1, -1, 5, -5, 10**type_.scale, 3 * 10**type_.scale, largest, -largest, largest // 3, 149, 150, 250,
                largest // 7 * 5, -(largest // 2)]  # fmt: skip
    context = decimal.Context(prec=80)
    return [decimal.Decimal(u).scaleb(-type_.scale, context) for u in unscaled if abs(u) <= largest]


def edge_values(type_: Type) -> list[Any]:
    """Python values of a type; a time or a duration in microseconds."""
    if isinstance(type_, Decimal):
        return decimals(type_)
    return {INT: INTEGERS, DOUBLE: DOUBLES, STRING: TEXTS, BOOLEAN: [True, False], BINARY: BYTES, TIMESTAMP: MICROS,
            DURATION: DURATIONS}[type_]  # fmt: skip


def random_rows(rng: random.Random, count: int) -> tuple[pa.RecordBatch, pa.Array]:
    """Attributes and times. Each value of the edge of each type occurs, if there are enough rows; so do nulls."""
    columns = {}
    for name, type_ in SCHEMA.attributes:
        edge = [*edge_values(type_), None]
        values = (edge * (count // len(edge) + 1))[:count] if count >= len(edge) else rng.choices(edge, k=count)
        rng.shuffle(values)
        array = pa.array(values, pa.int64() if type_ == TIMESTAMP else to_arrow(type_))
        columns[name] = array.cast(to_arrow(type_))
    times = pa.array(rng.choices(MICROS, k=count), pa.int64()).cast(TIMESTAMP_ARROW)
    return pa.record_batch(columns), times


KINDS = [BOOLEAN] * 5 + [INT, DOUBLE, STRING, BINARY, TIMESTAMP, DURATION, SMALL, SMALL]


@dataclass(frozen=True)
class RandomExpressions:
    """Draws expressions, mostly conditions."""

    rng: random.Random

    def any(self, depth: int, kinds: Sequence[Type] = KINDS) -> Expression:
        """One that the language accepts. It refuses some nulls, whose type would have to be known."""
        while True:
            expression = self.of(self.rng.choice(kinds), depth)
            try:
                type_of(expression, SCOPE)
            except QueryError:
                continue
            return expression

    def of(self, type_: Type, depth: int) -> Expression:
        """An expression of a type; for a decimal, of any digits."""
        if depth == 0 or self.rng.random() < 0.15:
            return self.leaf(type_)
        makers = {
            INT: self.integer,
            DOUBLE: self.double,
            STRING: self.text,
            BOOLEAN: self.condition,
            BINARY: self.binary,
            TIMESTAMP: self.time,
            DURATION: self.duration,
        }
        make = self.decimal if isinstance(type_, Decimal) else makers[type_]
        if self.rng.random() < 0.25:
            return self.choice(type_, depth)
        return make(depth)

    def leaf(self, type_: Type) -> Expression:
        chance = self.rng.random()
        if chance < 0.05:
            return Literal(None)
        names = [
            n for n, t in SCHEMA.attributes if t == type_ or (isinstance(t, Decimal) and isinstance(type_, Decimal))
        ]
        if type_ == DURATION or (type_ not in (TIMESTAMP, BINARY) and chance < 0.4):
            return self.literal(type_)
        if type_ == TIMESTAMP and chance < 0.3:
            return EventTime(THIS)
        if type_ == TIMESTAMP and chance < 0.5:
            return Cast(Literal("2020-01-31 12:30:00.5"), TIMESTAMP)
        return Attribute(THIS, self.rng.choice(names))

    def literal(self, type_: Type) -> Literal:
        if isinstance(type_, Decimal):
            type_ = self.rng.choice([SMALL, WIDE, FINE, WHOLE, LONG, Decimal(3, 1), Decimal(1, 0)])
        value = self.rng.choice(edge_values(type_))
        return Literal(Duration(value) if type_ == DURATION else value)

    def number(self, depth: int) -> Expression:
        return self.of(self.rng.choice([INT, DOUBLE, SMALL]), depth)

    def choice(self, type_: Type, depth: int) -> Expression:
        """`if`, `coalesce` and their like, of every type."""
        one, other = self.of(type_, depth - 1), self.of(type_, depth - 1)
        function = self.rng.choice(["if", "coalesce", "least", "greatest"])
        return Call(function, (self.of(BOOLEAN, depth - 1), one, other) if function == "if" else (one, other))

    def pick(self, *makers: Callable[[], Expression]) -> Expression:
        return self.rng.choice(makers)()

    def integer(self, depth: int) -> Expression:
        d = depth - 1
        return self.pick(
            lambda: Binary(self.rng.choice(["+", "-", "*", "%"]), self.of(INT, d), self.of(INT, d)),
            lambda: Unary("-", self.of(INT, d)),
            lambda: Call(self.rng.choice(["abs", "floor", "ceil"]), (self.of(INT, d),)),
            lambda: Call(self.rng.choice(["floor", "ceil"]), (self.of(DOUBLE, d),)),
            lambda: Call("length", (self.of(self.rng.choice([STRING, BINARY]), d),)),
            lambda: Cast(self.of(self.rng.choice([DOUBLE, STRING, BOOLEAN, SMALL]), d), INT),
        )

    def double(self, depth: int) -> Expression:
        d = depth - 1
        return self.pick(
            lambda: Binary(self.rng.choice(["+", "-", "*", "/", "%"]), self.of(DOUBLE, d), self.number(d)),
            lambda: Binary(self.rng.choice(["+", "-", "*", "/", "%"]), self.number(d), self.of(DOUBLE, d)),
            lambda: Binary("/", self.of(INT, d), self.of(INT, d)),
            lambda: Unary("-", self.of(DOUBLE, d)),
            lambda: Call(self.rng.choice(["abs", "sqrt"]), (self.of(DOUBLE, d),)),
            lambda: Call("sqrt", (self.number(d),)),
            lambda: Call("distance", tuple(self.number(d) for _ in range(4))),
            lambda: Cast(self.of(self.rng.choice([INT, STRING, BOOLEAN, SMALL]), d), DOUBLE),
        )

    def decimal(self, depth: int) -> Expression:
        d = depth - 1
        types = [SMALL, WIDE, FINE, WHOLE, LONG, Decimal(38, 38), Decimal(2, 1), Decimal(20, 5)]
        return self.pick(
            lambda: Binary(self.rng.choice(["+", "-", "*", "/", "%"]), self.of(SMALL, d), self.of(SMALL, d)),
            lambda: Binary(self.rng.choice(["+", "-", "*", "/", "%"]), self.of(SMALL, d), self.of(INT, d)),
            lambda: Binary(self.rng.choice(["+", "-", "*", "/", "%"]), self.of(INT, d), self.of(SMALL, d)),
            lambda: Unary("-", self.of(SMALL, d)),
            lambda: Call(self.rng.choice(["abs", "floor", "ceil"]), (self.of(SMALL, d),)),
            lambda: Cast(self.of(self.rng.choice([INT, STRING, BOOLEAN, SMALL]), d), self.rng.choice(types)),
        )

    def text(self, depth: int) -> Expression:
        d = depth - 1

        def place() -> Expression:
            return self.rng.choice([Literal(self.rng.randint(-4, 5)), self.of(INT, d)])

        return self.pick(
            lambda: Call("concat", tuple(self.of(STRING, d) for _ in range(self.rng.randint(1, 3)))),
            lambda: Call("substring", (self.of(STRING, d), place())),
            lambda: Call("substring", (self.of(STRING, d), place(), Literal(self.rng.randint(-1, 4)))),
            lambda: Call("substring", (self.of(STRING, d), Literal(self.rng.randint(-4, 4)), place())),
            lambda: Cast(self.of(self.rng.choice([INT, BOOLEAN, BINARY, SMALL]), d), STRING),
        )

    def binary(self, depth: int) -> Expression:
        return Cast(self.of(STRING, depth - 1), BINARY)

    def time(self, depth: int) -> Expression:
        d = depth - 1
        return self.pick(
            lambda: Binary(self.rng.choice(["+", "-"]), self.of(TIMESTAMP, d), self.of(DURATION, d)),
            lambda: Binary("+", self.of(DURATION, d), self.of(TIMESTAMP, d)),
        )

    def duration(self, depth: int) -> Expression:
        d = depth - 1
        return self.pick(
            lambda: Binary(self.rng.choice(["+", "-"]), self.of(DURATION, d), self.of(DURATION, d)),
            lambda: Binary("-", self.of(TIMESTAMP, d), self.of(TIMESTAMP, d)),
            lambda: Binary("*", self.of(DURATION, d), self.of(INT, d)),
            lambda: Unary("-", self.of(DURATION, d)),
        )

    def condition(self, depth: int) -> Expression:
        d = depth - 1
        kinds = [INT, DOUBLE, STRING, BOOLEAN, BINARY, TIMESTAMP, DURATION, SMALL]
        compare = ["=", "!=", "<", "<=", ">", ">="]

        def same() -> Expression:
            kind = self.rng.choice(kinds)
            return Binary(self.rng.choice(compare), self.of(kind, d), self.of(kind, d))

        def member() -> Expression:
            kind = self.rng.choice([k for k in kinds if k not in (BINARY, TIMESTAMP)])
            items = [self.literal(kind) for _ in range(self.rng.choice([1, 2, 5, 15]))]
            if kind in (INT, DOUBLE, SMALL) and self.rng.random() < 0.3:
                items += [self.literal(t) for t in (INT, DOUBLE, SMALL)]
            items += [Literal(None)] * (self.rng.random() < 0.3)
            return In(self.of(kind, d), tuple(items), self.rng.random() < 0.4)

        return self.pick(
            same,
            same,
            lambda: Binary(self.rng.choice(compare), self.number(d), self.number(d)),
            member,
            lambda: Binary(self.rng.choice(["and", "or"]), self.of(BOOLEAN, d), self.of(BOOLEAN, d)),
            lambda: Unary("not", self.of(BOOLEAN, d)),
            lambda: IsNull(self.of(self.rng.choice(kinds), d), self.rng.random() < 0.5),
            lambda: Cast(self.of(self.rng.choice([INT, DOUBLE, STRING, SMALL]), d), BOOLEAN),
            lambda: Binary("=", Call(self.rng.choice(["lower", "upper"]), (self.of(STRING, d),)), Literal("ab")),
        )
