"""Interests that are at work: with the numbers by which operators know them, and the events that they read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from situ.kernel.arrays import I64
from situ.kernel.batch import Batch
from situ.kernel.matching.order import is_sorted
from situ.mobility.interests import Interests
from situ.mobility.moving_query import DELIVERED, INTEREST


@dataclass(frozen=True, slots=True)
class Active:
    """Interests with the numbers by which operators know them, which ascend."""

    interests: Interests
    keys: I64

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: np.ndarray) -> Active:
        """Some of them: rows by number, or marked."""
        if rows.dtype == np.bool_ and rows.all():
            return self
        return Active(self.interests.take(rows), self.keys[rows])

    @staticmethod
    def concat(*parts: Active) -> Active:
        """All of them, in order of their numbers."""
        some = [active for active in parts if len(active)]
        if len(some) <= 1:
            return some[0] if some else parts[0]
        keys = np.concatenate([active.keys for active in some])
        return in_order_of_keys(Interests.concat([active.interests for active in some]), keys)


@dataclass(frozen=True, slots=True)
class Switch:
    """What location updates do to the interests that are worked for here: some that were there end, some begin and end
    at once, some begin, and the others last."""

    ending: Active
    passing: Active
    begun: Active
    lasting: Active


def in_order_of_keys(interests: Interests, keys: I64) -> Active:
    """Interests with these keys, sorted by them."""
    if is_sorted(keys):
        return Active(interests, keys)
    order = np.argsort(keys)
    return Active(interests.take(order), keys[order])


def in_spatiotemporal_order(batch: Batch) -> Batch:
    """For every consumer, all of an interest before all of the next, and by time within (MCEP, section 3.1).

    Keys of interests ascend by their start, and numbers do not where a consumer has left and come back.
    """
    keys, consumer = batch.columns.pop(INTEREST).to_numpy(), batch.columns[DELIVERED[0]]
    return batch.take(np.lexsort((batch.times, keys, pc.rank(consumer, tiebreaker="dense").to_numpy())))
