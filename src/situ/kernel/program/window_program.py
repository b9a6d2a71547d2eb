"""Rules over windows, `aggr every T` and `join every T on k`, compiled: what their steps ask of single events, and what
is kept of them (docs/language.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from situ.core.errors import QueryError
from situ.core.time import format_duration
from situ.graph.expressions import Expression, aliases_of, conjuncts, rename_alias
from situ.graph.patterns import Step, steps_of
from situ.graph.query import Aggregation, Case, Join, Window
from situ.graph.typing import THIS
from situ.kernel.operator import Conditions, Context, attributes_read
from situ.kernel.state.snapshot import digest
from situ.kernel.state.store import empty_store
from situ.lang.unparse import unparse_expression

#: The tables of a window's state.
WINDOW_TABLES = ("events", "counts", "until")


@dataclass(frozen=True, slots=True)
class WindowSteps:
    """The steps of a case over windows. By alias: the conditions on its own event, and its type; by type: the
    attributes that are needed once an event has been accepted."""

    context: Context
    window: Window
    conditions: Mapping[str, Conditions]
    types: Mapping[str, str]
    stored: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, context: Context, window: Window, case: Case, also_stored: Iterable[str] = ()) -> WindowSteps:
        steps = tuple(steps_of(case.detect))
        types = {step.alias: step.test.event_type for step in steps}
        joining = [c for step in steps for c in conjuncts(step.test.condition) if not aliases_of(c) <= {step.alias}]
        expressions = [*(item.expression for item in case.assign), *joining]
        read = attributes_read([(expression, types) for expression in expressions], context.schemas)
        stored = {name: tuple(sorted({*read[name], *also_stored})) for name in context.inputs}
        return cls(context, window, {step.alias: own_conditions(step) for step in steps}, types, stored)

    def describe(self) -> list[str]:
        """The steps, as a person reads them."""
        lines = []
        for alias, conditions in self.conditions.items():
            text = " and ".join(map(unparse_expression, conditions))
            lines.append(f"  {alias}: {self.types[alias]}" + (f"({text})" if text else ""))
        if self.window.unit == "events":
            lines.append("  positions: of all events")
        return lines

    def columns_read(self, judged: Collection[Conditions]) -> dict[str, frozenset[str]]:
        own = [
            (condition, {THIS: self.types[alias]})
            for alias, conditions in self.conditions.items()
            if conditions not in judged
            for condition in conditions
        ]
        tested = attributes_read(own, self.context.schemas)
        always = frozenset(self.context.group_by) | frozenset(self.context.carried)
        return {name: always | tested[name] | frozenset(self.stored[name]) for name in self.context.inputs}

    def stored_columns(self) -> list[str]:
        """The names of the columns in which events wait for their windows to end."""
        return [*empty_store(self.context, self.stored).columns, *(f"_in {alias}" for alias in self.conditions)]


@dataclass(frozen=True, slots=True)
class WindowProgram:
    """What aggregations and joins have in common; the methods are those of PatternProgram."""

    context: Context
    cases: tuple[WindowSteps, ...]

    def tests(self) -> dict[str, tuple[Conditions, ...]]:
        tests: dict[str, tuple[Conditions, ...]] = {}
        for case in self.cases:
            for alias, conditions in case.conditions.items():
                tests[case.types[alias]] = (*tests.get(case.types[alias], ()), conditions)
        return tests

    @property
    def counts_positions(self) -> bool:
        return any(case.window.unit == "events" for case in self.cases)

    @property
    def begins_in_silence(self) -> bool:
        return False

    @property
    def waits_for_time(self) -> bool:
        return True

    def columns_read(self, judged: Collection[Conditions] = ()) -> dict[str, frozenset[str]]:
        read: dict[str, frozenset[str]] = dict.fromkeys(self.context.inputs, frozenset())
        for case in self.cases:
            read = {name: read[name] | columns for name, columns in case.columns_read(judged).items()}
        return read

    def digests(self) -> dict[str, str]:
        """The state of a rule over windows fits the rule as it prints itself, holding the same columns."""
        group_by, shared = self.context.group_by, self.context.shared_order
        return {
            f"case {number} {table}": digest(self, group_by, sorted(case.stored_columns()), *shared)
            for number, case in enumerate(self.cases)
            for table in WINDOW_TABLES
        }


@dataclass(frozen=True, slots=True)
class AggregationProgram(WindowProgram):
    """`aggr every T`."""

    kind: Aggregation

    @classmethod
    def of(cls, context: Context, kind: Aggregation) -> AggregationProgram:
        cases = context.operator.rule.cases
        if kind.window.unit == "events" and kind.post and len(cases) > 1:
            raise QueryError(
                f"{context.operator.name} has windows of events, several cases and a <post> part",
                place=cases[0].place,
                remedy="Each case counts its own events, so their windows do not end together: use windows of time.",
            )
        return cls(context, tuple(WindowSteps.of(context, kind.window, case) for case in cases), kind)

    def __str__(self) -> str:
        head = f"aggregation {self.context.operator.name} {describe_window(self.kind.window)}"
        return "\n".join([head, *(line for case in self.cases for line in case.describe())])


@dataclass(frozen=True, slots=True)
class JoinProgram(WindowProgram):
    """`join every T on k`: events of one window that agree in k."""

    kind: Join

    @classmethod
    def of(cls, context: Context, kind: Join) -> JoinProgram:
        (case,) = context.operator.rule.cases
        return cls(context, (WindowSteps.of(context, kind.window, case, kind.on),), kind)

    def __str__(self) -> str:
        (case,) = self.context.operator.rule.cases
        head = f"join {self.context.operator.name} {describe_window(self.kind.window)} on {', '.join(self.kind.on)}"
        joining = [unparse_expression(c) for step in steps_of(case.detect) for c in conjuncts(step.test.condition)
                   if not aliases_of(c) <= {step.alias}]  # fmt: skip
        return "\n".join([head, *self.cases[0].describe(), *(f"  joined where {text}" for text in joining)])


def describe_window(window: Window) -> str:
    """`every 1 min over 10 min`, `every 10 events`."""
    lengths = [format_duration(n) if window.unit == "time" else f"{n} events" for n in (window.every, window.over)]
    return f"every {lengths[0]}" + (f" over {lengths[1]}" if window.over != window.every else "")


def own_conditions(step: Step) -> tuple[Expression, ...]:
    """The conditions of a step on its own event, with the alias `this`."""
    own = [c for c in conjuncts(step.test.condition) if aliases_of(c) <= {step.alias}]
    return tuple(rename_alias(c, step.alias, THIS) for c in own)
