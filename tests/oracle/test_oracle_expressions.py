"""docs/language.md, chapter "Expressions": values as Spark SQL has them, null where Spark would fail."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from oracle.events import Event
from oracle.expressions import Scope, aggregate_values, evaluate
from situ.core.functions import function
from situ.lang.parse import parse

EVENT = Event(
    "A", {"n": None, "i": 7, "d": 2.5, "s": "text", "b": True, "big": 2**63 - 1, "dec": Decimal("1.10")}, 5_000_000
)

SCALARS = [
    ("7 / 2", 3.5),
    ("-7 % 3", -1),
    ("7 % -3", 1),
    ("i / 0", None),
    ("i % 0", None),
    ("d / 0", None),
    ("big + 1", None),
    ("-big - 1", -(2**63)),
    ("-big - 2", None),
    ("big * 2", None),
    ("big - 1 + 1", 2**63 - 1),
    ("big = cast(big as double)", True),
    ("dec + 1", Decimal("2.10")),
    ("dec * dec", Decimal("1.2100")),
    ("dec = 1.1", True),
    ("dec < 1.11d", True),
    ("n = n", None),
    ("n != 1", None),
    ("n = 1 and i = 0", False),
    ("n = 1 and i = 7", None),
    ("n = 1 or i = 7", True),
    ("n = 1 or i = 0", None),
    ("not n = 1", None),
    ("n is null", True),
    ("i is not null", True),
    ("i in (1, 7)", True),
    ("i in (1, null)", None),
    ("i not in (1, 2)", True),
    ("n in (1)", None),
    ("i between 7 and 9", True),
    ("'10' < '9'", True),
    ("false < true", True),
    ("cast('12' as int)", 12),
    ("cast('1x' as int)", None),
    ("cast(-2.7 as int)", -2),
    ("cast(1e30 as int)", None),
    ("cast('x' as double)", None),
    ("cast(2.345 as decimal(3, 2))", Decimal("2.35")),
    ("cast(12.0 as decimal(3, 2))", None),
    ("cast(b as int)", 1),
    ("cast('no' as boolean)", False),
    ("abs(-3)", 3),
    ("abs(-big - 1)", None),
    ("floor(-2.5)", -3),
    ("ceil(2.1)", 3),
    ("sqrt(9)", 3.0),
    ("power(2, 10)", 1024.0),
    ("coalesce(n, 3)", 3),
    ("least(n, 3, 2)", 2),
    ("greatest(n, 3, 2)", 3),
    ("if(n = 1, 1, 2)", 2),
    ("lower(upper(s))", "text"),
    ("length(s)", 4),
    ("concat(s, '!')", "text!"),
    ("concat(s, cast(null as string))", None),
    ("substring(s, 2, 2)", "ex"),
    ("substring(s, -2)", "xt"),
    ("distance(0, 0, 3, 4)", 5.0),
    ("time(a) - time(a) = 0 s", True),
    ("time(a) + 2 * 1 s > time(a)", True),
]


def value_of(text: str) -> Any:
    query = parse(f"subscribe M detect A as a assign x = {text}")
    return evaluate(
        query.subscriptions[0].rule.cases[0].assign[0].expression, Scope({"a": [EVENT]}, tested=(None, EVENT))
    )


@pytest.mark.parametrize(("text", "expected"), SCALARS)
def test_scalar(text: str, expected: Any) -> None:
    value = value_of(text)
    assert value == expected
    assert type(value) is type(expected)


def test_nan_equals_itself_and_is_the_largest() -> None:
    assert math.isnan(value_of("sqrt(-1)"))
    assert value_of("sqrt(-1) = sqrt(-1)") is True
    assert value_of("sqrt(-1) > power(10, 300)") is True


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("count", [1, None, 1], 2),
        ("sum", [1, None, 2], 3),
        ("sum", [2**63 - 1, 1], None),
        ("sum", [2**63 - 1, 1, -1], 2**63 - 1),
        ("sum", [Decimal("0.10"), Decimal("0.20")], Decimal("0.30")),
        ("avg", [1, 2, None], 1.5),
        ("avg", [Decimal(1), Decimal(2)], 1.5),
        ("min", [3, None, 1], 1),
        ("max", ["a", "b"], "b"),
        ("first", [None, 1], None),
        ("last", [1, None], None),
        ("stddev", [1, 3], math.sqrt(2)),
        ("stddev", [1], None),
        ("count", [], 0),
        ("sum", [], None),
        ("first", [], None),
        ("collect", [2, None, 1], [2, None, 1]),
        ("collect", [], []),
    ],
)
def test_aggregate(name: str, values: list[Any], expected: Any) -> None:
    value = aggregate_values(name, values)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("offset", "from_first", "from_last"), [(0, 5, 6), (1, None, None), (2, 6, 5), (3, None, None)]
)
def test_elements(offset: int, from_first: int | None, from_last: int | None) -> None:
    assert aggregate_values("first", [5, None, 6], offset=offset) == from_first
    assert aggregate_values("last", [5, None, 6], offset=offset) == from_last


def test_count_distinct() -> None:
    assert aggregate_values("count", [1, 1, None, 2], distinct=True) == 2


def test_a_failing_function_of_the_user_gives_null() -> None:
    @function(returns="int", name="OracleTestFails")
    def fails(x: int) -> int:
        raise ValueError(x)

    assert value_of("OracleTestFails(i)") is None
