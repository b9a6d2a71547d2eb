"""Built-in and users' functions over columns."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from situ.core.errors import QueryError
from situ.core.functions import Functions
from situ.core.types import TIMESTAMP_ARROW
from situ.graph.expressions import Attribute, Binary, Call, Literal, WholeEvent
from situ.kernel.columns.evaluate import EventRows, evaluate, evaluate_condition

NAN, INF = math.nan, math.inf
SMALLEST, LARGEST = -(2**63), 2**63 - 1
D = Decimal
TEXTS = pa.array(["Straße", "", None, "a😀é"])


def rows(*columns: pa.Array) -> EventRows:
    batch = pa.record_batch(list(columns), names=["xyzuv"[i] for i in range(len(columns))])
    return EventRows("a", batch, pa.nulls(batch.num_rows, TIMESTAMP_ARROW))


def result_of(function: str, *columns: pa.Array) -> pa.Array:
    arguments = [Attribute("a", "xyzuv"[i]) for i in range(len(columns))]
    return evaluate(Call(function, tuple(arguments)), rows(*columns))


def same(actual: list[Any], expected: list[Any]) -> bool:
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
    ("function", "columns", "expected"),
    [
        ("abs", [ints(-3, SMALLEST, None, LARGEST)], [3, None, None, LARGEST]),
        ("abs", [doubles(-1.5, NAN, -INF)], [1.5, NAN, INF]),
        ("abs", [decimals(3, 1, "-1.5")], [D("1.5")]),
        ("floor", [doubles(1.7, -1.2, NAN, INF, 1e19, -(2.0**63), None)], [1, -2, None, None, None, SMALLEST, None]),
        ("ceil", [doubles(1.2, -1.7, NAN, 9.3e18)], [2, -1, None, None]),
        ("floor", [ints(5, None)], [5, None]),
        ("floor", [decimals(4, 2, "1.99", "-1.01", None)], [D(1), D(-2), None]),
        ("ceil", [decimals(4, 2, "1.01", "-1.99", "99.99")], [D(2), D(-1), D(100)]),
        ("sqrt", [doubles(4, -1, None, INF)], [2.0, NAN, None, INF]),
        ("sqrt", [ints(9)], [3.0]),
        ("sqrt", [decimals(4, 2, "2.25")], [1.5]),
        ("power", [ints(2, -8, 0), doubles(-1, 1 / 3, 0)], [0.5, NAN, 1.0]),
        ("power", [doubles(10, -1, 1, NAN, None), doubles(400, INF, NAN, 0, 1)], [INF, NAN, NAN, 1.0, None]),
        ("distance", [ints(0, None), ints(0, 0), doubles(3, 3), doubles(4, 4)], [5.0, None]),
        ("coalesce", [ints(None, 1, None), ints(2, 3, None)], [2, 1, None]),
        ("coalesce", [ints(None, 1), doubles(0.5, 2)], [0.5, 1.0]),
        ("coalesce", [pa.array([None, "a"]), pa.array(["b", "c"])], ["b", "a"]),
        ("coalesce", [pa.nulls(2), ints(1, None)], [1, None]),
        ("coalesce", [ints(None, 7), decimals(3, 1, "1.5", "2")], [D("1.5"), D("7.0")]),
        ("least", [ints(3, None, None), ints(2, 5, None), ints(9, 9, None)], [2, 5, None]),
        ("greatest", [ints(3, None, None), ints(2, 5, None)], [3, 5, None]),
        ("least", [doubles(NAN, NAN, 1), doubles(1, NAN, -INF)], [1.0, NAN, -INF]),
        ("greatest", [doubles(NAN, INF), doubles(1, NAN)], [NAN, NAN]),
        ("least", [pa.array(["b", None]), pa.array(["B", "x"])], ["B", "x"]),
        ("greatest", [decimals(3, 1, "1.5"), ints(2)], [D("2.0")]),
        ("least", [pa.nulls(1), pa.nulls(1)], [None]),
        ("if", [pa.array([True, False, None]), ints(1, 1, 1), ints(2, None, 3)], [1, None, 3]),
        ("if", [pa.array([True, False, None]), pa.array(["a", "a", "a"]), pa.nulls(3)], ["a", None, None]),
        ("if", [pa.array([True, False]), ints(1, 1), doubles(0.5, 0.5)], [1.0, 0.5]),
        ("if", [pa.nulls(1), ints(1), ints(2)], [2]),
        ("lower", [TEXTS], ["straße", "", None, "a😀é"]),
        ("upper", [TEXTS], ["STRASSE", "", None, "A😀É"]),
        ("upper", [pa.array(["ab", None])], ["AB", None]),
        ("lower", [pa.nulls(1)], [None]),
        ("length", [TEXTS], [6, 0, None, 3]),
        ("length", [pa.array([b"\xff\x00", None])], [2, None]),
        ("length", [pa.nulls(1)], [None]),
        ("concat", [pa.array(["a", "b", None]), pa.array(["x", None, "y"])], ["ax", None, None]),
        ("concat", [pa.array(["a"]), pa.array(["b"]), pa.array(["c"])], ["abc"]),
        ("concat", [TEXTS], ["Straße", "", None, "a😀é"]),
    ],
)  # fmt: skip
def test_built_in_functions(function: str, columns: list[pa.Array], expected: list[Any]) -> None:
    assert same(result_of(function, *columns).to_pylist(), expected)
    # Row by row, where every column is as good as a constant, and over no rows.
    for row, value in enumerate(expected):
        assert same(result_of(function, *(column[row : row + 1] for column in columns)).to_pylist(), [value])
    assert result_of(function, *(column[:0] for column in columns)).to_pylist() == []


@pytest.mark.parametrize(
    ("position", "length", "expected"),
    [
        (1, None, "a😀é!"), (2, None, "😀é!"), (0, None, "a😀é!"), (-2, None, "é!"), (-9, None, "a😀é!"), (5, None, ""),
        (2, 2, "😀é"), (0, 2, "a😀"), (-3, 2, "😀é"), (-5, 2, "a"), (-9, 3, ""), (1, 0, ""), (1, -1, ""), (9, 1, ""),
        (1, LARGEST, "a😀é!"), (LARGEST, LARGEST, ""), (SMALLEST, LARGEST, "a😀é"), (-2, LARGEST, "é!"),
        (SMALLEST, SMALLEST, ""), (None, 1, None),
    ],
)  # fmt: skip
def test_substring(position: int | None, length: int | None, expected: str | None) -> None:
    texts = pa.array(["skipped", "a😀é!", None, "a😀é!"])[1:]
    columns = [texts, ints(*[position] * 3)] + ([] if length is None else [ints(*[length] * 3)])
    assert result_of("substring", *columns).to_pylist() == [expected, None, expected]
    literals = [Literal("a😀é!"), Literal(position)] + ([] if length is None else [Literal(length)])
    assert evaluate(Call("substring", tuple(literals)), rows(ints(1, 2))).to_pylist() == [expected] * 2


def test_substring_of_each_row_its_own() -> None:
    texts, positions, lengths = pa.array(["abc", "é", None, "xyz", ""]), ints(2, 1, 1, None, 1), ints(1, 5, 1, 1, 1)
    assert result_of("substring", texts, positions, lengths).to_pylist() == ["b", "é", None, None, ""]
    assert result_of("substring", texts[:0], positions[:0]).to_pylist() == []


def test_a_user_s_function_is_called_with_python_values() -> None:
    functions, seen = Functions(), []

    @functions.function(returns="string", name="Show")
    def show(*arguments: Any) -> str:
        seen.append(arguments)
        return str(len(seen))

    noon = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
    columns = rows(ints(1, None), pa.array([noon, None], TIMESTAMP_ARROW), decimals(3, 1, "1.5", None))
    arguments = (Attribute("a", "x"), Attribute("a", "y"), Attribute("a", "z"), Literal("q"), WholeEvent("a"))
    assert evaluate(Call("Show", arguments), columns, functions=functions).to_pylist() == ["1", "2"]
    assert seen == [
        (1, noon, D("1.5"), "q", {"x": 1, "y": noon, "z": D("1.5")}),
        (None, None, None, "q", {"x": None, "y": None, "z": None}),
    ]
    assert evaluate(Call("Show", ()), columns, functions=functions).to_pylist() == ["3", "4"]
    assert evaluate(Call("Show", arguments), rows(ints(), ints(), ints()), functions=functions).type == pa.string()


def test_a_user_s_function_that_fails_gives_null_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    functions, errors = Functions(), Counter[str]()

    @functions.function(returns="int", name="Inverse")
    def inverse(x: int) -> Any:
        return 1 // x if x < 5 else "many"

    inverse_of_x = Call("Inverse", (Attribute("a", "x"),))
    result = evaluate(inverse_of_x, rows(ints(1, 0, 7, None)), functions=functions, errors=errors)
    assert result.to_pylist() == [1, None, None, None]
    assert errors == {"Inverse": 3}
    assert [record.getMessage() for record in caplog.records] == [
        "function Inverse failed and gave null, for the arguments (0,): "
        "ZeroDivisionError('integer division or modulo by zero')"
    ]
    condition = Binary("=", inverse_of_x, Literal(1))
    assert evaluate_condition(condition, rows(ints(1, 0)), functions=functions).tolist() == [True, False]


def test_a_function_that_nobody_registered() -> None:
    with pytest.raises(QueryError, match="no function 'Inverze'"):
        evaluate(Call("Inverze", ()), rows(ints(1)), functions=Functions())
