"""How an operator executes: selection windows, their order, relevance time span, consumption (MCEP, section 4.1).

A situ rule says all of this in other words:

| MCEP | situ |
| --- | --- |
| counting selection window | a step, or a loop with its numbers |
| temporal selection window | `over` of `aggr` and `join`; what `not` looks at |
| shift of a selection window | to every event that the first step accepts |
| order relation between windows | `then` |
| relevance time span | `within`; `over` |
| shift of the relevance time span | by one event; by the time that `every` says |
| consumption policy | `consuming`, `after match` |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from typing import assert_never

from situ.core.time import format_duration
from situ.graph.operators import Operator
from situ.graph.patterns import Absence, And, Follow, Loop, Or, Pattern, Selector, Seq, Step, steps_of, tests_of
from situ.graph.query import AfterMatch, Aggregation, Case, Join, Pause
from situ.lab.mcep.switching.locality import why_not_local
from situ.mobility.history import span_us


@dataclass(frozen=True, slots=True)
class SelectionWindow:
    """What a selection takes of a stream: so many events (`most` None: without limit), or all of a time span."""

    alias: str
    step: Step
    least: int
    most: int | None
    span_us: int | None = None

    @property
    def event_type(self) -> str:
        return self.step.test.event_type

    def __str__(self) -> str:
        if self.span_us is not None:
            return f"{self.alias}: all of {self.event_type} in {format_duration(self.span_us)}"
        most = "or more" if self.most is None else f"to {self.most}"
        count = f"{self.least}" if self.least == self.most else f"{self.least} {most}"
        return f"{self.alias}: {count} of {self.event_type}"


@dataclass(frozen=True, slots=True)
class CaseExecution:
    """One case: its windows, and which of them come before which (W <k W').

    `watched`: the types that `not` and `until` look for, anywhere in the selection. `by_deadline`: the end of the
    relevance time span decides (an absence at the end, `last`), so that all of it is needed.
    """

    windows: tuple[SelectionWindow, ...]
    order: tuple[tuple[str, str], ...] = ()
    consumes: tuple[str, ...] = ()
    watched: frozenset[str] = frozenset()
    by_deadline: bool = False

    def after(self, alias: str) -> list[tuple[str, ...]]:
        """All chains of windows that begin with one: itself, and those that come after it in turn."""
        following = [later for earlier, later in self.order if earlier == alias]
        return [(alias, *chain) for later in following for chain in self.after(later)] or [(alias,)]


@dataclass(frozen=True, slots=True)
class Execution:
    """An operator's execution. `shift_us`: the relevance time span moves by a fixed time; None: by one event."""

    name: str
    cases: tuple[CaseExecution, ...]
    relevance_us: int
    shift_us: int | None
    after_match: AfterMatch | Pause
    why_not_local: str | None

    def __str__(self) -> str:
        shift = "one event" if self.shift_us is None else format_duration(self.shift_us)
        lines = [f"{self.name}: relevance time span {format_duration(self.relevance_us)}, shifted by {shift}"]
        for case in self.cases:
            lines += [f"  {window}" for window in case.windows]
            lines += [f"  {earlier} < {later}" for earlier, later in case.order]
            if case.consumes:
                lines.append(f"  consumes {', '.join(case.consumes)}")
        if isinstance(self.after_match, Pause):
            lines.append(f"  pauses for {format_duration(self.after_match.micros)}")
        elif self.after_match != AfterMatch():
            lines.append(f"  skips {self.after_match.skip.value}")
        lines.append(f"  preserves locality: {'yes' if self.why_not_local is None else f'no, {self.why_not_local}'}")
        return "\n".join(lines)


def execution_of(operator: Operator) -> Execution:
    """
    >>> from situ.lang.parse import parse
    >>> from situ.lang.resolve import resolve
    >>> graph = resolve(parse('''
    ...     stream Car(v int, ts int) time ts in s
    ...     define Jam(n) detect Car(v < 5){3,} as slow then Car(v < 1) as stop within 20 s assign n = count(slow)
    ...     subscribe Jams aggr every 10 s over 1 min detect Jam assign n = count(Jam)
    ... '''))
    >>> for operator in graph.operators:
    ...     print(execution_of(operator))
    Jam: relevance time span 20 s, shifted by one event
      slow: 3 or more of Car
      stop: 1 of Car
      slow < stop
      preserves locality: no, `then` takes the first event that fits
    Jams: relevance time span 1 min, shifted by 10 s
      Jam: all of Jam in 1 min
      preserves locality: no, an aggregate is over all events of its window
    """
    rule = operator.rule
    match rule.kind:
        case Aggregation(window) | Join(window):
            shift_us: int | None = window.every
            cases = tuple(_of_window(case, window.over) for case in rule.cases)
        case None:
            shift_us = None
            cases = tuple(_of_pattern(case) for case in rule.cases)
        case _:
            assert_never(rule.kind)
    return Execution(operator.name, cases, span_us(operator), shift_us, rule.after_match, why_not_local(operator))


def chain_us(case: CaseExecution, event_type: str, needs_us: Mapping[str, int], relevance_us: int) -> int:
    """How far the first event of a type may lie before the end of a selection, if the window of each alias needs so
    much time: the longest sum along the order of windows (MCEP, section 5.3), and at most the relevance time span.

    >>> from situ.graph.patterns import EventTest
    >>> windows = tuple(SelectionWindow(a, Step(EventTest("A"), a), 1, 1) for a in "ab")
    >>> chain_us(CaseExecution(windows, (("a", "b"),)), "A", {"a": 5, "b": 3}, 100)
    8
    """
    if case.by_deadline:
        return relevance_us
    starts = [w.alias for w in case.windows if w.event_type == event_type or event_type in case.watched]
    sums = [sum(needs_us[alias] for alias in chain) for start in starts for chain in case.after(start)]
    return min(max(sums, default=0), relevance_us)


def _of_window(case: Case, over_us: int) -> CaseExecution:
    windows = tuple(SelectionWindow(step.alias, step, 0, None, over_us) for step in steps_of(case.detect))
    return CaseExecution(windows)


def _of_pattern(case: Case) -> CaseExecution:
    windows, order = _windows_of(case.detect, 1, 1)
    steps = list(steps_of(case.detect))
    step_tests = {id(step.test) for step in steps}
    watched = frozenset(test.event_type for test in tests_of(case.detect) if id(test) not in step_tests)
    ends_in_absence = isinstance(case.detect, Seq) and isinstance(case.detect.parts[-1], Absence)
    by_deadline = ends_in_absence or any(step.selector is Selector.LAST for step in steps)
    return CaseExecution(tuple(windows), tuple(dict.fromkeys(order)), case.consuming, watched, by_deadline)


def _windows_of(pattern: Pattern, least: int, most: int | None) -> tuple[list[SelectionWindow], list[tuple[str, str]]]:
    """The windows of all steps under loops that repeat so often, and the order that `then` gives them."""
    match pattern:
        case Step(_, alias):
            return [SelectionWindow(alias, pattern, least, most)], []
        case Loop(body, low, high):
            return _windows_of(body, least * low, None if most is None or high is None else most * high)
        case And(parts) | Or(parts):
            windows_and_order = [_windows_of(part, least if isinstance(pattern, And) else 0, most) for part in parts]
            return [w for windows, _ in windows_and_order for w in windows], [
                pair for _, order in windows_and_order for pair in order
            ]
        case Seq(parts):
            return _windows_of_sequence(parts, least, most)
        case _:
            assert_never(pattern)


def _windows_of_sequence(
    parts: tuple[Follow | Absence, ...], least: int, most: int | None
) -> tuple[list[SelectionWindow], list[tuple[str, str]]]:
    windows_and_order = [_windows_of(part.pattern, least, most) for part in parts if isinstance(part, Follow)]
    order = [pair for _, inner in windows_and_order for pair in inner]
    for (earlier, _), (later, _) in pairwise(windows_and_order):
        order += product((w.alias for w in earlier), (w.alias for w in later))
    return [w for windows, _ in windows_and_order for w in windows], order
