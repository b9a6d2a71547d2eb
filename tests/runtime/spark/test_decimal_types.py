"""The digits of decimal results are Spark's."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest

from situ.core.types import INT, Decimal, Type
from situ.graph.decimals import ArithmeticOperator, arithmetic_decimal, whole_decimal, wider_decimal
from situ.runtime.spark.catalyst.values import spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

DIGITS = (1, 2, 5, 6, 7, 10, 18, 19, 20, 31, 32, 33, 37, 38)
DECIMALS = [
    Decimal(precision, scale)
    for precision in DIGITS
    for scale in sorted({0, 1, 5, 6, 7, precision // 2, precision - 1, precision})
    if scale <= precision
]
OPERATORS: tuple[ArithmeticOperator, ...] = ("+", "-", "*", "/", "%")


def types_by_spark(spark: SparkSession, columns: list[Column]) -> list[tuple[int, int]]:
    """Analysis alone gives them; no row is computed."""
    fields = spark.range(0).select(*(column.alias(f"c{n}") for n, column in enumerate(columns))).schema.fields
    return [(field.dataType.precision, field.dataType.scale) for field in fields]  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.storm
def test_results_of_two_decimals(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    compute = dict(zip(OPERATORS, (F.try_add, F.try_subtract, F.try_multiply, F.try_divide, F.try_mod), strict=True))
    operands: list[Type] = [*DECIMALS, INT]
    pairs = [pair for pair in itertools.product(operands, operands) if pair != (INT, INT)]
    sample = random.Random(1).sample(pairs, 400)
    columns, expected = [], []
    for left, right in sample:
        sides = [F.lit(None).cast(spark_type(side)) for side in (left, right)]
        columns += [*(compute[operator](*sides) for operator in OPERATORS), F.coalesce(*sides)]
        expected += [*(arithmetic_decimal(operator, left, right) for operator in OPERATORS), wider_decimal(left, right)]
    found = types_by_spark(spark, columns)
    assert [pair for pair in zip(found, expected, strict=True) if Decimal(*pair[0]) != pair[1]] == []


def test_whole_numbers(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    nulls = [F.lit(None).cast(spark_type(type_)) for type_ in DECIMALS]
    expected = [whole_decimal(type_) for type_ in DECIMALS]
    assert [Decimal(*type_) for type_ in types_by_spark(spark, [F.floor(null) for null in nulls])] == expected
    assert [Decimal(*type_) for type_ in types_by_spark(spark, [F.ceil(null) for null in nulls])] == expected
