"""Which events of a type a site is sent: those that pass the conditions of its operators on single events, all of them
where they are pushed, those in the ranges that it asks for where they are pulled. PaNORAMA, section 6.

Conditions on one event are evaluated where the event occurs, unless operators count the events that fail them, or
copies are to be told apart first (`unique`), for which all of them have to be there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from situ.graph.operators import OperatorGraph
from situ.kernel.batch import Batch, Calls
from situ.kernel.compile import RuleProgram
from situ.kernel.operator import Conditions
from situ.runtime.sites.deployed_plan import DeployedPlan
from situ.runtime.sites.ranges import Ranges, holds

#: What an operator asks of single events of a type: one of these conditions holds. None: it reads all of them.
Filter: TypeAlias = frozenset[Conditions] | None


@dataclass(frozen=True, slots=True)
class Selection:
    """What a site is sent of a type: events that pass one of the filters `pushed`; and of those that pass one of
    `pulled`, those in the ranges that the site asks for, which are as many sets of ranges."""

    pushed: frozenset[Filter]
    pulled: tuple[Filter, ...] = ()

    @property
    def is_all(self) -> bool:
        return None in self.pushed

    def chosen(
        self,
        batch: Batch,
        asked: Sequence[Ranges],
        calls: Calls,
        passing: Mapping[Filter, npt.NDArray[np.bool_]] = MappingProxyType({}),
    ) -> npt.NDArray[np.bool_]:
        """Which events of a batch are sent, if these ranges are asked for. `passing`: by filter, as far as it is known
        already, which events pass it."""
        sent = np.zeros(len(batch), np.bool_)
        for filter_ in self.pushed:
            sent |= passing[filter_] if filter_ in passing else passes(filter_, batch, calls)
        for filter_, ranges in zip(self.pulled, asked, strict=True):
            within = holds(ranges, batch.times)
            if within.any():
                sent |= within & passes(filter_, batch, calls)
        return sent


#: All events of a type.
ALL = Selection(frozenset({None}))


def filter_of(program: RuleProgram, event_type: str) -> Filter:
    """What an operator asks of single events of a type."""
    tests = program.tests().get(event_type, ())
    reads_all = program.counts_positions or program.begins_in_silence or not tests or not all(tests)
    return None if reads_all else frozenset(tests)


def passes(filter_: Filter, batch: Batch, calls: Calls) -> npt.NDArray[np.bool_]:
    """Which events pass a filter."""
    accepted = np.zeros(len(batch), np.bool_)
    if filter_ is None:
        return ~accepted
    for conditions in filter_:
        mask = batch.mask(conditions, calls)
        accepted |= True if mask is None else mask
    return accepted


def rows_that_pass(filter_: Filter, batch: Batch, calls: Calls) -> Batch:
    """The events that pass a filter; the batch itself, if all do."""
    accepted = passes(filter_, batch, calls)
    return batch if accepted.all() else batch.take(accepted)


def selections_of(
    plan: DeployedPlan, graph: OperatorGraph, programs: Mapping[str, RuleProgram]
) -> dict[str, dict[str, Selection]]:
    """By type and by site that reads it, what the site is sent by other sites."""
    plain = {stream.name for stream in graph.streams if stream.unique is not None}
    pushed: dict[tuple[str, str], set[Filter]] = {}
    pulled: dict[tuple[str, str], dict[Filter, None]] = {}
    for operator in graph.operators:
        place = plan.operators[operator.name]
        later = {event for step in place.steps[1:] for event in step}
        for event in operator.inputs:
            key = event, place.site
            filter_ = None if event in plain else filter_of(programs[operator.name], event)
            pushed.setdefault(key, set())
            if event in later:
                pulled.setdefault(key, {})[filter_] = None
            else:
                pushed[key].add(filter_)
            if place.finished_at is not None:
                pushed.setdefault((event, place.finished_at), set()).add(filter_)
        for site in plan.wanted_at(operator.subscription):
            pushed.setdefault((operator.name, site), set()).add(None)
    selections: dict[str, dict[str, Selection]] = {}
    for (event, site), filters in pushed.items():
        wanted = tuple(filter_ for filter_ in pulled.get((event, site), ()) if filter_ not in filters)
        selections.setdefault(event, {})[site] = ALL if None in filters else Selection(frozenset(filters), wanted)
    return selections
