"""Which events an interest reads: a join of events and interests in space and time."""

from __future__ import annotations

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.kernel.machine import jit


def pairs(
    times_us: I64, x: F64, y: F64, since_us: I64, until_us: I64, centre_x: F64, centre_y: F64,
    half_x: float, half_y: float, is_round: bool,
) -> tuple[I64, I64]:  # fmt: skip
    """Rows of events and of interests that belong together: within the time, both ends included, and in the region,
    borders included. Events are sorted by time. The pairs are by interest, and of one interest by time.

    >>> one, ten = np.ones(1), np.arange(10)
    >>> events, interests = pairs(ten, ten.astype(float), ten * 0.0, np.array([2]), np.array([7]), 5 * one, 0 * one,
    ...     2.0, 2.0, False)
    >>> events.tolist()
    [3, 4, 5, 6, 7]
    """
    first = np.searchsorted(times_us, since_us, side="left")
    last = np.searchsorted(times_us, until_us, side="right")
    number = np.zeros(len(since_us), np.int64)
    nothing = np.empty(0, np.int64)
    regions = centre_x, centre_y, half_x, half_y, is_round
    _join(x, y, first, last, *regions, number, nothing, nothing, False)
    offset = np.concatenate([[0], np.cumsum(number)])
    events, interests = np.empty(offset[-1], np.int64), np.empty(offset[-1], np.int64)
    _join(x, y, first, last, *regions, offset[:-1].copy(), events, interests, True)
    return events, interests


@jit
def _join(
    x: F64, y: F64, first: I64, last: I64, centre_x: F64, centre_y: F64, half_x: float, half_y: float, is_round: bool,
    at: I64, events: I64, interests: I64, write: bool,
) -> None:  # fmt: skip
    """Counts the pairs of each interest in `at`, or writes them from there on."""
    for interest in range(len(first)):
        for event in range(first[interest], last[interest]):
            dx, dy = abs(x[event] - centre_x[interest]), abs(y[event] - centre_y[interest])
            if dx <= half_x and dy <= half_y and (not is_round or dx * dx + dy * dy <= half_x * half_x):
                if write:
                    events[at[interest]], interests[at[interest]] = event, interest
                at[interest] += 1
