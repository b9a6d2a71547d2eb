"""Where a rule can be cut in time: into an instance that finishes what begins before a time T, and a new one, without
any state, that finds what begins at T or later. TCEP's stateless migration (SMS) stands on it.

It is exact if and only if all that begins at or after T is a function of the events from some time T' <= T on.
"""

from __future__ import annotations

from dataclasses import dataclass

from situ.graph.operators import OperatorGraph
from situ.graph.patterns import (
    And,
    Follow,
    Loop,
    Or,
    Pattern,
    Selector,
    Seq,
    Step,
    first_silences,
    first_steps,
    tests_of,
)
from situ.graph.query import AfterMatch, Case, Pause, Rule, Skip
from situ.graph.rule_properties import longest_us


@dataclass(frozen=True, slots=True)
class Cut:
    """How a rule is cut at T: the new instance reads from T - `back_us` on, and what begins before T is decided when
    time has passed T + `after_us`. `reason` says why this is exact."""

    back_us: int
    after_us: int
    reason: str


def cut_of(rule: Rule) -> Cut | str:
    """How a rule can be cut in time; or why it cannot, so that its state has to be moved.

    >>> from situ.lang.parse import parse
    >>> def cut(detect):
    ...     return cut_of(parse(f"subscribe S detect {detect}").subscriptions[0].rule)
    >>> cut("A as a then B as b within 5 s").back_us, cut("first A as a then B as b within 5 s").back_us
    (0, 5000000)
    >>> cut("A as a then B as b within 5 s after match skip past last")
    'a match removes later ones (skip past last), so what begins after a cut depends on what began before it'
    """
    if rule.kind is not None:
        window = rule.kind.window
        if window.unit == "events":
            return "its windows count events, from the first one on"
        return Cut(0, window.over, "a window has the events of its own time alone")
    match rule.after_match:
        case Pause():
            return "the pause after a match reaches over a cut"
        case AfterMatch(skip=Skip.NONE | Skip.TO_NEXT):
            pass
        case AfterMatch(skip=skip):
            return (
                f"a match removes later ones (skip {skip.value}), so what begins after a cut depends on what began "
                "before it"
            )
    cuts = [_cut_of_case(case, rule.timed_out) for case in rule.cases]
    for cut in cuts:
        if isinstance(cut, str):
            return cut
    exact = [cut for cut in cuts if isinstance(cut, Cut)]
    widest = max(exact, key=lambda cut: cut.back_us)
    return Cut(widest.back_us, max(cut.after_us for cut in exact), widest.reason)


def cut_in(graph: OperatorGraph, name: str) -> Cut | str:
    """The same of an operator, which may read complex events: how long these lag behind their streams must be known,
    too, since only then it is known when the last one has come that an instance needs."""
    operator = next(operator for operator in graph.operators if operator.name == name)
    lags = lags_in(graph)
    for event in operator.inputs:
        if lags[event] is None:
            return f"nothing says how long {event} may lag behind its streams"
    return cut_of(operator.rule)


def lags_in(graph: OperatorGraph) -> dict[str, int | None]:
    """By type, how far its time may lag behind that of the streams; None: without limit.

    Whatever an operator will find has not begun earlier than its rule can last.
    """
    lags: dict[str, int | None] = {stream.name: 0 for stream in graph.streams}
    for operator in graph.operators:  # inputs come first
        parts = [_decided_after_us(operator.rule), *(lags[event] for event in operator.inputs)]
        own, *of_inputs = [part for part in parts if part is not None] or [0]
        lags[operator.name] = None if None in parts else own + max(of_inputs, default=0)
    return lags


def _decided_after_us(rule: Rule) -> int | None:
    """How long after its beginning a match or window may still be undecided."""
    if rule.kind is not None:
        return rule.kind.window.over if rule.kind.window.unit == "time" else 0
    longest = [longest_us(case) for case in rule.cases]
    return None if None in longest else max(each for each in longest if each is not None)


def _cut_of_case(case: Case, timed_out: bool) -> Cut | str:
    if case.once:
        return "`detect once` remembers every match"
    if first_silences(case.detect):
        return "a silence that comes first counts from what was before"
    if case.consuming and not _consumes_first_alone(case):
        return "a match consumes events that others, which began later, may have taken"
    longest = longest_us(case)
    if longest is None:
        return "it has no window" if case.within is None else "its loop has no longest duration"
    if any(step.selector is Selector.FIRST for step in first_steps(case.detect)):
        return Cut(longest, longest, "`first` on a first step compares a match with those that began a window earlier")
    if timed_out and _has_and(case.detect):
        return Cut(longest, longest, "what an `and` lacks may have come a window earlier")
    return Cut(0, longest, "a match has no event from before its first one")


def _consumes_first_alone(case: Case) -> bool:
    """Whether only the first event of a match is consumed, and no other step could have taken it: then a match consumes
    nothing but what begins with the same event."""
    first = case.detect.parts[0] if isinstance(case.detect, Seq) else None
    if not isinstance(first, Follow) or not isinstance(first.pattern, Step):
        return False
    types = [test.event_type for test in tests_of(case.detect)]
    return case.consuming == (first.pattern.alias,) and types.count(first.pattern.test.event_type) == 1


def _has_and(pattern: Pattern) -> bool:
    match pattern:
        case And():
            return True
        case Loop(body):
            return _has_and(body)
        case Seq(parts):
            return any(_has_and(part.pattern) for part in parts if isinstance(part, Follow))
        case Or(alternatives):
            return any(map(_has_and, alternatives))
        case _:
            return False
