"""Aggregates over segments: written-out cases, and random ones against the oracle."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.expressions import aggregate_values
from situ.core.types import TIMESTAMP_ARROW
from situ.graph.expressions import Aggregate, Attribute, Binary, Literal, WholeEvent
from situ.kernel.columns.aggregates import aggregate
from situ.kernel.columns.evaluate import EventRows, Rows, evaluate

pytestmark = pytest.mark.jit_only  # expressions over columns are NumPy and Arrow, not Numba

NAN, INF = math.nan, math.inf
SMALLEST, LARGEST = -(2**63), 2**63 - 1
D = Decimal
X = Attribute("a", "x")


def aggregated(
    function: Any, segments: list[list[Any]], arrow: pa.DataType, distinct: bool = False, offset: int = 0
) -> list[Any]:
    """The aggregate of each list, among other values that belong to no segment."""
    values = pa.array([None, *(value for segment in segments for value in segment), None], arrow)
    offsets = 1 + np.concatenate(([0], np.cumsum([len(segment) for segment in segments], dtype=np.int64)))
    return aggregate(Aggregate(function, X, distinct, offset), offsets, values).to_pylist()


def same(actual: Any, expected: Any) -> bool:
    if isinstance(expected, float) and isinstance(actual, float) and math.isnan(expected):
        return math.isnan(actual)
    if isinstance(expected, list) and isinstance(actual, list):
        return len(actual) == len(expected) and all(map(same, actual, expected))
    return type(actual) is type(expected) and actual == expected


@pytest.mark.parametrize(
    ("function", "arrow", "segments", "expected"),
    [
        ("count", pa.int64(), [[1, None, 3], [], [None]], [2, 0, 0]),
        ("sum", pa.int64(), [[], [1, None, 3], [], [None], [5], []], [None, 4, None, None, 5, None]),
        ("sum", pa.int32(), [[2**31 - 1, 1]], [2**31]),
        ("sum", pa.int64(), [[LARGEST, 1], [LARGEST, 1, -1], [SMALLEST, -1], [SMALLEST]],
         [None, LARGEST, None, SMALLEST]),
        ("sum", pa.float64(), [[0.1, 0.2, 0.3], [NAN, 1], [INF, 1], []], [0.1 + 0.2 + 0.3, NAN, INF, None]),
        ("sum", pa.decimal128(3, 1), [["99.9", "0.1", None], []], [D("100.0"), None]),
        ("sum", pa.decimal128(38, 0), [["9" * 38, "1"], ["9" * 38, "1", "-1"]], [None, D("9" * 38)]),
        ("avg", pa.int64(), [[1, 2, None], [], [LARGEST, LARGEST]], [1.5, None, float(LARGEST)]),
        ("avg", pa.float64(), [[1.0, 2.5]], [1.75]),
        ("avg", pa.decimal128(3, 1), [["1.5", "2.0"], []], [1.75, None]),
        ("stddev", pa.int64(), [[2, 4, 4, 4, 5, 5, 7, 9], [1], [], [3, None, 3]],
         [math.sqrt(32 / 7), None, None, 0.0]),
        ("stddev", pa.float64(), [[1e9 + 1, 1e9 + 2, 1e9 + 3], [NAN, 1]], [1.0, NAN]),
        ("stddev", pa.decimal128(3, 1), [["1.0", "3.0"]], [math.sqrt(2)]),
        ("min", pa.int64(), [[3, None, -1], [], [None]], [-1, None, None]),
        ("max", pa.int32(), [[3, None, -1], [], [None]], [3, None, None]),
        ("min", pa.float64(), [[NAN, 2, -INF], [NAN], [NAN, 1]], [-INF, NAN, 1.0]),
        ("max", pa.float64(), [[NAN, INF], [1, 2]], [NAN, 2.0]),
        ("min", pa.string(), [["b", "a", None], [], ["é", "z"]], ["a", None, "z"]),
        ("max", pa.string(), [["b", "a", None], [], ["é", "z"]], ["b", None, "é"]),
        ("max", pa.binary(), [[b"\x00", b"\xff"]], [b"\xff"]),
        ("min", pa.bool_(), [[True, False], [True]], [False, True]),
        ("max", pa.decimal128(38, 1), [["1.5", "9" * 37], []], [D("9" * 37), None]),
        ("first", pa.int64(), [[None, 2], [], [3, 4]], [None, None, 3]),
        ("last", pa.int64(), [[2, None], [], [3, 4]], [None, None, 4]),
        ("first", pa.string(), [["a", "b"], []], ["a", None]),
        ("last", pa.string(), [["a", "b"], []], ["b", None]),
        ("sum", pa.null(), [[None], []], [None, None]),
        ("avg", pa.null(), [[None], []], [None, None]),
        ("min", pa.null(), [[None], []], [None, None]),
        ("count", pa.null(), [[None], []], [0, 0]),
    ],
)  # fmt: skip
def test_aggregates(function: Any, arrow: pa.DataType, segments: list[list[Any]], expected: list[Any]) -> None:
    if pa.types.is_decimal(arrow):
        segments = [[None if value is None else D(value) for value in segment] for segment in segments]
    actual = aggregated(function, segments, arrow)
    assert len(actual) == len(expected)
    assert all(map(same, actual, expected)), actual


@pytest.mark.parametrize(
    ("arrow", "segments", "expected"),
    [
        (pa.int64(), [[1, 1, 2, None], [], [1]], [2, 0, 1]),
        (pa.float64(), [[0.0, -0.0, NAN, NAN, 1]], [3]),
        (pa.string(), [["a", "b", "a"], ["a"], [None]], [2, 1, 0]),
        (pa.decimal128(3, 1), [[D("1.0"), D("1"), D("1.1")]], [2]),
        (pa.null(), [[None, None]], [0]),
    ],
)
def test_count_distinct(arrow: pa.DataType, segments: list[list[Any]], expected: list[int]) -> None:
    assert aggregated("count", segments, arrow, distinct=True) == expected


@pytest.mark.parametrize(
    ("function", "arrow", "result"),
    [
        ("sum", pa.int32(), pa.int64()),
        ("sum", pa.decimal128(30, 2), pa.decimal128(38, 2)),
        ("sum", pa.decimal128(5, 2), pa.decimal128(15, 2)),
        ("avg", pa.decimal128(5, 2), pa.float64()),
        ("stddev", pa.int64(), pa.float64()),
        ("max", pa.int16(), pa.int64()),
        ("min", TIMESTAMP_ARROW, TIMESTAMP_ARROW),
        ("count", pa.string(), pa.int64()),
        ("avg", pa.null(), pa.float64()),
    ],
)
def test_types_of_results_without_segments(function: Any, arrow: pa.DataType, result: pa.DataType) -> None:
    empty = aggregate(Aggregate(function, X), np.zeros(1, np.int64), pa.array([], arrow))
    assert (empty.type, len(empty)) == (result, 0)


VALUES = {
    pa.int64(): st.one_of(st.integers(-5, 5), st.sampled_from([LARGEST, SMALLEST])),
    pa.float64(): st.one_of(st.floats(-1e6, 1e6), st.sampled_from([NAN, INF, -0.0])),
    pa.string(): st.sampled_from(["", "a", "b", "ab", "é", "😀"]),
    pa.bool_(): st.booleans(),
    pa.decimal128(20, 2): st.decimals(-(10**17), 10**17, places=2),
}
NUMERIC = (pa.int64(), pa.float64(), pa.decimal128(20, 2))


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.data())
def test_aggregates_equal_the_oracle_s(data: st.DataObject) -> None:
    arrow = data.draw(st.sampled_from(list(VALUES)))
    names = ["count", "min", "max", "first", "last", "collect"] + (["sum", "avg", "stddev"] if arrow in NUMERIC else [])
    function, distinct = data.draw(st.sampled_from(names)), data.draw(st.booleans())
    offset = data.draw(st.sampled_from([0, 1, 2, LARGEST])) if function in ("first", "last") else 0
    segments = data.draw(st.lists(st.lists(st.none() | VALUES[arrow], max_size=12), max_size=6))
    actual = aggregated(function, segments, arrow, distinct and function == "count", offset)
    for value, segment in zip(actual, segments, strict=True):
        expected = aggregate_values(function, segment, distinct and function == "count", offset)
        if function == "stddev" and expected is not None:
            assert value == pytest.approx(expected, rel=1e-9, nan_ok=True)
        else:
            assert same(value, expected), (segment, value, expected)


@dataclass(frozen=True)
class LoopRows:
    """A fake: rows that hold segments of the events of alias `a`."""

    offsets: np.ndarray
    events: EventRows

    @property
    def length(self) -> int:
        return len(self.offsets) - 1

    def repeated(self, alias: str) -> tuple[np.ndarray, Rows]:
        assert alias == "a"
        return self.offsets, self.events

    def attribute(self, alias: str, name: str) -> pa.Array:
        raise AssertionError("read through aggregates only")

    time = group = event = attribute


def test_an_aggregate_within_an_expression() -> None:
    events = pa.record_batch({"x": pa.array([1, 2, None, 4])})
    rows = LoopRows(np.array([0, 2, 2, 4]), EventRows("a", events, pa.nulls(4, TIMESTAMP_ARROW)))
    doubled = Aggregate("sum", Binary("*", X, Literal(2)))
    assert evaluate(Binary("+", doubled, Literal(1)), rows).to_pylist() == [7, None, 9]
    assert evaluate(Aggregate("count", WholeEvent("a")), rows).to_pylist() == [2, 0, 2]
    assert evaluate(Aggregate("count", X), rows).to_pylist() == [2, 0, 1]
    difference = Binary("-", Aggregate("last", X), Aggregate("first", X))
    assert evaluate(difference, rows).to_pylist() == [1, None, None]
