"""Events that cannot be part of a match, because nothing that has come follows them in time.

`a then each b then each c` makes a partial match of every pair of an a and a b, and where c is rare, nearly none of
them ever ends. Where it is known which events come within the window, one pass backwards over them finds the events
that lead nowhere, before any partial match is made: what is left costs by the matches that exist.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situ.core.time import BEGINNING, END
from situ.graph.patterns import Contiguity, Follow, Seq, Step
from situ.graph.query import From
from situ.kernel.arrays import I64, U64
from situ.kernel.matching.machine import jit
from situ.kernel.operator import Context
from situ.kernel.program.program import Program

#: A step is rare if one before it has more than so many times as many events.
_RARE = 8


@dataclass(frozen=True, slots=True)
class DeadEnds:
    """The steps of a pattern in a row, each as the bit of its test, and the window that counts from the first event."""

    steps: U64
    window_us: int

    @classmethod
    def of(cls, context: Context, number: int, program: Program) -> DeadEnds | None:
        """Of case `number`. None where an event may matter that is part of no match (a watch, what times out, numbers
        of selections), where windows do not count from the first event, or where no step says `each`."""
        case, rule = context.operator.rule.cases[number], context.operator.rule
        pattern, within = case.detect, case.within
        if not isinstance(pattern, Seq) or within is None or within.anchor is not From.FIRST:
            return None
        parts = [part for part in pattern.parts if isinstance(part, Follow) and isinstance(part.pattern, Step)]
        each = any(part.contiguity is Contiguity.EACH for part in parts)
        is_plain = len(parts) == len(pattern.parts) and not program.automaton.watches
        if not is_plain or not each or program.automaton.counts_positions or rule.timed_out or context.selections:
            return None
        bits = np.uint64(1) << program.code.state_test[: len(parts)].astype(np.uint64)
        return cls(bits, within.micros)

    def without(self, accepted: U64, order: I64, group: I64, groups: int, time: I64, before: int) -> U64:
        """The tests that accept each event, without those of steps that lead nowhere, where it is likely that there
        are many. `order` has each group in its order; no event before `before` will come any more."""
        if not self._is_rare(accepted):
            return accepted
        left = np.zeros(len(accepted), np.uint64)
        following = np.full((groups, len(self.steps)), END)
        horizon = END if before == END else max(before - self.window_us, BEGINNING)
        _walk_back(order, group, time, accepted, self.steps, self.window_us, horizon, following, left)
        return left

    def _is_rare(self, accepted: U64) -> bool:
        """Whether some step has far fewer events than one before it: else most events lead somewhere, and the matches
        that exist cost more than the partial ones that do not end."""
        most = 0
        for step in self.steps:
            events = int(np.count_nonzero(accepted & step))
            if events * _RARE < most:
                return True
            most = max(most, events)
        return False


@jit
def _walk_back(order: I64, group: I64, time: I64, accepted: U64, steps: U64, window_us: int, horizon: int,
               following: I64, left: U64) -> None:  # fmt: skip
    """`following`: by group and step, the time of the earliest event so far that can be that step. From `horizon` on,
    what follows may still come."""
    last = len(steps) - 1
    for at in range(len(order) - 1, -1, -1):
        row = order[at]
        bits, now, mine = accepted[row], time[row], group[row]
        # The first steps first: a step asks for those that are later than this event.
        for step in range(len(steps)):
            if bits & steps[step] and (step == last or now >= horizon or following[mine, step + 1] - window_us <= now):
                following[mine, step] = now
                left[row] |= steps[step]
