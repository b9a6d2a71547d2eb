"""Conditions as Catalyst columns say what the kernel says, row by row and bit by bit."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from runtime.random_expressions import SCHEMA, RandomExpressions, random_rows
from runtime.spark.catalyst_comparison import Table, column_of, differences, parsed
from situ.core.types import TIMESTAMP_ARROW
from situ.graph.expressions import Binary, GroupKey, Literal
from situ.graph.operators import Schema
from situ.graph.typing import Scope
from situ.lang.unparse import unparse_expression

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Table:
    events, times = random_rows(random.Random(1), 150)
    return Table.of(spark, tmp_path_factory.mktemp("catalyst") / "rows.parquet", events, times)


@pytest.fixture
def setting(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Sets a configuration for one test."""
    before: dict[str, str | None] = {}

    def change(name: str, value: str) -> None:
        before.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, value)

    yield change
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


# --- The same values --------------------------------------------------------------------------------------------------


#: Spark as it is without compiled code.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "depth", "settings"),
    [
        pytest.param(2, 2, {}, marks=pytest.mark.connect),
        (4, 2, {"spark.sql.ansi.enabled": "false"}),
        pytest.param(3, 3, {}, marks=pytest.mark.storm),
        pytest.param(5, 2, {"spark.sql.session.timeZone": "Asia/Kolkata"}, marks=pytest.mark.storm),
        pytest.param(6, 2, INTERPRETED, marks=pytest.mark.storm),
    ],
)
def test_random_expressions(
    seed: int, depth: int, settings: dict[str, str], table: Table, setting: Callable[[str, str], None]
) -> None:
    for name, value in settings.items():
        setting(name, value)
    draw = RandomExpressions(random.Random(seed))
    expressions = [draw.any(depth) for _ in range(240)]
    assert sum(column_of(expression) is None for expression in expressions) < 24
    assert list(differences(expressions, table)) == []


OPERATORS = """
a.i + a.j | a.i - a.j | a.i * a.j | a.i / a.j | a.i % a.j | -a.i | a.i + 1 | 1 - a.i | a.i * 2 | a.i / 0 | a.i % 0
(a.i + 5) + -5 | (5 + a.i) + (a.j + -5) | (a.i * a.j) * 0 | 0 * (a.i * a.j) | a.i + null | a.d + a.e | a.d - a.e
a.d * a.e | a.d / a.e | a.d % a.e | -a.d | a.d / 0 | a.d % -0.0 | a.d + a.i | a.i * a.d | a.d / a.m | a.m + a.m
a.m - a.i | a.m * a.w | a.m / a.w | a.m % a.w | -a.m | a.m + 1 | 3 * a.m | a.m / 3 | a.m % 7 | a.m + (1 + 1)
a.w * a.w | a.l * a.l | a.n * a.n | a.n / a.f | a.f / a.i | a.w + a.n | a.n - a.l | a.f % a.f | a.m / 0 | a.m % 0.00d
a.at + 5 s | a.at - 1 ms | a.at - time(a) | (a.at - time(a)) * a.i | -(a.at - time(a)) | 1 h + a.at | 90 s * a.j
a.b and a.i > 0 | a.b or a.d > 0 | not a.b | a.b and null | a.b or null | a.i is null | a.d is not null | a.at is null
a.i + a.j is null | a.i < a.j and a.d < a.e and a.b and a.s < a.t | a.i = 1 or a.i = 2 or a.i = 3 or a.b
"""

COMPARISONS = """
a.i = a.j | a.i < 3 | a.i = a.d | a.i < a.d | a.i = 9007199254740992.0 | a.i >= a.m | a.i = a.w | a.i != 1.0d
a.i <= 0.5 | a.d = a.e | a.d != a.e | a.d < a.e | a.d <= a.e | a.d > a.e | a.d >= a.e | a.d = 0.0 | a.d < -0.0
a.d > 1e300 | a.d != 7 | a.d = a.m | a.d < a.w | a.d >= 0.1d | a.d > a.i | not a.d < 1 | not a.d > 1
(a.d < 1) = false | not (a.d < 1 or a.e > 2) | a.m = a.m | a.m < a.w | a.m = 3 | a.m > 1.495d | a.w < 0.0000000001d
a.f < 1 | a.l <= 3 | a.s = a.t | a.s < a.t | a.s = 'ab' | a.s > 'é' | a.s = '' | lower(a.s) = 'ab'
'AB' != upper(a.s) | a.b = a.b | a.b < true | a.b != null | a.c = a.c | a.c < cast('b' as binary) | a.at = time(a)
a.at < time(a) + 1 s | a.at >= cast('2020-01-31 11:00:00' as timestamp)
a.at < cast('1970-01-01 00:00:00.000001' as timestamp) | a.at = cast('0001-01-01' as timestamp) | a.at - time(a) > 1 s
time(a) != a.at | 1 < a.i <= 7 | a.i between 1 and 7 | a.i in (1, 7) | a.i not in (1, 7) | a.i in (1, null)
a.i in (1.0, 2, 3.0d) | a.i in (null) | a.i in (1.5d, 10, 0.5) | a.d in (0.0, 1.5)
a.d in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0) | a.d not in (0.5, null) | a.d in (1.5d, 7) | a.d in (-0.0, 3)
a.m in (1, 1.50d, 2.5) | a.m not in (3, null) | a.s in ('a', 'ab', null) | lower(a.s) in ('ab', null)
a.b in (true, null) | a.at - time(a) in (0 s, 1 ms)
"""

FUNCTIONS = """
abs(a.i) | abs(a.d) | abs(a.m) | abs(abs(a.i)) | floor(a.i) | floor(a.d) | ceil(a.d) | floor(a.m) | ceil(a.w)
floor(a.f) | floor(a.n) | ceil(a.l) | floor(floor(a.d) * 0.5) | sqrt(a.d) | sqrt(a.i) | sqrt(a.m)
distance(a.d, a.e, 1, a.m) | coalesce(a.i, a.j, 0) | coalesce(a.i, a.d) | coalesce(a.m, a.i) | coalesce(a.m, a.l)
coalesce(null, a.s) | coalesce(a.b) | least(a.d, a.e) | greatest(a.d, a.e) | least(a.i, null, a.j)
greatest(a.s, a.t) | least(a.m, a.d) | greatest(a.n, a.l) | greatest(a.b, false) | least(a.at, time(a))
if(a.b, a.i, a.j) | if(a.i > 0, 'big', a.s) | if(null, a.i, a.d) | if(a.b, 1d, a.i) | length(a.s) | length(a.c)
concat(a.s, a.t) | concat(a.s) | concat(a.s, null) | concat(a.s, '😀', a.t) | length(concat(a.s, a.s))
substring(a.s, 2) | substring(a.s, -2) | substring(a.s, 0) | substring(a.s, a.i) | substring(a.s, 2, 2)
substring(a.s, -3, 2) | substring(a.s, 0, 1) | substring(a.s, -9, 8) | substring(a.s, a.i, 2) | substring(a.s, 2, a.i)
substring(a.s, -3, a.i) | substring(a.s, 9223372036854775807) | substring(a.s, 1, -1) | substring(a.s, null)
substring(a.s, a.i, 3) = 'ab' | power(2, 0.5) * a.d | cast('2020-01-31T12:30:00+01:00' as timestamp) - a.at
lower('AB') = a.s
"""

CASTS = " | ".join(
    f"cast(a.{name} as {target})"
    for name, targets in {
        "i": ("double", "string", "boolean", "decimal(38, 0)", "decimal(20, 2)", "decimal(3, 1)"),
        "d": ("int", "boolean"),
        "m": ("int", "double", "string", "boolean", "decimal(8, 1)", "decimal(38, 36)"),
        "w": ("int", "double", "string", "decimal(20, 5)"),
        "f": ("double", "string", "decimal(17, 17)", "boolean"),
        "n": ("int", "double", "string", "decimal(38, 1)"),
        "l": ("int", "double", "decimal(2, 0)"),
        "s": ("int", "double", "boolean", "binary", "decimal(38, 10)", "decimal(38, 38)", "decimal(9, 2)"),
        "b": ("int", "double", "string", "decimal(2, 2)", "decimal(1, 0)"),
        "c": ("string", "binary"),
        "at": ("timestamp",),
    }.items()
    for target in targets
)


@pytest.mark.slow
@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(
    "texts", [OPERATORS, COMPARISONS, FUNCTIONS, CASTS], ids=["operators", "comparisons", "functions", "casts"]
)
def test_every_operator_and_function(texts: str, ansi: str, table: Table, setting: Callable[[str, str], None]) -> None:
    setting("spark.sql.ansi.enabled", ansi)
    expressions = [parsed(text) for text in texts.replace("\n", "|").split("|") if text.strip()]
    assert [unparse_expression(e) for e in expressions if column_of(e) is None] == []
    assert list(differences(expressions, table)) == []


@pytest.mark.connect
def test_a_few_conditions(table: Table) -> None:
    """What is typical; `make check` runs it."""
    texts = ["a.d > 30", "a.s = 'ab' and a.i < 5", "a.m * 2 >= 3.5d", "a.at - time(a) < 5 s", "a.i + a.j > 0", "null"]
    assert list(differences([parsed(text) for text in texts], table)) == []


def test_the_group_s_value_is_the_event_s(table: Table) -> None:
    scope = Scope({}, group={"i": SCHEMA.type_of("i")}).with_this("A", SCHEMA)
    assert list(differences([Binary("<", GroupKey("i"), Literal(3))], table, scope)) == []


@pytest.mark.slow
def test_every_digit_and_blank_of_unicode(spark: SparkSession, tmp_path: Path) -> None:
    """Texts as numbers: which characters count as digits and blanks."""
    characters = [c for c in map(chr, range(0x11100)) if c.isnumeric() or c.isspace() or ord(c) < 0x100 or c in "Kſı"]
    texts = [text for character in characters for text in (character, f"1{character}", f"{character}1")]
    scope = Scope({}).with_this("A", Schema((("s", SCHEMA.type_of("s")),)))
    events = pa.record_batch({"s": texts})
    table = Table.of(spark, tmp_path / "texts.parquet", events, pa.nulls(len(texts), TIMESTAMP_ARROW))
    casts = [f"cast(a.s as {type_})" for type_ in ("int", "double", "boolean", "decimal(9, 2)")]
    others = ["length(a.s)", "substring(a.s, 2)", "lower(a.s) = 'k1'", "upper(a.s) in ('S1', 'SS1')", "a.s < 'é'"]
    assert list(differences([parsed(text) for text in (*casts, *others)], table, scope)) == []
