"""A pattern rule, compiled: the programs of its cases."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from situ.kernel.matching.policies import Policies
from situ.kernel.operator import Conditions, Context
from situ.kernel.program.compiled_case import CompiledCase, compile_case
from situ.kernel.state.snapshot import digest
from situ.kernel.state.store import empty_store


@dataclass(frozen=True, slots=True)
class PatternProgram:
    """The cases of a pattern rule, each with its own program; they run side by side."""

    context: Context
    cases: tuple[CompiledCase, ...]

    @classmethod
    def of(cls, context: Context) -> PatternProgram:
        return cls(context, tuple(compile_case(context, n) for n in range(len(context.operator.rule.cases))))

    def __str__(self) -> str:
        return "\n".join(case.text for case in self.cases)

    def tests(self) -> dict[str, tuple[Conditions, ...]]:
        """For each input type, what it asks of single events: it reads those that fulfil one of these."""
        of_cases = [case.tests() for case in self.cases]
        return {n: tuple(c for tests in of_cases for c in tests.get(n, ())) for n in self.context.inputs}

    @property
    def counts_positions(self) -> bool:
        """Whether it reads all events of its input types, because their positions count."""
        return any(case.program.automaton.counts_positions for case in self.cases)

    @property
    def begins_in_silence(self) -> bool:
        """Whether a silence comes first, which begins with an event that it need not take."""
        return any(case.program.automaton.begins for case in self.cases)

    @property
    def waits_for_time(self) -> bool:
        """Whether time alone, as it passes or ends, decides some of its complex events."""
        rule = self.context.operator.rule
        return rule.timed_out or any(
            case.program.automaton.ends_in_absence
            or case.program.automaton.has_silences
            or Policies.of(case.program, rule.after_match).needed
            for case in self.cases
        )

    def columns_read(self, judged: Collection[Conditions] = ()) -> dict[str, frozenset[str]]:
        """The columns of each input type that are always read (others only where events tie in time), if some of its
        tests have been judged already."""
        read: dict[str, frozenset[str]] = {name: frozenset() for name in self.context.inputs}
        for case in self.cases:
            for name, columns in case.columns_read(self.context, judged).items():
                read[name] |= columns
        return read

    def digests(self) -> dict[str, str]:
        """For every table of the operator's state, the digest that the table must have to fit."""
        digests = {f"case {number}": self._digest(number) for number in range(len(self.cases))}
        if self.context.selections:
            digests |= {f"{case} log": digest_ for case, digest_ in digests.items()}
        return digests

    def _digest(self, number: int) -> str:
        """A state fits the same program with the same policies that holds the same columns."""
        rule, case = self.context.operator.rule, self.cases[number]
        columns = sorted(empty_store(self.context, case.stored).columns)
        parts = (case.text, rule.group_by, rule.after_match, rule.cases[number].consuming, columns)
        return digest(*parts, *self.context.shared_order)
