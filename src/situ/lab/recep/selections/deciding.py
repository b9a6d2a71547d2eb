"""Batches, and when they are decided on: in which processing phase (RECEP, sections 4.1.2 and 4.3.1).

A phase takes place whenever so much time has passed. Without prediction a batch is decided on when it is complete: its
time is over, its selections are closed, and the operators before have decided on all that they may still read. Batches
of one time wait for each other, also if an interest ends meanwhile: alone they could not be shared. With prediction a
batch is decided on in the first phase after it has begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from situ.core.time import BEGINNING
from situ.kernel.arrays import I64
from situ.kernel.matching.machine import jit
from situ.lab.recep.selections.selected import Selected
from situ.lab.recep.selections.settings import ByCount, ByTime, ReuseSettings
from situ.mobility.interests import Interests


@dataclass(frozen=True, slots=True)
class Schedule:
    """When batches of a time are complete, whatever they hold: so those of one time wait together, of all instances.

    >>> braking = Schedule(10, 5, 1, ())  # times of 10, selections of 5, a phase whenever 1 has passed
    >>> braking.complete_us(np.array([3])), Schedule(10, 5, 1, (braking,)).complete_us(np.array([3]))
    (array([44]), array([55]))
    """

    length_us: int
    window_us: int
    phase_us: int
    before: tuple[Schedule, ...]

    def complete_us(self, part: I64) -> I64:
        """When the time of a part is over, its selections are closed, and all that they read is known."""
        over_us = (part + 1) * self.length_us - 1 + self.window_us
        known_us = (earlier.known_us(over_us) for earlier in self.before)
        latest_us: I64 = np.maximum.reduce([over_us, *known_us])
        return latest_us

    def known_us(self, until_us: I64) -> I64:
        """From when on all is decided that begins up to a time."""
        return (self.complete_us(until_us // self.length_us) // self.phase_us + 1) * self.phase_us


@dataclass(frozen=True, slots=True)
class Decided:
    """Batches of an operator's instances, by instance and part. `batch` is that of each selection, `decided_us` the
    phase of each batch. Batches of an instance begin in the order of their parts. Those of a time have a schedule."""

    batch: I64
    owner: I64
    part: I64
    begin_us: I64
    decided_us: I64
    schedule: Schedule | None

    def __len__(self) -> int:
        return len(self.owner)


def decided(selected: Selected, interests: Interests, before: Sequence[Decided], settings: ReuseSettings) -> Decided:
    """`before` has the batches of the operators that this one reads."""
    part = _parts(selected, settings.batch)
    order = np.lexsort((part, selected.owner))
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (np.diff(selected.owner[order]) != 0) | (np.diff(part[order]) != 0)
    batch = np.empty(len(order), np.int64)
    batch[order] = np.cumsum(fresh) - 1
    heads = np.flatnonzero(fresh)
    owner, parts = selected.owner[order][heads], part[order][heads]

    def least(values: I64) -> I64:
        return np.minimum.reduceat(values[order], heads) if len(heads) else np.zeros(0, np.int64)

    begin_us, start_us = least(selected.begin_us), interests.start_us[owner]
    schedule = _schedule(selected, before, settings)
    if settings.predictor is not None:
        ready_us = begin_us if schedule is None else parts * schedule.length_us
        ready_us = np.maximum(ready_us, start_us)
    else:
        end_us = -least(-selected.end_us)
        ready_us = np.maximum(np.maximum(end_us, -least(-selected.known_us)), start_us)
        for earlier in before:
            ready_us = np.maximum(ready_us, _known_until(earlier, owner, end_us, len(interests)))
        if schedule is not None:
            ready_us = np.maximum(ready_us, schedule.complete_us(parts))
    decided_us = (ready_us // settings.phase_us + 1) * settings.phase_us
    return Decided(batch, owner, parts, begin_us, decided_us, schedule)


def _schedule(selected: Selected, before: Sequence[Decided], settings: ReuseSettings) -> Schedule | None:
    if not isinstance(settings.batch, ByTime):
        return None
    window_us = int(np.max(selected.end_us - selected.begin_us, initial=0))
    earlier = tuple(one.schedule for one in before if one.schedule is not None)
    return Schedule(settings.batch.us, window_us, settings.phase_us, earlier)


def _parts(selected: Selected, batch: ByTime | ByCount | None) -> I64:
    """Which batch of its instance each selection belongs to."""
    match batch:
        case None:
            return np.zeros(len(selected), np.int64)
        case ByTime(length_us):
            return selected.begin_us // length_us
        case ByCount(count):
            order = np.lexsort((np.arange(len(selected)), selected.begin_us, selected.owner))
            owner = selected.owner[order]
            number = np.empty(len(selected), np.int64)
            number[order] = np.arange(len(selected)) - np.searchsorted(owner, owner)
            return number // count


def _known_until(earlier: Decided, owner: I64, until_us: I64, owners: int) -> I64:
    """When all batches of an instance that begin up to a time are decided on: then no event before it will follow."""
    order = np.lexsort((earlier.begin_us, earlier.owner))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(earlier.owner, minlength=owners))]).astype(np.int64)
    latest_us = np.full(len(owner), BEGINNING, np.int64)
    _latest(offsets, earlier.begin_us[order], earlier.decided_us[order], owner, until_us, latest_us)
    return latest_us


@jit
def _latest(offsets: I64, begin_us: I64, decided_us: I64, owner: I64, until_us: I64, latest_us: I64) -> None:
    for k in range(len(owner)):
        for i in range(offsets[owner[k]], offsets[owner[k] + 1]):
            if begin_us[i] > until_us[k]:
                break
            latest_us[k] = max(latest_us[k], decided_us[i])
