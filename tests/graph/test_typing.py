"""Types of expressions, by Spark SQL's rules."""

import decimal

import pytest

from situ.core.errors import Place, QueryError
from situ.core.functions import Functions
from situ.core.types import BINARY, BOOLEAN, DOUBLE, DURATION, INT, NULL, STRING, TIMESTAMP, Decimal, Type
from situ.graph.expressions import (
    Aggregate,
    Attribute,
    Binary,
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
from situ.graph.operators import Schema
from situ.graph.typing import THIS, Scope, common_type, type_of

FUNCTIONS = Functions()
FUNCTIONS.register(lambda event: None, returns="string", name="Look")

#: One attribute of each type, named by its first letters.
SCOPE = Scope(
    {
        "a": Schema(
            (
                ("b", BOOLEAN),
                ("i", INT),
                ("x", DOUBLE),
                ("d", Decimal(10, 2)),
                ("s", STRING),
                ("raw", BINARY),
                ("t", TIMESTAMP),
                ("span", DURATION),
                ("nothing", NULL),
            )
        )
    },
    event_types={"a": "A"},
    group={"lane": STRING},
    functions=FUNCTIONS,
)


def a(name: str) -> Attribute:
    return Attribute("a", name)


def literal(value: object) -> Literal:
    return Literal(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (True, BOOLEAN),
        (1, INT),
        (-(2**63), INT),
        (1.5, DOUBLE),
        ("x", STRING),
        (None, NULL),
        (Duration(5), DURATION),
        (decimal.Decimal("1.10"), Decimal(3, 2)),
        (decimal.Decimal("0.05"), Decimal(2, 2)),
        (decimal.Decimal("1E+3"), Decimal(4, 0)),
    ],
)
def test_literals(value: object, type_: Type) -> None:
    assert type_of(literal(value), SCOPE) == type_


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, decimal.Decimal("1." + "1" * 38)])
def test_literals_that_no_type_holds(value: object) -> None:
    with pytest.raises(QueryError, match=r"64 bits|38 digits"):
        type_of(literal(value), SCOPE)


@pytest.mark.parametrize(
    ("left", "operator", "right", "type_"),
    [
        ("i", "+", "i", INT),
        ("i", "/", "i", DOUBLE),
        ("i", "%", "i", INT),
        ("i", "*", "x", DOUBLE),
        ("d", "+", "x", DOUBLE),
        # Spark: SELECT typeof(cast(1 as decimal(10, 2)) + cast(1 as bigint)) and so on
        ("d", "+", "i", Decimal(23, 2)),
        ("d", "*", "d", Decimal(21, 4)),
        ("d", "/", "d", Decimal(23, 13)),
        ("d", "%", "i", Decimal(10, 2)),
        ("d", "-", "d", Decimal(11, 2)),
        ("nothing", "+", "i", INT),
        ("nothing", "/", "i", DOUBLE),
        ("nothing", "+", "nothing", NULL),
        ("t", "-", "t", DURATION),
        ("t", "-", "span", TIMESTAMP),
        ("t", "+", "span", TIMESTAMP),
        ("span", "+", "t", TIMESTAMP),
        ("span", "+", "span", DURATION),
        ("span", "*", "i", DURATION),
        ("i", "*", "span", DURATION),
        ("t", "+", "nothing", TIMESTAMP),
        ("nothing", "*", "span", DURATION),
        ("s", "=", "s", BOOLEAN),
        ("i", "<", "d", BOOLEAN),
        ("t", ">=", "t", BOOLEAN),
        ("s", "!=", "nothing", BOOLEAN),
        ("b", "and", "nothing", BOOLEAN),
    ],
)
def test_operators(left: str, operator: str, right: str, type_: Type) -> None:
    assert type_of(Binary(operator, a(left), a(right)), SCOPE) == type_  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("left", "operator", "right", "cause"),
    [
        ("s", "+", "s", "`\\+` does not take string and string"),
        ("t", "+", "t", "does not take timestamp and timestamp"),
        ("span", "-", "t", "does not take duration and timestamp"),
        ("span", "*", "x", "does not take duration and double"),
        ("t", "+", "i", "does not take timestamp and int"),
        ("b", "+", "i", "does not take boolean and int"),
        ("s", "<", "i", "compares values of one type, not string and int"),
        ("t", "<", "span", "compares values of one type"),
        ("b", "=", "i", "compares values of one type"),
        ("b", "and", "i", "`and` takes conditions, not int"),
        ("x", "or", "b", "`or` takes conditions, not double"),
    ],
)
def test_operators_that_do_not_fit(left: str, operator: str, right: str, cause: str) -> None:
    with pytest.raises(QueryError, match=cause) as error:
        type_of(Binary(operator, a(left), a(right)), SCOPE)  # type: ignore[arg-type]
    assert error.value.remedy


def test_an_integer_literal_beside_a_decimal_counts_its_own_digits() -> None:
    assert type_of(Binary("*", a("d"), Literal(2)), SCOPE) == Decimal(12, 2)
    assert type_of(Binary("*", a("d"), a("i")), SCOPE) == Decimal(31, 2)


def test_decimals_stop_at_38_digits() -> None:
    wide = Scope({"a": Schema((("p", Decimal(38, 10)), ("q", Decimal(38, 18))))})
    assert type_of(Binary("*", a("p"), a("q")), wide) == Decimal(38, 6)
    assert type_of(Binary("+", a("p"), a("q")), wide) == Decimal(38, 9)
    assert common_type(Decimal(38, 10), Decimal(38, 18)) == Decimal(38, 10)


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        (Unary("-", a("span")), DURATION),
        (Unary("-", a("d")), Decimal(10, 2)),
        (Unary("not", a("b")), BOOLEAN),
        (IsNull(a("raw")), BOOLEAN),
        (In(a("i"), (Literal(1), Literal(2.5), Literal(None))), BOOLEAN),
        (EventTime("a"), TIMESTAMP),
        (GroupKey("lane"), STRING),
        (Cast(a("s"), TIMESTAMP), TIMESTAMP),
        (Cast(a("d"), INT), INT),
        (Cast(a("i"), STRING), STRING),
        (Cast(a("nothing"), BINARY), BINARY),
        (Call("abs", (a("d"),)), Decimal(10, 2)),
        (Call("floor", (a("x"),)), INT),
        (Call("ceil", (a("d"),)), Decimal(9, 0)),
        (Call("sqrt", (a("i"),)), DOUBLE),
        (Call("power", (a("i"), a("d"))), DOUBLE),
        (Call("distance", (a("x"), a("x"), a("i"), a("i"))), DOUBLE),
        (Call("coalesce", (a("nothing"), a("i"), a("x"))), DOUBLE),
        (Call("least", (a("i"), a("d"))), Decimal(22, 2)),
        (Call("greatest", (a("t"), a("t"))), TIMESTAMP),
        (Call("if", (a("b"), a("nothing"), a("s"))), STRING),
        (Call("length", (a("raw"),)), INT),
        (Call("concat", (a("s"), a("nothing"))), STRING),
        (Call("substring", (a("s"), Literal(1), Literal(2))), STRING),
        (Call("Look", (WholeEvent("a"), a("i"))), STRING),
    ],
)
def test_other_expressions(expression: Expression, type_: Type) -> None:
    assert type_of(expression, SCOPE) == type_


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        (Unary("-", a("s")), "`-` takes a number or a duration, not string"),
        (Unary("not", a("i")), "`not` takes conditions"),
        (IsNull(WholeEvent("a")), "`is null` takes a value, not a whole event A"),
        (In(a("i"), (Literal("x"),)), "`in` compares values of one type"),
        (Cast(a("t"), INT), "timestamp cannot be cast to int"),
        (Cast(a("span"), STRING), "duration cannot be cast"),
        (Cast(WholeEvent("a"), STRING), "event A cannot be cast"),
        (Call("abs", (a("s"),)), r"abs\(\) does not take \(string\)"),
        (Call("abs", ()), r"abs\(\) does not take \(nothing\)"),
        (Call("power", (a("i"),)), r"power\(\) does not take \(int\)"),
        (Call("least", (a("i"),)), r"least\(\) does not take \(int\)"),
        (Call("least", (a("i"), a("s"))), r"least\(\) does not take \(int, string\)"),
        (Call("coalesce", ()), r"coalesce\(\) does not take"),
        (Call("coalesce", (WholeEvent("a"),)), r"coalesce\(\) does not take \(event A\)"),
        (Call("if", (a("i"), a("s"), a("s"))), r"if\(\) does not take"),
        (Call("if", (a("b"), a("t"), a("s"))), r"if\(\) does not take"),
        (Call("concat", (a("s"), a("i"))), r"concat\(\) does not take"),
        (Call("substring", (a("s"), a("x"))), r"substring\(\) does not take"),
        (Call("lok", ()), "no function 'lok'"),
    ],
)
def test_other_expressions_that_do_not_fit(expression: Expression, cause: str) -> None:
    with pytest.raises(QueryError, match=cause) as error:
        type_of(expression, SCOPE)
    assert error.value.remedy


@pytest.mark.parametrize(
    ("function", "argument", "type_"),
    [
        ("count", "s", INT),
        ("sum", "i", INT),
        ("sum", "x", DOUBLE),
        ("sum", "d", Decimal(20, 2)),
        ("avg", "d", DOUBLE),
        ("stddev", "i", DOUBLE),
        ("min", "t", TIMESTAMP),
        ("max", "s", STRING),
        ("first", "raw", BINARY),
        ("last", "d", Decimal(10, 2)),
    ],
)
def test_aggregates(function: str, argument: str, type_: Type) -> None:
    assert type_of(Aggregate(function, a(argument)), SCOPE) == type_  # type: ignore[arg-type]


@pytest.mark.parametrize("function", ["sum", "avg", "stddev"])
@pytest.mark.parametrize("argument", ["s", "t", "span", "b"])
def test_sums_are_of_numbers(function: str, argument: str) -> None:
    with pytest.raises(QueryError, match="takes numbers"):
        type_of(Aggregate(function, a(argument)), SCOPE)  # type: ignore[arg-type]


def test_sum_of_a_wide_decimal_stays_within_38_digits() -> None:
    scope = Scope({"a": Schema((("p", Decimal(35, 4)),))})
    assert type_of(Aggregate("sum", a("p")), scope) == Decimal(38, 4)


def test_errors_name_the_place() -> None:
    place = Place("q.situ", 4, 13)
    with pytest.raises(QueryError) as error:
        type_of(Binary("<", a("s"), a("i"), place=place), SCOPE)
    assert error.value.place == place


def test_the_event_of_a_not_is_this() -> None:
    scope = SCOPE.with_this("B", Schema((("n", INT),)))
    assert type_of(Binary("<", Attribute(THIS, "n"), a("x")), scope) == BOOLEAN
    assert type_of(a("s"), scope) == STRING
