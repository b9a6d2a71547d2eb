"""Patterns: their structure is sound, and their conditions see only what stands before them in the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import assert_never

from situ.core.errors import Place, QueryError
from situ.graph.operators import Schema
from situ.graph.patterns import Absence, And, EventTest, Follow, Loop, Or, Pattern, Seq, Step, steps_of, tests_of
from situ.graph.query import Aggregation, Case, Rule
from situ.graph.typing import THIS, Scope
from situ.lang.resolve_expressions import Sight, resolve_condition

RESERVED_ALIASES = (THIS, "group")


@dataclass(frozen=True, slots=True)
class PatternResolver:
    """Resolves the conditions of one case. `scope` is that of the whole case, which conditions see a part of."""

    scope: Scope
    schemas: dict[str, Schema]
    separate: bool  # the steps of an aggregation are separate sets of events

    def pattern(self, pattern: Pattern, before: frozenset[str] = frozenset()) -> Pattern:
        """The pattern with its conditions resolved; `before` are the aliases that stand earlier in the text."""
        match pattern:
            case Step():
                return self.step(pattern, before)
            case Loop(body, until=until):
                resolved = self.pattern(body, before)
                assert not isinstance(resolved, Loop | And), "resolving keeps the class"
                tested = until and self.test(until, THIS, before | aliases_in(body))
                return replace(pattern, body=resolved, until=tested)
            case Seq(parts):
                return Seq(tuple(self.parts(parts, before)))
            case And(steps):
                visible = [before | aliases_in(And(steps[:i])) for i in range(len(steps))]
                return And(tuple(map(self.step, steps, visible)))
            case Or(alternatives):
                visible = [before | aliases_in(Or(alternatives[:i])) for i in range(len(alternatives))]
                return Or(tuple(map(self.pattern, alternatives, visible)))
            case _:
                assert_never(pattern)

    def parts(self, parts: tuple[Follow | Absence, ...], before: frozenset[str]) -> Iterator[Follow | Absence]:
        for part in parts:
            match part:
                case Follow(pattern):
                    yield replace(part, pattern=self.pattern(pattern, before))
                    before |= aliases_in(pattern)
                case Absence(test):
                    yield replace(part, test=self.test(test, THIS, before))
                case _:
                    assert_never(part)

    def step(self, step: Step, before: frozenset[str]) -> Step:
        return replace(step, test=self.test(step.test, step.alias, before))

    def test(self, test: EventTest, alias: str, before: frozenset[str]) -> EventTest:
        if test.condition is None:
            return test
        return replace(test, condition=resolve_condition(test.condition, self.sight(test.event_type, alias, before)))

    def sight(self, event_type: str, alias: str, before: frozenset[str]) -> Sight:
        scope = self.scope.with_this(event_type, self.schemas[event_type]) if alias == THIS else self.scope
        visible = {alias} if self.separate else before | {alias}
        hidden = frozenset(name for name in scope.schemas if name is not None and name not in visible)
        return Sight(
            # The steps of an aggregation hold sets, but a condition is about one event.
            replace(
                scope,
                schemas={name: schema for name, schema in scope.schemas.items() if name in visible},
                repeating=frozenset() if self.separate else scope.repeating,
            ),
            under_test=alias,
            hidden=hidden,
            hidden_because="The steps of an aggregation are separate: a condition reads its own event."
            if self.separate
            else "It stands later in the text: move the condition to the step that stands last.",
        )


def resolve_pattern(rule: Rule, case: Case, scope: Scope, schemas: dict[str, Schema]) -> Pattern:
    """The pattern of a case with every name in its conditions resolved."""
    return PatternResolver(scope, schemas, isinstance(rule.kind, Aggregation)).pattern(case.detect)


def aliases_in(pattern: Pattern) -> frozenset[str]:
    return frozenset(step.alias for step in steps_of(pattern))


def place_of(pattern: Pattern) -> Place | None:
    return next((test.place for test in tests_of(pattern)), None)


def check_aliases(pattern: Pattern) -> None:
    """Every step has an alias of its own."""
    aliases: set[str] = set()
    for step in steps_of(pattern):
        if step.alias.lower() in RESERVED_ALIASES:
            raise QueryError(
                f"an alias cannot be called {step.alias!r}",
                place=step.test.place,
                remedy="`this` is the event under test and `group` the group; choose another name after `as`.",
            )
        if step.alias in aliases:
            raise QueryError(
                f"two steps are called {step.alias!r}",
                place=step.test.place,
                remedy=f"Give each its own name: {step.test.event_type} as other.",
            )
        aliases.add(step.alias)


def check_structure(pattern: Pattern) -> None:
    """The parts of a pattern rule stand where they mean something (docs/language.md, "Patterns")."""
    for step in steps_of(pattern):
        if step.outer:
            raise QueryError(
                "`outer` is for the inputs of an aggregation",
                place=step.test.place,
                remedy=f"Leave it out, or make the step optional: {step.test.event_type}?.",
            )
    _check_part(pattern, outermost=True, in_loop=False)


def _check_part(pattern: Pattern, *, outermost: bool, in_loop: bool) -> None:
    match pattern:
        case Step(test, selector=selector):
            if selector is not None and in_loop:
                raise QueryError(
                    f"`{selector.value}` selects an event of a step outside loops",
                    place=test.place,
                    remedy=f"Leave it out, and read {selector.value}(alias.x) of the loop's alias.",
                )
        case Loop(body):
            _check_bounds(pattern)
            _check_part(body, outermost=False, in_loop=True)
        case Seq(parts):
            _check_absences(parts, outermost)
            for part in parts:
                if isinstance(part, Follow):
                    _check_part(part.pattern, outermost=False, in_loop=in_loop)
        case And(steps):
            for step in steps:
                _check_part(step, outermost=False, in_loop=in_loop)
        case Or(alternatives):
            for alternative in alternatives:
                _check_part(alternative, outermost=False, in_loop=in_loop)
        case _:
            assert_never(pattern)


def _check_bounds(loop: Loop) -> None:
    low, high = loop.low, loop.high
    if low < 0 or (high is not None and high < max(low, 1)):
        raise QueryError(
            f"a loop cannot run {low} to {high} times",
            place=place_of(loop),
            remedy="{n,m} has n <= m and m >= 1.",
        )


def _check_absences(parts: tuple[Follow | Absence, ...], outermost: bool) -> None:
    first, last = parts[0], parts[-1]
    if isinstance(first, Absence):
        raise QueryError(
            f"`not {first.test.event_type}` stands first",
            place=first.test.place,
            remedy="An absence begins with an event: A then not B then C.",
        )
    if isinstance(last, Absence) and not outermost:
        raise QueryError(
            f"`not {last.test.event_type}` stands last in a group or an alternative",
            place=last.test.place,
            remedy="Only a whole pattern ends with an absence; write alternatives as `case 1:`, `case 2:`.",
        )
    for part in takewhile(lambda part: isinstance(part, Absence), reversed(parts)):
        if isinstance(part, Absence) and part.immediately:
            at_end = "last" if part is last else "at the end, where only `not` follows"
            raise QueryError(
                f"`not immediately {part.test.event_type}` stands {at_end}",
                place=part.test.place,
                remedy=f"It needs a part after it; at the end, write `not {part.test.event_type} within T`.",
            )
