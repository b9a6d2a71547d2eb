"""The type of an expression, by Spark SQL's rules, and the scope that gives its names a meaning."""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from situ.core.errors import Place, QueryError, did_you_mean
from situ.core.functions import BUILT_INS, Functions
from situ.core.functions import default as default_functions
from situ.core.types import BINARY, BOOLEAN, DOUBLE, DURATION, INT, NULL, STRING, TIMESTAMP, Decimal, List, Row, Type
from situ.core.types import is_numeric as is_number
from situ.graph.decimals import ArithmeticOperator, arithmetic_decimal, decimal_of_literal, whole_decimal, wider_decimal
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
from situ.graph.operators import Schema
from situ.graph.patterns import repeating_aliases, silences_of, steps_of, tests_of
from situ.graph.query import Aggregation, Case, Rule

#: How the conditions of `not` and `until`, whose event has no alias, refer to the event under test.
THIS = "this"


@dataclass(frozen=True, slots=True)
class Scope:
    """What the names in an expression stand for.

    `repeating` are the aliases that hold several events: they are read through aggregates. In the `<post>` part
    of an aggregation the only alias is None: the records that `<pre>` made. `silences` have a time and no attributes.
    """

    schemas: Mapping[str | None, Schema]
    event_types: Mapping[str, str] = field(default_factory=dict)
    group: Mapping[str, Type] = field(default_factory=dict)
    repeating: frozenset[str | None] = frozenset()
    functions: Functions = default_functions
    silences: frozenset[str] = frozenset()

    def with_this(self, event_type: str, schema: Schema) -> Scope:
        """The scope of a condition of `not` or `until`: the event under test is `this`."""
        return replace(self, schemas={**self.schemas, THIS: schema}, event_types={**self.event_types, THIS: event_type})


def inputs_of(rule: Rule) -> tuple[str, ...]:
    """The event types that a rule reads, in textual order without repetition."""
    return tuple(dict.fromkeys(test.event_type for case in rule.cases for test in tests_of(case.detect)))


def scope_of(rule: Rule, case: Case, schemas: Mapping[str, Schema], functions: Functions = default_functions) -> Scope:
    """The scope of a case's assignments; its conditions see a part of it (and `this`)."""
    steps = tuple(steps_of(case.detect))
    aliases = frozenset[str | None](step.alias for step in steps)
    first_input = schemas[inputs_of(rule)[0]]
    return Scope(
        schemas={step.alias: Schema(()) if step.silence_us else schemas[step.test.event_type] for step in steps},
        event_types={step.alias: step.test.event_type for step in steps},
        group={name: first_input.type_of(name) for name in rule.group_by},
        repeating=aliases if isinstance(rule.kind, Aggregation) else frozenset(repeating_aliases(case.detect)),
        functions=functions,
        silences=frozenset(step.alias for step in silences_of(case.detect)),
    )


def pre_schema(rule: Rule, schemas: Mapping[str, Schema], functions: Functions = default_functions) -> Schema:
    """The columns of the records that the cases of a resolved rule assign: what `<post>` aggregates over."""
    columns: dict[str, Type] = {}
    for case in rule.cases:
        scope = scope_of(rule, case, schemas, functions)
        for item in case.assign:
            type_ = type_of(item.expression, scope)
            common = common_type(columns.get(item.name, NULL), type_)
            if common is None:
                raise QueryError(
                    f"{item.name!r} is {type_} here and {columns[item.name]} in a case before",
                    place=item.place,
                    remedy=f"All cases give an attribute the same type: {_conversion_to(columns[item.name])}.",
                )
            columns[item.name] = common
    return Schema(tuple(columns.items()))


def _conversion_to(type_: Type) -> str:
    """What to write for a value of the type."""
    return f"collect(cast(... as {type_.element}))" if isinstance(type_, List) else f"cast(... as {type_})"


def post_scope(rule: Rule, pre: Schema, schemas: Mapping[str, Schema], functions: Functions) -> Scope:
    """The scope of the `<post>` part, whose records have the columns `pre`."""
    group = scope_of(rule, rule.cases[0], schemas, functions).group
    return Scope({None: pre}, group=group, repeating=frozenset({None}), functions=functions)


def type_of(expression: Expression, scope: Scope) -> Type:
    """The type of a resolved expression; QueryError where the types do not fit.

    >>> scope = Scope({"a": Schema((("speed", DOUBLE), ("cars", INT)))})
    >>> str(type_of(Binary("/", Attribute("a", "cars"), Literal(2)), scope))
    'double'
    >>> type_of(Binary("<", Attribute("a", "speed"), Literal("fast")), scope)
    Traceback (most recent call last):
    situ.core.errors.QueryError: `<` compares values of one type, not double and string.
      Convert one side: cast(... as double).
    """
    match expression:
        case Literal():
            return _literal(expression)
        case Attribute(alias, name):
            return scope.schemas[alias].type_of(name)
        case EventTime():
            return TIMESTAMP
        case WholeEvent(alias):
            return Row(scope.event_types[alias])
        case GroupKey(name):
            return scope.group[name]
        case Aggregate():
            return _aggregate(expression, _operand(expression.argument, scope))
        case Unary(operator, operand):
            return _unary(operator, _operand(operand, scope), expression.place)
        case Binary():
            return _binary(expression, _operand(expression.left, scope), _operand(expression.right, scope))
        case IsNull(operand):
            _value(_operand(operand, scope), "`is null`", expression.place)
            return BOOLEAN
        case In(operand, items):
            for item in items:
                _comparable("in", _operand(operand, scope), type_of(item, scope), item.place or expression.place)
            return BOOLEAN
        case Cast(operand, type_):
            return _cast(_operand(operand, scope), type_, expression.place)
        case Call(function, arguments):
            types = tuple(_operand(argument, scope) for argument in arguments)
            registered = scope.functions.lookup(function)
            return registered.returns if registered else _built_in(function, types, expression.place)
        case _:
            assert_never(expression)


def _operand(expression: Expression, scope: Scope) -> Type:
    """The type of an expression that another one computes with; QueryError for a list, which is a result."""
    type_ = type_of(expression, scope)
    if isinstance(type_, List):
        raise list_error(expression, type_)
    return type_


def list_error(expression: Expression, type_: List) -> QueryError:
    """What is wrong with a list where a value is computed or a condition asked."""
    argument = _argument(expression)
    return QueryError(
        f"collect({argument}) gives a {type_}, and lists are for results: nothing is compared or computed with them",
        place=expression.place,
        remedy=f"Assign it by itself (values = collect({argument})); to compute, read an element, such as "
        f"last({argument}, 0), or another aggregate.",
    )


def _argument(expression: Expression) -> str:
    """The argument of an aggregate as a message shows it: `b.speed`, or `...` where it is longer."""
    match expression:
        case Aggregate(_, Attribute(alias, name)):
            return name if alias is None else f"{alias}.{name}"
        case _:
            return "..."


def common_type(left: Type, right: Type) -> Type | None:
    """The type that holds the values of both, or None.

    >>> str(common_type(INT, Decimal(10, 2))), common_type(INT, STRING)
    ('decimal(22, 2)', None)
    """
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    if not (is_number(left) and is_number(right)):
        return None
    if DOUBLE in (left, right):
        return DOUBLE
    return wider_decimal(left, right)


def _literal(literal: Literal) -> Type:
    match literal.value:
        case None:
            return NULL
        case bool():
            return BOOLEAN
        case int(value):
            if not -(2**63) <= value < 2**63:
                raise QueryError(
                    f"{value} does not fit into 64 bits",
                    place=literal.place,
                    remedy=f"Write a decimal ({value}d) or a double ({value}.0).",
                )
            return INT
        case float():
            return DOUBLE
        case decimal.Decimal() as value:
            type_ = decimal_of_literal(value)
            if type_.precision > 38:
                raise QueryError(
                    f"{value} has more than 38 digits", place=literal.place, remedy="A decimal holds at most 38 digits."
                )
            return type_
        case str():
            return STRING
        case Duration():
            return DURATION
        case _:
            assert_never(literal.value)


def _aggregate(aggregate: Aggregate, argument: Type) -> Type:
    name = aggregate.function
    if name == "count":
        return INT
    _value(argument, f"{name}()", aggregate.place)
    if name == "collect":
        assert not isinstance(argument, Row | List), "neither is a value"
        if argument == NULL:
            raise QueryError(
                "collect() would give nothing but nulls",
                place=aggregate.place,
                remedy="Collect an attribute, or say which type the nulls have: collect(cast(... as int)).",
            )
        return List(argument)
    if name in ("min", "max", "first", "last"):
        return argument
    if not is_number(argument):
        raise QueryError(
            f"{name}() takes numbers, not {argument}",
            place=aggregate.place,
            remedy="count, min, max, first, last and collect take values of every type.",
        )
    if name == "sum":
        return Decimal(min(38, argument.precision + 10), argument.scale) if isinstance(argument, Decimal) else argument
    return DOUBLE


def _unary(operator: str, operand: Type, place: Place | None) -> Type:
    if operator == "not":
        _boolean(operand, "not", place)
        return BOOLEAN
    if not (is_number(operand) or operand == DURATION):
        raise QueryError(
            f"`-` takes a number or a duration, not {operand}", place=place, remedy=_arithmetic_remedy(operand, NULL)
        )
    return operand


def _binary(expression: Binary, left: Type, right: Type) -> Type:
    match expression.operator:
        case "and" | "or":
            _boolean(left, expression.operator, expression.left.place or expression.place)
            _boolean(right, expression.operator, expression.right.place or expression.place)
            return BOOLEAN
        case "=" | "!=" | "<" | "<=" | ">" | ">=":
            _comparable(expression.operator, left, right, expression.place)
            return BOOLEAN
        case "+" | "-" | "*" | "/" | "%" as operator:
            type_ = _number(operator, expression, left, right) or _time(operator, left, right)
            if type_ is None:
                raise QueryError(
                    f"`{operator}` does not take {left} and {right}",
                    place=expression.place,
                    remedy=_arithmetic_remedy(left, right),
                )
            return type_
        case _:
            assert_never(expression.operator)


def _number(operator: ArithmeticOperator, expression: Binary, left: Type, right: Type) -> Type | None:
    """The result of arithmetic on numbers. A null takes the other side's type."""
    if not (is_number(left) and is_number(right)):
        return None
    left, right = (right if left == NULL else left), (left if right == NULL else right)
    if DOUBLE in (left, right):
        return DOUBLE
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return arithmetic_decimal(operator, _exact(expression.left, left), _exact(expression.right, right))
    return DOUBLE if operator == "/" else left


def _exact(operand: Expression, type_: Type) -> Type:
    """The type of an integer literal beside a decimal: as in Spark, it has its own digits, not those of all
    integers."""
    if isinstance(operand, Literal) and type(operand.value) is int:
        return decimal_of_literal(decimal.Decimal(operand.value))
    return type_


#: Arithmetic with times and durations.
_TIME_ARITHMETIC: dict[tuple[str, Type, Type], Type] = {
    ("+", DURATION, DURATION): DURATION,
    ("-", DURATION, DURATION): DURATION,
    ("+", TIMESTAMP, DURATION): TIMESTAMP,
    ("-", TIMESTAMP, DURATION): TIMESTAMP,
    ("+", DURATION, TIMESTAMP): TIMESTAMP,
    ("-", TIMESTAMP, TIMESTAMP): DURATION,
    ("*", DURATION, INT): DURATION,
    ("*", INT, DURATION): DURATION,
}


def _time(operator: ArithmeticOperator, left: Type, right: Type) -> Type | None:
    """A null beside a time or a duration counts as a duration, and as an integer where it multiplies one."""
    null = INT if operator == "*" else DURATION
    operands = (null if left == NULL else left), (null if right == NULL else right)
    return _TIME_ARITHMETIC.get((operator, *operands))


def _arithmetic_remedy(left: Type, right: Type) -> str:
    if STRING in (left, right):
        return "Join texts with concat(x, y); make a number of a text with cast(x as double)."
    if {left, right} & {TIMESTAMP, DURATION}:
        return "Timestamps subtract; a duration (5 s) is added to a timestamp, or multiplied by an integer."
    return "Arithmetic is for numbers, timestamps and durations."


def _cast(source: Type, target: Type, place: Place | None) -> Type:
    simple = {BOOLEAN, STRING}
    fits = (
        source in (NULL, target)
        or (is_number(source) and (is_number(target) or target in simple))
        or (source == BOOLEAN and (is_number(target) or target == STRING))
        or (source == STRING and (is_number(target) or target in (BOOLEAN, TIMESTAMP, BINARY)))
        or (source in (TIMESTAMP, BINARY) and target == STRING)
    )
    if not fits or isinstance(source, Row):
        raise QueryError(
            f"{source} cannot be cast to {target}",
            place=place,
            remedy="Numbers, booleans and strings cast to each other; timestamps and binaries to and from strings.",
        )
    return target


def _built_in(function: str, types: tuple[Type, ...], place: Place | None) -> Type:
    def numbers(count: int) -> bool:
        return len(types) == count and all(map(is_number, types))

    def texts(*also: Type) -> bool:
        return bool(types) and all(type_ in (STRING, NULL, *also) for type_ in types)

    common = _common(types)
    result: Type | None
    match function:
        case "abs":
            usage, result = "one number", types[0] if numbers(1) else None
        case "floor" | "ceil":
            usage, result = "one number", _whole(types[0]) if numbers(1) else None
        case "sqrt":
            usage, result = "one number", DOUBLE if numbers(1) else None
        case "power":
            usage, result = "two numbers", DOUBLE if numbers(2) else None
        case "distance":
            usage, result = "four numbers (x1, y1, x2, y2)", DOUBLE if numbers(4) else None
        case "coalesce":
            usage, result = "values of one type", common if types else None
        case "least" | "greatest":
            usage, result = "two or more values of one type", common if len(types) > 1 else None
        case "if":
            usage = "a condition and two values of one type"
            conditional = len(types) == 3 and types[0] in (BOOLEAN, NULL)
            result = common_type(types[1], types[2]) if conditional else None
        case "lower" | "upper":
            usage, result = "one string", STRING if len(types) == 1 and texts() else None
        case "length":
            usage, result = "one string or binary", INT if len(types) == 1 and texts(BINARY) else None
        case "concat":
            usage, result = "strings: cast(x as string) makes one", STRING if texts() else None
        case "substring":
            usage = "a string, the position of the first character (from 1) and optionally a length"
            places = len(types) in (2, 3) and all(type_ in (INT, NULL) for type_ in types[1:])
            result = STRING if places and types[0] in (STRING, NULL) else None
        case _:
            raise QueryError(f"no function {function!r}", place=place, remedy=did_you_mean(function, BUILT_INS))
    if result is None or isinstance(result, Row):
        arguments = ", ".join(map(str, types)) or "nothing"
        raise QueryError(f"{function}() does not take ({arguments})", place=place, remedy=f"It takes {usage}.")
    return result


def _common(types: tuple[Type, ...]) -> Type | None:
    common: Type | None = NULL
    for type_ in types:
        common = None if common is None else common_type(common, type_)
    return common


def _whole(type_: Type) -> Type:
    return whole_decimal(type_) if isinstance(type_, Decimal) else INT


def _boolean(type_: Type, operator: str, place: Place | None) -> None:
    if type_ not in (BOOLEAN, NULL):
        raise QueryError(f"`{operator}` takes conditions, not {type_}", place=place, remedy="Compare it: x = 1, x > 0.")


def _value(type_: Type, taker: str, place: Place | None) -> None:
    if isinstance(type_, Row):
        raise QueryError(
            f"{taker} takes a value, not a whole {type_}", place=place, remedy="Read one of its attributes: alias.name."
        )


def _comparable(operator: str, left: Type, right: Type, place: Place | None) -> None:
    _value(left, f"`{operator}`", place)
    _value(right, f"`{operator}`", place)
    if common_type(left, right) is None:
        # The side that can be cast is the string, if there is one: no number or time casts to every type.
        target = left if right == STRING else right if left == STRING else STRING
        remedy = f"Convert one side: cast(... as {target})."
        if DURATION in (left, right):
            remedy = "A duration is written with its unit: 5 s, 200 ms."
        raise QueryError(
            f"`{operator}` compares values of one type, not {left} and {right}", place=place, remedy=remedy
        )
