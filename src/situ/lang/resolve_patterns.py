"""Patterns: their structure is sound, and their conditions see only what stands before them in the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, takewhile
from typing import assert_never

from situ.core.errors import Place, QueryError
from situ.core.time import UNITS
from situ.graph.expressions import aliases_of
from situ.graph.operators import Schema
from situ.graph.patterns import (
    NAMELESS,
    Absence,
    And,
    Contiguity,
    EventTest,
    Follow,
    Loop,
    Or,
    Pattern,
    Seq,
    Step,
    first_silences,
    silences_of,
    steps_of,
    tests_of,
    with_steps,
)
from situ.graph.query import AfterMatch, Aggregation, Case, From, Rule
from situ.graph.typing import THIS, Scope
from situ.lang.resolve_expressions import Sight, resolve_condition

#: So that many of them, one after the other, end at a time that there is.
MOST_SILENCE_US = 36_525 * UNITS["day"]
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
        under_test = step.alias if step.silence_us is None else THIS
        return replace(step, test=self.test(step.test, under_test, before))

    def test(self, test: EventTest, alias: str, before: frozenset[str]) -> EventTest:
        if test.condition is None:
            return test
        condition = resolve_condition(test.condition, self.sight(test.event_type, alias, before))
        for name in sorted(aliases_of(condition) & self.scope.silences):
            raise QueryError(
                f"a condition reads the silence {name!r}",
                place=test.condition.place or test.place,
                remedy=f"Assign time({name}) or count({name}) in a definition, and test that.",
            )
        return replace(test, condition=condition)

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


def name_silences(pattern: Pattern) -> Pattern:
    """The pattern with a name for every silence that has none, by which it is known and never written."""
    numbers = count(1)
    return with_steps(
        pattern, lambda step: step if step.has_name else replace(step, alias=f"{NAMELESS}{next(numbers)}")
    )


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


def check_silences(rule: Rule, case: Case) -> None:
    """Silences have a length that can pass, and stand where nothing asks for an event."""
    silences = list(silences_of(case.detect))
    if not silences:
        return
    for step in steps_of(case.detect):
        if step.selector is not None:
            raise QueryError(
                f"`{step.selector.value} {step.test.event_type}` and a silence stand in one pattern",
                place=step.test.place,
                remedy="Define the part with the selector, and let the silence follow that definition.",
            )
    if rule.timed_out and (in_and := _silence_in_and(case.detect)) is not None:
        raise QueryError(
            "`report timed out` and a silence in an `and` stand together",
            place=in_and.test.place,
            remedy="Let the silence follow the `and`, or say what did not come by a silence: A then no B for T.",
        )
    beginning = first_silences(case.detect)
    for step in silences:
        assert step.silence_us is not None
        if step.silence_us == 0:
            raise QueryError(
                f"`no {step.test.event_type}` lasts for no time",
                place=step.test.place,
                remedy="Write a duration above zero: no X for 5 s.",
            )
        if step.silence_us > MOST_SILENCE_US:
            raise QueryError(
                f"`no {step.test.event_type}` lasts longer than a hundred years",
                place=step.test.place,
                remedy="Write a shorter duration.",
            )
        if case.within is not None and step.silence_us > case.within.micros and step not in beginning:
            raise QueryError(
                f"`no {step.test.event_type}` lasts longer than the window, so that nothing can match",
                place=step.test.place,
                remedy="Make `within` longer than all silences together, or leave it out where silences end the match.",
            )
        for clause, aliases in (("consuming", case.consuming), ("after match", _skipped_to(rule))):
            if step.alias in aliases:
                raise QueryError(
                    f"`{clause} {step.alias}` names a silence, which has no event",
                    place=case.place or step.test.place,
                    remedy="Name the alias of an event.",
                )
    _check_silent_parts(case.detect, endless=case.within is None or case.within.anchor is From.PREVIOUS)


def _silence_in_and(pattern: Pattern) -> Step | None:
    match pattern:
        case And(steps):
            return next((step for step in steps if step.silence_us is not None), None)
        case Step():
            return None
        case Loop(body):
            return _silence_in_and(body)
        case Seq(parts):
            bodies = [part.pattern for part in parts if isinstance(part, Follow)]
        case Or(alternatives):
            bodies = list(alternatives)
        case _:
            assert_never(pattern)
    return next((step for body in bodies if (step := _silence_in_and(body)) is not None), None)


def _skipped_to(rule: Rule) -> tuple[str | None, ...]:
    return (rule.after_match.alias,) if isinstance(rule.after_match, AfterMatch) else ()


def _check_silent_parts(pattern: Pattern, *, endless: bool, entry: Contiguity = Contiguity.NEXT) -> None:
    """`entry` is how the part follows what is before it; `endless`: no window ends a loop of silences."""
    place = place_of(pattern)
    silent = any(True for _ in first_silences(pattern))
    if silent and entry is Contiguity.EACH:
        raise QueryError("`each` stands before a silence", place=place, remedy="There is one silence: write `then`.")
    match pattern:
        case Step():
            return
        case And(steps):
            for step in steps:
                read = aliases_of(step.test.condition) if step.silence_us and step.test.condition else frozenset()
                for alias in sorted(read & {other.alias for other in steps}):
                    raise QueryError(
                        f"a silence of an `and` reads {alias!r}, which is another step of it",
                        place=step.test.place,
                        remedy="It begins with the `and`, when that step may not have come: let the silence follow it.",
                    )
            if silent and entry is Contiguity.IMMEDIATELY:
                raise QueryError(
                    "`immediately` stands before an `and` with a silence",
                    place=place,
                    remedy="Write `then`; or define what is to follow immediately, and let the silence follow that.",
                )
        case Loop(body, high=high, inner=inner, greedy=greedy):
            if greedy and any(True for _ in silences_of(body)):
                raise QueryError(
                    "`greedy` repeats a silence",
                    place=place,
                    remedy="Leave `greedy` out: every length is a match, and `count` of its alias says which it is.",
                )
            if high is None and endless and _can_be_silent(body):
                raise QueryError(
                    "a loop of silences has no end, since time goes on for ever",
                    place=place,
                    remedy="Give it an upper bound, such as {1,3}, or the pattern a window: within T.",
                )
            _check_silent_parts(body, endless=endless, entry=entry)
            if high != 1:
                _check_silent_parts(body, endless=endless, entry=inner)
        case Seq(parts):
            follows = [part for part in parts if isinstance(part, Follow)]
            for number, part in enumerate(follows):
                _check_silent_parts(part.pattern, endless=endless, entry=part.contiguity if number else entry)
        case Or(alternatives):
            for alternative in alternatives:
                _check_silent_parts(alternative, endless=endless, entry=entry)
        case _:
            assert_never(pattern)


def _can_be_silent(pattern: Pattern) -> bool:
    """Whether a word of the pattern can have silences alone."""
    match pattern:
        case Step(silence_us=silence_us):
            return silence_us is not None
        case Loop(body, low):
            return low == 0 or _can_be_silent(body)
        case And(steps):
            return all(map(_can_be_silent, steps))
        case Seq(parts):
            return all(_can_be_silent(part.pattern) for part in parts if isinstance(part, Follow))
        case Or(alternatives):
            return any(map(_can_be_silent, alternatives))
        case _:
            assert_never(pattern)
