"""The canonical text of a query, and that it says the query."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from lang.random_queries import expressions, patterns, queries
from situ.graph.expressions import Attribute, Binary, Expression, Literal, Unary, WholeEvent
from situ.graph.patterns import Pattern
from situ.graph.query import Case, Query, Rule, Subscription
from situ.lang.parse import parse
from situ.lang.unparse import unparse, unparse_expression, unparse_pattern

HERE = Path(__file__).parent
A, B, C = Attribute(None, "a"), Attribute(None, "b"), Attribute(None, "c")


@settings(derandomize=True, deadline=None, max_examples=80)
@given(queries())
def test_a_query_reads_back(query: Query) -> None:
    text = unparse(query)
    read = parse(text)
    assert read == query
    assert repr(read) == repr(query)  # True == 1 == 1.0, and repr tells them apart
    assert unparse(read) == text


@settings(derandomize=True, deadline=None, max_examples=500)
@given(expressions())
def test_an_expression_reads_back(expression: Expression) -> None:
    text = f"subscribe S detect A({unparse_expression(expression)})"
    assert repr(parse(text).subscriptions[0].rule.cases[0].detect.test.condition) == repr(expression)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(patterns())
def test_a_pattern_reads_back(pattern: Pattern) -> None:
    text = f"subscribe S detect {unparse_pattern(pattern)}"
    assert parse(text) == Query(subscriptions=(Subscription("S", Rule((Case(pattern),))),))


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (Binary("and", Binary("or", A, B), C), "(a or b) and c"),
        (Binary("or", A, Binary("and", B, C)), "a or b and c"),
        (Binary("-", A, Binary("-", B, C)), "a - (b - c)"),
        (Binary("-", Binary("-", A, B), C), "a - b - c"),
        (Binary("=", Binary("<", A, B), C), "(a < b) = c"),
        (Unary("not", Binary("and", A, B)), "not (a and b)"),
        (Binary("and", Unary("not", A), B), "not a and b"),
        (Unary("-", Literal(3)), "-(3)"),
        (Unary("-", Unary("-", A)), "-(-a)"),
        (Binary("*", Unary("-", A), Literal(-3)), "-a * -3"),
        (Attribute("group", "x"), "`group`.x"),
        (WholeEvent("Video"), "Video"),
    ],
)
def test_as_few_parentheses_as_possible(expression: Expression, text: str) -> None:
    assert unparse_expression(expression) == text


@pytest.mark.parametrize(
    "text",
    [
        "A then (B then C)+ then not D then E",
        "(A or B) then C or D",
        "A then each B and C",
        "A then first B then immediately last C",
        "A{2,5} each greedy until B(x > 1) as many then immediately C? then D* immediately then E{3} then F{4,}",
    ],
)
def test_a_pattern_in_canonical_form_stays(text: str) -> None:
    assert unparse_pattern(parse(f"subscribe S detect {text}").subscriptions[0].rule.cases[0].detect) == text


def test_the_layout_is_that_of_the_documentation() -> None:
    text = (HERE / "traffic.situ").read_text()
    assert unparse(parse(text)) == text.split("\n", 2)[2]


def test_long_clauses_have_one_line_for_each_part() -> None:
    parts = [f"VeryLongEventType{number}(attribute > {number}) as alias{number}" for number in range(3)]
    query = parse(
        f"subscribe S detect {' then '.join(parts)} within 3 s"
        f" assign {', '.join(f'long_attribute_{number} = alias{number}.long_attribute' for number in range(3))}"
    )
    assert unparse(query) == (
        "subscribe S\n"
        "  detect   VeryLongEventType0(attribute > 0) as alias0\n"
        "           then VeryLongEventType1(attribute > 1) as alias1\n"
        "           then VeryLongEventType2(attribute > 2) as alias2 within 3 s\n"
        "  assign   long_attribute_0 = alias0.long_attribute,\n"
        "           long_attribute_1 = alias1.long_attribute,\n"
        "           long_attribute_2 = alias2.long_attribute\n"
    )


def test_nothing_is_an_empty_text() -> None:
    assert unparse(Query()) == ""
    assert parse("") == Query()
