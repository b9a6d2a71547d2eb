"""Where a consumer was -> the interests of a moving query, one after the other (MCEP, sections 3.1 and 5.1).

A consumer's location updates are turned into interests R_1, R_2, ... by the subscription's update condition: each
begins at an update, and lasts until the next one begins. Its region is the subscription's shape around the location
then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.errors import SituError
from situ.graph.query import Around, Update
from situ.kernel.arrays import F64, I64, NO_DEADLINE
from situ.kernel.machine import jit

#: An update is heeded if the consumer is elsewhere than at the last one that was.
BASIC = Update("basic")


@dataclass(frozen=True, slots=True)
class Interests:
    """Interests in columns, by consumer (their values in order) and start. `number` counts those of one consumer from
    1. One lasts from `start_us` to `end_us`, both included: the start of the next one, or NO_DEADLINE."""

    consumer: pa.Array
    number: I64
    start_us: I64
    end_us: I64
    x: F64
    y: F64

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, slots=True)
class Updates:
    """Where consumers say that they are."""

    consumer: pa.Array
    times_us: I64
    x: F64
    y: F64


def interests_of(updates: Updates, update: Update = BASIC) -> Interests:
    """The interests of all consumers.

    Updates may come in any order. Of several of one consumer at one time, the one with the largest x counts, and of
    those that with the largest y. Those without a place (null or NaN) are left out, and so is a consumer who never has
    one.

    >>> updates = Updates(pa.array(["a", "a", "b"]), np.array([0, 9, 5]), np.array([0.0, 9.0, 1.0]), np.zeros(3))
    >>> interests = interests_of(updates)
    >>> interests.consumer.to_pylist(), interests.number.tolist(), interests.start_us.tolist()
    (['a', 'a', 'b'], [1, 2, 1], [0, 9, 5])
    """
    if update.when == "quality":
        raise SituError("`update when quality` does not run yet", remedy="Write update basic, every T or moved D.")
    placed = np.isfinite(updates.x) & np.isfinite(updates.y) & updates.consumer.is_valid().to_numpy(False)
    codes = pc.rank(updates.consumer, tiebreaker="dense").to_numpy(False).astype(np.int64)
    order = np.lexsort((updates.y, updates.x, updates.times_us, codes))
    order = order[placed[order]]
    heeded = np.zeros(len(order), np.bool_)
    wait_us = int(update.amount or 0) if update.when == "every" else 0
    apart = float(update.amount or 0) if update.when == "moved" else 0.0
    _heed(codes[order], updates.times_us[order], updates.x[order], updates.y[order], wait_us, apart, heeded)
    rows = order[heeded]
    starts, consumers = updates.times_us[rows], codes[rows]
    same = np.concatenate([consumers[1:] == consumers[:-1], [False]]) if len(rows) else np.zeros(0, np.bool_)
    ends = np.where(same, np.roll(starts, -1), NO_DEADLINE)
    first = np.concatenate([[True], ~same[:-1]]) if len(rows) else same
    begins = np.flatnonzero(first)
    number = np.arange(len(rows)) - np.repeat(begins, np.diff(np.append(begins, len(rows)))) + 1
    return Interests(updates.consumer.take(pa.array(rows)), number, starts, ends, updates.x[rows], updates.y[rows])


@jit
def _heed(consumer: I64, time: I64, x: F64, y: F64, wait_us: int, apart: float, heeded: np.ndarray) -> None:
    """Which updates begin an interest; they are sorted by consumer and time."""
    last = -1
    for k in range(len(consumer)):
        if k + 1 < len(consumer) and consumer[k + 1] == consumer[k] and time[k + 1] == time[k]:
            continue
        if last >= 0 and consumer[last] == consumer[k]:
            moved = np.hypot(x[k] - x[last], y[k] - y[last])
            if moved == 0.0 or moved < apart or time[k] - time[last] < wait_us:
                continue
        heeded[k] = True
        last = k


def half_sizes(around: Around) -> tuple[float, float, bool]:
    """How far a region reaches from its middle to each side, and whether it is round.

    >>> half_sizes(Around("Consumer", "rectangle", (200.0, 100.0)))
    (100.0, 50.0, False)
    """
    match around.shape:
        case "circle":
            return around.sizes_m[0], around.sizes_m[0], True
        case "square":
            return around.sizes_m[0] / 2, around.sizes_m[0] / 2, False
        case "rectangle":
            return around.sizes_m[0] / 2, around.sizes_m[1] / 2, False
