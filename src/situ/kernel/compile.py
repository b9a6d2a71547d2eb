"""Operator -> program -> operator at work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeAlias, assert_never

from situ.core.errors import QueryError
from situ.core.memory import MemoryBudget
from situ.graph.operators import OperatorGraph
from situ.graph.query import Aggregation, Join
from situ.graph.rule_properties import lacks_window, marks_every_key
from situ.kernel.aggregation_operator import AggregationOperator
from situ.kernel.batch import Calls
from situ.kernel.join_operator import JoinOperator
from situ.kernel.operator import Chosen, Context, RunningOperator
from situ.kernel.pattern_operator import PatternOperator
from situ.kernel.program.pattern_program import PatternProgram
from situ.kernel.program.window_program import AggregationProgram, JoinProgram

#: A rule, compiled: all that can be known of an operator before it runs. It holds no events, and prints itself.
RuleProgram: TypeAlias = PatternProgram | AggregationProgram | JoinProgram


def compile_operator(context: Context) -> RuleProgram:
    """The program of an operator: what it asks of events, what it reads, what its state must fit. It has no state."""
    match context.operator.rule.kind:
        case None:
            return PatternProgram.of(context)
        case Aggregation() as kind:
            return AggregationProgram.of(context, kind)
        case Join() as kind:
            return JoinProgram.of(context, kind)
        case kind:
            assert_never(kind)


class Programs(Mapping[str, RuleProgram]):
    """The programs of many rules, each compiled when it is first asked for: rules that run as one need not all of them
    be compiled. A flow of these runs rules of one shape as one."""

    def __init__(self, contexts: Mapping[str, Context]) -> None:
        self.contexts = dict(contexts)
        self._compiled: dict[str, RuleProgram] = {}

    def __getitem__(self, name: str) -> RuleProgram:
        if name not in self._compiled:
            self._compiled[name] = compile_operator(self.contexts[name])
        return self._compiled[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.contexts)

    def __len__(self) -> int:
        return len(self.contexts)

    def add(self, context: Context) -> None:
        self.contexts[context.operator.name] = context

    def remove(self, name: str) -> None:
        del self.contexts[name]
        self._compiled.pop(name, None)


def start_operator(
    program: RuleProgram,
    failed_calls: Counter[str],
    memory: MemoryBudget,
    threads: int = 1,
    chosen: Chosen | None = None,
) -> RunningOperator:
    """A program at work, with no state yet.

    Calls of users' functions that fail are counted in `failed_calls`, by function. What would take more than `memory`
    ends with an error. A grouped pattern is matched by `threads` threads, a power of two. `chosen`: only these
    selections are processed.
    """
    calls = Calls(functions=program.context.functions, errors=failed_calls)
    match program:
        case PatternProgram():
            return PatternOperator(program, calls, memory, threads, chosen)
        case AggregationProgram():
            return AggregationOperator(program, calls, memory, chosen)
        case JoinProgram():
            return JoinOperator(program, calls, memory, chosen)
        case _:
            assert_never(program)


def refuse_unbounded_state(graph: OperatorGraph) -> None:
    """An error, if on unbounded input the state of an operator would grow for ever."""
    for operator in graph.operators:
        if lacks_window(operator):
            raise QueryError(
                f"{operator.name} has no window: on an unbounded stream its state would grow for ever",
                place=operator.rule.cases[0].place,
                remedy="Add `within T` to its detect, or run it on files or tables, which end.",
            )
        if marks_every_key(operator):
            raise QueryError(
                f"{operator.name} detects once for each key: on an unbounded stream it would mark ever more keys",
                place=operator.rule.cases[0].place,
                remedy="Write `after match pause T` instead of `once`, or run it on files or tables, which end.",
            )
