"""What follows from a rule alone: how many events a match has, how long it can last, whether matches depend on each
other."""

from __future__ import annotations

from typing import assert_never

from situ.graph.operators import Operator
from situ.graph.patterns import Absence, And, Contiguity, Follow, Loop, Or, Pattern, Seq, Step, first_silences, steps_of
from situ.graph.query import AfterMatch, Case, From, Pause, Rule


def is_one_event(pattern: Pattern) -> bool:
    """Whether every match is one event, which is judged by itself."""
    match pattern:
        case Step(selector=selector, silence_us=silence_us):
            return selector is None and silence_us is None
        case Or(alternatives):
            return all(map(is_one_event, alternatives))
        case Loop() | Seq() | And():
            return False
        case _:
            assert_never(pattern)


def most_steps(pattern: Pattern) -> int | None:
    """How many events and silences a match has at the most; None: any number."""
    match pattern:
        case Step():
            return 1
        case Loop(body, high=high):
            of_body = most_steps(body)
            return None if high is None or of_body is None else high * of_body
        case Seq(parts):
            return _sum([most_steps(part.pattern) for part in parts if isinstance(part, Follow)])
        case And(steps):
            return len(steps)
        case Or(alternatives):
            return _max([most_steps(alternative) for alternative in alternatives])
        case _:
            assert_never(pattern)


def longest_us(case: Case) -> int | None:
    """The longest time from the beginning of a match to its last event, or to the deadline that decides it.

    None: nothing says how long it is, because it waits for an event without a window, or has one between neighbours of
    any number.

    >>> from situ.lang.parse import parse
    >>> def longest(detect):
    ...     return longest_us(parse(f"subscribe S detect {detect}").subscriptions[0].rule.cases[0])
    >>> longest("A as a"), longest("A as a then B as b within 5 s"), longest("A as a then B as b")
    (0, 5000000, None)
    >>> longest("A{2,4} as a then B as b within 5 s from previous"), longest("A+ as a within 5 s from previous")
    (20000000, None)
    >>> longest("A then no B for 2 s then no C for 1 s"), longest("A then no B for 2 s then C")
    (3000000, None)
    >>> longest("no A for 2 s then B within 5 s")
    7000000
    """
    if case.within is None:
        return _longest_without_window(case.detect)
    # A window counts from the end of a silence that comes first.
    before_us = max((step.silence_us or 0 for step in first_silences(case.detect)), default=0)
    if case.within.anchor is not From.PREVIOUS:
        return before_us + case.within.micros
    steps = most_steps(case.detect)
    return None if steps is None else before_us + case.within.micros * (steps - 1 + ends_in_absence(case.detect))


def _longest_without_window(pattern: Pattern) -> int | None:
    """How long one event and the silences after it last; None: another event is waited for."""
    match pattern:
        case Seq((Follow(first), *rest)) if most_steps(first) == 1:
            lengths = [_silent_us(part.pattern) if isinstance(part, Follow) else None for part in rest]
            return _sum([_silent_us(first) or 0, *lengths])
        case _:
            silent = _silent_us(pattern)
            return 0 if silent is None and most_steps(pattern) == 1 else silent


def _silent_us(pattern: Pattern) -> int | None:
    """How long a pattern of silences alone lasts at the most; None: it has an event, or no longest duration."""
    match pattern:
        case Step(silence_us=silence_us):
            return silence_us
        case Loop(body, high=high):
            of_body = _silent_us(body)
            return None if high is None or of_body is None else high * of_body
        case Seq(parts):
            return _sum([_silent_us(part.pattern) if isinstance(part, Follow) else None for part in parts])
        case And(steps):
            return _max([step.silence_us for step in steps])
        case Or(alternatives):
            return _max([_silent_us(alternative) for alternative in alternatives])
        case _:
            assert_never(pattern)


def _sum(lengths: list[int | None]) -> int | None:
    return None if None in lengths else sum(length for length in lengths if length is not None)


def _max(lengths: list[int | None]) -> int | None:
    return None if None in lengths else max(length for length in lengths if length is not None)


def begins_at_start(rule: Rule) -> bool:
    """Whether it can begin before any event, at the start that an engine is told: with a silence, without groups."""
    return not rule.group_by and any(first_silences(case.detect) for case in rule.cases)


def ends_in_absence(pattern: Pattern) -> bool:
    """Whether a match waits at its end for what may not come."""
    return isinstance(pattern, Seq) and isinstance(pattern.parts[-1], Absence)


def has_unbounded_state(operator: Operator) -> bool:
    """Whether an operator's state would grow for ever on unbounded input."""
    return lacks_window(operator) or marks_every_key(operator)


def lacks_window(operator: Operator) -> bool:
    """Whether a pattern of several events has no `within`, so that it keeps every event."""
    rule = operator.rule
    return rule.kind is None and any(case.within is None and longest_us(case) is None for case in rule.cases)


def marks_every_key(operator: Operator) -> bool:
    """Whether `detect once` keeps a mark for every key, and there may be ever more of them."""
    rule = operator.rule
    return bool(rule.group_by) and any(case.once for case in rule.cases)


def compares_matches(rule: Rule) -> str | None:
    """What makes a match be there or not because of another one; None: every match stands by itself.

    What is found then depends on where it began to be looked for.
    """
    if isinstance(rule.after_match, Pause):
        return "the pause after a match"
    if rule.after_match != AfterMatch():
        return "skipping after a match"
    if any(case.once for case in rule.cases):
        return "`detect once`"
    if any(case.consuming for case in rule.cases):
        return "consumption"
    if any(step.selector is not None for case in rule.cases for step in steps_of(case.detect)):
        return "a selector"
    if any(first_silences(case.detect) for case in rule.cases):
        return "a silence that comes first"
    return None


def windows_of_event(rule: Rule) -> int:
    """In how many windows of a rule an event lies; 0 for a pattern."""
    return 0 if rule.kind is None else -(-rule.kind.window.over // rule.kind.window.every)


def free_choices(pattern: Pattern) -> int:
    """How many steps, after the first, take each event that fits, so that every combination is a match."""
    match pattern:
        case Step():
            return 0
        case And(steps):
            return len(steps) - 1
        case Loop(body, high=high, inner=inner):
            repeats = high is None or high > 1
            return free_choices(body) + (inner is Contiguity.EACH and repeats)
        case Or(alternatives):
            return max(map(free_choices, alternatives))
        case Seq(parts):
            follows = [part for part in parts if isinstance(part, Follow)]
            each = sum(part.contiguity is Contiguity.EACH for part in follows[1:])
            return each + sum(free_choices(part.pattern) for part in follows)
        case _:
            assert_never(pattern)
