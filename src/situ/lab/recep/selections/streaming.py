"""Covering selections are processed, and what comes of them is streamed (RECEP, section 4.1.3).

A complex event goes to the operators that read it, of all instances on whose behalf it was found. These are of one
region, so for each type of operator it is sent once, to one selection manager, with the instances annotated. An
instance that one selection is processed for several times gets its events once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from situ.core.time import END
from situ.kernel.arrays import F64, I64
from situ.kernel.batch import ORIGINS, Batch
from situ.kernel.operator import Context, no_events
from situ.lab.fresh_operator import fresh_operator
from situ.lab.mcep.switching.buffer import whole_numbers
from situ.lab.quality.precision_recall import MeasuredQuality, quality_of_sets
from situ.lab.recep.estimators.disparity import disparity
from situ.lab.recep.selections.arrived import Arrived, Dependence, Inputs
from situ.lab.recep.selections.covering import Covered
from situ.lab.recep.selections.deciding import Decided
from situ.lab.recep.selections.judging import regions_of_owners
from situ.lab.recep.selections.reading import ReuseInput
from situ.lab.recep.selections.selected import Selected
from situ.lab.recep.selections.sets import take
from situ.mobility.moving_query import INTEREST


@dataclass(frozen=True, slots=True)
class OperatorOutput:
    """What an operator's instances send on, and in how many copies: one for each manager, and one for each instance,
    as it would be without annotations. `asked` and `processed` are the selections behind each row."""

    arrived: Arrived
    asked: I64
    processed: I64
    copies: int
    copies_plain: int


def processed(context: Context, inputs: Inputs, selected: Selected, by: I64) -> tuple[Batch, I64]:
    """The complex events of covering selections, by time, and the selection of each."""
    if selected.steps is None:
        assert selected.events is not None, "the operator has run"
        return selected.events, np.arange(len(selected))
    chosen = selected.steps.chosen(by == np.arange(len(by)))
    if not chosen:
        return no_events(context), np.zeros(0, np.int64)
    running = fresh_operator(context, chosen)
    events = running.process(inputs.batches, END).events
    if not len(events):
        return events, np.zeros(0, np.int64)
    return events, selected.steps.rows_of(whole_numbers(events, "_selection"), events.columns[ORIGINS])


def measured(selected: Selected, by: I64) -> MeasuredQuality:
    """How good, for each selection, the one is that is processed on its behalf."""
    return quality_of_sets(selected.actual, take(selected.reuse, by))


def disparity_of(selected: Selected, read: ReuseInput) -> F64:
    """The disparity of each selection, as it is if that selection is processed."""
    regions = regions_of_owners(read, np.arange(len(read.interests)))
    return disparity(selected.reuse, read.x, read.y, selected.used, regions)


def streamed(
    events: Batch, of: I64, selected: Selected, decided: Decided, covering: Covered, readers: int, first: int
) -> OperatorOutput:
    """Copies of complex events for all instances that they are found for. `readers` operators read them; events are
    numbered from `first` on."""
    by, quality = covering.by, measured(selected, covering.by)
    asked, offsets = _destinations(by, selected.owner)
    counts = np.diff(offsets)[of]
    event = np.repeat(np.arange(len(events)), counts)
    rows = asked[np.repeat(offsets[:-1][of] - (np.cumsum(counts) - counts), counts) + np.arange(len(event))]
    owner = selected.owner[rows]
    batch = events.take(event)
    columns = {name: column for name, column in batch.columns.items() if name not in ("_selection", ORIGINS)}
    phase_us = decided.decided_us[decided.batch[rows]]
    known_us = np.maximum(batch.times, phase_us)
    dependence = Dependence(selected.actual, selected.reuse, selected.used)
    arrived = Arrived(
        Batch(batch.times, columns | {INTEREST: pa.array(owner)}), owner, first + event, known_us, dependence, rows,
        by[rows], quality.precision[rows], quality.recall[rows],
    )  # fmt: skip
    copies = len(np.unique(np.stack([event, phase_us]), axis=1).T)  # one in each phase: who asks later gets another
    return OperatorOutput(arrived, rows, by[rows], readers * copies, readers * len(rows))


def _destinations(by: I64, owner: I64) -> tuple[I64, I64]:
    """The selections that each is processed for, one of each instance: the first. Those of selection k stand from
    offset k to offset k + 1."""
    order = np.lexsort((np.arange(len(by)), by != np.arange(len(by)), owner, by))  # its own comes before others
    fresh = np.ones(len(by), np.bool_)
    fresh[1:] = (np.diff(by[order]) != 0) | (np.diff(owner[order]) != 0)
    asked = order[fresh]
    return asked, np.concatenate([[0], np.cumsum(np.bincount(by[asked], minlength=len(by)))]).astype(np.int64)
