"""How the work of an operator may be divided among tasks without changing what it finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias, assert_never

from situ.core.identity_cache import IdentityCache
from situ.core.time import UNITS, format_duration
from situ.graph.operators import Operator
from situ.graph.patterns import And, Follow, Loop, Or, Pattern, Seq, Step, first_silences, steps_of
from situ.graph.query import AfterMatch, Case, Pause, Rule
from situ.graph.rule_properties import compares_matches, is_one_event, longest_us

#: A slice of time is this many times as long as what it has to read of the next one: a quarter is read twice.
SLICE_PER_WINDOW = 4
#: Shorter slices would hold too few events each.
SHORTEST_SLICE_US = UNITS["min"]


@dataclass(frozen=True, slots=True)
class Anywhere:
    """Every event is judged by itself."""

    def __str__(self) -> str:
        return "anywhere: every event is judged by itself"


@dataclass(frozen=True, slots=True)
class ByKey:
    """Events that agree in these attributes meet in one task."""

    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"by key: {', '.join(self.keys)}"


@dataclass(frozen=True, slots=True)
class BySlice:
    """Slices of time, each with what follows it for as long as a match can last. A match belongs to the slice in which
    it begins."""

    length_us: int
    overlap_us: int

    def __str__(self) -> str:
        return (
            f"by slices of time: {format_duration(self.length_us)} each, "
            f"with the {format_duration(self.overlap_us)} that follow"
        )


@dataclass(frozen=True, slots=True)
class ByKeyAndSlice:
    """Events that agree in these attributes meet in one task for each slice of time: a key with most of the events is
    divided, too."""

    keys: tuple[str, ...]
    slices: BySlice

    def __str__(self) -> str:
        return f"by key, {', '.join(self.keys)}, and {self.slices}"


@dataclass(frozen=True, slots=True)
class OneTask:
    """All events in one task, because slices of time would not give the same matches: that of shard `shard`, which owns
    the rule. What the rule does before any event comes, that task alone does."""

    reason: str
    shard: ClassVar[int] = 0

    def __str__(self) -> str:
        return f"in one task: {self.reason}"


@dataclass(frozen=True, slots=True)
class EveryTask:
    """All events in every task: some consumer of it may be near."""

    def __str__(self) -> str:
        return "events in every task"


Partitioning: TypeAlias = Anywhere | ByKey | BySlice | ByKeyAndSlice | OneTask | EveryTask


def partitioning_of(operator: Operator) -> Partitioning:
    """The finest division of an operator's work that is exact."""
    return _PARTITIONINGS.get(operator, None, lambda: _partitioning_of(operator.rule))


#: Of so many operators: of thousands of rules one changes.
_PARTITIONINGS: IdentityCache[Operator, None, Partitioning] = IdentityCache(most=1 << 15)


def _partitioning_of(rule: Rule) -> Partitioning:
    if _judges_single_events(rule):
        return Anywhere()
    if rule.group_by:
        return ByKey(rule.group_by)
    reach = reach_us(rule)
    return OneTask(f"it has no group key, and {reach}") if isinstance(reach, str) else slices_of(reach)


def reach_us(rule: Rule) -> int | str:
    """How long after the time at which it begins a match, or a window, depends on events; or why slices of time would
    not give the same ones.

    >>> from situ.lang.parse import parse
    >>> def reach(detect):
    ...     return reach_us(parse(f"subscribe S detect {detect}").subscriptions[0].rule)
    >>> reach("A as a then B as b within 5 s"), reach("A as a then B as b")
    (5000000, 'it has no window')
    """
    if _judges_single_events(rule):
        return 0
    if rule.kind is not None:
        window = rule.kind.window
        return "its windows count events" if window.unit == "events" else window.over
    if isinstance(rule.after_match, Pause):
        return "the pause after a match reaches across slices of time"
    if rule.after_match != AfterMatch():
        return "skipping after a match reaches across slices of time"
    if rule.timed_out and any(_has_and(case.detect) for case in rule.cases):
        return "what an `and` lacks may have come before, in another slice of time"
    reaches = [_span(case) for case in rule.cases]
    reasons = [reach for reach in reaches if isinstance(reach, str)]
    return reasons[0] if reasons else max(reach for reach in reaches if isinstance(reach, int))


def slices_of(overlap_us: int, per_window: int = SLICE_PER_WINDOW) -> BySlice:
    """Slices that are so many times as long as what they have to read of the next one."""
    return BySlice(max(per_window * overlap_us, SHORTEST_SLICE_US), overlap_us)


def _judges_single_events(rule: Rule) -> bool:
    return (
        rule.kind is None
        and not rule.timed_out
        and compares_matches(rule) is None
        and all(is_one_event(case.detect) for case in rule.cases)
    )


def _span(case: Case) -> int | str:
    """How long after its first event a match can depend on events; or why there is no such time."""
    if case.once:
        return "`detect once` reaches across slices of time"
    if first_silences(case.detect):
        return "a silence that comes first counts from what was before, in another slice of time"
    if case.consuming:
        return "consumption reaches across slices of time"
    if any(step.selector is not None for step in _steps_that_may_begin(case.detect)):
        return "a selector of a first step compares matches across slices of time"
    longest = longest_us(case)
    if longest is None:
        return "it has no window" if case.within is None else "its loop has no longest duration"
    return longest


def _steps_that_may_begin(pattern: Pattern) -> list[Step]:
    """Steps that can take the first event of a match; where that is not obvious, all."""
    if isinstance(pattern, Seq):
        first = pattern.parts[0]
        if isinstance(first, Follow) and isinstance(first.pattern, Step):
            return [first.pattern]
    return list(steps_of(pattern))


def _has_and(pattern: Pattern) -> bool:
    match pattern:
        case And():
            return True
        case Step():
            return False
        case Loop(body):
            return _has_and(body)
        case Seq(parts):
            return any(isinstance(part, Follow) and _has_and(part.pattern) for part in parts)
        case Or(parts):
            return any(map(_has_and, parts))
        case _:
            assert_never(pattern)
