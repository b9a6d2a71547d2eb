"""Operator -> running operator."""

from __future__ import annotations

from typing import assert_never

from situ.graph.query import Aggregation, Join
from situ.kernel.aggregation_operator import AggregationOperator
from situ.kernel.join_operator import JoinOperator
from situ.kernel.operator import Context, RunningOperator
from situ.kernel.pattern_operator import PatternOperator


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
