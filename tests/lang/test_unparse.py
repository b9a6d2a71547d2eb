"""The canonical text of a query, and that it says the query."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from lang.random_queries import expressions, patterns, queries
from situ.graph.expressions import Attribute, Binary, Expression, Literal, Unary, WholeEvent
from situ.graph.patterns import Pattern
from situ.graph.query import Case, Query, Rule, Subscription
from situ.lang.parse import parse
from situ.lang.unparse import unparse, unparse_expression, unparse_pattern

X, Y = Attribute(None, "x"), Attribute("a", "y")


@settings(derandomize=True, deadline=None, max_examples=400)
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


@settings(derandomize=True, deadline=None, max_examples=500)
@given(patterns())
def test_a_pattern_reads_back(pattern: Pattern) -> None:
    text = f"subscribe S detect {unparse_pattern(pattern)}"
    assert parse(text) == Query(subscriptions=(Subscription("S", Rule((Case(pattern),))),))
