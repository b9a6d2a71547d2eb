"""Random patterns that nest: loops in groups in alternatives in loops, and absences in a row.

`DeepPen` writes the same rules as the `Pen` of strategies.py, with other patterns: half of the loops are greedy, most
parts can be left out, and groups begin with parts that can be left out. That is where a matcher loses things: what
may follow a part depends on everything that was passed over on the way to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from situ.graph.patterns import Absence, And, Contiguity, EventTest, Follow, Loop, Or, Pattern, Seq
from situ.graph.query import Assignment, Case, Rule, Within
from strategies import SECOND, Pen, Scenario, random_scenario

#: Brute force tries every word on every choice of events: both are few.
MOST_STEPS = 6
MOST_EVENTS = 8


class DeepPen(Pen):
    """Writes one rule whose pattern nests up to three levels deep."""

    def test(self, own: str | None = None) -> EventTest:
        """Conditions are few, so that nested patterns match."""
        return super().test(own) if self.chance(60) else EventTest(self.one_of(*self.types))

    def contiguity(self) -> Contiguity:
        return super().contiguity() if self.chance(50) else self.one_of(Contiguity.NEXT, Contiguity.EACH)

    def nested(self, depth: int, *, repeats: bool) -> Pattern:
        """A step, or what nests; `repeats` says whether a loop around it can run twice."""
        if depth == 0 or self.written >= MOST_STEPS or self.chance(20):
            return self.step(repeats=repeats)
        if self.chance(65):
            return self.nested_loop(depth, repeats=repeats)
        if self.chance(25):
            return Or((self.nested(depth - 1, repeats=repeats), self.nested(depth - 1, repeats=repeats)))
        if self.chance(10):
            return And((self.step(repeats=repeats), self.step(repeats=repeats)))
        return self.nested_sequence(depth, repeats=repeats)

    def nested_loop(self, depth: int, *, repeats: bool) -> Loop:
        """Mostly optional, often without an upper bound."""
        low = self.one_of(0, 0, 0, 0, 1, 2)
        high = self.one_of(max(low, 1), low + 1, *([] if self.bounded else [None] if repeats else [None, None]))
        body = self.nested(depth - 1, repeats=repeats or high != 1)
        if isinstance(body, Loop | And):  # these stand in parentheses; an `and` is not repeated by itself
            rest = [Follow(self.step(repeats=repeats or high != 1))] if isinstance(body, And) else []
            body = Seq((Follow(body), *rest))
        until = self.test() if self.chance(15) else None
        return Loop(body, low, high, self.contiguity(), greedy=self.chance(50), until=until)

    def nested_sequence(self, depth: int, *, repeats: bool) -> Seq:
        parts: list[Follow | Absence] = [Follow(self.nested(depth - 1, repeats=repeats))]
        for _ in range(self.one_of(1, 1, 2)):
            parts += self.absences()
            parts.append(Follow(self.nested(depth - 1, repeats=repeats), self.contiguity()))
        return Seq(tuple(parts))

    def absences(self) -> list[Absence]:
        """Mostly none, sometimes one, sometimes several in a row."""
        return [Absence(self.test(), immediately=self.chance(30)) for _ in range(self.one_of(*[0] * 14, 1, 2))]

    def pattern(self, *, plain: bool) -> Pattern:
        if self.chance(10):
            return self.nested_loop(3, repeats=False)
        first = Follow(self.step() if self.chance(60) else self.nested(2, repeats=False))
        absences = self.absences()
        rest = self.nested_sequence(3, repeats=False)
        if self.chance(60):
            return Seq((first, *absences, Follow(rest, self.contiguity())))  # `first then (rest)`
        return Seq((first, *absences, *rest.parts))

    def within(self) -> Within | None:
        """Mostly long enough for all events."""
        within = super().within()
        return within if within is None or self.chance(30) else replace(within, micros=8 * SECOND)

    def grouping(self) -> tuple[str, ...]:
        return super().grouping() if self.chance(40) else ()

    def rule(self, assign: Callable[[Rule], tuple[Assignment, ...]]) -> Rule:
        return self.pattern_rule(assign)

    def pattern_case(self, *, plain: bool) -> Case:
        case = super().pattern_case(plain=plain)
        match case.detect:
            case Seq((*parts, Absence() as last)) if self.chance(50):
                return Case(Seq((*parts, Absence(self.test()), last)), case.within)
            case _:
                return case


def deep_scenario(seed: int, watermark_s: int = 0) -> Scenario:
    """A scenario with one pattern, which nests."""
    return random_scenario(seed, definitions=0, most=MOST_EVENTS, watermark_s=watermark_s, pen=DeepPen)
