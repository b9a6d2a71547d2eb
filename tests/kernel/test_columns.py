"""Operators and casts over columns, with expected values written out."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from situ.core import types
from situ.core.types import BINARY, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, TIMESTAMP_ARROW, to_arrow
from situ.graph.expressions import (
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
from situ.kernel.columns.evaluate import EventRows, evaluate, evaluate_condition

LARGEST, SMALLEST = 2**63 - 1, -(2**63)
NAN, INF = math.nan, math.inf
D = Decimal
NOON = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
SECOND = datetime.timedelta(seconds=1)

X, Y = Attribute("a", "x"), Attribute("a", "y")


def rows(**columns: pa.Array) -> EventRows:
    batch = pa.record_batch(columns)
    return EventRows("a", batch, pa.array([NOON] * batch.num_rows, TIMESTAMP_ARROW))


def values_of(expression: Expression, x: Any, y: Any = None) -> list[Any]:
    columns = {"x": x} if y is None else {"x": x, "y": y}
    return evaluate(expression, rows(**columns)).to_pylist()


def same(actual: list[Any], expected: list[Any]) -> bool:
    """Equal values of equal Python types, with NaN equal to itself."""
    return len(actual) == len(expected) and all(
        type(a) is type(e) and (a == e or (isinstance(a, float) and math.isnan(a) and math.isnan(e)))
        for a, e in zip(actual, expected, strict=True)
    )


def ints(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int64())


def doubles(*values: float | None) -> pa.Array:
    return pa.array(values, pa.float64())


def decimals(precision: int, scale: int, *values: str | None) -> pa.Array:
    return pa.array([None if v is None else D(v) for v in values], pa.decimal128(precision, scale))


@pytest.mark.parametrize(
    ("operator", "x", "y", "expected"),
    [
        ("+", ints(1, LARGEST, None, SMALLEST), ints(2, 1, 3, -1), [3, None, None, None]),
        ("+", ints(LARGEST - 1, SMALLEST), ints(1, 0), [LARGEST, SMALLEST]),
        ("-", ints(1, SMALLEST, LARGEST, 0), ints(2, 1, -1, SMALLEST), [-1, None, None, None]),
        ("-", ints(SMALLEST, -1), ints(SMALLEST, SMALLEST), [0, LARGEST]),
        ("*", ints(3, 2**62, SMALLEST, SMALLEST, 0), ints(-4, 2, -1, 1, SMALLEST), [-12, None, None, SMALLEST, 0]),
        ("*", ints(3037000500, 3037000499), ints(3037000500, 3037000499), [None, 3037000499**2]),
        ("/", ints(7, 1, -9, None), ints(2, 0, 3, 1), [3.5, None, -3.0, None]),
        ("%", ints(7, -7, 7, -7, 1), ints(3, 3, -3, -3, 0), [1, -1, 1, -1, None]),
        ("%", ints(SMALLEST, LARGEST), ints(-1, SMALLEST), [0, LARGEST]),
        ("+", doubles(0.5, 1e308, NAN, None), doubles(0.25, 1e308, 1, 1), [0.75, INF, NAN, None]),
        ("/", doubles(1, 0, -1, NAN), doubles(0, 0, -0.0, 2), [None, None, None, NAN]),
        ("%", doubles(5.5, -5.5, 1, INF, 1), doubles(2, 2, 0, 2, INF), [1.5, -1.5, None, NAN, 1.0]),
        ("*", ints(2**53 + 1, 2), doubles(1, 0.5), [float(2**53), 1.0]),
        ("-", doubles(1.5), ints(1), [0.5]),
    ],
)
def test_arithmetic(operator: Any, x: pa.Array, y: pa.Array, expected: list[Any]) -> None:
    assert same(values_of(Binary(operator, X, Y), x, y), expected)


@pytest.mark.parametrize(
    ("operator", "x", "y", "expected", "type_"),
    [
        ("+", decimals(10, 2, "1.10", None), decimals(5, 3, "0.005", "1"), ["1.105", None], pa.decimal128(12, 3)),
        ("-", decimals(3, 0, "-999"), decimals(3, 0, "999"), ["-1998"], pa.decimal128(4, 0)),
        ("*", decimals(10, 2, "-1.25"), decimals(3, 1, "0.5"), ["-0.625"], pa.decimal128(14, 3)),
        ("/", decimals(3, 1, "1.0", "2.0", "1.0"), decimals(2, 0, "3", "-3", "0"),
         ["0.333333", "-0.666667", None], pa.decimal128(8, 6)),
        ("%", decimals(4, 2, "-7.50", "7.50", "1"), decimals(2, 0, "2", "-2", "0"),
         ["-1.50", "1.50", None], pa.decimal128(4, 2)),
        ("+", decimals(10, 2, "1.10"), ints(LARGEST), ["9223372036854775808.10"], pa.decimal128(23, 2)),
        ("+", decimals(38, 0, "9" * 38, "1"), decimals(38, 0, "1", "1"), [None, "2"], pa.decimal128(38, 0)),
        ("*", decimals(38, 10, "0.0000000005"), decimals(38, 10, "0.001"), ["0.000000"], pa.decimal128(38, 6)),
        ("*", decimals(38, 10, "0.0001"), decimals(38, 10, "0.005"), ["0.000001"], pa.decimal128(38, 6)),
        ("*", decimals(38, 0, "1" + "0" * 30), decimals(38, 0, "1" + "0" * 30), [None], pa.decimal128(38, 0)),
        ("/", decimals(38, 38, "0." + "0" * 37 + "1"), decimals(38, 38, "0." + "0" * 37 + "4"),
         ["0.250000"], pa.decimal128(38, 6)),
    ],
)  # fmt: skip
def test_decimals_are_exact_and_typed_as_in_spark(
    operator: Any, x: pa.Array, y: pa.Array, expected: list[str | None], type_: pa.DataType
) -> None:
    result = evaluate(Binary(operator, X, Y), rows(x=x, y=y))
    assert result.type == type_
    assert result.to_pylist() == [None if e is None else D(e) for e in expected]


def test_an_integer_literal_beside_a_decimal_counts_with_its_own_digits() -> None:
    x = decimals(10, 2, "1.10")
    assert evaluate(Binary("+", X, Literal(100)), rows(x=x)).type == pa.decimal128(11, 2)
    assert evaluate(Binary("*", Literal(2), X), rows(x=x)).type == pa.decimal128(12, 2)


def test_a_decimal_beside_a_double_is_a_double() -> None:
    assert values_of(Binary("+", X, Literal(0.5)), decimals(10, 2, "1.10")) == [1.6]


def test_a_wide_decimal_becomes_the_nearest_double() -> None:
    assert values_of(Cast(X, DOUBLE), decimals(38, 20, "0.10000000000000000001")) == [0.1]


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (ints(5, SMALLEST, LARGEST, None), [-5, None, -LARGEST, None]),
        (doubles(1.5, NAN, INF), [-1.5, NAN, -INF]),
        (decimals(3, 1, "1.5", None), [D("-1.5"), None]),
        (pa.array([SECOND], pa.duration("us")), [-SECOND]),
        (pa.array([5, 0], pa.uint8()), [-5, 0]),
        (pa.nulls(2), [None, None]),
    ],
)
def test_minus(x: pa.Array, expected: list[Any]) -> None:
    assert same(values_of(Unary("-", X), x), expected)


def test_times_and_durations() -> None:
    x = pa.array([NOON, None], TIMESTAMP_ARROW)
    y = pa.array([NOON - 3 * SECOND, NOON], TIMESTAMP_ARROW)
    five = Literal(Duration(5_000_000))
    assert values_of(Binary("-", X, Y), x, y) == [3 * SECOND, None]
    assert values_of(Binary("+", X, five), x) == [NOON + 5 * SECOND, None]
    assert values_of(Binary("+", five, X), x) == [NOON + 5 * SECOND, None]
    assert values_of(Binary("-", X, five), x) == [NOON - 5 * SECOND, None]
    assert values_of(Binary("*", five, Literal(-3)), x) == [-15 * SECOND] * 2
    assert values_of(Binary("*", Literal(3), five), x) == [15 * SECOND] * 2
    assert values_of(Binary("-", five, five), x) == [0 * SECOND] * 2
    assert values_of(Binary(">", Binary("-", X, Y), Literal(Duration(2_999_999))), x, y) == [True, None]
    assert values_of(Binary("<", Y, X), x, y) == [True, None]
    assert values_of(Binary("*", five, Literal(LARGEST)), x) == [None, None]
    assert values_of(EventTime("a"), x) == [NOON, NOON]
    assert evaluate(Binary("+", EventTime("a"), five), rows(x=x)).type == TIMESTAMP_ARROW


COMPARED = ["=", "!=", "<", "<=", ">", ">="]


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (ints(1), ints(2), "!= < <="),
        (ints(2), ints(2), "= <= >="),
        (pa.array([3], pa.int32()), pa.array([2], pa.int8()), "!= > >="),
        (pa.array([-1], pa.int64()), pa.array([2**32 - 1], pa.uint32()), "!= < <="),
        (ints(2**53 + 1), ints(2**53), "!= > >="),
        (ints(1), doubles(1.5), "!= < <="),
        (doubles(NAN), doubles(NAN), "= <= >="),
        (doubles(NAN), doubles(INF), "!= > >="),
        (doubles(-INF), doubles(NAN), "!= < <="),
        (ints(7), doubles(NAN), "!= < <="),
        (doubles(-0.0), doubles(0.0), "= <= >="),
        (decimals(4, 2, "1.10"), decimals(4, 1, "1.1"), "= <= >="),
        (decimals(38, 2, "9" * 36), ints(LARGEST), "!= > >="),
        (decimals(4, 2, "0.10"), doubles(0.1), "= <= >="),
        (pa.array(["Z"]), pa.array(["a"]), "!= < <="),
        (pa.array(["\U0001f600"]), pa.array(["\uffee"]), "!= > >="),  # by code point, where UTF-16 differs
        (pa.array([b"\xff"]), pa.array([b"\x00"]), "!= > >="),
        (pa.array([False]), pa.array([True]), "!= < <="),
    ],
)
@pytest.mark.parametrize("repeat", [1, 3])
def test_comparisons(x: pa.Array, y: pa.Array, expected: str, repeat: int) -> None:
    columns = rows(x=pa.concat_arrays([x] * repeat), y=pa.concat_arrays([y] * repeat))
    for operator in COMPARED:
        holds = operator in expected.split()
        assert evaluate(Binary(operator, X, Y), columns).to_pylist() == [holds] * repeat, operator
        assert evaluate_condition(Binary(operator, X, Y), columns).tolist() == [holds] * repeat, operator


@pytest.mark.parametrize("operator", COMPARED)
def test_a_comparison_with_null_is_null(operator: Any) -> None:
    assert values_of(Binary(operator, X, Y), ints(None, 1, None), ints(1, None, None)) == [None] * 3
    assert values_of(Binary(operator, X, Literal(None)), ints(1, None)) == [None, None]
    assert values_of(Binary(operator, X, Literal("a")), pa.array([None, None], pa.string())) == [None, None]


@pytest.mark.parametrize("constant_first", [False, True])
def test_a_constant_compares_like_a_column(constant_first: bool) -> None:
    mixed = doubles(1.0, 2.0, NAN, None, -INF)
    for constant in (1.0, NAN, 2):
        other = pa.array([float(constant)] * 5)
        for operator in COMPARED:
            sides = (Literal(constant), X) if constant_first else (X, Literal(constant))
            columns = (Y, X) if constant_first else (X, Y)
            assert values_of(Binary(operator, *sides), mixed) == values_of(Binary(operator, *columns), mixed, other)


def test_a_constant_beyond_the_column_s_width_is_not_cut() -> None:
    narrow = pa.array([0, 44], pa.int8())
    assert values_of(Binary("=", X, Literal(300)), narrow) == [False, False]  # 300 is 44 in 8 bits
    assert values_of(Binary("<", X, Literal(2**40)), narrow) == [True, True]
    assert values_of(Binary("+", X, Literal(300)), narrow) == [300, 344]
    assert values_of(In(X, (Literal(300), Literal(0))), narrow) == [True, False]


KLEENE = [True, True, True, False, False, False, None, None, None]
KLEENE_OTHER = [True, False, None] * 3


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (Binary("and", X, Y), [True, False, None, False, False, False, None, False, None]),
        (Binary("or", X, Y), [True, True, True, True, False, None, True, None, None]),
        (Unary("not", X), [False] * 3 + [True] * 3 + [None] * 3),
        (Unary("not", Binary("and", X, Y)), [False, True, None, True, True, True, None, True, None]),
        (Unary("not", Binary("or", X, Y)), [False, False, False, False, True, None, False, None, None]),
        (Binary("and", X, Literal(None)), [None] * 3 + [False] * 3 + [None] * 3),
        (Binary("or", Literal(None), X), [True] * 3 + [None] * 6),
        (Binary("and", Literal(True), Literal(False)), [False] * 9),
        (IsNull(X), [False] * 6 + [True] * 3),
        (IsNull(X, negated=True), [True] * 6 + [False] * 3),
        (IsNull(Literal(None)), [True] * 9),
    ],
)
def test_three_valued_logic(expression: Expression, expected: list[bool | None]) -> None:
    columns = rows(x=pa.array(KLEENE), y=pa.array(KLEENE_OTHER))
    assert evaluate(expression, columns).to_pylist() == expected
    assert evaluate_condition(expression, columns).tolist() == [value is True for value in expected]


def items(*values: Any) -> tuple[Literal, ...]:
    return tuple(map(Literal, values))


@pytest.mark.parametrize(
    ("x", "among", "expected"),
    [
        (ints(1, 2, None), items(1, 3), [True, False, None]),
        (ints(1, 2, None), items(1, None), [True, None, None]),
        (pa.array([1, 2], pa.int32()), items(*range(100, 140), 2), [False, True]),
        (ints(1, 2), items(), [False, False]),
        (ints(1, 2), items(None), [None, None]),
        (ints(1, 2), items(1.0, D("2.0")), [True, True]),
        (doubles(1.5, NAN), items(1.5, 2), [True, False]),
        (decimals(3, 1, "1.5", "2.0"), items(D("1.50"), 2), [True, True]),
        (pa.array(["a", "b", None]), items("a"), [True, False, None]),
        (pa.array(["a", "b", None]), items("a", None), [True, None, None]),
        (pa.array(["a", "b", None]), items(*"cdefga"), [True, False, None]),
        (pa.array(["a", "b", None]), items(*"cdefga", None), [True, None, None]),
        (pa.array([True, False]), items(True), [True, False]),
        (pa.nulls(2), items(1), [None, None]),
    ],
)
def test_in(x: pa.Array, among: tuple[Literal, ...], expected: list[bool | None]) -> None:
    assert values_of(In(X, among), x) == expected
    assert values_of(In(X, among, negated=True), x) == [None if value is None else not value for value in expected]
    assert evaluate_condition(In(X, among, negated=True), rows(x=x)).tolist() == [e is False for e in expected]


@pytest.mark.parametrize(
    ("x", "type_", "expected"),
    [
        (doubles(2.7, -2.7, NAN, INF, 2.0**63, -(2.0**63), None), INT, [2, -2, None, None, None, SMALLEST, None]),
        (decimals(38, 1, "2.7", "-2.7", "9" * 20), INT, [2, -2, None]),
        (pa.array([True, False, None]), INT, [1, 0, None]),
        (pa.array(["12", " -3 ", "+4", "1.5", "", "x", str(2**63), None]), INT, [12, -3, 4] + [None] * 5),
        (ints(3, None), DOUBLE, [3.0, None]),
        (pa.array([True]), DOUBLE, [1.0]),
        (pa.array(["1.5", "1e3", ".5", "-Infinity", "nan", "1_0", "x"]), DOUBLE,
         [1.5, 1e3, 0.5, -INF, NAN, None, None]),
        (ints(0, -2, None), BOOLEAN, [False, True, None]),
        (doubles(0.0, NAN), BOOLEAN, [False, True]),
        (decimals(3, 2, "0.00", "0.01"), BOOLEAN, [False, True]),
        (pa.array(["True", " n ", "1", "maybe"]), BOOLEAN, [True, False, True, None]),
        (ints(5, 1000, None), types.Decimal(5, 2), [D("5.00"), None, None]),
        (doubles(1.005, -0.125, NAN, 1e30), types.Decimal(5, 2), [D("1.01"), D("-0.13"), None, None]),
        (decimals(5, 3, "1.005", "-1.005", "9.995"), types.Decimal(3, 2), [D("1.01"), D("-1.01"), None]),
        (pa.array(["1.005", "-7", "1e1", "1e999999", "1e-999999", "0e9", "x"]), types.Decimal(5, 2),
         [D("1.01"), D("-7.00"), D("10.00"), None, D("0.00"), D("0.00"), None]),
        (pa.array([True]), types.Decimal(1, 0), [D("1")]),
        (ints(-5, None), STRING, ["-5", None]),
        (pa.array([True, False]), STRING, ["true", "false"]),
        (doubles(1, 0.001, 1e7, -12345678.5, 1e-4, -0.0, INF, NAN), STRING,
         ["1.0", "0.001", "1.0E7", "-1.23456785E7", "1.0E-4", "-0.0", "Infinity", "NaN"]),
        (decimals(10, 8, "0.00000001"), STRING, ["0.00000001"]),
        (pa.array([NOON, NOON + SECOND / 8, None], TIMESTAMP_ARROW), STRING,
         ["2024-05-01 12:00:00", "2024-05-01 12:00:00.125", None]),
        (pa.array(["2024-05-01 12:00:00", "2024-05-01T14:00:00+02:00", "2024-05-01", "soon", ""]), TIMESTAMP,
         [NOON, NOON, NOON - 12 * 3600 * SECOND, None, None]),
        (pa.array(["aé", None]), BINARY, ["aé".encode(), None]),
        (pa.array(["aé".encode(), b"\xff"]), STRING, ["aé", None]),
        (ints(1), INT, [1]),
        (pa.nulls(1), STRING, [None]),
    ],
)  # fmt: skip
def test_casts(x: pa.Array, type_: types.Type, expected: list[Any]) -> None:
    result = evaluate(Cast(X, type_), rows(x=x))
    assert result.type == to_arrow(type_)
    assert same(result.to_pylist(), expected)
    # A literal is a column of one value: the same code, but text is a scalar there.
    assert same(evaluate(Cast(X, type_), rows(x=x[:1])).to_pylist(), expected[:1])


def test_columns_may_be_slices_and_of_any_width() -> None:
    for array in (
        pa.array([9, 9, 9, None, 4], pa.int16()),
        pa.array([9, 9, 9, None, 4], pa.uint64()),
        pa.array([9, 9, 9, None, 4], pa.float32()),
        pa.array([9, 9, 9, None, 4], pa.decimal128(3, 0)),
    ):
        assert values_of(Binary("=", X, Literal(4)), array[3:]) == [None, True]
    flags = pa.array([False] * 9 + [True, None])
    assert values_of(Unary("not", X), flags[9:]) == [False, None]
    texts = pa.array(["q", "a", None]).dictionary_encode()
    assert values_of(Binary("=", X, Literal("a")), texts[1:]) == [True, None]
    assert values_of(X, pa.array([2**63, 1], pa.uint64())) == [None, 1]


def test_a_group_key_and_a_record_without_an_alias() -> None:
    columns = rows(x=ints(1, 2))
    assert evaluate(GroupKey("x"), columns).to_pylist() == [1, 2]
    assert evaluate(Binary("+", Attribute(None, "x"), Literal(1)), columns).to_pylist() == [2, 3]


def test_a_whole_event_is_no_value() -> None:
    with pytest.raises(TypeError, match="whole event"):
        evaluate(WholeEvent("a"), rows(x=ints(1)))


@pytest.mark.parametrize("length", [0, 1, 3])
def test_constants_fill_all_rows(length: int) -> None:
    columns = rows(x=pa.array([1] * length, pa.int64()))
    for value, expected in [(1, 1), ("a", "a"), (None, None), (D("1.10"), D("1.10")), (True, True)]:
        assert evaluate(Literal(value), columns).to_pylist() == [expected] * length
    assert evaluate_condition(Literal(True), columns).tolist() == [True] * length
    assert evaluate_condition(Literal(None), columns).tolist() == [False] * length
    assert evaluate(Call("concat", (Literal("a"), Literal("b"))), columns).to_pylist() == ["ab"] * length


@pytest.mark.parametrize(
    "x",
    [ints(), doubles(), decimals(5, 2), pa.array([], pa.string()), pa.array([], pa.bool_()),
     pa.array([], TIMESTAMP_ARROW)],
)  # fmt: skip
def test_no_rows(x: pa.Array) -> None:
    for operator in COMPARED:
        assert evaluate(Binary(operator, X, X), rows(x=x)).type == pa.bool_()
        assert evaluate_condition(Binary(operator, X, X), rows(x=x)).shape == (0,)
    assert values_of(IsNull(X), x) == []
    assert values_of(Call("coalesce", (X, X)), x) == []


def test_a_column_without_nulls_is_read_in_place() -> None:
    numbers = np.arange(5)
    result = evaluate(X, rows(x=pa.array(numbers)))
    assert result.buffers()[1].address == numbers.ctypes.data
