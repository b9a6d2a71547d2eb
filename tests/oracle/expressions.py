"""Expressions over Python values, as docs/language.md, chapter "Expressions", has them.

None is null. A run-time error gives null. Every function here is written for plainness, none for speed.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from oracle.events import EPOCH, Event, nulls_first, timestamp
from situ.core import functions
from situ.core.errors import QueryError
from situ.core.types import BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, Type
from situ.core.types import Decimal as DecimalType
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
    aliases_of,
)

#: Wide enough that sums and products of 38 digits are exact.
EXACT = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_UP)


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression can see.

    `taken` has the events of each alias in order of position. `tested` is the event under test and its alias:
    a plain reference to that alias means it, an aggregate over that alias does not see it.
    The records that a `<post>` part reads stand under the alias None.
    """

    taken: Mapping[str | None, Sequence[Event]]
    group: Mapping[str, Any] = field(default_factory=dict)
    tested: tuple[str | None, Event] | None = None

    def event(self, alias: str | None) -> Event | None:
        if self.tested is not None and self.tested[0] == alias:
            return self.tested[1]
        events = self.taken.get(alias, ())
        if len(events) > 1:
            raise AssertionError(f"alias {alias} holds several events and is read without an aggregate")
        return events[0] if events else None


def holds(condition: Expression | None, scope: Scope) -> bool:
    return condition is None or evaluate(condition, scope) is True


def evaluate(expression: Expression, scope: Scope) -> Any:
    match expression:
        case Literal(Duration(micros)):
            return datetime.timedelta(microseconds=micros)
        case Literal(value):
            return value
        case Attribute(alias, name):
            event = scope.event(alias)
            return None if event is None else event.attributes[name]
        case EventTime(alias):
            event = scope.event(alias)
            return None if event is None else timestamp(event.time)
        case WholeEvent(alias):
            event = scope.event(alias)
            return None if event is None else dict(event.attributes)
        case GroupKey(name):
            return scope.group[name]
        case Aggregate():
            return aggregate(expression, scope)
        case Unary(operator, operand):
            return unary(operator, evaluate(operand, scope))
        case Binary("and", left, right):
            return three_valued_and(evaluate(left, scope), evaluate(right, scope))
        case Binary("or", left, right):
            return negation(three_valued_and(negation(evaluate(left, scope)), negation(evaluate(right, scope))))
        case Binary(operator, left, right):
            return binary(operator, evaluate(left, scope), evaluate(right, scope))
        case IsNull(operand, negated):
            return (evaluate(operand, scope) is None) != negated
        case In(operand, items, negated):
            value = evaluate(operand, scope)
            tests = [binary("=", value, evaluate(item, scope)) for item in items]
            found = True if True in tests else None if None in tests else False
            return negation(found) if negated else found
        case Cast(operand, type_):
            return cast(evaluate(operand, scope), type_)
        case Call(function, arguments):
            return call(function, [evaluate(argument, scope) for argument in arguments])
        case _:
            assert_never(expression)


def three_valued_and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def negation(value: bool | None) -> bool | None:
    return None if value is None else not value


def is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def in_range(value: Any) -> Any:
    """Null for an integer that 64 bits do not hold, and for a decimal of more than 38 digits."""
    if is_int(value) and not -(2**63) <= value < 2**63:
        return None
    if isinstance(value, decimal.Decimal) and len(value.as_tuple().digits) > 38:
        return None
    return value


def same_kind(left: Any, right: Any) -> tuple[Any, Any]:
    """Integers and decimals become doubles where the other side is one, and decimals where the other side is one."""
    if isinstance(left, float) or isinstance(right, float):
        return float(left), float(right)
    if isinstance(left, decimal.Decimal) or isinstance(right, decimal.Decimal):
        return decimal.Decimal(left), decimal.Decimal(right)
    return left, right


def unary(operator: str, value: Any) -> Any:
    if operator == "not":
        return negation(value)
    return None if value is None else in_range(-value)


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def binary(operator: str, left: Any, right: Any) -> Any:
    if left is None or right is None:
        return None
    if isinstance(left, datetime.date | datetime.timedelta) or isinstance(right, datetime.date | datetime.timedelta):
        return binary_of_times(operator, left, right)
    if isinstance(left, int | float | decimal.Decimal) and isinstance(right, int | float | decimal.Decimal):
        left, right = same_kind(left, right)
    if operator in COMPARISONS:
        return COMPARISONS[operator](nulls_first(left), nulls_first(right))  # NaN equals itself and is the largest
    return arithmetic(operator, left, right)


def binary_of_times(operator: str, left: Any, right: Any) -> Any:
    if operator in COMPARISONS:
        return COMPARISONS[operator](left, right)
    try:
        return {"+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right}[operator]()
    except OverflowError:
        return None


def arithmetic(operator: str, left: Any, right: Any) -> Any:
    exact = isinstance(left, decimal.Decimal)
    match operator:
        case "+":
            return in_range(EXACT.add(left, right) if exact else left + right)
        case "-":
            return in_range(EXACT.subtract(left, right) if exact else left - right)
        case "*":
            return in_range(EXACT.multiply(left, right) if exact else left * right)
        case "/":
            if right == 0:
                return None
            if exact:
                raise NotImplementedError("the scale of a decimal quotient depends on types, which values do not show")
            return float(left) / float(right)
        case "%":
            if right == 0:
                return None
            if exact:
                return EXACT.remainder(left, right)
            if isinstance(left, float):
                return math.nan if math.isinf(left) else math.fmod(left, right)
            return int(math.copysign(1, left)) * (abs(left) % abs(right))
        case _:
            raise AssertionError(operator)


def cast(value: Any, type_: Type) -> Any:
    """What does not fit is null; fractions are cut off towards zero."""
    if value is None:
        return None
    try:
        if type_ == INT:
            if isinstance(value, str):
                return in_range(int(value)) if value.strip().lstrip("+-").isdecimal() else None
            if isinstance(value, datetime.datetime):
                return (value - EPOCH) // datetime.timedelta(seconds=1)
            return in_range(int(value))
        if type_ == DOUBLE:
            return float(value)
        if type_ == BOOLEAN:
            return to_boolean(value)
        if type_ == STRING:
            return str(value).lower() if isinstance(value, bool) else str(value)
        if type_ == TIMESTAMP and is_int(value):
            return timestamp(value * 1_000_000)
        if isinstance(type_, DecimalType):
            rounded = decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-type_.scale), context=EXACT)
            return rounded if abs(rounded) < decimal.Decimal(10) ** (type_.precision - type_.scale) else None
    except (ValueError, OverflowError, decimal.InvalidOperation):
        return None
    return value


def to_boolean(value: Any) -> bool | None:
    if isinstance(value, str):
        word = value.strip().lower()
        return (
            True
            if word in ("t", "true", "y", "yes", "1")
            else False
            if word in ("f", "false", "n", "no", "0")
            else None
        )
    return bool(value)


def aggregate(node: Aggregate, scope: Scope) -> Any:
    alias = next(iter(aliases_of(node.argument)), None)
    events = scope.taken.get(alias, ())
    values = [evaluate(node.argument, replace(scope, tested=(alias, event))) for event in events]
    return aggregate_values(node.function, values, node.distinct, node.offset)


def aggregate_values(function: str, values: list[Any], distinct: bool = False, offset: int = 0) -> Any:
    if function in ("first", "last"):
        in_turn = values if function == "first" else values[::-1]
        return in_turn[offset] if offset < len(in_turn) else None
    if function == "collect":
        return values
    known = [value for value in values if value is not None]
    if distinct:
        known = [value for i, value in enumerate(known) if not any(binary("=", value, v) for v in known[:i])]
    if function == "count":
        return len(known)
    if not known:
        return None
    match function:
        case "sum":
            return in_range(add_up(known))
        case "avg":
            return float(add_up(known)) / len(known)
        case "min":
            return min(known, key=nulls_first)
        case "max":
            return max(known, key=nulls_first)
        case "stddev":
            return deviation([float(value) for value in known])
        case _:
            raise AssertionError(function)


def add_up(values: list[Any]) -> Any:
    total = values[0]
    for value in values[1:]:
        total = EXACT.add(total, value) if isinstance(total, decimal.Decimal) else total + value
    return total


def deviation(values: list[float]) -> float | None:
    if len(values) < 2:
        return None
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def call(function: str, arguments: list[Any]) -> Any:
    """Built-in functions; those that pass over nulls first, then those that give null for a null argument."""
    known = [argument for argument in arguments if argument is not None]
    match function:
        case "coalesce":
            return known[0] if known else None
        case "least":
            return min(known, key=nulls_first) if known else None
        case "greatest":
            return max(known, key=nulls_first) if known else None
        case "if":
            condition, then, otherwise = arguments
            return then if condition is True else otherwise
    if function in STRICT_FUNCTIONS:
        return None if len(known) < len(arguments) else in_range(STRICT_FUNCTIONS[function](*arguments))
    return call_registered(function, arguments)


def call_registered(function: str, arguments: list[Any]) -> Any:
    try:
        return functions.default.callable_of(function)(*arguments)
    except QueryError:
        raise  # no such function: a mistake in the test, not a run-time error
    except Exception:
        return None


def whole(rounding: Callable[[Any], int]) -> Callable[[Any], Any]:
    def rounded(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return decimal.Decimal(rounding(value)) if isinstance(value, decimal.Decimal) else rounding(value)

    return rounded


def square_root(value: Any) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


def power(base: Any, exponent: Any) -> float:
    """As IEEE 754 has it, where Python would raise."""
    base, exponent = float(base), float(exponent)
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        if base != 0:
            return math.nan
        return math.copysign(math.inf, base) if exponent % 2 == 1 else math.inf


def substring(text: str, position: int, length: int | None = None) -> str:
    """Positions count from 1; 0 means 1; negative ones count from the end."""
    start = position - 1 if position > 0 else position + len(text) if position < 0 else 0
    end = len(text) if length is None else start + length
    return text[max(start, 0) : max(end, 0)]


STRICT_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "floor": whole(math.floor),
    "ceil": whole(math.ceil),
    "sqrt": square_root,
    "power": power,
    "lower": str.lower,
    "upper": str.upper,
    "length": len,
    "concat": lambda *texts: "".join(texts),
    "substring": substring,
    "distance": lambda x1, y1, x2, y2: math.sqrt((x1 - x2) ** 2 + (y1 - y2) ** 2),
}
