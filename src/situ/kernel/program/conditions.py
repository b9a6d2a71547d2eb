"""Conditions -> tests, terms and code.

A conjunct about one event is a **test**: it is evaluated on whole columns and never enters the kernel. What remains
of a condition joins several events. Its largest sub-expressions about one event are **terms**, columns again; the
kernel only combines terms, by a small stack code that `machine.py` runs. What the code cannot say (text functions,
decimals, users' functions of several events) becomes a **host** condition, which the kernel asks Python to evaluate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from situ.core.types import BOOLEAN, DOUBLE, DURATION, INT, NULL, TIMESTAMP, Type, to_arrow
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
    IsNull,
    Literal,
    Unary,
    WholeEvent,
    aliases_of,
    rename_alias,
    replace_children,
    walk,
)
from situ.graph.operators import Schema
from situ.graph.typing import THIS, Scope, type_of


class Op(IntEnum):
    """Instructions: (op, a, b). Suffix I works on the integer stack, F on the floating one."""

    CHECK = 0  # end of a conjunct: stop unless it is true
    HOST = 1  # a: number of a host condition; a conjunct by itself
    SELF_I = 2  # a: term of the event under test
    SELF_F = 3
    TERM_I = 4  # a: term, b: variable
    TERM_F = 5
    CONST_I = 6  # a: number of a constant
    CONST_F = 7
    NULL_I = 8
    NULL_F = 9
    TO_F = 10
    ADD_I = 11
    SUB_I = 12
    MUL_I = 13
    MOD_I = 14
    NEG_I = 15
    ADD_F = 16
    SUB_F = 17
    MUL_F = 18
    DIV_F = 19
    MOD_F = 20
    NEG_F = 21
    COMPARE_I = 22  # a: Comparison
    COMPARE_F = 23
    AND = 24
    OR = 25
    NOT = 26
    IS_NULL_I = 27
    IS_NULL_F = 28
    COALESCE_I = 29
    COALESCE_F = 30
    ABS_I = 31
    ABS_F = 32
    DISTANCE = 33
    COUNT = 34  # b: variable
    AGGREGATE_I = 35  # a: term * 8 + Fold, b: variable
    AGGREGATE_F = 36
    MEAN_I = 37  # a: term, b: variable; results in F
    MEAN_F = 38
    DEVIATION_I = 39
    DEVIATION_F = 40
    ELEMENT_I = 41  # a: term * 8 + Fold.FIRST or Fold.LAST, b: variable; the stack says how many events to pass over
    ELEMENT_F = 42


class Comparison(IntEnum):
    EQ = 0
    NE = 1
    LT = 2
    LE = 3
    GT = 4
    GE = 5


class Fold(IntEnum):
    SUM = 0
    MIN = 1
    MAX = 2
    FIRST = 3
    LAST = 4


_COMPARISONS = {"=": Comparison.EQ, "!=": Comparison.NE, "<": Comparison.LT, "<=": Comparison.LE,
                ">": Comparison.GT, ">=": Comparison.GE}  # fmt: skip
_ARITHMETIC = {"+": "ADD", "-": "SUB", "*": "MUL", "%": "MOD"}
_WHOLE = (INT, BOOLEAN, TIMESTAMP, DURATION)


@dataclass(frozen=True, slots=True)
class Test:
    """Conjuncts about one event, with the alias `this`."""

    event_type: str
    conditions: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Term:
    """A sub-expression about one event, with the alias `this`.

    `ranked`: of a type that the kernel knows only by rank (strings, decimals, binary): equal values have equal ranks.
    """

    event_type: str
    expression: Expression
    ranked: Type | None = None


@dataclass(frozen=True, slots=True)
class HostCondition:
    """A conjunct that Python evaluates; `alias` is that of the event under test."""

    expression: Expression
    alias: str
    event_type: str


@dataclass(slots=True)
class Conditions:
    """What `compile` has collected for one case."""

    tests: list[Test] = field(default_factory=list)
    whole_terms: list[Term] = field(default_factory=list)
    real_terms: list[Term] = field(default_factory=list)
    whole_constants: list[int] = field(default_factory=list)
    real_constants: list[float] = field(default_factory=list)
    code: list[tuple[int, int, int]] = field(default_factory=list)
    host: list[HostCondition] = field(default_factory=list)


def reads_single_event(conjunct: Expression, alias: str) -> bool:
    """Whether a conjunct is about one event alone."""
    return aliases_of(conjunct) <= {alias} and not any(isinstance(node, Aggregate) for node in walk(conjunct))


#: Values that the kernel's stack holds. What needs more goes to the host.
STACK_DEPTH = 64
_ONE_OPERAND = {Op.TO_F, Op.NEG_I, Op.NEG_F, Op.NOT, Op.IS_NULL_I, Op.IS_NULL_F, Op.ABS_I, Op.ABS_F}
_ONE_OPERAND |= {Op.ELEMENT_I, Op.ELEMENT_F}
_TWO_OPERANDS = {op for op in Op if Op.ADD_I <= op <= Op.OR} - _ONE_OPERAND | {Op.COALESCE_I, Op.COALESCE_F}


def _stack_depth(code: list[tuple[int, int, int]]) -> int:
    """How many values the code of a conjunct has on the stack at the most."""
    depth = deepest = 0
    for op, _, _ in code:
        if op in _TWO_OPERANDS:
            depth -= 1
        elif op == Op.DISTANCE:
            depth -= 3
        elif op not in _ONE_OPERAND:
            depth += 1
        deepest = max(deepest, depth)
    return deepest


class _NotNative(Exception):
    """The code cannot say this; Python will."""


class ConditionCompiler:
    """Compiles the conditions of one case; `variables` numbers its aliases."""

    def __init__(self, scope: Scope, schemas: Mapping[str, Schema], variables: Mapping[str, int]) -> None:
        self.scope = scope
        self.schemas = schemas
        self.variables = variables
        self.result = Conditions()

    def compile(self, conditions: tuple[Expression, ...], alias: str, event_type: str) -> tuple[int, tuple[int, int]]:
        """The number of the test, and the range of code for what joins several events."""
        scope = self.scope.with_this(event_type, self.schemas[event_type])
        expanded = [group_as_attribute(condition, alias) for condition in conditions]
        single = tuple(rename_alias(c, alias, THIS) for c in expanded if reads_single_event(c, alias))
        test = _index(self.result.tests, Test(event_type, single))
        begin = len(self.result.code)
        for conjunct in expanded:
            if not reads_single_event(conjunct, alias):
                self._conjunct(conjunct, alias, event_type, scope)
        return test, (begin, len(self.result.code))

    def _conjunct(self, conjunct: Expression, alias: str, event_type: str, scope: Scope) -> None:
        begin = len(self.result.code)
        try:
            _Native(self, alias, event_type, scope).emit(conjunct)
            if _stack_depth(self.result.code[begin:]) > STACK_DEPTH:
                raise _NotNative
            self.result.code.append((Op.CHECK, 0, 0))
        except _NotNative:
            del self.result.code[begin:]
            self.result.host.append(HostCondition(conjunct, alias, event_type))
            self.result.code.append((Op.HOST, len(self.result.host) - 1, 0))


class _Native:
    """Emits the code of one conjunct. `emit` returns "I" or "F", the stack that holds the result, or "R" for a rank."""

    def __init__(self, compiler: ConditionCompiler, alias: str, event_type: str, scope: Scope) -> None:
        self.compiler, self.alias, self.event_type, self.scope = compiler, alias, event_type, scope
        self.result = compiler.result

    def op(self, op: Op, a: int = 0, b: int = 0) -> None:
        self.result.code.append((op, a, b))

    def emit(self, expression: Expression) -> str:
        read = aliases_of(expression)
        aggregates = any(isinstance(node, Aggregate) for node in walk(expression))
        if len(read) == 1 and not aggregates:
            (alias,) = read
            if alias == self.alias or _null_in_null_out(expression):
                return self.term(expression, alias)
        match expression:
            case Literal(value):
                return self.constant(value)
            case Aggregate():
                return self.aggregate(expression)
            case Unary("-", operand):
                kind = self.number(operand)
                self.op(Op.NEG_I if kind == "I" else Op.NEG_F)
                return kind
            case Unary("not", operand):
                self.emit(operand)
                self.op(Op.NOT)
                return "I"
            case Binary(operator, left, right):
                return self.binary(operator, left, right)
            case IsNull(operand, negated):
                self.op(Op.IS_NULL_F if self.emit(operand) == "F" else Op.IS_NULL_I)
                if negated:
                    self.op(Op.NOT)
                return "I"
            case Call("coalesce", (left, right)):
                kind = self.same_stack(left, right)
                self.op(Op.COALESCE_I if kind == "I" else Op.COALESCE_F)
                return kind
            case Call("abs", (operand,)):
                kind = self.number(operand)
                self.op(Op.ABS_I if kind == "I" else Op.ABS_F)
                return kind
            case Call("distance", arguments):
                for argument in arguments:
                    self.as_real(self.number(argument))
                self.op(Op.DISTANCE)
                return "F"
            case _:
                raise _NotNative

    def term(self, expression: Expression, alias: str) -> str:
        type_ = type_of(expression, self.scope)
        event_type = self.event_type if alias == self.alias else self.scope.event_types[alias]
        plain = rename_alias(expression, alias, THIS)
        mine = alias == self.alias
        variable = -1 if mine else self.compiler.variables[alias]
        if type_ is DOUBLE:
            self.op(Op.SELF_F if mine else Op.TERM_F, _index(self.result.real_terms, Term(event_type, plain)), variable)
            return "F"
        ranked = None if type_ in _WHOLE else type_
        term = _index(self.result.whole_terms, Term(event_type, plain, ranked))
        self.op(Op.SELF_I if mine else Op.TERM_I, term, variable)
        return "I" if ranked is None else f"R {to_arrow(ranked)}"

    def constant(self, value: object) -> str:
        match value:
            case None:
                self.op(Op.NULL_I)
            case bool() | int():
                self.op(Op.CONST_I, _index(self.result.whole_constants, int(value)))
            case Duration(micros):
                self.op(Op.CONST_I, _index(self.result.whole_constants, micros))
            case float():
                self.op(Op.CONST_F, _index(self.result.real_constants, value))
                return "F"
            case _:
                raise _NotNative
        return "I"

    def number(self, expression: Expression) -> str:
        kind = self.emit(expression)
        if kind not in ("I", "F"):
            raise _NotNative
        return kind

    def as_real(self, kind: str) -> None:
        if kind == "I":
            self.op(Op.TO_F)

    def same_stack(self, left: Expression, right: Expression) -> str:
        """Both operands on one stack: the floating one if either needs it."""
        begin = len(self.result.code)
        kinds = self.number(left), self.number(right)
        if kinds[0] == kinds[1]:
            return kinds[0]
        del self.result.code[begin:]
        self.as_real(self.number(left))
        self.as_real(self.number(right))
        return "F"

    def binary(self, operator: str, left: Expression, right: Expression) -> str:
        if operator in ("and", "or"):
            self.emit(left)
            self.emit(right)
            self.op(Op.AND if operator == "and" else Op.OR)
            return "I"
        if operator in _COMPARISONS:
            return self.comparison(_COMPARISONS[operator], left, right)
        if any(type_of(side, self.scope) not in (*_WHOLE, DOUBLE, NULL) for side in (left, right)):
            raise _NotNative
        if operator == "/":
            self.as_real(self.number(left))
            self.as_real(self.number(right))
            self.op(Op.DIV_F)
            return "F"
        kind = self.same_stack(left, right)
        self.op(Op[f"{_ARITHMETIC[operator]}_{kind}"])
        return kind

    def comparison(self, comparison: Comparison, left: Expression, right: Expression) -> str:
        begin = len(self.result.code)
        kinds = self.emit(left), self.emit(right)
        if kinds[0] == kinds[1] and kinds[0] != "F":
            self.op(Op.COMPARE_I, comparison)  # ranks compare as their values do
            return "I"
        del self.result.code[begin:]
        kind = self.same_stack(left, right)
        self.op(Op.COMPARE_I if kind == "I" else Op.COMPARE_F, comparison)
        return "I"

    def aggregate(self, node: Aggregate) -> str:
        if node.distinct:
            raise _NotNative
        (alias,) = aliases_of(node.argument)
        variable = self.compiler.variables[alias]
        if isinstance(node.argument, WholeEvent):
            self.op(Op.COUNT, 0, variable)
            return "I"
        event_type = self.scope.event_types[alias]
        type_ = type_of(node.argument, self.scope)
        plain = rename_alias(node.argument, alias, THIS)
        if node.function == "count" or (type_ not in (*_WHOLE, DOUBLE)):
            raise _NotNative
        if type_ is DOUBLE:
            term, kind = _index(self.result.real_terms, Term(event_type, plain)), "F"
        else:
            term, kind = _index(self.result.whole_terms, Term(event_type, plain)), "I"
        if node.function == "avg":
            self.op(Op.MEAN_I if kind == "I" else Op.MEAN_F, term, variable)
            return "F"
        if node.function == "stddev":
            self.op(Op.DEVIATION_I if kind == "I" else Op.DEVIATION_F, term, variable)
            return "F"
        fold = Fold[node.function.upper()]
        if node.offset:
            self.constant(node.offset)
            self.op(Op.ELEMENT_I if kind == "I" else Op.ELEMENT_F, term * 8 + fold, variable)
            return kind
        self.op(Op.AGGREGATE_I if kind == "I" else Op.AGGREGATE_F, term * 8 + fold, variable)
        return kind


def _null_in_null_out(expression: Expression) -> bool:
    """Whether an alias without an event makes it null, as a term of no event is."""
    strict = (Attribute, EventTime, Literal, Cast)
    return all(
        isinstance(node, strict)
        or (isinstance(node, Unary) and node.operator == "-")
        or (isinstance(node, Binary) and node.operator not in ("and", "or"))
        for node in walk(expression)
    )


def group_as_attribute(expression: Expression, alias: str) -> Expression:
    """`group.k` -> `k` of the event under test: every event of the group has it."""
    if isinstance(expression, GroupKey):
        return Attribute(alias, expression.name)
    return replace_children(expression, lambda child: group_as_attribute(child, alias))


def _index(items: list, item: object) -> int:  # type: ignore[type-arg]
    """The number of an item, which is added if it is new. `repr` tells 1 from True and 1.0, which are equal."""
    for number, known in enumerate(items):
        if known == item and repr(known) == repr(item):
            return number
    items.append(item)
    return len(items) - 1
