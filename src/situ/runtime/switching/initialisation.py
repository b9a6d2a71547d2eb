"""Initialisation points: how far back the atomic events of an interest are streamed (MCEP, sections 4.2.1 and 5.3).

"basic": by the relevance time spans on the longest path, so that nothing is missed. "windows": by the selection
windows; a count is mapped to time by the mean time between recent events, and windows that come one after the other add
up. "none": not at all.

The windows' expected completeness is the share of recent selections, of as many events as a window counts, that took no
longer than the estimate; over several counting windows, the product of their shares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from situ.graph.operators import OperatorGraph
from situ.kernel.arrays import I64
from situ.kernel.batch import Batch
from situ.kernel.groups import GroupIndex
from situ.kernel.operator import Context
from situ.kernel.windows import own_conditions
from situ.mobility.history import history_us
from situ.runtime.switching.execution import Execution, SelectionWindow, chain_us, execution_of

Initialisation = Literal["basic", "windows", "none"]

#: The recent events of a type, as the operators of a consumer have seen them.
Recent = Callable[[str], Batch | None]


@dataclass(frozen=True, slots=True)
class History:
    """How far back each atomic stream begins, before the start of an interest less the lifetime, and which share of
    the complex events is expected to be found."""

    back_us: Mapping[str, int]
    expected_completeness: float


def basic_history(graph: OperatorGraph, output: str) -> History:
    return History(history_us(graph, output), 1.0)


class WindowHistory:
    """The estimates of "windows" for one subscription."""

    def __init__(self, graph: OperatorGraph, output: str, contexts: Mapping[str, Context]) -> None:
        self._output, self._contexts = output, contexts
        needed = graph.needed(output)
        self._executions = {o.name: execution_of(o) for o in graph.operators if o.name in needed}

    def estimate(self, recent: Recent) -> History:
        back_us: dict[str, int] = {}
        shares: dict[tuple[str, int, str], float] = {}

        def visit(name: str, above_us: int) -> None:
            execution = self._executions.get(name)
            if execution is None:
                back_us[name] = max(back_us.get(name, 0), above_us)
                return
            needs = [self._needs(name, number, execution, recent, shares) for number in range(len(execution.cases))]
            for event_type in self._contexts[name].operator.inputs:
                longest = max(
                    chain_us(case, event_type, needs_us, execution.relevance_us)
                    for case, needs_us in zip(execution.cases, needs, strict=True)
                )
                visit(event_type, above_us + longest)

        visit(self._output, 0)
        return History(back_us, float(np.prod(list(shares.values()))))

    def _needs(
        self, name: str, number: int, execution: Execution, recent: Recent, shares: dict[tuple[str, int, str], float]
    ) -> dict[str, int]:
        """How long each window of a case takes."""
        needs_us = {}
        for window in execution.cases[number].windows:
            if window.span_us is not None:
                needs_us[window.alias] = window.span_us
                continue
            needs_us[window.alias], share = self._counted(name, window, execution.relevance_us, recent)
            shares[name, number, window.alias] = share
        return needs_us

    def _counted(self, name: str, window: SelectionWindow, relevance_us: int, recent: Recent) -> tuple[int, float]:
        """The time that a counting window takes, and the share of recent selections that took no longer. Where too
        little is known, it is the relevance time span."""
        events = recent(window.event_type)
        if relevance_us == 0 or window.most is None or events is None:
            return relevance_us, 1.0
        context = self._contexts[name]
        mask = events.mask(own_conditions(window.step), context.calls)
        rows = np.arange(len(events)) if mask is None else np.flatnonzero(mask)
        keys = [events.column(key).take(pa.array(rows)) for key in context.group_by]
        group = GroupIndex().numbers(keys, len(rows))
        return time_of_count(events.times[rows], group, window.most, relevance_us)


def time_of_count(times_us: I64, group: I64, count: int, longest_us: int) -> tuple[int, float]:
    """The time in which so many events of one group come, by the mean time between them; and the share of recent runs
    of so many events, no longer than `longest_us`, that took no longer.

    >>> time_of_count(np.array([0, 10, 20, 40]), np.zeros(4, np.int64), 2, 100)
    (26, 1.0)
    """
    order = np.lexsort((times_us, group))
    times, group = times_us[order], group[order]
    gaps = np.diff(times)[group[1:] == group[:-1]]
    if len(gaps) == 0:
        return longest_us, 1.0
    estimate_us = min(int(count * gaps.mean()), longest_us)
    runs = len(times) - count + 1
    same = group[count - 1 :] == group[: max(runs, 0)]
    spans = (times[count - 1 :] - times[: max(runs, 0)])[same]
    spans = spans[spans <= longest_us]
    return estimate_us, float(np.mean(spans <= estimate_us)) if len(spans) else 1.0
