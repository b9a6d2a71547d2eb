"""A pattern of which a tally is kept instead of its matches, compiled (`situ.graph.tallies`)."""

from __future__ import annotations

from dataclasses import dataclass

from situ.core.time import format_duration
from situ.graph.query import Window
from situ.kernel.operator import Context
from situ.kernel.program.window_program import WindowProgram, WindowSteps
from situ.lang.unparse import unparse_expression


@dataclass(frozen=True, slots=True)
class TallyProgram(WindowProgram):
    """`then each` steps with conditions on single events; of their matches only numbers are asked."""

    @classmethod
    def of(cls, context: Context) -> TallyProgram:
        (case,) = context.operator.rule.cases
        assert case.within is not None
        # A window that ends at each microsecond: an event is needed for as long as a match can last.
        held = Window(every=1, over=case.within.micros + 1)
        return cls(context, (WindowSteps.of(context, held, case),))

    @property
    def window_us(self) -> int:
        return self.cases[0].window.over - 1

    @property
    def waits_for_time(self) -> bool:
        return False

    def __str__(self) -> str:
        head = f"tally {self.context.operator.name} within {format_duration(self.window_us)}: no match is made"
        (case,) = self.context.operator.rule.cases
        asked = [f"  {unparse_expression(item.expression)}" for item in case.assign]
        return "\n".join([head, *self.cases[0].describe(), "  of all matches that an event completes:", *asked])
