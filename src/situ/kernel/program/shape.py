"""Rules of one shape: those that differ in what they ask of single events, and in constants, run as one.

The template of a shape has a name instead of each condition on single events, which the content filterer judges, and a
group key instead of each constant: with the number of the rule as the first key, groups of different rules never meet.
So the kernel runs the template like any rule, and all that is said of groups (consumption, skipping, pauses) holds for
each rule by itself. Interests that move are keys in the same way (docs/decisions, 0016 and 0026).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

from situ.core.identity_cache import IdentityCache
from situ.core.types import BOOLEAN, DOUBLE, INT, STRING, Decimal, Type
from situ.graph.expressions import (
    Aggregate,
    Attribute,
    Binary,
    Call,
    Expression,
    GroupKey,
    Literal,
    Unary,
    WholeEvent,
    conjuncts,
    rename_alias,
    replace_children,
    walk,
)
from situ.graph.operators import Operator, Schema
from situ.graph.patterns import Absence, And, EventTest, Follow, Loop, Or, Pattern, Seq, Step, tests_of
from situ.graph.query import Aggregation, Assignment, Case, Rule
from situ.graph.typing import THIS
from situ.kernel.operator import RULE, Conditions, Context
from situ.kernel.program.conditions import group_as_attribute, reads_single_event

_CONSTANT, _TEST = "_constant ", "_test "

#: What rules of one shape have in common: the rule of the template, what it reads and what it gives.
Shape: TypeAlias = tuple[Rule, tuple[str, ...], Schema, int]


@dataclass(frozen=True, slots=True)
class Shaped:
    """A rule as its shape and what is its own: for each name in the template, the conditions on single events that it
    stands for, and for each constant its value. `types` are those of the constants."""

    shape: Shape
    tests: tuple[Conditions, ...]
    constants: tuple[float | str, ...]
    types: tuple[Type, ...]

    def own(self, conditions: Conditions) -> Conditions:
        """The rule's own conditions, of a test of the template."""
        match conditions:
            case ():
                return ()
            case (GroupKey(name) | Attribute(_, name),) if name.startswith(_TEST):
                return self.tests[int(name.removeprefix(_TEST))]
            case _:  # of a silence, whose conditions a template has with names for constants
                return tuple(map(self._with_constants, conditions))

    def _with_constants(self, expression: Expression) -> Expression:
        match expression:
            case Attribute(_, name) if name.startswith(_CONSTANT):
                return Literal(self.constants[int(name.removeprefix(_CONSTANT))])
            case _:
                return replace_children(expression, self._with_constants)


def constant_names(count: int) -> tuple[str, ...]:
    return tuple(f"{_CONSTANT}{number}" for number in range(count))


def is_of_template(column: str) -> bool:
    """Whether a column of a store is there for a template only: the rule, or a constant."""
    return column.rpartition(".")[2].startswith((RULE, _CONSTANT))


def shaped(operator: Operator, schemas: Mapping[str, Schema]) -> Shaped | None:
    """The shape of an operator; None if it has to run by itself, because it hands whole events to a user's function."""
    exact = any(isinstance(t, Decimal) for name in operator.inputs for _, t in schemas[name].attributes)
    return _SHAPED.get(operator, exact, lambda: _shaped(operator, exact))


#: Of so many operators the shape is remembered.
_SHAPED: IdentityCache[Operator, bool, Shaped | None] = IdentityCache(most=1 << 15)


def _shaped(operator: Operator, exact: bool) -> Shaped | None:
    rule = operator.rule
    if rule.tallied or _takes_whole_events(rule):
        return None
    shaping = _Shaping(exact, of_pattern=rule.kind is None)
    cases = tuple(shaping.case(case) for case in rule.cases)
    keys = (RULE, *constant_names(len(shaping.constants)))
    kind, of_rule = rule.kind, Assignment(RULE, GroupKey(RULE))
    if isinstance(kind, Aggregation) and kind.post:
        kind = replace(kind, post=(*kind.post, of_rule))
    else:
        cases = tuple(replace(case, assign=(*case.assign, of_rule)) for case in cases)
    template = replace(rule, cases=cases, kind=kind, group_by=(*keys, *rule.group_by))
    shape = _one_object((template, operator.inputs, operator.schema, operator.depth))
    return Shaped(shape, tuple(shaping.tests), tuple(shaping.constants), tuple(shaping.types))


def _one_object(shape: Shape) -> Shape:
    """The first of all shapes that are equal: to compare thousands of rules with each other costs by their size."""
    if len(_SHAPES) >= _MOST_SHAPES:
        _SHAPES.clear()
    return _SHAPES.setdefault(shape, shape)


_SHAPES: dict[Shape, Shape] = {}
_MOST_SHAPES = 1 << 12


def template_context(context: Context, rule: Shaped) -> Context:
    """The context of a template, from that of one of its rules."""
    template, inputs, schema, depth = rule.shape
    own: tuple[tuple[str, Type], ...] = (
        (RULE, INT),
        *zip(constant_names(len(rule.types)), rule.types, strict=True),
        *((f"{_TEST}{number}", BOOLEAN) for number in range(len(rule.tests))),
    )
    schemas = {name: Schema((*context.schemas[name].attributes, *own)) for name in inputs}
    operator = Operator(context.operator.name, template, Schema((*schema.attributes, (RULE, INT))), inputs, depth)
    return replace(context, operator=operator, schemas=schemas)


def _takes_whole_events(rule: Rule) -> bool:
    """Whether a user's function takes an event with all its attributes, to which a template adds others."""
    expressions = [item.expression for case in rule.cases for item in case.assign]
    expressions += [test.condition for case in rule.cases for test in tests_of(case.detect) if test.condition]
    return any(
        isinstance(node, Call) and any(isinstance(argument, WholeEvent) for argument in node.arguments)
        for expression in expressions
        for node in walk(expression)
    )


def _each_test(pattern: Pattern, change: Callable[[EventTest, str], EventTest]) -> Pattern:
    """A pattern with its tests changed; each comes with the alias of the event that it is about."""
    match pattern:
        case Step():
            return _each_step(pattern, change)
        case Loop(body, until=until):
            changed = _each_test(body, change)
            assert isinstance(changed, Step | Seq | Or)
            return replace(pattern, body=changed, until=None if until is None else change(until, THIS))
        case Seq(parts):
            return Seq(tuple(_each_part(part, change) for part in parts))
        case And(steps):
            return And(tuple(_each_step(step, change) for step in steps))
        case Or(alternatives):
            return Or(tuple(_each_test(alternative, change) for alternative in alternatives))
        case _:
            assert_never(pattern)


def _each_step(step: Step, change: Callable[[EventTest, str], EventTest]) -> Step:
    """What breaks a silence is not the event that the step is about: there is none."""
    return replace(step, test=change(step.test, step.alias if step.silence_us is None else THIS))


def _each_part(part: Follow | Absence, change: Callable[[EventTest, str], EventTest]) -> Follow | Absence:
    if isinstance(part, Absence):
        return replace(part, test=change(part.test, THIS))
    return replace(part, pattern=_each_test(part.pattern, change))


@dataclass(slots=True)
class _Shaping:
    """Takes a rule apart. What is equal in the rule gets one name, so that a rule and its template have the same
    automaton, and a state of the one is a state of the other. `exact`: there are decimals, with which a constant
    computes by its own digits, so none is taken out of expressions."""

    exact: bool
    of_pattern: bool
    tests: list[Conditions] = field(default_factory=list)
    constants: list[float | str] = field(default_factory=list)
    types: list[Type] = field(default_factory=list)
    _names: dict[tuple[str, Conditions, tuple[bool, ...]], GroupKey] = field(default_factory=dict)
    _joining: dict[Expression, Expression] = field(default_factory=dict)

    def case(self, case: Case) -> Case:
        detect = _each_test(case.detect, self.test)
        assign = tuple(replace(item, expression=self.assigned(item.expression)) for item in case.assign)
        return replace(case, detect=detect, assign=assign)

    def test(self, test: EventTest, alias: str) -> EventTest:
        parts = conjuncts(test.condition)
        single = tuple(reads_single_event(part, alias) for part in parts)
        mine = [part for part, is_single in zip(parts, single, strict=True) if is_single]
        if self.of_pattern:  # as its conditions are compiled
            mine = [group_as_attribute(part, alias) for part in mine]
        own = tuple(rename_alias(part, alias, THIS) for part in mine)
        named = list[Expression]()
        if own:
            key = (test.event_type, own, single)
            if key not in self._names:
                self._names[key] = GroupKey(f"{_TEST}{len(self.tests)}")
                self.tests.append(own)
            named.append(self._names[key])
        named += (self.joining(part) for part, is_single in zip(parts, single, strict=True) if not is_single)
        condition = None
        for part in named:
            condition = part if condition is None else Binary("and", condition, part)
        return replace(test, condition=condition)

    def joining(self, conjunct: Expression) -> Expression:
        if conjunct not in self._joining:
            decimal_free = not self.exact and not _has_decimals(conjunct)
            self._joining[conjunct] = self._taken_out(conjunct, (int, float)) if decimal_free else conjunct
        return self._joining[conjunct]

    def assigned(self, expression: Expression) -> Expression:
        if isinstance(expression, Literal):
            return self._constant(expression, (int, float, str))
        if self.exact or _has_decimals(expression):
            return expression
        return self._taken_out(expression, (int, float))

    def _taken_out(self, expression: Expression, kinds: tuple[type, ...]) -> Expression:
        """The expression with names instead of the constants that it compares and computes with."""
        match expression:
            case Binary(_, left, right):
                sides = [
                    self._constant(side, kinds) if isinstance(side, Literal) else self._taken_out(side, kinds)
                    for side in (left, right)
                ]
                return replace(expression, left=sides[0], right=sides[1])
            case Unary(_, operand) if not isinstance(operand, Literal):
                return replace(expression, operand=self._taken_out(operand, kinds))
            case _:
                return expression

    def _constant(self, literal: Literal, kinds: tuple[type, ...]) -> Expression:
        value = literal.value
        if type(value) not in kinds:
            return literal
        assert isinstance(value, int | float | str)
        self.constants.append(value)
        self.types.append({int: INT, float: DOUBLE, str: STRING}[type(value)])
        return GroupKey(f"{_CONSTANT}{len(self.constants) - 1}")


def _has_decimals(expression: Expression) -> bool:
    """Whether it may compute with decimals: what a cast or a function gives is not looked at."""
    plain = (Attribute, GroupKey, Binary, Unary, Literal, Aggregate)
    return any(
        not isinstance(node, plain) or (isinstance(node, Literal) and type(node.value).__name__ == "Decimal")
        for node in walk(expression)
    )
