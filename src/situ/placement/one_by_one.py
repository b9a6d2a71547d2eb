"""Operators that decide their matches one by one, as soon as the events of each have come, whoever else may still send
some (docs/decisions/0030). Others read events in the order of time, and ask those who do not say how far they are."""

from __future__ import annotations

from situ.placement.problem import Kind, PlannedOperator, Problem

#: Matches are decided one by one over the events of a window. Where these are more than so many, events are read in
#: order instead, by a kernel that looks at each of them once.
MOST_IN_WINDOW = 2_000


def can_decide_one_by_one(problem: Problem, operator: PlannedOperator) -> bool:
    """Whether an operator to which everything is pushed may decide its matches one by one."""
    return operator.can_pull and float(problem.input_rates(operator).sum()) * operator.window_s <= MOST_IN_WINDOW


def waits_for_time(operator: PlannedOperator) -> bool:
    """Whether a match is certain only when time has passed it: a plain `then` takes the next event, and an earlier one
    may still come."""
    return operator.kind is Kind.SEQ and not all(operator.each)
