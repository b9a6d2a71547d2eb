"""Names and expressions to text, with as few parentheses as the grammar allows."""

from __future__ import annotations

import decimal
import re
from typing import assert_never

from situ.core.time import format_duration
from situ.graph.expressions import (
    Aggregate,
    Attribute,
    Binary,
    Call,
    Cast,
    Duration,
    EventTime,
    Expression,
    GroupKey,
    In,
    IsNull,
    Literal,
    Unary,
    WholeEvent,
)

#: How tightly an operator binds; what binds less tightly than its place asks for stands in parentheses.
OR, AND, NOT, PREDICATE, SUM, PRODUCT, SIGNED = range(1, 8)
BINDING = {"or": OR, "and": AND, "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "%": PRODUCT}
BINDING |= dict.fromkeys(("=", "!=", "<", "<=", ">", ">="), PREDICATE)

#: Words that are no names at the start of an operand.
RESERVED_AT_START = frozenset({"not", "true", "false", "null", "distinct"})


def unparse_name(name: str, reserved: frozenset[str] = frozenset()) -> str:
    """The name, in backquotes if it would not be read as one; `reserved` are the keywords of its position.

    >>> unparse_name("lane"), unparse_name("lane no"), unparse_name("First", frozenset({"first"}))
    ('lane', '`lane no`', '`First`')
    """
    if re.fullmatch(r"[^\W\d]\w*", name) and name.lower() not in reserved:
        return name
    return f"`{name.replace('`', '``')}`"


def unparse_expression(expression: Expression) -> str:
    """The expression as text; `parse` reads it back.

    >>> unparse_expression(Binary("*", Binary("+", Attribute("a", "x"), Literal(1)), Literal(-2.5)))
    '(a.x + 1) * -2.5'
    """
    return _unparse(expression, OR)


def _unparse(expression: Expression, place: int) -> str:
    """The text of an expression, in brackets where its place needs a binding of at least `place`."""
    match expression:
        case Binary(operator, left, right):
            binding = BINDING[operator]
            # Chains group to the left; comparisons do not chain.
            left_text = _unparse(left, SUM if binding == PREDICATE else binding)
            text = f"{left_text} {operator} {_unparse(right, binding + 1)}"
        case Unary(operator, operand):
            binding = NOT if operator == "not" else SIGNED
            text = f"not {_unparse(operand, NOT)}" if operator == "not" else f"-{_negated(operand)}"
        case IsNull(operand, negated):
            binding, text = PREDICATE, f"{_unparse(operand, SUM)} is {'not ' if negated else ''}null"
        case In(operand, items, negated):
            listed = ", ".join(map(_literal, items))
            binding, text = PREDICATE, f"{_unparse(operand, SUM)} {'not ' if negated else ''}in ({listed})"
        case _:
            return _operand(expression)
    return f"({text})" if binding < place else text


def _negated(operand: Expression) -> str:
    # `-3` is a literal and `--` starts a comment.
    bare = not isinstance(operand, Literal | Unary)
    return _unparse(operand, SIGNED) if bare else f"({_unparse(operand, OR)})"


def _operand(
    expression: Literal | Attribute | EventTime | WholeEvent | GroupKey | Aggregate | Cast | Call,
) -> str:
    match expression:
        case Literal():
            return _literal(expression)
        case WholeEvent(name) | Attribute(None, name):
            return unparse_name(name, RESERVED_AT_START)
        case Attribute(alias, name):
            # mypy does not see that the case above took None away
            return f"{unparse_name(alias or '', RESERVED_AT_START | {'group'})}.{unparse_name(name)}"
        case EventTime(alias):
            return f"time({unparse_name(alias, RESERVED_AT_START)})"
        case GroupKey(name):
            return f"group.{unparse_name(name)}"
        case Aggregate(function, argument, distinct, offset):
            words = "distinct " if distinct else ""
            return f"{function}({words}{_unparse(argument, OR)}{f', {offset}' if offset else ''})"
        case Cast(operand, type_):
            return f"cast({_unparse(operand, OR)} as {type_})"
        case Call(function, arguments):
            return f"{function}({', '.join(_unparse(argument, OR) for argument in arguments)})"
        case _:
            assert_never(expression)


def _literal(literal: Literal) -> str:
    match literal.value:
        case None:
            return "null"
        case bool() as truth:
            return "true" if truth else "false"
        case str() as text:
            return "'" + text.replace("'", "''") + "'"
        case decimal.Decimal() as exact:
            return f"{exact:f}d"
        case Duration(micros):
            return format_duration(micros)
        case int() | float() as number:
            return repr(number)
        case _:
            assert_never(literal.value)
