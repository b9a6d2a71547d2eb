"""The processing phase: which selections are processed on behalf of which (RECEP, section 4.1.2).

Each phase of each selection manager is decided by itself: the batches that wait there are covered by one another. What
begins before its interest does may be covered by what was processed then, too: nobody processes it again. (The paper
compares what waits only; but MCEP's operators start afresh with their history, section 4.2.)
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np

from situ.core.errors import SituError
from situ.core.time import BEGINNING
from situ.kernel.arrays import F64, I64
from situ.lab.quality.atoms import AtomSets
from situ.lab.quality.precision_recall import Mask
from situ.lab.recep.coverings.batches import Batched, Selections, batched
from situ.lab.recep.coverings.cover import cover
from situ.lab.recep.coverings.family import Family, family_of
from situ.lab.recep.coverings.waiting import Covering, Neighbours, WaitingSelections
from situ.lab.recep.estimators.pairs import Estimator
from situ.lab.recep.selections.deciding import Decided
from situ.lab.recep.selections.judging import Evidence, estimator_of
from situ.lab.recep.selections.managers import GroupsOverTime, neighbours_of
from situ.lab.recep.selections.predicting import Foresight, foresight, predictor_of
from situ.lab.recep.selections.sets import after_another, take, united
from situ.lab.recep.selections.settings import ByTime, ReuseSettings


@dataclass(frozen=True, slots=True)
class Least:
    """Thresholds by instance."""

    precision: F64
    recall: F64
    disparity: F64


@dataclass(frozen=True, slots=True)
class Covered:
    """For each selection, the one that is processed on its behalf, and the group of the manager that decided; how many
    pairs were judged."""

    by: I64
    group: I64
    estimations: int


def covered(
    evidence: Evidence, decided: Decided, regions: GroupsOverTime, least: Least, settings: ReuseSettings
) -> Covered:
    """Covers the selections of an operator, in all phases of all its managers."""
    selected = evidence.selected
    phase_us = decided.decided_us[decided.batch]
    group = regions.group[regions.at(phase_us), evidence.read.person[selected.owner]]
    by, estimations = np.arange(len(selected)), 0
    if settings.heuristic == "none" or not len(selected):
        return Covered(by, group, 0)
    phases = _Phases.of(evidence, decided, regions, least, settings)
    processed_of: dict[int, I64] = {}  # by group, what has been processed
    order = np.lexsort((np.arange(len(selected)), group, phase_us))
    apart = (np.diff(group[order]) != 0) | (np.diff(phase_us[order]) != 0)
    for rows in np.split(order, np.flatnonzero(apart) + 1):
        earlier = processed_of.get(int(group[rows[0]]), rows[:0])
        for phase in (phases.from_before, phases.among_themselves):
            waits = rows[by[rows] == rows]
            phase_result = phase(waits, earlier)
            by[waits] = phase_result.by
            estimations += phase_result.estimations
        processed_of[int(group[rows[0]])] = np.concatenate([earlier, rows[by[rows] == rows]])
    return Covered(by, group, estimations)


@dataclass(frozen=True, slots=True)
class _PhaseCovering:
    by: I64
    estimations: int


@dataclass(frozen=True, slots=True)
class _Phases:
    """What a manager decides by. `past` are batches that begin before their interest does, `over_us` says when the last
    selection of each batch ends."""

    evidence: Evidence
    decided: Decided
    regions: GroupsOverTime
    least: Least
    settings: ReuseSettings
    either: AtomSets
    foreseen: Foresight | None
    over_us: I64
    past: Mask

    @classmethod
    def of(
        cls, evidence: Evidence, decided: Decided, regions: GroupsOverTime, least: Least, settings: ReuseSettings
    ) -> _Phases:
        selected = evidence.selected
        foreseen = foresight(evidence, decided, settings) if settings.predictor is not None else None
        if foreseen is not None and np.any(least.disparity > 0):
            raise SituError(
                "the disparity of batches that are still open is not known",
                remedy="Leave the predictor out, or ask for no disparity.",
            )
        over_us = np.full(len(decided), BEGINNING, np.int64)
        np.maximum.at(over_us, decided.batch, selected.end_us)
        past = decided.begin_us < evidence.read.interests.start_us[decided.owner]
        either = _either(selected.actual, selected.reuse)
        return cls(evidence, decided, regions, least, settings, either, foreseen, over_us, past)

    def from_before(self, rows: I64, done: I64) -> _PhaseCovering:
        """What an interest reads of the past may have been processed for others when it was the present. Of all that
        suffice, the best is taken."""
        selected, batch = self.evidence.selected, self.decided.batch
        waits = rows[self.past[batch[rows]]] if self.settings.look_back else rows[:0]
        done = self._of_the_time(waits, done)
        if not len(waits) or not len(done):
            return _PhaseCovering(rows, 0)
        both = np.concatenate([waits, done])
        owner, local = np.unique(selected.owner[both], return_inverse=True)
        is_done = np.repeat([False, True], [len(waits), len(done)])
        # An instance has what is done under another number, so that it is only taken, and nothing of it covered.
        batched = self._batched(both, local.reshape(-1) + len(owner) * is_done)
        pairs = self._neighbours(int(self.decided.decided_us[batch[waits[0]]]), owner)
        processing, on_behalf_of = np.nonzero(~np.eye(len(owner), dtype=np.bool_)) if pairs is None else pairs
        neighbours = Neighbours.of(processing + len(owner), on_behalf_of, 2 * len(owner))
        precision, recall, disparity = (np.tile(one[owner], 2) for one in astuple(self.least))
        estimate = estimator_of(self.evidence, both, batched, disparity[batched.owner], self.settings)
        family = family_of(WaitingSelections(batched.sets, batched.owner, precision, recall, neighbours), estimate)
        covering = Covering(_best(family, estimate), family.estimations)
        by = rows.copy()
        by[np.searchsorted(rows, waits)] = both[batched.of_selections(covering).by[: len(waits)]]
        return _PhaseCovering(by, covering.estimations)

    def _of_the_time(self, waits: I64, done: I64) -> I64:
        """What is done of the time of what waits, and over."""
        if not len(waits):
            return waits
        selected, decided = self.evidence.selected, self.decided
        batch, now_us = decided.batch[done], decided.decided_us[decided.batch[waits[0]]]
        wanted = (self.over_us[batch] < now_us) & (selected.begin_us[done] <= selected.end_us[waits].max())
        wanted &= selected.end_us[done] >= selected.begin_us[waits].min()
        if isinstance(self.settings.batch, ByTime):  # all or nothing of a batch
            wanted = (self.over_us[batch] < now_us) & np.isin(decided.part[batch], decided.part[decided.batch[waits]])
        return done[wanted]

    def among_themselves(self, rows: I64, done: I64) -> _PhaseCovering:
        """What waits at one manager in one phase."""
        selected, batch = self.evidence.selected, self.decided.batch[rows]
        owner, local = np.unique(selected.owner[rows], return_inverse=True)
        if len(owner) < 2:  # there is nobody to process for it
            return _PhaseCovering(rows, 0)
        batched = self._batched(rows, local.reshape(-1))
        pairs = self._neighbours(int(self.decided.decided_us[batch[0]]), owner)
        neighbours = None if pairs is None else Neighbours.of(*pairs, len(owner))
        if self.foreseen is None:
            least = self.least.disparity[owner][batched.owner]
            sets, estimate = batched.sets, estimator_of(self.evidence, rows, batched, least, self.settings)
        else:
            batches = np.empty(len(batched), np.int64)
            batches[batched.batch] = batch
            sets = self.foreseen.sets(batches)
            estimate = predictor_of(self.evidence, self.foreseen, batches, owner[batched.owner], self.settings)
        waiting = WaitingSelections(
            sets, batched.owner, self.least.precision[owner], self.least.recall[owner], neighbours
        )
        covering = cover(self.settings.heuristic, waiting, estimate)
        return _PhaseCovering(rows[batched.of_selections(covering).by], covering.estimations)

    def _batched(self, rows: I64, owner: I64) -> Batched:
        selected = self.evidence.selected
        selections = Selections(owner, selected.begin_us[rows], selected.end_us[rows], take(self.either, rows))
        return batched(selections, self.decided.part[self.decided.batch[rows]])

    def _neighbours(self, time_us: int, owner: I64) -> tuple[I64, I64] | None:
        settings = self.settings
        if settings.neighbours is None:
            return None
        return neighbours_of(self.evidence.read, self.regions, time_us, owner, settings.neighbours, settings.renew_us)


def _best(family: Family, estimate: Estimator) -> I64:
    """For each batch the one that is best for it, of those that suffice; itself, if none does."""
    count = len(family.taker_offsets) - 1
    asked, taker = np.repeat(np.arange(count), np.diff(family.taker_offsets)), family.takers.astype(np.int64)
    asked, taker = asked[asked != taker], taker[asked != taker]
    by = np.arange(count)
    if len(asked):
        quality = estimate(asked, taker)
        order = np.lexsort((-taker, quality.precision + quality.recall, asked))
        by[asked[order]] = taker[order]  # the best of each is written last, and stays
    return by


def _either(one: AtomSets, other: AtomSets) -> AtomSets:
    """What either has, row by row."""
    if one is other:
        return one
    count = len(one)
    members = (np.arange(count)[:, None] + np.array([0, count])[None, :]).reshape(-1)
    return united(after_another([one, other]), members, np.arange(0, 2 * count + 1, 2))
