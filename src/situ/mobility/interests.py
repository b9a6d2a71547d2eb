"""Where a consumer was -> the interests of a moving query, one after the other (MCEP, sections 3.1 and 5.1).

A consumer's location updates are turned into interests R_1, R_2, ... by the subscription's update condition: each
begins at an update, and lasts until the next one begins. Its region is the subscription's shape around the location
then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.time import END
from situ.graph.query import Update
from situ.kernel.arrays import F64, I64
from situ.kernel.batch import concat_arrays
from situ.kernel.matching.machine import jit
from situ.space.geometry import distance_m

#: An update is heeded if the consumer is elsewhere than at the last one that was.
BASIC = Update("basic")


@dataclass(frozen=True, slots=True)
class Interests:
    """Interests in columns, by consumer (their values in order) and start. `number` counts those of one consumer from
    1. One lasts from `start_us` to `end_us`, both included: the start of the next one, or when the consumer leaves, or
    END. `least` is (interests, 2): the precision and recall that each asks for, where location updates say it."""

    consumer: pa.Array
    number: I64
    start_us: I64
    end_us: I64
    x: F64
    y: F64
    least: F64 | None = None

    def __len__(self) -> int:
        return len(self.number)

    def take(self, rows: np.ndarray) -> Interests:
        """Some of them: rows by number, or marked."""
        chosen = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        # Most of the time nobody is taken; then there is nothing to copy.
        consumer = self.consumer.take(pa.array(chosen)) if len(chosen) else self.consumer[:0]
        number, start_us, end_us = (values[chosen] for values in (self.number, self.start_us, self.end_us))
        least = None if self.least is None else self.least[chosen]
        return Interests(consumer, number, start_us, end_us, self.x[chosen], self.y[chosen], least)

    def updates(self) -> Updates:
        """The location updates that began them."""
        return Updates(self.consumer, self.start_us, self.x, self.y, self.least)

    @staticmethod
    def concat(parts: Sequence[Interests]) -> Interests:
        columns = ([getattr(part, name) for part in parts] for name in ("number", "start_us", "end_us", "x", "y"))
        number, start_us, end_us, x, y = map(np.concatenate, columns)
        consumer, least = pa.concat_arrays([part.consumer for part in parts]), _joined([part.least for part in parts])
        return Interests(consumer, number, start_us, end_us, x, y, least)


@dataclass(frozen=True, slots=True)
class Updates:
    """Where consumers say that they are; and the precision and recall that they ask for, if they say it."""

    consumer: pa.Array
    times_us: I64
    x: F64
    y: F64
    least: F64 | None = None

    def __len__(self) -> int:
        return len(self.times_us)

    def have_a_place(self) -> npt.NDArray[np.bool_]:
        """Which of them say who is where; the others are left out everywhere."""
        named: npt.NDArray[np.bool_] = self.consumer.is_valid().to_numpy(zero_copy_only=False)
        return named & np.isfinite(self.x) & np.isfinite(self.y)

    def take(self, rows: npt.NDArray[np.bool_]) -> Updates:
        """Those that are marked."""
        if rows.all():
            return self
        least = None if self.least is None else self.least[rows]
        return Updates(self.consumer.filter(pa.array(rows)), self.times_us[rows], self.x[rows], self.y[rows], least)

    def and_(self, more: Updates) -> Updates:
        times_us = np.concatenate([self.times_us, more.times_us])
        x, y = np.concatenate([self.x, more.x]), np.concatenate([self.y, more.y])
        least = _joined([self.least, more.least])
        return Updates(concat_arrays([self.consumer, more.consumer]), times_us, x, y, least)


def _joined(parts: Sequence[F64 | None]) -> F64 | None:
    """What all parts ask for; None, if one says nothing."""
    said = [part for part in parts if part is not None]
    return np.concatenate(said) if said and len(said) == len(parts) else None


def interests_of(updates: Updates, update: Update = BASIC, degrees: bool = False) -> Interests:
    """The interests of all consumers.

    Updates may come in any order. Of several of one consumer at one time, the one with the largest x counts, and of
    those that with the largest y. Those without a place (null or NaN) are left out, and so is a consumer who never has
    one.

    >>> updates = Updates(pa.array(["a", "a", "b"]), np.array([0, 9, 5]), np.array([0.0, 9.0, 1.0]), np.zeros(3))
    >>> interests = interests_of(updates)
    >>> interests.consumer.to_pylist(), interests.number.tolist(), interests.start_us.tolist()
    (['a', 'a', 'b'], [1, 2, 1], [0, 9, 5])
    """
    return interests_at(updates, heeded_rows(updates, update, degrees))


def heeded_rows(updates: Updates, update: Update, degrees: bool = False) -> I64:
    """The updates that begin an interest, by consumer and time."""
    rows, codes = in_order(updates)
    heeded = np.zeros(len(rows), np.bool_)
    wait_us = int(update.amount or 0) if update.when == "every" else 0
    apart = float(update.amount or 0) if update.when == "moved" else 0.0
    x, y = updates.x[rows], updates.y[rows]
    _heed(codes[rows], updates.times_us[rows], x, y, wait_us, apart, degrees, heeded)
    return rows[heeded]


def in_order(updates: Updates) -> tuple[I64, I64]:
    """The updates that have a place, by consumer, time and place; and by row, numbers that stand for consumers."""
    placed = updates.have_a_place()
    codes = pc.rank(updates.consumer, tiebreaker="dense").to_numpy(False).astype(np.int64)
    ties = () if updates.least is None else (updates.least[:, 1], updates.least[:, 0])
    order = np.lexsort((*ties, updates.y, updates.x, updates.times_us, codes))
    return order[placed[order]], codes


def interests_at(updates: Updates, rows: I64) -> Interests:
    """Interests that begin at some updates, which are by consumer and time: each lasts until the next one."""
    consumers = updates.consumer.take(pa.array(rows))
    codes = pc.rank(consumers, tiebreaker="dense").to_numpy(False).astype(np.int64)
    starts = updates.times_us[rows]
    same = np.concatenate([codes[1:] == codes[:-1], [False]]) if len(rows) else np.zeros(0, np.bool_)
    ends = np.where(same, np.roll(starts, -1), END)
    begins = np.flatnonzero(np.concatenate([[True], ~same[:-1]]) if len(rows) else same)
    number = np.arange(len(rows)) - np.repeat(begins, np.diff(np.append(begins, len(rows)))) + 1
    least = None if updates.least is None else updates.least[rows]
    return Interests(consumers, number, starts, ends, updates.x[rows], updates.y[rows], least)


@jit
def _heed(consumer: I64, time: I64, x: F64, y: F64, wait_us: int, apart: float, degrees: bool,
          heeded: np.ndarray) -> None:  # fmt: skip
    """Which updates begin an interest; they are sorted by consumer and time."""
    last = -1
    for k in range(len(consumer)):
        if k + 1 < len(consumer) and consumer[k + 1] == consumer[k] and time[k + 1] == time[k]:
            continue
        if last >= 0 and consumer[last] == consumer[k]:
            moved = distance_m(x[k], y[k], x[last], y[last], degrees)
            if moved == 0.0 or moved < apart or time[k] - time[last] < wait_us:
                continue
        heeded[k] = True
        last = k
