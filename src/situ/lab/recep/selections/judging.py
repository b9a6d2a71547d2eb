"""How good a batch would be for another: estimated from what is there (RECEP, section 4.3.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.lab.quality.atoms import AtomSets
from situ.lab.quality.precision_recall import Mask, MeasuredQuality
from situ.lab.recep.coverings.batches import Batched
from situ.lab.recep.estimators.batches import quality_of_batches
from situ.lab.recep.estimators.grid import Cells, Dependencies, Grids, quality_of_grids
from situ.lab.recep.estimators.neighbours import Incoming, quality_of_shared
from situ.lab.recep.estimators.overlap import PlaneRegions, SelectionSpans, quality_of_regions
from situ.lab.recep.estimators.pairs import Estimator
from situ.lab.recep.selections.arrived import Inputs
from situ.lab.recep.selections.reading import ReuseInput
from situ.lab.recep.selections.selected import Selected
from situ.lab.recep.selections.sets import take
from situ.lab.recep.selections.settings import ReuseSettings

#: What agrees in its atomic events, but not in the events made of them, is not quite the same.
NOT_QUITE = 1.0 - 1e-9
#: Below every threshold, also on average with others.
REFUSED = -1e9


@dataclass(frozen=True, slots=True)
class Evidence:
    """What selections of an operator are judged by. `codes` are the cells of atomic events, `disparity` is that of
    each selection if it is processed; both only if somebody asks for them. `exactly`: selections for which nothing will
    do but the same."""

    selected: Selected
    inputs: Inputs
    read: ReuseInput
    codes: I64 | None
    disparity: F64 | None
    exactly: Mask

    @classmethod
    def of(
        cls,
        selected: Selected,
        inputs: Inputs,
        read: ReuseInput,
        settings: ReuseSettings,
        disparity: F64 | None,
        exactly: Mask,
    ) -> Evidence:
        codes = None
        if isinstance(settings.estimator, Cells):
            times_us = np.zeros(len(read.x), np.int64)
            for stream in read.streams.values():
                times_us[stream.event] = stream.batch.times
            codes = settings.estimator.codes(read.x, read.y, times_us)
        return cls(selected, inputs, read, codes, disparity, exactly)

    def dependencies(self, actual: AtomSets, reuse: AtomSets) -> Dependencies:
        """What selections depend on: cells of the grid, or atomic events, with a cell for each of them."""

        def grids(sets: AtomSets) -> Grids:
            if self.codes is not None:
                return Grids.of(sets, self.codes)
            return Grids(sets.atoms, np.ones(len(sets.atoms), np.int64), sets.offsets)

        return Dependencies.of(grids(actual), grids(reuse))


def estimator_of(
    evidence: Evidence, rows: I64, batched: Batched, least_disparity: F64, settings: ReuseSettings
) -> Estimator:
    """Judges pairs of batches of some selections. `least_disparity` is the threshold of each batch."""
    base = _of_selections(evidence, rows, settings)
    content, exactly = evidence.selected.content[rows], evidence.exactly[rows]
    asks_for_disparity = evidence.disparity is not None  # then the same from elsewhere is not good enough

    def of_selections(asked: I64, processed: I64) -> MeasuredQuality:
        estimated = base(asked, processed)
        differ = (content[asked] != content[processed]) & (estimated.precision == 1.0) & (estimated.recall == 1.0)
        refused = exactly[asked] & (
            differ | (estimated.precision < 1.0) | (estimated.recall < 1.0) | asks_for_disparity
        )
        return MeasuredQuality(*(np.where(refused, REFUSED, np.where(differ, NOT_QUITE, one)) for one in
                         (estimated.precision, estimated.recall)))  # fmt: skip

    of_batches = batched.by_selections(settings.over, of_selections)
    if evidence.disparity is None:
        return of_batches
    disparity = evidence.disparity[rows]

    def by_disparity(_: I64, processed: I64) -> MeasuredQuality:
        return MeasuredQuality(disparity[processed], disparity[processed])

    how_far = partial(quality_of_batches, by_disparity, batched.members, settings.over)
    return _and_disparity(of_batches, how_far, least_disparity)


def _and_disparity(estimate: Estimator, how_far: Estimator, least: F64) -> Estimator:
    def judge(asked: I64, processed: I64) -> MeasuredQuality:
        estimated, enough = estimate(asked, processed), how_far(asked, processed).precision >= least[asked]
        return MeasuredQuality(
            np.where(enough, estimated.precision, REFUSED), np.where(enough, estimated.recall, REFUSED)
        )

    return judge


def _of_selections(evidence: Evidence, rows: I64, settings: ReuseSettings) -> Callable[[I64, I64], MeasuredQuality]:
    selected, read = evidence.selected, evidence.read
    match settings.estimator:
        case "spatial":
            regions = regions_of_owners(read, selected.owner[rows])
            spans = SelectionSpans(selected.begin_us[rows], selected.end_us[rows])
            return partial(quality_of_regions, regions, spans)
        case "per neighbour":
            arrived = evidence.inputs.arrived
            members = take(AtomSets(selected.rows, selected.offsets), rows)
            annotated = MeasuredQuality(arrived.precision[members.atoms], arrived.recall[members.atoms])
            return partial(quality_of_shared, Incoming.of(arrived.event[members.atoms], members.offsets, annotated))
        case _:
            sets = take(selected.actual, rows), take(selected.reuse, rows)
            return partial(quality_of_grids, evidence.dependencies(*sets))


def regions_of_owners(read: ReuseInput, owner: I64) -> PlaneRegions:
    """The regions of instances' interests."""
    shape = read.shape
    return PlaneRegions.of(read.middle_x[owner], read.middle_y[owner], shape.half_x, shape.half_y, shape.is_round)
