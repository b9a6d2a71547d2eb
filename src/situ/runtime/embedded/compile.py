"""Operator -> running operator."""

from __future__ import annotations

from typing import assert_never

from situ.graph.query import Aggregation, Join
from situ.kernel.operator import Context, RunningOperator
from situ.kernel.pattern_operator import PatternOperator
from situ.kernel.window_operator import AggregationOperator, JoinOperator


def compile_operator(context: Context) -> RunningOperator:
    match context.operator.rule.kind:
        case None:
            return PatternOperator(context)
        case Aggregation():
            return AggregationOperator(context)
        case Join():
            return JoinOperator(context)
        case kind:
            assert_never(kind)
