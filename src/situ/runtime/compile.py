"""Operator -> running operator."""

from __future__ import annotations

from typing import assert_never

from situ.core.errors import QueryError
from situ.graph.operators import OperatorGraph
from situ.graph.query import Aggregation, Join
from situ.kernel.aggregation_operator import AggregationOperator
from situ.kernel.join_operator import JoinOperator
from situ.kernel.operator import Context, RunningOperator
from situ.kernel.pattern_operator import PatternOperator
from situ.lang.resolve import has_unbounded_state


def compile_operator(context: Context, threads: int = 1) -> RunningOperator:
    """The operator with no state yet; a grouped pattern is matched by so many threads, a power of two."""
    match context.operator.rule.kind:
        case None:
            return PatternOperator(context, threads)
        case Aggregation():
            return AggregationOperator(context)
        case Join():
            return JoinOperator(context)
        case kind:
            assert_never(kind)


def refuse_unbounded_state(graph: OperatorGraph) -> None:
    """An error, if on unbounded input the state of an operator would grow for ever."""
    for operator in graph.operators:
        if has_unbounded_state(operator):
            raise QueryError(
                f"{operator.name} has no window: on an unbounded stream its state would grow for ever",
                place=operator.rule.cases[0].place,
                remedy="Add `within T` to its detect, or run it on files or tables, which end.",
            )
