"""How far back a complex event's atomic events may lie: relevance time spans (MCEP, sections 4.1 and 4.2.1)."""

from __future__ import annotations

from situ.core.errors import QueryError
from situ.graph.operators import Operator, OperatorGraph
from situ.graph.query import Aggregation, Case, Join
from situ.graph.rule_properties import longest_us


def history_us(graph: OperatorGraph, output: str) -> dict[str, int]:
    """For each stream that an output depends on, the sum of the spans on the longest path to it.

    >>> from situ.lang.parse import parse
    >>> from situ.lang.resolve import resolve
    >>> graph = resolve(parse('''
    ...     stream A(v int, ts int) time ts in s
    ...     define Rise(v) detect A as a then A(v > a.v) as b within 10 s assign v = b.v
    ...     subscribe Rises detect Rise as r then Rise as s within 30 s assign v = s.v
    ... '''))
    >>> history_us(graph, "Rises")
    {'A': 40000000}
    """
    operators = {operator.name: operator for operator in graph.operators}
    farthest_us: dict[str, int] = {}

    def visit(name: str, below_us: int) -> None:
        if name not in operators:
            farthest_us[name] = max(farthest_us.get(name, 0), below_us)
            return
        for event in operators[name].inputs:
            visit(event, below_us + span_us(operators[name]))

    visit(output, 0)
    return farthest_us


def span_us(operator: Operator) -> int:
    """The longest time from an operator's first event to the time of its complex event."""
    kind = operator.rule.kind
    if isinstance(kind, Aggregation | Join):
        if kind.window.unit == "events":
            raise QueryError(
                f"{operator.name} counts events, so nothing says how far back they lie",
                place=operator.rule.cases[0].place,
                remedy="Give it a window of time: `aggr every T over W`.",
            )
        return kind.window.over
    return max(_case_us(operator, case) for case in operator.rule.cases)


def _case_us(operator: Operator, case: Case) -> int:
    longest = longest_us(case)
    if longest is None:
        what = "no window" if case.within is None else "a loop without an upper bound"
        raise QueryError(
            f"{operator.name} has {what}, so nothing says how far back its events lie",
            place=case.place,
            remedy="Write `within T`; where it is `from previous`, let loops have an upper bound.",
        )
    return longest
