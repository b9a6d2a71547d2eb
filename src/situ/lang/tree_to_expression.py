"""Expressions: from the grammar's tree to frozen nodes.

Nothing is resolved here: a bare name is always `Attribute(None, name)`, also where it will turn out to be an alias
(`count(jam)`, `FaceDetect(Video)`).
"""

from __future__ import annotations

import decimal
import math
from typing import Any, cast, get_args

from lark import Token, Transformer_NonRecursive, v_args
from lark.tree import Meta

from situ.core.errors import Place, QuerySyntaxError, did_you_mean
from situ.core.time import parse_duration
from situ.core.types import TYPE_NAMES, Decimal, Type
from situ.graph.expressions import (
    Aggregate,
    AggregateName,
    Attribute,
    Binary,
    BinaryOperator,
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
    UnaryOperator,
)
from situ.graph.query import Query

AGGREGATES = frozenset(get_args(AggregateName))
ORDERINGS = frozenset({"<", "<=", ">", ">="})
MAX_INT = 2**63 - 1
MAX_DECIMAL_DIGITS = 38


@v_args(inline=True, meta=True)
class TreeToExpression(Transformer_NonRecursive[Token, Query]):
    """Each method makes the node of the rule of its name; `meta` says where the rule's text stands."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self._file = file

    def _place(self, where: Meta | Token) -> Place:
        # Both carry a line and a column; a token's are optional only for tokens that no text gave.
        return Place(self._file, cast(int, where.line), cast(int, where.column))

    def _error(self, where: Meta | Token, cause: str, remedy: str) -> QuerySyntaxError:
        return QuerySyntaxError(cause, place=self._place(where), remedy=remedy)

    # ---- tokens

    def QUOTED(self, token: Token) -> Token:
        return Token.new_borrow_pos("QUOTED", token[1:-1].replace("``", "`"), token)

    def DOUBLE_QUOTED(self, token: Token) -> Token:
        return Token.new_borrow_pos("DOUBLE_QUOTED", token[1:-1].replace('""', '"'), token)

    def _whole(self, token: Token, *, at_least: int = -MAX_INT - 1, sign: int = 1) -> int:
        """The signed value of an INT token."""
        # 20 digits are too many already, and int() refuses very long ones in its own words.
        value = sign * int(token.lstrip("0")[:20] or "0")
        if not -MAX_INT - 1 <= value <= MAX_INT:
            raise self._error(token, f"{token[:20]} is too large for an int (64 bits)", "Write a decimal: 123d.")
        if value < at_least:
            raise self._error(token, f"{token} is too small here", f"It must be at least {at_least}.")
        return value

    def _float(self, token: Token) -> float:
        value = float(token)
        if math.isinf(value):
            raise self._error(token, f"{token[:20]} is too large for a double", "The largest is about 1.8e308.")
        return value

    def _micros(self, token: Token) -> int:
        try:
            micros = parse_duration(token.lower())
        except (ValueError, OverflowError):
            micros = MAX_INT + 1
        if micros > MAX_INT:
            remedy = "Write for example 500 ms, 3 s, 5 min, 1 h, 1 day."
            raise self._error(token, f"'{token[:20]}' is no duration", remedy)
        return micros

    def type(self, meta: Meta, name: Token, precision: Token | None, scale: Token | None) -> Type:
        word = name.lower()
        if precision is None or scale is None:
            if word in TYPE_NAMES:
                return TYPE_NAMES[word]
            type_names = [*TYPE_NAMES, "decimal(p, s)"]
            raise self._error(meta, f"there is no type '{name}'", did_you_mean(word, type_names))
        if word != "decimal":
            raise self._error(meta, f"type '{name}' takes no parameters", "Only decimal does: decimal(10, 2).")
        digits = self._whole(precision, at_least=1)
        if digits > MAX_DECIMAL_DIGITS or self._whole(scale) > digits:
            remedy = f"The precision is at most {MAX_DECIMAL_DIGITS}, and the scale at most the precision."
            raise self._error(meta, f"decimal({precision[:20]}, {scale[:20]}) does not exist", remedy)
        return Decimal(digits, self._whole(scale))

    # ---- literals

    def positive(self, meta: Meta, token: Token) -> Literal:
        return Literal(self._number(token, 1), place=self._place(meta))

    def negative(self, meta: Meta, token: Token) -> Literal:
        return Literal(self._number(token, -1), place=self._place(meta))

    def _number(self, token: Token, sign: int) -> int | float | decimal.Decimal | Duration:
        match token.type:
            case "INT":
                return self._whole(token, sign=sign)
            case "FLOAT":
                return sign * self._float(token)
            case "DURATION":
                return Duration(sign * self._micros(token))
            case _:
                value = decimal.Decimal(token[:-1])
                if len(value.as_tuple().digits) > MAX_DECIMAL_DIGITS:
                    remedy = f"A decimal has at most {MAX_DECIMAL_DIGITS} digits."
                    raise self._error(token, f"{token[:20]}... has too many digits", remedy)
                return value if sign > 0 else value.copy_negate()

    def constant(self, meta: Meta, token: Token) -> Literal:
        if token.type == "STRING":
            return Literal(str(token[1:-1]).replace("''", "'"), place=self._place(meta))
        return Literal({"TRUE": True, "FALSE": False, "NULL": None}[token.type], place=self._place(meta))

    # ---- operators

    def binary(self, meta: Meta, left: Expression, operator: Token, right: Expression) -> Binary:
        return Binary(cast(BinaryOperator, operator.lower()), left, right, place=self._place(meta))

    def unary(self, meta: Meta, operator: Token, operand: Expression) -> Unary:
        return Unary(cast(UnaryOperator, operator.lower()), operand, place=self._place(meta))

    def comparison(self, meta: Meta, *chain: Any) -> Expression:
        """`20 < x < 25` -> `20 < x and x < 25`, as EdgeCEP writes ranges."""
        operands, operators = chain[::2], chain[1::2]
        if len(operators) > 1 and not ORDERINGS.issuperset(operators):
            raise self._error(operators[1], "only < <= > >= can be chained", "Put 'and' between the comparisons.")
        place = self._place(meta)
        pairs = [
            Binary(cast(BinaryOperator, "!=" if operator == "<>" else str(operator)), left, right, place=place)
            for left, operator, right in zip(operands, operators, operands[1:], strict=False)
        ]
        return self._conjunction(pairs, place)

    def between(self, meta: Meta, operand: Expression, negated: Token | None, low: Expression, high: Expression) -> Any:
        """`x between 1 and 5` -> `x >= 1 and x <= 5`."""
        place = self._place(meta)
        bounds = [Binary(">=", operand, low, place=place), Binary("<=", operand, high, place=place)]
        inside = self._conjunction(bounds, place)
        return Unary("not", inside, place=place) if negated else inside

    def _conjunction(self, conditions: list[Binary], place: Place) -> Binary:
        first, *further = conditions
        for condition in further:
            first = Binary("and", first, condition, place=place)
        return first

    def is_null(self, meta: Meta, operand: Expression, negated: Token | None) -> IsNull:
        return IsNull(operand, negated is not None, place=self._place(meta))

    def in_list(self, meta: Meta, operand: Expression, negated: Token | None, *items: Literal) -> In:
        return In(operand, items, negated is not None, place=self._place(meta))

    # ---- references and calls

    def reference(self, meta: Meta, qualifier: Token | None, name: Token) -> Attribute | GroupKey:
        place = self._place(meta)
        if qualifier is not None and qualifier.type == "NAME" and qualifier.lower() == "group":
            return GroupKey(str(name), place=place)
        return Attribute(None if qualifier is None else str(qualifier), str(name), place=place)

    def arguments(self, meta: Meta, *arguments: Expression) -> tuple[Expression, ...]:
        return arguments

    def call(self, meta: Meta, name: Token, distinct: Token | None, arguments: tuple[Expression, ...] | None) -> Any:
        word, operands = name.lower(), arguments or ()
        if distinct is not None and word != "count":
            raise self._error(distinct, f"'distinct' has no place in {name}(...)", "Only count(distinct x) takes it.")
        if word in AGGREGATES:
            return self._aggregate(meta, word, operands, distinct is not None)
        match word, operands:
            case "time", (Attribute(None, alias),):
                return EventTime(alias, place=self._place(meta))
            case "time", _:
                raise self._error(meta, "time(...) takes one alias", "Write time(a), where a stands after 'as'.")
            case "cast", _:
                raise self._error(meta, "cast(...) needs a type", "Write cast(x as double).")
            case _:
                return Call(str(name), operands, place=self._place(meta))

    def _aggregate(self, meta: Meta, word: str, arguments: tuple[Expression, ...], distinct: bool) -> Aggregate:
        if len(arguments) == 1:
            return Aggregate(cast(AggregateName, word), arguments[0], distinct, place=self._place(meta))
        if word in ("first", "last") and len(arguments) == 2:
            return self._element(meta, cast(AggregateName, word), *arguments)
        remedy = {"min": "For the smallest of several values, write least(...).",
                  "max": "For the largest of several values, write greatest(...)."}  # fmt: skip
        cause = f"the aggregate {word} takes one argument, not {len(arguments)}"
        raise self._error(meta, cause, remedy.get(word, f"Write {word}(alias.attribute)."))

    def _element(self, meta: Meta, word: AggregateName, argument: Expression, offset: Expression) -> Aggregate:
        """`first(b.speed, 2)`: two events are passed over."""
        match offset:
            case Literal(bool()):
                pass
            case Literal(int(number)) if number >= 0:
                return Aggregate(word, argument, offset=number, place=self._place(meta))
        raise QuerySyntaxError(
            f"the second argument of {word}() says how many events to pass over, and is a number from 0 on",
            place=offset.place or self._place(meta),
            remedy=f"Write {word}(alias.attribute, 0) for the {word} event, {word}(alias.attribute, 1) for the one "
            f"{'after' if word == 'first' else 'before'} it, and so on.",
        )

    def cast(self, meta: Meta, name: Token, operand: Expression, type_: Type) -> Cast:
        if name.lower() != "cast":
            raise self._error(name, f"'as' has no place in {name}(...)", "Only cast(x as type) takes it.")
        return Cast(operand, type_, place=self._place(meta))
