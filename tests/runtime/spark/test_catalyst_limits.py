"""What Catalyst leaves to the kernel, what a data source may filter, and how large columns get."""

from __future__ import annotations

import random
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from runtime.random_expressions import DOUBLES, SCOPE, RandomExpressions, random_rows
from runtime.spark.catalyst_comparison import Table, column_of, differences, parsed
from situ.core.functions import Functions
from situ.core.types import BOOLEAN, DOUBLE, INT
from situ.graph.expressions import Aggregate, Attribute, Binary, Call, Cast, Expression, Literal, WholeEvent
from situ.graph.operators import Schema
from situ.graph.typing import THIS, Scope
from situ.kernel.columns.evaluate import evaluate_condition
from situ.lang.unparse import unparse_expression

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FUNCTIONS = Functions()
FUNCTIONS.register(lambda value: value, returns="int", name="Same")


def is_expressible(expression: Expression, scope: Scope = SCOPE) -> bool:
    from situ.runtime.spark.catalyst.conditions import is_expressible

    return is_expressible(expression, scope)


@pytest.mark.parametrize(
    "text",
    [
        "power(a.d, 2) > 1",
        "a.i > 0 and power(a.d, 2) > 1",
        "if(a.b, null, null) is null and power(a.d, 2) > 1",
        "cast(a.d as string) = '1.0'",
        "cast(a.d as decimal(5, 2)) = 1d",
        "cast(a.at as string) = '2020-01-31 00:00:00'",
        "cast(a.s as timestamp) = a.at",
        "lower(a.s) < 'b'",
        "lower(a.s) = 'é'",
        "lower(a.s) in ('a', 'é')",
        "upper(a.s) = a.t",
        "length(upper(a.s)) = 2",
        "a.n < a.l",
        "a.n < 5.5d",
        "a.l in (12, 1)",
        "a.n % a.f > 0",
        "-a.n < 0",
        "abs(a.w) > 1",
        "substring(a.s, a.i, a.j) = 'a'",
        "substring(a.s, 9000000000, a.j) = 'a'",
    ],
)
def test_what_the_kernel_has_to_evaluate(text: str) -> None:
    assert not is_expressible(parsed(text))


def test_what_is_not_about_values_of_one_event() -> None:
    scope = Scope({}, functions=FUNCTIONS).with_this("A", Schema((("i", INT),)))
    i = Attribute(THIS, "i")
    assert is_expressible(Binary(">", i, Literal(1)), scope)
    for operand in (
        Call("Same", (i,)),
        Call("Same", (WholeEvent(THIS),)),
        Call("Same", (Literal(1),)),
        Aggregate("sum", i),
        Attribute("other", "i"),
        Attribute(None, "i"),
    ):
        assert not is_expressible(Binary(">", operand, Literal(1)), scope)
        assert not is_expressible(Call("coalesce", (Literal(None), operand)), scope)


def test_what_is_expressible_is_a_column(spark: SparkSession) -> None:
    draw = RandomExpressions(random.Random(8))
    expressions = [draw.any(2) for _ in range(60)]
    assert [is_expressible(e) for e in expressions] == [column_of(e) is not None for e in expressions]


# --- Size -------------------------------------------------------------------------------------------------------------


def nested(function: str, depth: int) -> Expression:
    """floor(floor(..) * 0.5): its operand stands in the column three times."""
    expression: Expression = Attribute(THIS, "d")
    for _ in range(depth):
        expression = Call(function, (Binary("*", expression, Literal(0.5)),))
    return expression


def test_what_would_grow_without_bound_is_left_to_the_kernel() -> None:
    assert is_expressible(nested("floor", 4))
    assert not is_expressible(nested("floor", 12))
    assert is_expressible(nested("abs", 25))
    assert not is_expressible(nested("abs", 35))


@pytest.mark.slow
@pytest.mark.storm
def test_hundreds_of_conditions(spark: SparkSession, tmp_path: Path) -> None:
    from situ.runtime.spark.catalyst.conditions import all_of, any_of

    events, times = random_rows(random.Random(2), 90)
    table = Table.of(spark, tmp_path / "rows.parquet", events, times)
    draw = RandomExpressions(random.Random(9))
    conditions = [c for c in (draw.any(1, [BOOLEAN]) for _ in range(600)) if is_expressible(c)]
    either = reduce(lambda left, right: Binary("or", left, right), conditions[:150])
    both = reduce(lambda right, left: Binary("and", left, right), conditions[:150])
    deep: Expression = Attribute(THIS, "d")
    for n in range(27):  # close to what is refused, of what makes the most of Catalyst's nodes
        deep = Cast(Cast(deep, BOOLEAN if n % 9 == 0 else INT), DOUBLE)
    assert all(map(is_expressible, (either, both, deep)))
    assert list(differences([either, both, deep, nested("abs", 25), nested("floor", 5)], table)) == []

    columns = [column for column in map(column_of, conditions) if column is not None]
    assert len(columns) > 500
    holds = [evaluate_condition(condition, table.rows) for condition in conditions]
    assert table.frame.filter(any_of(columns)).count() == sum(reduce(lambda a, b: a | b, holds))
    assert table.frame.filter(all_of(columns)).count() == sum(reduce(lambda a, b: a & b, holds))
    assert table.frame.filter(all_of([])).count() == 90
    assert table.frame.filter(any_of([])).count() == 0


# --- Data sources -----------------------------------------------------------------------------------------------------

#: Parquet's statistics know no NaN, its dictionaries tell -0.0 from 0.0, and Spark cuts times for columns of ms.
FILTERS = """
a.d > 100 | a.d >= 100 | 100 < a.d | a.d != 0.5 | not a.d <= 100 | not a.d < 100 | not (a.d < 100 or a.d < 7)
(a.d < 1) = false | a.d = 0.0 | a.d = -0.0 | a.d <= -0.0 | a.d < 0.0 | a.d in (0.0, 0.5) | a.d not in (0.5, 7)
a.d in (0.5, null) | a.d < 1 | a.d <= 0.5 | a.d = 7 | a.d in (0.5, 7) | 7 > a.d | a.d = a.e | a.d != a.e | a.d > a.e
a.d = a.e and a.d < 1 | a.d > a.i | a.d = sqrt(-1.0) | a.d >= sqrt(-1.0) | a.d < sqrt(-1.0) | a.d in (0.5, 7, 1e300)
a.d < 1 or a.e > 1 | a.d < 1 and a.e > 1 | a.at < cast('1970-01-01 00:00:00.0005' as timestamp)
a.at != cast('1970-01-01 00:00:00.001500' as timestamp) | a.at <= cast('1970-01-01 00:00:00.001' as timestamp)
a.at > cast('1969-12-31' as timestamp) | a.i > 5 | a.m = 3 | a.s < 'b'
"""


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["us", pytest.param("ms", marks=pytest.mark.storm)])
def test_a_data_source_loses_no_row(unit: str, spark: SparkSession, tmp_path: Path) -> None:
    """Row groups of two rows, a double beside 0.5: what statistics and dictionaries do not tell is missed."""
    count = 2 * len(DOUBLES)
    micros = [1500, 1500, 1000, 1000, 500, 500, 0, 999] if unit == "us" else [1000, 1000, 0, 0, -1000, 2000]
    times = pa.array([micros[n % len(micros)] for n in range(count)], pa.timestamp("us", tz="UTC"))
    events, _ = random_rows(random.Random(3), count)
    events = replaced(events, "d", pa.array([value for double in DOUBLES for value in (double, 0.5)]))
    stored = replaced(events, "at", times.cast(pa.timestamp(unit, tz="UTC")))
    table = Table.of(spark, tmp_path / "rows.parquet", stored, times, row_group_size=2, write_page_index=True)
    conditions = [parsed(text) for text in FILTERS.replace("\n", "|").split("|") if text.strip()]
    assert losses(table, conditions) == []


def replaced(events: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    return events.set_column(events.schema.get_field_index(name), name, column)


def losses(table: Table, conditions: list[Expression]) -> list[str]:
    """Filters whose rows are not the kernel's. Each one has a scan of its own, all of them one job."""
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    frames = []
    for number, condition in enumerate(conditions):
        column = column_of(condition)
        assert column is not None, unparse_expression(condition)
        frames.append(table.frame.filter(column).select(F.lit(number).alias("number"), "_row"))
    found = {(row["number"], row["_row"]) for row in reduce(DataFrame.union, frames).collect()}
    lost = []
    for number, condition in enumerate(conditions):
        holds = evaluate_condition(condition, table.rows)
        rows = [row for row in range(len(holds)) if ((number, row) in found) != holds[row]]
        lost += [f"{unparse_expression(condition)}: rows {rows}"] if rows else []
    return lost


@pytest.mark.parametrize(
    ("text", "handed_on"),
    [
        ("a.d < 5", "LessThan(d,5.0)"),
        ("5 >= a.d", "LessThanOrEqual(d,5.0)"),
        ("a.d = 2.5 or a.e < 1", "Or(EqualTo(d,2.5),LessThan(e,1.0))"),
        ("a.i > 5", "GreaterThan(i,5)"),
        ("a.m >= 5", "GreaterThanOrEqual(m,5.00)"),
        ("a.s in ('a', 'b')", "In(s, [a,b])"),
        ("a.at >= cast('2020-01-31' as timestamp)", "GreaterThanOrEqual(at,2020-01-31 00:00:00.0)"),
        ("a.d > 5", "[IsNotNull(d)]"),
    ],
)
def test_a_data_source_filters_what_it_can(
    text: str, handed_on: str, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events, times = random_rows(random.Random(3), 3)
    column = column_of(parsed(text))
    assert column is not None
    Table.of(spark, tmp_path / "rows.parquet", events, times).frame.filter(column).explain()
    assert handed_on in capsys.readouterr().out.split("PushedFilters: ")[1].split(", ReadSchema")[0]


# --- Spark Connect ----------------------------------------------------------------------------------------------------
