"""Initialisation points: how far back the atomic events of an interest are streamed (MCEP, sections 4.2.1 and 5.3).

"basic": by the relevance time spans on the longest path, so that nothing is missed. "windows": by the selection
windows; a count is mapped to time by the mean time between recent events, and windows that come one after the other add
up. "none": not at all.

The windows' expected completeness looks back: of the selections that ended in the interests so far, each of as many
events as a window counts, the share that began no earlier than was estimated for that interest. Over several counting
windows, it is the product of their shares.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from situ.graph.operators import OperatorGraph
from situ.kernel.arrays import I64
from situ.kernel.batch import Batch, Calls
from situ.kernel.operator import Context
from situ.kernel.program.window_program import own_conditions
from situ.kernel.state.groups import GroupIndex
from situ.lab.mcep.switching.execution import Execution, SelectionWindow, chain_us, execution_of
from situ.mobility.history import history_us

Initialisation = Literal["basic", "windows", "none"]

#: A mean time between events is over so many of them at least, where there are so many: one alone says little.
LEAST_TIMES = 10


@dataclass(frozen=True, slots=True)
class History:
    """How far back each atomic stream begins, before the start of an interest less the lifetime, and which share of
    the complex events is expected to be found (None: nobody knows)."""

    back_us: Mapping[str, int]
    expected_completeness: float | None


def basic_history(graph: OperatorGraph, output: str) -> History:
    return History(history_us(graph, output), 1.0)


@dataclass(frozen=True, slots=True)
class EndingInterest:
    """What a consumer's operators have read for the interest that ends: from its start, less the lifetime, on, complex
    events of it are delivered. `events`: by type, those in its region, and as far back as relevance time spans go."""

    since_us: int
    events: Callable[[str], Batch | None]


class WindowHistory:
    """The estimates of "windows" for one consumer of a subscription."""

    def __init__(self, graph: OperatorGraph, output: str, contexts: Mapping[str, Context]) -> None:
        self._output, self._contexts = output, contexts
        needed = graph.needed(output)
        self._executions = {o.name: execution_of(o) for o in graph.operators if o.name in needed}
        #: By counting window: the last estimate; selections that ended, and those of them that it was enough for.
        self._estimates_us: dict[tuple[str, int, str], int] = {}
        self._ended, self._found = Counter[tuple[str, int, str]](), Counter[tuple[str, int, str]]()

    def estimate(self, recent: EndingInterest) -> History:
        back_us: dict[str, int] = {}

        def visit(name: str, above_us: int) -> None:
            execution = self._executions.get(name)
            if execution is None:
                back_us[name] = max(back_us.get(name, 0), above_us)
                return
            needs = [self._needs(name, number, execution, recent) for number in range(len(execution.cases))]
            for event_type in self._contexts[name].operator.inputs:
                longest = max(
                    chain_us(case, event_type, needs_us, execution.relevance_us)
                    for case, needs_us in zip(execution.cases, needs, strict=True)
                )
                visit(event_type, above_us + longest)

        visit(self._output, 0)
        shares = [self._found[window] / ended for window, ended in self._ended.items() if ended]
        return History(back_us, math.prod(shares))

    def _needs(self, name: str, number: int, execution: Execution, recent: EndingInterest) -> dict[str, int]:
        """How long each window of a case takes."""
        needs_us = {}
        for window in execution.cases[number].windows:
            needs_us[window.alias] = window.span_us or execution.relevance_us
            if window.span_us is None and window.most is not None and execution.relevance_us > 0:
                key = name, number, window.alias
                needs_us[window.alias] = self._counted(key, window, window.most, execution.relevance_us, recent)
        return needs_us

    def _counted(
        self, key: tuple[str, int, str], window: SelectionWindow, most: int, relevance_us: int, recent: EndingInterest
    ) -> int:
        """The time that a counting window takes. Where nothing is known of it, the relevance time span."""
        events = recent.events(window.event_type)
        if events is None:
            return relevance_us
        context = self._contexts[key[0]]
        calls = Calls(functions=context.functions, errors=Counter())
        mask = events.mask(own_conditions(window.step), calls)
        rows = np.arange(len(events)) if mask is None else np.flatnonzero(mask)
        keys = [events.column(name).take(pa.array(rows)) for name in context.group_by]
        times, group = events.times[rows], GroupIndex().numbers(keys, len(rows))
        if key in self._estimates_us:
            spans = spans_of_count(times, group, most, recent.since_us, relevance_us)
            self._ended[key] += len(spans)
            self._found[key] += int(np.count_nonzero(spans <= self._estimates_us[key]))
        self._estimates_us[key] = time_of_count(times, group, most, relevance_us)
        return self._estimates_us[key]


def time_of_count(times_us: I64, group: I64, count: int, longest_us: int) -> int:
    """The time in which so many events of one group come, by the mean of the last so many times between them, or of the
    last ten, if these are more.

    >>> time_of_count(np.array([0, 10, 20, 40]), np.zeros(4, np.int64), 2, 100)
    26
    """
    order = np.lexsort((times_us, group))
    same = np.diff(group[order]) == 0
    gaps, ends = np.diff(times_us[order])[same], times_us[order][1:][same]
    if len(gaps) == 0:
        return longest_us
    last = gaps[np.argsort(ends, kind="stable")][-max(count, LEAST_TIMES) :]
    return min(int(count * last.mean()), longest_us)


def spans_of_count(times_us: I64, group: I64, count: int, since_us: int, longest_us: int) -> I64:
    """How long before a time, from which on complex events are wanted, selections of so many events of a group began:
    those that ended then or later, and took no longer than `longest_us`.

    >>> spans_of_count(np.array([0, 10, 20, 40]), np.zeros(4, np.int64), 2, 15, 100).tolist()
    [5, -5]
    """
    order = np.lexsort((times_us, group))
    times, group = times_us[order], group[order]
    runs = max(len(times) - count + 1, 0)
    first, last = times[:runs], times[count - 1 :]
    wanted = (group[:runs] == group[count - 1 :]) & (last >= since_us) & (last - first <= longest_us)
    spans: I64 = since_us - first[wanted]
    return spans
