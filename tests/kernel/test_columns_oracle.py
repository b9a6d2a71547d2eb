"""Random expressions over random columns: the same values as the scalar oracle's, of the type that typing names."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from oracle import expressions as oracle
from oracle.events import Event
from situ.core.types import BOOLEAN, DOUBLE, INT, NULL, STRING, TIMESTAMP_ARROW, Decimal, Type, to_arrow
from situ.graph.expressions import Attribute, Binary, Call, Cast, Expression, In, IsNull, Literal, Unary
from situ.graph.operators import Schema
from situ.graph.typing import Scope, type_of
from situ.kernel.columns.evaluate import EventRows, evaluate, evaluate_condition

pytestmark = pytest.mark.jit_only  # expressions over columns are NumPy and Arrow, not Numba

MONEY = Decimal(9, 2)
SCHEMA = Schema((("i", INT), ("j", INT), ("d", DOUBLE), ("e", DOUBLE), ("s", STRING), ("b", BOOLEAN), ("m", MONEY)))
NARROW = {"j": pa.int32()}  # a column may be narrower than its type

VALUES: dict[Type, SearchStrategy[Any]] = {
    INT: st.integers(-9, 9) | st.sampled_from([2**63 - 1, -(2**63) + 1, 2**53 + 1, 10**18]),
    DOUBLE: st.sampled_from([0.0, -0.0, 0.5, -2.25, 0.1, 7.0, 1e300, math.nan, math.inf, -math.inf]),
    STRING: st.sampled_from(["", "a", "b", "ab", "Straße", "12", "-3", " 7 ", "1.5", "true", "é😀"]),
    BOOLEAN: st.booleans(),
    MONEY: st.decimals(-(10**7) + 1, 10**7 - 1, places=2),
}


def column_value(name: str, type_: Type) -> SearchStrategy[Any]:
    return st.none() | (st.integers(-9, 9) if name in NARROW else VALUES[type_])


ROWS = st.fixed_dictionaries({name: column_value(name, type_) for name, type_ in SCHEMA.attributes})
TABLES = st.lists(ROWS, max_size=5)


@cache
def leaves(type_: Type) -> SearchStrategy[Expression]:
    names = [name for name, other in SCHEMA.attributes if other == type_]
    attributes = st.sampled_from(names).map(lambda name: Attribute("a", name))
    return attributes | attributes | VALUES[type_].map(Literal) | st.just(Literal(None))


def calls(function: str, *arguments: SearchStrategy[Expression]) -> SearchStrategy[Expression]:
    return st.tuples(*arguments).map(lambda chosen: Call(function, chosen))


def binaries(operators: str, left: SearchStrategy[Any], right: SearchStrategy[Any]) -> SearchStrategy[Expression]:
    return st.builds(Binary, st.sampled_from(operators.split()), left, right)


@cache
def expressions(type_: Type, depth: int) -> SearchStrategy[Expression]:
    """Expressions of a type. Left out is what the oracle does not define: quotients of decimals, doubles as text."""
    if depth == 0:
        return leaves(type_)
    same, integer, number, text, condition = (expressions(t, depth - 1) for t in (type_, INT, DOUBLE, STRING, BOOLEAN))
    choices = [leaves(type_), calls("if", condition, same, same)]
    choices += [calls(name, same, same) for name in ("coalesce", "least", "greatest")]
    if type_ == INT:
        choices += [binaries("+ - * %", integer, integer), st.builds(Unary, st.just("-"), integer)]
        choices += [calls("abs", integer), calls("floor", number), calls("ceil", number), calls("length", text)]
        choices += [st.builds(Cast, source, st.just(INT)) for source in (number, text, condition, leaves(MONEY))]
    elif type_ == DOUBLE:
        choices += [binaries("+ - * / %", number, number), binaries("+ - * / %", integer, number)]
        choices += [binaries("/", integer, integer), st.builds(Unary, st.just("-"), number), calls("abs", number)]
        choices += [calls("sqrt", number), binaries("+ - *", leaves(MONEY), number)]
        choices += [st.builds(Cast, source, st.just(DOUBLE)) for source in (integer, text, condition)]
    elif type_ == STRING:
        choices += [calls("lower", text), calls("upper", text), calls("concat", text, text)]
        choices += [calls("substring", text, integer), calls("substring", text, integer, integer)]
        choices += [st.builds(Cast, source, st.just(STRING)) for source in (integer, condition)]
    elif type_ == BOOLEAN:
        choices += [binaries("and or", condition, condition), st.builds(Unary, st.just("not"), condition)]
        for t in VALUES:
            side = expressions(t, depth - 1)
            choices.append(binaries("= != < <= > >=", side, side))
            choices.append(st.builds(IsNull, side, st.booleans()))
            items = st.lists((st.none() | VALUES[t]).map(Literal), min_size=1, max_size=7).map(tuple)
            choices.append(st.builds(In, side, items, st.booleans()))
        choices += [binaries("= < >=", integer, number), binaries("= < >=", integer, leaves(MONEY))]
        choices += [binaries("= < >=", leaves(MONEY), number)]
        choices += [st.builds(Cast, source, st.just(BOOLEAN)) for source in (integer, number, text)]
    else:
        choices += [binaries("+ - * %", leaves(type_), leaves(type_)), binaries("+ - *", leaves(type_), leaves(INT))]
        choices += [calls(name, leaves(type_)) for name in ("abs", "floor", "ceil")]
    return st.one_of(choices)


def same(actual: Any, expected: Any) -> bool:
    if isinstance(actual, float) and isinstance(expected, float) and math.isnan(expected):
        return math.isnan(actual)
    return (actual is None) == (expected is None) and actual == expected


@settings(derandomize=True, deadline=None, max_examples=500)
@given(st.data())
def test_expressions_equal_the_oracle_s(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from(list(VALUES)), label="type")
    expression = data.draw(expressions(type_, 2 if type_ != MONEY else 1), label="expression")
    table = data.draw(TABLES, label="rows")
    columns = {name: pa.array([r[name] for r in table], NARROW.get(name, to_arrow(t))) for name, t in SCHEMA.attributes}
    rows = EventRows("a", pa.record_batch(columns), pa.nulls(len(table), TIMESTAMP_ARROW))

    result = evaluate(expression, rows)
    expected = [oracle.evaluate(expression, oracle.Scope({"a": [Event("A", r, 0)]})) for r in table]

    assert result.type == to_arrow(type_of(expression, Scope({"a": SCHEMA})))
    assert len(result) == len(table)
    assert all(map(same, result.to_pylist(), expected)), (result.to_pylist(), expected)
    if result.type in (to_arrow(BOOLEAN), to_arrow(NULL)):
        assert evaluate_condition(expression, rows).tolist() == [value is True for value in expected]
