"""Patterns: from the grammar's tree to frozen nodes."""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

from lark import Token, v_args
from lark.tree import Meta

from situ.graph.expressions import Expression
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
from situ.lang.tree_to_expression import TreeToExpression

CONTIGUITY = {"EACH": Contiguity.EACH, "IMMEDIATELY": Contiguity.IMMEDIATELY}
QUANTIFIERS: dict[str, tuple[int, int | None]] = {"PLUS": (1, None), "STAR": (0, None), "QUESTION": (0, 1)}

Bounds: TypeAlias = tuple[int, int | None]
Repeat: TypeAlias = "partial[Loop]"  # a loop that waits for its body


@v_args(inline=True, meta=True)
class TreeToPattern(TreeToExpression):
    def either(self, meta: Meta, *alternatives: Pattern) -> Or:
        return Or(alternatives)

    def sequence(self, meta: Meta, first: Pattern, *further: Follow | Absence) -> Seq:
        return Seq((Follow(first), *further))

    def follow(self, meta: Meta, contiguity: Token | None, pattern: Pattern) -> Follow:
        if contiguity is not None:
            return Follow(pattern, CONTIGUITY[contiguity.type])
        # `then first X` reads every later X, like `then each`, and keeps the first choice.
        chosen = isinstance(pattern, Step) and pattern.selector is not None
        return Follow(pattern, Contiguity.EACH if chosen else Contiguity.NEXT)

    def absence(self, meta: Meta, immediately: Token | None, test: EventTest) -> Absence:
        return Absence(test, immediately is not None)

    def conjunction(self, meta: Meta, *parts: Pattern) -> And:
        """AND(AND(A, B), C) -> AND(A, B, C)."""
        steps: list[Step] = []
        for part in parts:
            match part:
                case Step():
                    steps.append(part)
                case And(inner):
                    steps.extend(inner)
                case Loop() | Seq() | Or():
                    remedy = "Detect the other part in a definition of its own, and name that definition here."
                    raise self._error(meta, "'and' joins single events, no loops, no 'then' and no 'or'", remedy)
        return And(tuple(steps))

    def step(
        self,
        meta: Meta,
        outer: Token | None,
        selector: Token | None,
        test: EventTest,
        repeat: Repeat | None,
        alias: Token | None,
    ) -> Step | Loop:
        chosen = None if selector is None else Selector[selector.type]
        step = Step(test, test.event_type if alias is None else str(alias), chosen, outer is not None)
        return step if repeat is None else repeat(step)

    def silence(self, meta: Meta, test: EventTest, length: Token, alias: Token | None) -> Step:
        name = NAMELESS if alias is None else str(alias)
        return Step(test, name, silence_us=self._micros(length))

    def group(self, meta: Meta, pattern: Pattern, repeat: Repeat | None) -> Pattern:
        if repeat is None:
            return pattern
        match pattern:
            case Step() | Seq() | Or():
                return repeat(pattern)
            case Loop():
                return repeat(Seq((Follow(pattern),)))
            case And():
                remedy = "Detect A and B in a definition of its own, and repeat that definition."
                raise self._error(meta, "a loop cannot repeat 'and'", remedy)

    def test(self, meta: Meta, event_type: Token, condition: Expression | None) -> EventTest:
        return EventTest(str(event_type), condition, place=self._place(meta))

    def loop(
        self, meta: Meta, bounds: Bounds, inner: Token | None, greedy: Token | None, until: EventTest | None
    ) -> Repeat:
        contiguity = Contiguity.NEXT if inner is None else CONTIGUITY[inner.type]
        return partial(Loop, low=bounds[0], high=bounds[1], inner=contiguity, greedy=greedy is not None, until=until)

    def symbol(self, meta: Meta, symbol: Token) -> Bounds:
        return QUANTIFIERS[symbol.type]

    def exactly(self, meta: Meta, number: Token) -> Bounds:
        return self._whole(number, at_least=1), self._whole(number)

    def from_to(self, meta: Meta, low: Token, high: Token | None) -> Bounds:
        if high is None:
            return self._whole(low), None
        return self._whole(low), self._whole(high, at_least=max(1, self._whole(low)))
