"""Texts as numbers and booleans, as Spark reads them; tests/runtime/spark compares them with Spark itself."""

from __future__ import annotations

import math
from decimal import Decimal as D
from typing import Any

import pyarrow as pa
import pytest

from situ.core.types import BOOLEAN, DOUBLE, INT, TIMESTAMP_ARROW, Decimal, Type
from situ.graph.expressions import Attribute, Call, Cast
from situ.graph.operators import Schema
from situ.graph.typing import Scope, type_of
from situ.kernel.columns.evaluate import EventRows, evaluate

PRICE = Decimal(7, 2)
X = Attribute("a", "x")


def read(text: str, type_: Type) -> Any:
    rows = EventRows("a", pa.record_batch({"x": [text]}), pa.nulls(1, TIMESTAMP_ARROW))
    return evaluate(Cast(X, type_), rows)[0].as_py()


@pytest.mark.parametrize(
    ("text", "integer", "double", "price", "boolean"),
    [
        (" 1 ", 1, 1.0, D("1.00"), True),
        ("\t1\r\n\x00", 1, 1.0, D("1.00"), True),
        ("\x7f1", 1, None, None, True),  # only integers and booleans pass over this control character
        ("\u00a01", None, None, None, None),
        ("\u30001", None, None, None, None),
        ("+1", 1, 1.0, D("1.00"), None),
        ("1.", None, 1.0, D("1.00"), None),
        ("5.e1", None, 50.0, D("50.00"), None),
        ("1d", None, 1.0, None, None),
        ("2.5F", None, 2.5, None, None),
        ("0x1.8p1", None, 3.0, None, None),
        ("-0x1p9999", None, -math.inf, None, None),
        ("0x10", None, None, None, None),
        ("-NaN", None, math.nan, None, None),
        ("-nan", None, None, None, None),
        ("-INF", None, -math.inf, None, None),
        ("٣", None, None, D("3.00"), None),
        ("𝟏", None, None, None, None),
        ("1_0", None, None, None, None),
        ("0" * 500 + "7", 7, 7.0, D("7.00"), None),
        ("0e2147483647", None, 0.0, D("0.00"), None),
        ("0e2147483648", None, 0.0, None, None),
        ("0e-2147483648", None, 0.0, None, None),
        ("0.0e-2147483647", None, 0.0, None, None),
        ("1e" + "0" * 2000 + "2", None, 100.0, D("100.00"), None),
        ("1e" + "9" * 2000, None, math.inf, None, None),
        ("99999.995", None, 99999.995, None, None),
    ],
)
def test_texts(text: str, integer: int | None, double: float | None, price: D | None, boolean: bool | None) -> None:
    assert read(text, INT) == integer
    assert read(text, PRICE) == price
    assert read(text, BOOLEAN) is boolean
    as_double = read(text, DOUBLE)
    assert as_double == double or (isinstance(as_double, float) and math.isnan(as_double) and math.isnan(double or 0))


@pytest.mark.parametrize(("type_", "whole"), [(Decimal(5, 2), Decimal(4, 0)), (Decimal(5, 0), Decimal(5, 0))])
def test_whole_decimals_have_one_more_digit_only_where_they_are_rounded(type_: Decimal, whole: Decimal) -> None:
    column = pa.array([D("1")], pa.decimal128(type_.precision, type_.scale))
    rows = EventRows("a", pa.record_batch({"x": column}), pa.nulls(1, TIMESTAMP_ARROW))
    for function in ("floor", "ceil"):
        call = Call(function, (X,))
        assert type_of(call, Scope({"a": Schema((("x", type_),))})) == whole
        assert evaluate(call, rows).type == pa.decimal128(whole.precision, whole.scale)
