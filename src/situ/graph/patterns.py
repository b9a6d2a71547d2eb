"""Patterns: what a `detect` clause says. Their meaning is docs/language.md, chapter "Patterns"."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias, assert_never

from situ.core.errors import Place
from situ.graph.expressions import Expression, aliases_of, conjuncts

#: Silences without `as` are numbered after this; nobody can write it as a name.
NAMELESS = "silence "


class Contiguity(Enum):
    """How an event follows the one before it."""

    NEXT = "then"  # the first later event that satisfies the condition
    EACH = "then each"  # every later one
    IMMEDIATELY = "then immediately"  # the very next event of the group


class Selector(Enum):
    """Which of the matches that agree in all other events stay."""

    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class EventTest:
    """`Vehicle(speed < 5)`: an event type and a condition on its event."""

    event_type: str
    condition: Expression | None = None
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Step:
    """`[outer] [first|last] Vehicle(speed < 5) [as a]`. Without `as`, the alias is the event type's name.

    `outer` is for the inputs of an aggregation only. With `silence_us` it is a silence, `no Vehicle(speed < 5) for 2 s
    [as a]`: a step that takes the passing of time without such an event.
    """

    test: EventTest
    alias: str
    selector: Selector | None = None
    outer: bool = False
    silence_us: int | None = None

    @property
    def has_name(self) -> bool:
        """Whether the text says `as`, or the event type's name is the alias."""
        return not self.alias.startswith(NAMELESS)


@dataclass(frozen=True, slots=True)
class Loop:
    """`X+`, `X*`, `X?`, `X{2,5}`, with `each`, `immediately`, `greedy` and `until`. high None: no upper bound."""

    body: Step | Seq | Or
    low: int
    high: int | None
    inner: Contiguity = Contiguity.NEXT
    greedy: bool = False
    until: EventTest | None = None


@dataclass(frozen=True, slots=True)
class Follow:
    """One positive part of a sequence. The contiguity of a sequence's first part is NEXT and says nothing."""

    pattern: Pattern
    contiguity: Contiguity = Contiguity.NEXT


@dataclass(frozen=True, slots=True)
class Absence:
    """`not X` between two parts or at the end, `not immediately X`."""

    test: EventTest
    immediately: bool = False


@dataclass(frozen=True, slots=True)
class Seq:
    """Parts in order: at least two, the first a Follow, and an Absence last only in the outermost sequence."""

    parts: tuple[Follow | Absence, ...]


@dataclass(frozen=True, slots=True)
class And:
    """All steps, in any order."""

    parts: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Either part; at least two."""

    parts: tuple[Pattern, ...]


Pattern: TypeAlias = Step | Loop | Seq | And | Or


def reads_each(pattern: Pattern) -> bool:
    """Whether the text says `each` somewhere; `then first X` and `then last X` do not say it."""
    match pattern:
        case Step() | And():
            return False
        case Loop(body, inner=inner):
            return inner is Contiguity.EACH or reads_each(body)
        case Or(alternatives):
            return any(map(reads_each, alternatives))
        case Seq(parts):
            return any(_follows_each(part) for part in parts if isinstance(part, Follow))
        case _:
            assert_never(pattern)


def _follows_each(part: Follow) -> bool:
    selects = isinstance(part.pattern, Step) and part.pattern.selector is not None
    return (part.contiguity is Contiguity.EACH and not selects) or reads_each(part.pattern)


def steps_of(pattern: Pattern) -> Iterator[Step]:
    """All steps in textual order.

    >>> [step.alias for step in steps_of(And((Step(EventTest("A"), "a"), Step(EventTest("B"), "b"))))]
    ['a', 'b']
    """
    match pattern:
        case Step():
            yield pattern
        case Loop(body):
            yield from steps_of(body)
        case Seq(parts):
            for part in parts:
                if isinstance(part, Follow):
                    yield from steps_of(part.pattern)
        case And(steps):
            yield from steps
        case Or(alternatives):
            for alternative in alternatives:
                yield from steps_of(alternative)
        case _:
            assert_never(pattern)


def with_steps(pattern: Pattern, change: Callable[[Step], Step]) -> Pattern:
    """The pattern with each of its steps, in textual order, as `change` gives it."""
    match pattern:
        case Step():
            return change(pattern)
        case Loop(body):
            changed = with_steps(body, change)
            assert not isinstance(changed, Loop | And), "the class stays"
            return replace(pattern, body=changed)
        case Seq(parts):
            return Seq(
                tuple(
                    part if isinstance(part, Absence) else replace(part, pattern=with_steps(part.pattern, change))
                    for part in parts
                )
            )
        case And(steps):
            return And(tuple(map(change, steps)))
        case Or(alternatives):
            return Or(tuple(with_steps(alternative, change) for alternative in alternatives))
        case _:
            assert_never(pattern)


def silences_of(pattern: Pattern) -> Iterator[Step]:
    """All silences in textual order."""
    return (step for step in steps_of(pattern) if step.silence_us is not None)


def tests_of(pattern: Pattern) -> Iterator[EventTest]:
    """All event tests in textual order: of steps, of `not` and of `until`."""
    match pattern:
        case Step(test):
            yield test
        case Loop(body, until=until):
            yield from tests_of(body)
            if until is not None:
                yield until
        case Seq(parts):
            for part in parts:
                if isinstance(part, Follow):
                    yield from tests_of(part.pattern)
                else:
                    yield part.test
        case And(steps):
            for step in steps:
                yield step.test
        case Or(alternatives):
            for alternative in alternatives:
                yield from tests_of(alternative)
        case _:
            assert_never(pattern)


def decidable(steps: tuple[Step, ...], bound: Set[str], last: str) -> Iterator[tuple[Step, Expression]]:
    """The conjuncts of an `and`, with their steps, that can be judged when `last` is the newest of the `bound` aliases:
    all steps of the `and` that they need are bound, and `last` is one of them."""
    block = {step.alias for step in steps}
    for step in steps:
        for conjunct in conjuncts(step.test.condition):
            needed = (aliases_of(conjunct) & block) | {step.alias}
            if last in needed and needed <= bound:
                yield step, conjunct


def first_steps(pattern: Pattern) -> list[Step]:
    """The steps with which a match can begin; of an `and`, all of them.

    >>> a, b = Step(EventTest("A"), "a"), Step(EventTest("B"), "b")
    >>> [step.alias for step in first_steps(Seq((Follow(Loop(a, 0, 1)), Follow(b), Follow(a))))]
    ['a', 'b']
    """
    match pattern:
        case Step():
            return [pattern]
        case Loop(body):
            return first_steps(body)
        case And(parts_in_any_order):
            return list(parts_in_any_order)
        case Or(alternatives):
            return [step for alternative in alternatives for step in first_steps(alternative)]
        case Seq(parts):
            steps: list[Step] = []
            for part in (part.pattern for part in parts if isinstance(part, Follow)):
                steps += first_steps(part)
                if not can_be_empty(part):
                    break
            return steps
        case _:
            assert_never(pattern)


def first_silences(pattern: Pattern) -> list[Step]:
    """The silences with which a match can begin."""
    return [step for step in first_steps(pattern) if step.silence_us is not None]


def can_be_empty(pattern: Pattern) -> bool:
    """Whether a pattern can be passed over without a step."""
    match pattern:
        case Step() | And():
            return False
        case Loop(body, low):
            return low == 0 or can_be_empty(body)
        case Seq(parts):
            return all(can_be_empty(part.pattern) for part in parts if isinstance(part, Follow))
        case Or(alternatives):
            return any(map(can_be_empty, alternatives))
        case _:
            assert_never(pattern)


def steps_before(pattern: Pattern, alias: str) -> Iterator[Step]:
    """The steps that take their events before the first event of an alias, if they take one.

    >>> a, b, c = (Step(EventTest(name), name.lower()) for name in "ABC")
    >>> [step.alias for step in steps_before(Seq((Follow(a), Follow(Loop(b, 0, 1)), Follow(c))), "c")]
    ['a', 'b']
    """
    match pattern:
        case Step() | And():
            return
        case Loop(body):
            yield from steps_before(body, alias)
        case Seq(parts):
            for part in (part.pattern for part in parts if isinstance(part, Follow)):
                if any(step.alias == alias for step in steps_of(part)):
                    yield from steps_before(part, alias)
                    return
                yield from steps_of(part)
        case Or(alternatives):
            for alternative in alternatives:
                if any(step.alias == alias for step in steps_of(alternative)):
                    yield from steps_before(alternative, alias)
        case _:
            assert_never(pattern)


def is_plain(pattern: Pattern) -> bool:
    """Whether it is steps in a row, so that every match has one event for each, in the order of the text."""
    match pattern:
        case Step():
            return True
        case Seq(parts):
            return all(isinstance(part, Absence) or isinstance(part.pattern, Step) for part in parts)
        case Loop() | And() | Or():
            return False
        case _:
            assert_never(pattern)


def repeating_aliases(pattern: Pattern, inside_loop: bool = False) -> frozenset[str]:
    """Aliases that can hold more than one event: those under a loop that can run twice."""
    match pattern:
        case Step(alias=alias):
            return frozenset({alias}) if inside_loop else frozenset()
        case Loop(body, high=high):
            return repeating_aliases(body, inside_loop or high is None or high > 1)
        case Seq(parts):
            nested = [part.pattern for part in parts if isinstance(part, Follow)]
        case And(steps):
            nested = list(steps)
        case Or(alternatives):
            nested = list(alternatives)
        case _:
            assert_never(pattern)
    return frozenset().union(*(repeating_aliases(part, inside_loop) for part in nested))
