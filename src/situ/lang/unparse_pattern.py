"""Patterns to text, with as few parentheses as the grammar allows."""

from __future__ import annotations

from typing import assert_never

from situ.core.time import format_duration
from situ.graph.patterns import Absence, And, Contiguity, EventTest, Follow, Loop, Or, Pattern, Selector, Seq, Step
from situ.lang.unparse_expression import unparse_expression, unparse_name

#: How tightly the parts of a pattern bind.
OR, SEQ, AND, PART = range(1, 5)
RESERVED_IN_PATTERNS = frozenset({"outer", "first", "last", "each", "immediately", "no", "not", "once"})


def unparse_pattern(pattern: Pattern) -> str:
    """The pattern as text, on one line.

    >>> unparse_pattern(Loop(Seq((Follow(Step(EventTest("A"), "a")), Follow(Step(EventTest("B"), "B")))), 1, None))
    '(A as a then B)+'
    """
    return _pattern(pattern, OR)


def _pattern(pattern: Pattern, place: int) -> str:
    """The text of a pattern, in brackets where its place needs a binding of at least `place`."""
    match pattern:
        case Step():
            return _step(pattern)
        case Loop(Step(silence_us=None) as step):
            return _step(step, _loop(pattern))
        case Loop(body):
            return f"({_pattern(body, OR)}){_loop(pattern)}"
        case Seq():
            binding = SEQ
        case And():
            binding = AND
        case Or():
            binding = OR
        case _:
            assert_never(pattern)
    text = " ".join(outer_parts(pattern))
    return f"({text})" if binding < place else text


def outer_parts(pattern: Pattern) -> list[str]:
    """The outermost parts, each with the word before it: `A`, `then B`, `then each C`."""
    match pattern:
        case Seq((Follow(first), *rest)):
            return [_pattern(first, AND), *map(_part, rest)]
        case And(steps):
            return [_step(steps[0]), *(f"and {_step(step)}" for step in steps[1:])]
        case Or(alternatives):
            texts = [_pattern(alternative, SEQ) for alternative in alternatives]
            return [texts[0], *(f"or {text}" for text in texts[1:])]
        case _:
            return [_pattern(pattern, OR)]


def _part(part: Follow | Absence) -> str:
    match part:
        case Absence(test, immediately):
            return f"then not {'immediately ' if immediately else ''}{_test(test)}"
        case Follow(Step(selector=Selector()) as step, Contiguity.EACH):
            return f"then {_step(step)}"
        case Follow(pattern, contiguity):
            return f"{contiguity.value} {_pattern(pattern, AND)}"
        case _:
            assert_never(part)


def _step(step: Step, loop: str = "") -> str:
    if step.silence_us is not None:
        alias = f" as {unparse_name(step.alias)}" if step.has_name else ""
        return f"no {_test(step.test)} for {format_duration(step.silence_us)}{alias}"
    outer = "outer " if step.outer else ""
    selector = f"{step.selector.value} " if step.selector else ""
    alias = f" as {unparse_name(step.alias)}" if step.alias != step.test.event_type else ""
    return f"{outer}{selector}{_test(step.test)}{loop}{alias}"


def _test(test: EventTest) -> str:
    condition = f"({unparse_expression(test.condition)})" if test.condition is not None else ""
    return f"{unparse_name(test.event_type, RESERVED_IN_PATTERNS)}{condition}"


def _loop(loop: Loop) -> str:
    inner = {Contiguity.NEXT: "", Contiguity.EACH: " each", Contiguity.IMMEDIATELY: " immediately"}[loop.inner]
    greedy = " greedy" if loop.greedy else ""
    until = f" until {_test(loop.until)}" if loop.until is not None else ""
    return f"{_quantifier(loop.low, loop.high)}{inner}{greedy}{until}"


def _quantifier(low: int, high: int | None) -> str:
    match low, high:
        case 1, None:
            return "+"
        case 0, None:
            return "*"
        case 0, 1:
            return "?"
        case _, None:
            return f"{{{low},}}"
        case _:
            return f"{{{low}}}" if low == high else f"{{{low},{high}}}"
