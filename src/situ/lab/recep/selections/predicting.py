"""How good a batch that is still open would be for another (RECEP, section 4.3.2: prediction).

In the phase in which a batch is decided on, some of its events are known. How many atomic events a batch will have is
taken from the recent past: from the events that its instance got in the last time of that length. A batch is judged as
one large selection.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import assert_never

import numpy as np

from situ.kernel.arrays import I64
from situ.kernel.matching.machine import jit
from situ.lab.quality.atoms import AtomSets
from situ.lab.quality.precision_recall import MeasuredQuality
from situ.lab.recep.estimators.grid import Dependencies, counts_of_grids
from situ.lab.recep.estimators.overlap import quality_of_regions
from situ.lab.recep.estimators.pairs import Estimator
from situ.lab.recep.estimators.predict import OpenPairs, current_selection, event_pattern, optimistic, pessimistic
from situ.lab.recep.selections.deciding import Decided
from situ.lab.recep.selections.judging import Evidence, regions_of_owners
from situ.lab.recep.selections.sets import after_another, take, united
from situ.lab.recep.selections.settings import ByTime, ReuseSettings

#: The recent past, where batches have no length of time.
RECENT_US = 30_000_000


@dataclass(frozen=True, slots=True)
class Foresight:
    """What is known of each batch in the phase in which it is decided on: the atomic events seen, those of the recent
    past (the seen ones included), and how many more than these last it will have at the end, as a factor; 0 where it is
    complete."""

    seen_actual: AtomSets
    seen_reuse: AtomSets
    recent_actual: AtomSets
    recent_reuse: AtomSets
    grows: np.ndarray

    def sets(self, batches: I64) -> AtomSets:
        """All that some batches may be compared by."""
        every = (self.seen_actual, self.seen_reuse, self.recent_actual, self.recent_reuse)
        one = after_another([take(sets, batches) for sets in every])
        members = (np.arange(len(batches))[:, None] + len(batches) * np.arange(4)[None, :]).reshape(-1)
        return united(one, members, np.arange(0, len(members) + 1, 4))


def foresight(evidence: Evidence, decided: Decided, settings: ReuseSettings) -> Foresight:
    """What is known of all batches of an operator when they are decided on."""
    selected, arrived = evidence.selected, evidence.inputs.arrived
    of, count = arrived.dependence, len(decided)
    batch = np.repeat(decided.batch, np.diff(selected.offsets))
    seen = arrived.known_us[selected.rows] < decided.decided_us[batch]
    rows, offsets = _by_batch(selected.rows[seen], batch[seen], count)
    end_us = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(end_us, decided.batch, selected.end_us)
    span_us = np.full(count, RECENT_US)
    if isinstance(settings.batch, ByTime):
        window_us = int(np.max(selected.end_us - selected.begin_us, initial=0))
        span_us[:] = settings.batch.us + window_us
        end_us = np.maximum(end_us, (decided.part + 1) * settings.batch.us - 1)
    recent_rows, bounds = _recent(arrived.owner, arrived.known_us, decided, span_us)
    start_us = evidence.read.interests.start_us[decided.owner]
    lasted_us = np.clip(decided.decided_us - start_us, 1, span_us)
    grows = np.where(end_us < decided.decided_us, 0.0, span_us / lasted_us)
    return Foresight(
        united(of.actual, arrived.asked[rows], offsets),
        united(of.reuse, arrived.processed[rows], offsets),
        united(of.actual, arrived.asked[recent_rows], bounds),
        united(of.reuse, arrived.processed[recent_rows], bounds),
        grows,
    )


def predictor_of(
    evidence: Evidence, foreseen: Foresight, batches: I64, owner: I64, settings: ReuseSettings
) -> Estimator:
    """Judges pairs of some batches, of these instances."""
    if settings.estimator == "spatial":
        return partial(quality_of_regions, regions_of_owners(evidence.read, owner), None)
    seen = evidence.dependencies(take(foreseen.seen_actual, batches), take(foreseen.seen_reuse, batches))
    past = evidence.dependencies(take(foreseen.recent_actual, batches), take(foreseen.recent_reuse, batches))
    grows = foreseen.grows[batches]
    asked_in_all = np.ceil(past.actual.totals * grows).astype(np.int64)
    processed_in_all = np.ceil(past.reuse.totals * grows).astype(np.int64)

    def judge(asked: I64, processed: I64) -> MeasuredQuality:
        pairs = OpenPairs.of(counts_of_grids(seen, asked, processed), asked_in_all[asked], processed_in_all[processed])
        return _predicted(pairs, past, asked, processed, settings)

    return judge


def _predicted(
    pairs: OpenPairs, past: Dependencies, asked: I64, processed: I64, settings: ReuseSettings
) -> MeasuredQuality:
    match settings.predictor:
        case "pessimistic":
            return pessimistic(pairs)
        case "optimistic":
            return optimistic(pairs)
        case "current selection":
            return current_selection(pairs)
        case "event pattern":
            return event_pattern(pairs, counts_of_grids(past, asked, processed))
        case None:
            raise AssertionError("nothing is predicted")
        case _:
            assert_never(settings.predictor)


def _by_batch(rows: I64, batch: I64, count: int) -> tuple[I64, I64]:
    order = np.argsort(batch, kind="stable")
    return rows[order], np.concatenate([[0], np.cumsum(np.bincount(batch, minlength=count))]).astype(np.int64)


def _recent(owner: I64, known_us: I64, decided: Decided, span_us: I64) -> tuple[I64, I64]:
    """The rows of events that a batch's instance got in the last time before it is decided on."""
    order = np.lexsort((known_us, owner))
    instances = np.searchsorted(owner[order], np.arange(int(owner.max(initial=-1)) + 2))
    first, last = instances[decided.owner], instances[decided.owner + 1]
    begins, ends = first.copy(), last.copy()
    _between(known_us[order], decided.decided_us - span_us, decided.decided_us, begins, ends)
    sizes = ends - begins
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return order[np.repeat(begins - offsets[:-1], sizes) + np.arange(offsets[-1])], offsets


@jit
def _between(times: I64, since: I64, until: I64, begins: I64, ends: I64) -> None:
    """Between two rows, those with times from the one up to the other."""
    for k in range(len(since)):
        first, last = begins[k], ends[k]
        begins[k] = first + np.searchsorted(times[first:last], since[k])
        ends[k] = first + np.searchsorted(times[first:last], until[k])
