"""Correlation steps: the selections that an operator's events make, before it processes any of them.

A step that has exactly the same events as one that was done for the interest before gives the same complex events, so
it is not done again (MCEP, section 5.2). That holds where steps do not look at each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from situ.core.time import END
from situ.graph.query import From, Within
from situ.graph.rule_properties import compares_matches
from situ.kernel.arrays import I64
from situ.kernel.batch import ORIGINS, Batch, Calls, one_chunk
from situ.kernel.compile import compile_operator
from situ.kernel.operator import Context
from situ.kernel.state.groups import GroupIndex
from situ.kernel.windows import windows_holding
from situ.lab.fresh_operator import fresh_operator
from situ.lab.mcep.switching.buffer import NUMBER, as_bytes, origin_numbers, whole_numbers


@dataclass(frozen=True, slots=True)
class Steps:
    """One row for each step: its group (a number), its number in the group, and the events that it reads (those of row
    k are `events` from offset k to k + 1). No event with a time after `closes_us` joins it."""

    group: I64
    number: I64
    closes_us: I64
    events: I64
    offsets: I64
    keys: tuple[pa.Array, ...]
    are_windows: bool

    def __len__(self) -> int:
        return len(self.number)

    def contents(self, rows: I64) -> list[pa.Array]:
        """What steps are, as keys: the events that they read, and of windows, which may read the same, the number."""
        contents = as_bytes(self.events, self.offsets).take(pa.array(rows))
        return [contents, pa.array(self.number[rows])] if self.are_windows else [contents]

    def chosen(self, rows: npt.NDArray[np.bool_]) -> dict[tuple[object, ...], list[int]]:
        """Some of the steps in the form that the kernel wants: their numbers, by group key."""
        keys = list(zip(*(key.to_pylist() for key in self.keys), strict=True)) if self.keys else [()] * len(self)
        chosen: dict[tuple[object, ...], list[int]] = {}
        for row in np.flatnonzero(rows):
            chosen.setdefault(keys[row], []).append(int(self.number[row]))
        return chosen

    def rows_of(self, numbers: I64, origins: pa.Array) -> I64:
        """The step that each complex event came from, by the step's number and the events behind it."""
        behind, begins = origin_numbers(origins)
        first_origins = behind[begins[:-1]]  # all events of a step are of one group
        order = np.argsort(self.events, kind="stable")
        owner = np.repeat(np.arange(len(self)), np.diff(self.offsets))[order]
        group = self.group[owner[np.searchsorted(self.events[order], first_origins)]]
        by_name = np.lexsort((self.number, self.group))
        width = max(int(self.number.max(initial=0)), int(numbers.max(initial=0))) + 1
        names = self.group[by_name] * width + self.number[by_name]
        return by_name[np.searchsorted(names, group * width + numbers)]


def are_independent(context: Context) -> bool:
    """Whether each step of an operator is decided by its own events alone, so that it may be done without the others.

    Not so: selectors, `once`, `consuming` and `after match`, which compare matches of several steps; several cases,
    which the kernel chooses together; and `immediately`, where events that no step reads are in the way.
    """
    rule = context.operator.rule
    if rule.kind is not None:
        return True
    if len(rule.cases) > 1 or compares_matches(rule) is not None:
        return False
    return not compile_operator(context).counts_positions


def with_windows(context: Context) -> Context:
    """The same operator, with `within 0 us` where the pattern is one event and needs no window: so its steps end."""
    rule = context.operator.rule
    if rule.kind is not None:
        return context
    cases = tuple(replace(case, within=case.within or Within(0)) for case in rule.cases)
    return replace(context, operator=replace(context.operator, rule=replace(rule, cases=cases)))


def steps_of(context: Context, inputs: Mapping[str, Batch]) -> Steps:
    """All steps that an operator would do of these events, if none followed. Nothing is matched."""
    return _of_pattern(context, inputs) if context.operator.rule.kind is None else _of_windows(context, inputs)


def _of_pattern(context: Context, inputs: Mapping[str, Batch]) -> Steps:
    selections = fresh_operator(context, {}).process(inputs, END).selections
    assert selections is not None, "the kernel names selections"
    within = context.operator.rule.cases[0].within
    assert within is not None, "`with_windows` gave it one"
    origins = one_chunk(selections.column(ORIGINS))
    events, offsets = origin_numbers(origins)
    opens = one_chunk(selections.column("_time")).cast(pa.int64()).to_numpy(zero_copy_only=False)
    last = opens
    if within.anchor is From.PREVIOUS and len(selections):
        times = origins.flatten().field("time").cast(pa.int64()).to_numpy(zero_copy_only=False)
        last = np.maximum.reduceat(times, offsets[:-1])
    keys = tuple(one_chunk(selections.column(name)) for name in context.group_by)
    group = GroupIndex().numbers(keys, len(selections))
    number = one_chunk(selections.column("_selection")).to_numpy(zero_copy_only=False)
    return Steps(group, number, last + within.micros, events, offsets, keys, False)


def _of_windows(context: Context, inputs: Mapping[str, Batch]) -> Steps:
    kind = context.operator.rule.kind
    assert kind is not None, "an aggregation or a join"
    accepted = [_accepted(context, name, batch) for name, batch in inputs.items()]
    times = np.concatenate([batch.times for batch in accepted] or [np.zeros(0, np.int64)])
    numbers = np.concatenate([whole_numbers(batch, NUMBER) for batch in accepted] or [times])
    keys = [
        pa.concat_arrays([batch.columns[name].cast(context.key_type(name)) for batch in accepted])
        for name in context.group_by
        if accepted
    ]
    group = GroupIndex().numbers(keys, len(times))
    first, last = windows_holding(kind.window, times)
    counts = np.maximum(last - first + 1, 0)
    event = np.repeat(np.arange(len(times)), counts)
    window = first[event] + np.arange(len(event)) - (np.cumsum(counts) - counts)[event]
    order = np.lexsort((numbers[event], window, group[event]))
    event, window = event[order], window[order]
    fresh = np.ones(len(event), np.bool_)
    fresh[1:] = (window[1:] != window[:-1]) | (group[event[1:]] != group[event[:-1]])
    heads = np.flatnonzero(fresh)
    of_key = tuple(key.take(pa.array(event[heads])) for key in keys)
    closes_us = window[heads] * kind.window.every - 1
    offsets = np.append(heads, len(event))
    return Steps(group[event[heads]], window[heads], closes_us, numbers[event], offsets, of_key, True)


def _accepted(context: Context, name: str, batch: Batch) -> Batch:
    """The events that some step of a window operator accepts."""
    tests = compile_operator(context).tests()[name]
    masks = [batch.mask(conditions, Calls(functions=context.functions, errors=Counter())) for conditions in tests]
    if any(mask is None for mask in masks):
        return batch
    return batch.take(np.logical_or.reduce([mask for mask in masks if mask is not None]))
