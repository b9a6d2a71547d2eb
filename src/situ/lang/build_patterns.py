"""Patterns by methods: `a.then(b.where(b.speed < a.speed - 5)).then_not(c)`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from situ.graph.expressions import Binary, Expression
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
    Selector,
    Seq,
    Step,
)
from situ.graph.query import Definition, Stream
from situ.lang.build_expressions import Aliased, Operand, to_expression, to_micros, without_alias


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A pattern under construction; `node` is the frozen pattern inside."""

    node: Pattern

    def _parts(self) -> tuple[Follow | Absence, ...]:
        """What a sequence that goes on from here begins with."""
        return (Follow(self.node),)

    def then(self, part: Part) -> Sequence:
        """The first later event that satisfies the next part; of a part with a selector, every later one."""
        selected = isinstance(part.node, Step) and part.node.selector is not None
        return self._followed_by(Follow(part.node, Contiguity.EACH if selected else Contiguity.NEXT))

    def then_each(self, part: Part) -> Sequence:
        return self._followed_by(Follow(part.node, Contiguity.EACH))

    def then_immediately(self, part: Part) -> Sequence:
        return self._followed_by(Follow(part.node, Contiguity.IMMEDIATELY))

    def then_not(self, event: OneEvent) -> Sequence:
        return self._followed_by(Absence(event.node.test))

    def then_not_immediately(self, event: OneEvent) -> Sequence:
        return self._followed_by(Absence(event.node.test, immediately=True))

    def _followed_by(self, part: Follow | Absence) -> Sequence:
        return Sequence(Seq((*self._parts(), part)))


@dataclass(frozen=True, slots=True, eq=False)
class Repeatable(Part):
    """A part that a loop can repeat."""

    node: Step | Seq | Or

    def one_or_more(self) -> Repeated:
        return self._repeated(1, None)

    def any_number(self) -> Repeated:
        return self._repeated(0, None)

    def optional(self) -> Repeated:
        return self._repeated(0, 1)

    def times(self, low: int, high: int | None = None) -> Repeated:
        """`times(3)` is `{3}`, `times(2, 5)` is `{2,5}`."""
        return self._repeated(low, low if high is None else high)

    def at_least(self, low: int) -> Repeated:
        return self._repeated(low, None)

    def _repeated(self, low: int, high: int | None) -> Repeated:
        return Repeated(Loop(self.node, low, high))


@dataclass(frozen=True, slots=True, eq=False)
class Sequence(Repeatable):
    """`A then B`; one more `then` makes it longer, where `group` closes it: `(A then B) then C`."""

    node: Seq

    def _parts(self) -> tuple[Follow | Absence, ...]:
        return self.node.parts


@dataclass(frozen=True, slots=True, eq=False)
class OneEvent(Repeatable, Aliased):
    """`Vehicle(speed < 5) as a`; its attributes are `a.speed` or `a["speed"]`."""

    node: Step
    attributes: tuple[str, ...] | None = None

    def as_(self, alias: str) -> OneEvent:
        return self._with(replace(self.node, alias=alias))

    def where(self, condition: Operand) -> OneEvent:
        """One more condition; `b.where(b.speed < 5)` and `b.where(this.speed < 5)` say the same."""
        added = without_alias(to_expression(condition), self.node.alias)
        test = self.node.test
        conjunction: Expression = added if test.condition is None else Binary("and", test.condition, added)
        return self._with(replace(self.node, test=EventTest(test.event_type, conjunction)))

    def first(self) -> OneEvent:
        return self._with(replace(self.node, selector=Selector.FIRST))

    def last(self) -> OneEvent:
        return self._with(replace(self.node, selector=Selector.LAST))

    def outer(self) -> OneEvent:
        """An aggregation's input that may be missing from a window."""
        return self._with(replace(self.node, outer=True))

    def _repeated(self, low: int, high: int | None) -> Repeated:
        return Repeated(Loop(self.node, low, high), self.attributes)

    def _with(self, node: Step) -> OneEvent:
        return OneEvent(node, self.attributes)

    def _alias(self) -> str:
        return self.node.alias

    def _attributes(self) -> tuple[str, ...] | None:
        return self.attributes


@dataclass(frozen=True, slots=True, eq=False)
class Repeated(Part, Aliased):
    """A loop. That of one event keeps its alias: `count(jam)`, `last(jam.lane)`."""

    node: Loop
    attributes: tuple[str, ...] | None = None

    def each(self) -> Repeated:
        return self._with(replace(self.node, inner=Contiguity.EACH))

    def immediately(self) -> Repeated:
        return self._with(replace(self.node, inner=Contiguity.IMMEDIATELY))

    def greedy(self) -> Repeated:
        return self._with(replace(self.node, greedy=True))

    def until(self, event: OneEvent) -> Repeated:
        return self._with(replace(self.node, until=event.node.test))

    def _with(self, node: Loop) -> Repeated:
        return Repeated(node, self.attributes)

    def _alias(self) -> str:
        if not isinstance(self.node.body, Step):
            raise AttributeError("a loop over several events has no alias of its own")
        return self.node.body.alias

    def _attributes(self) -> tuple[str, ...] | None:
        return self.attributes


@dataclass(frozen=True, slots=True, eq=False)
class EventType(OneEvent):
    """A stream or a definition; in a pattern, a step whose alias is the type's name."""

    statement: Stream | Definition | None = None


def event_type(name: str, *attributes: str) -> EventType:
    """An event type that is declared elsewhere; without attributes, any attribute is believed.

    >>> video = event_type("Video").as_("v")
    >>> video.where(video.size > 5).node.test.condition
    Binary(operator='>', left=Attribute(alias=None, name='size'), right=Literal(value=5))
    """
    return EventType(Step(EventTest(name), name), attributes or None)


@dataclass(frozen=True, slots=True, eq=False)
class Quiet(Repeatable, Aliased):
    """A silence; with an alias, `time(q)` is when it was over."""

    node: Step

    def as_(self, alias: str) -> Quiet:
        return Quiet(replace(self.node, alias=alias))

    def _repeated(self, low: int, high: int | None) -> Repeated:
        return Repeated(Loop(self.node, low, high), ())

    def _alias(self) -> str:
        return self.node.alias

    def _attributes(self) -> tuple[str, ...]:
        return ()


def no(event: OneEvent, span: str | timedelta) -> Quiet:
    """`no X for 5 s`: a step that is over when so much time has passed without such an event.

    >>> no(event_type("Beat"), "5 s").node.silence_us
    5000000
    """
    return Quiet(Step(event.node.test, NAMELESS, silence_us=to_micros(span)))


def all_of(*events: OneEvent | Quiet) -> Part:
    """`A and B`: in any order."""
    return Part(And(tuple(event.node for event in events)))


def any_of(*patterns: Part) -> Repeatable:
    """`A or B`."""
    return Repeatable(Or(tuple(pattern.node for pattern in patterns)))


def group(sequence: Sequence) -> Repeatable:
    """`(A then B)`: one part of the sequence that goes on from it."""
    return Repeatable(sequence.node)
