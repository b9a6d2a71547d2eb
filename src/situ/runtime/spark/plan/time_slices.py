"""Slices of time that tasks read by themselves: where files are in order of time, nothing need be shuffled.

A task reads its slice and what follows it for as long as a match can last, whatever the keys, and keeps the matches
that begin in the slice. So a key with most of the events is no task that the others wait for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from situ.core.time import BEGINNING, END
from situ.kernel.arrays import I64
from situ.runtime.spark.plan.partitioning import Anywhere, partitioning_of, reach_us
from situ.runtime.spark.plan.plan import SparkPlan

#: So few rows are read by one task sooner than by several.
ROWS_OF_ONE_TASK = 250_000
#: Where slices would read more rows than this many times those that there are, packets are shuffled instead.
MOST_READ, MOST_PROCESSED = 1.75, 1.4


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """From `since_us` on and before `until_us`. The first slice has no beginning and the last one no end."""

    since_us: int
    until_us: int


@dataclass(frozen=True, slots=True)
class TimedRows:
    """So many rows, all of them between two times."""

    first_us: int
    last_us: int
    rows: int


def plan_reach_us(plan: SparkPlan) -> int | None:
    """How long after its slice a task must read on, so that all rules find in slices of time what they find in all of
    it; None where some rule does not, or reads what others make in other slices."""
    if len(plan.stages) != 1 or plan.moving:
        return None
    before = judged_before(plan)
    reaches, found = [0], set[str]()
    for operator in (operator for route in plan.stages[0].routes for operator in route.operators):
        from_before = {*operator.inputs} <= before or operator.name in before
        reach = reach_us(operator.rule)
        if isinstance(partitioning_of(operator), Anywhere):
            # What is found in a slice is found once, and may be judged once more by itself.
            if not from_before and not {*operator.inputs} <= found:
                return None
        elif isinstance(reach, str) or not from_before:
            return None
        else:
            reaches.append(reach)
        if operator.name not in before:
            found.add(operator.name)
    return max(reaches)


def judged_before(plan: SparkPlan) -> frozenset[str]:
    """Streams, and what is judged of their events one by one: what happens when its event does. A task makes these of
    all that it reads, and only those of its slice are its own."""
    before = {read.stream.name for read in plan.reads}
    for operator in plan.plain.operators:  # inputs first
        if isinstance(partitioning_of(operator), Anywhere) and {*operator.inputs} <= before:
            before.add(operator.name)
    return frozenset(before)


def time_slices(parts: Sequence[TimedRows], reach_us: int, tasks: int) -> tuple[TimeSlice, ...]:
    """Slices that so many tasks read side by side, with about as many rows for each; none, where they would have to
    read too many rows twice.

    >>> hours = [TimedRows(hour * 3600, hour * 3600 + 3599, 1_000_000) for hour in range(10)]
    >>> [(part.since_us, part.until_us) for part in time_slices(hours, 600, 2)][1:] == [(17700, END)]
    True
    >>> time_slices(hours, 36_000, 2)
    ()
    """
    rows = sum(part.rows for part in parts)
    if rows <= ROWS_OF_ONE_TASK or tasks == 1:
        return (TimeSlice(BEGINNING, END),)
    density = _Density.of(parts)
    slices = density.slices(reach_us, tasks)
    read = sum(part.rows for s in slices for part in parts if is_read(part.first_us, part.last_us, s, reach_us))
    processed = sum(density.rows_between(s, reach_us) for s in slices)
    is_worth_it = len(slices) == tasks and read <= MOST_READ * rows and processed <= MOST_PROCESSED * rows
    return slices if is_worth_it else ()


def is_read(first_us: int, last_us: int, part: TimeSlice, reach_us: int) -> bool:
    """Whether the task of a slice reads rows between two times."""
    return last_us >= part.since_us and (part.until_us == END or first_us <= part.until_us + reach_us)


@dataclass(frozen=True)
class _Density:
    """How many rows there are up to a time: `rows` of them up to each of `times`, and evenly in between."""

    times: I64
    rows: np.ndarray

    @classmethod
    def of(cls, parts: Sequence[TimedRows]) -> _Density:
        times = np.unique([time for part in parts for time in (part.first_us, part.last_us + 1)])
        rows = np.zeros(len(times))
        for part in parts:
            share = (times - part.first_us) / (part.last_us + 1 - part.first_us)
            rows += part.rows * np.clip(share, 0, 1)
        return cls(times, rows)

    def slices(self, reach_us: int, tasks: int) -> tuple[TimeSlice, ...]:
        """As many slices as tasks, or fewer, of which the longest has as few rows to read as possible."""
        total = float(self.rows[-1])
        least, most = total / tasks, total
        for _ in range(40):
            middle = (least + most) / 2
            if self._cuts(middle, reach_us, tasks) is None:
                least = middle
            else:
                most = middle
        cuts = self._cuts(most, reach_us, tasks) or []
        bounds = [BEGINNING, *cuts, END]
        return tuple(TimeSlice(since, until) for since, until in pairwise(bounds))

    def _cuts(self, rows: float, reach_us: int, tasks: int) -> list[int] | None:
        """Where slices end of which each has at most so many rows to read; None if that takes more than so many."""
        cuts: list[int] = []
        since = int(self.times[0])
        while float(self.rows[-1]) - self._up_to(since) > rows:
            until = int(np.interp(self._up_to(since) + rows, self.rows, self.times)) - reach_us
            if until <= since or len(cuts) + 1 == tasks:
                return None
            cuts.append(until)
            since = until
        return cuts

    def rows_between(self, part: TimeSlice, reach_us: int) -> float:
        """How many rows a task has to process."""
        until = float(self.rows[-1]) if part.until_us == END else self._up_to(part.until_us + reach_us)
        return until - self._up_to(part.since_us)

    def _up_to(self, time_us: int) -> float:
        return float(np.interp(time_us, self.times, self.rows))
