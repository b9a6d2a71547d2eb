"""The location monitor's update condition `when quality` (MCEP, section 5.1, condition 3).

At each location update, the region around the consumer now (what is asked) is held against the region of the last
interest (what is processed), on the most recent atomic events. The update begins an interest if precision or recall is
below its threshold. One at the place of the last interest never does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from situ.kernel.arrays import F64, I64
from situ.kernel.matching.machine import jit
from situ.mobility.interests import Interests, Updates, in_order, interests_at
from situ.space.geometry import is_inside

#: The events of a stream, sorted by time: times, x and y.
Located = tuple[I64, F64, F64]


@dataclass(frozen=True, slots=True)
class Condition:
    """`update when quality`: the shape of the region (space/geometry.py), how long events are recent, and the
    thresholds."""

    half_x: float
    half_y: float
    is_round: bool
    recent_us: int
    precision: float
    recall: float
    degrees: bool = False


@dataclass(frozen=True, slots=True)
class LastPlaces:
    """Where the last interest of each consumer, by number, is; NaN for one who has none yet."""

    x: F64
    y: F64

    @classmethod
    def none(cls, consumers: int) -> LastPlaces:
        return cls(np.full(consumers, np.nan), np.full(consumers, np.nan))


def quality_interests(
    updates: Updates,
    streams: Sequence[Located],
    half_x: float,
    half_y: float,
    is_round: bool,
    recent_us: int,
    precision: float,
    recall: float,
    degrees: bool = False,
) -> Interests:
    """The interests of all consumers; order, updates of one time and updates without a place as for `interests_of`.

    An event is recent at t if t - recent_us <= time <= t. Events of all streams count together.

    >>> import pyarrow as pa
    >>> updates = Updates(pa.array(["a"] * 3), np.array([0, 9, 12]), np.array([0.0, 4.0, 8.0]), np.zeros(3))
    >>> events = np.array([8, 9, 12]), np.array([4.0, 6.0, 13.0]), np.zeros(3)
    >>> quality_interests(updates, [events], 5.0, 5.0, False, 5, 0.5, 0.6).start_us.tolist()
    [0, 9]
    """
    rows, codes = in_order(updates)
    _, numbers = np.unique(codes[rows], return_inverse=True)
    condition = Condition(half_x, half_y, is_round, recent_us, precision, recall, degrees)
    places = LastPlaces.none(int(numbers.max(initial=-1)) + 1)
    x, y = updates.x[rows], updates.y[rows]
    heeded, _ = heed(numbers, updates.times_us[rows], x, y, places, together(streams), condition)
    return interests_at(updates, rows[heeded])


def together(streams: Sequence[Located]) -> Located:
    """The events of several streams by time."""
    if not streams:
        return np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
    times, x, y = (np.concatenate(columns) for columns in zip(*streams, strict=True))
    order = np.argsort(times, kind="stable")
    return times[order], x[order], y[order]


def heed(
    consumers: I64, times_us: I64, x: F64, y: F64, last: LastPlaces, events: Located, condition: Condition
) -> tuple[npt.NDArray[np.bool_], LastPlaces]:
    """Which updates begin an interest, and where consumers' last interests are then.

    Consumers are numbers, and all updates have a place. They may come in any order, but none before an update of the
    consumer that was given earlier, and all of a consumer's time at once. `events` are sorted by time and hold all that
    are recent for one of the updates.

    >>> one, none = np.zeros(1, np.int64), (np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    >>> condition = Condition(5.0, 5.0, False, 10, 0.9, 0.9)
    >>> heeded, last = heed(one, one, np.ones(1), np.ones(1), LastPlaces.none(1), none, condition)
    >>> heeded.tolist(), last.x.tolist()
    ([True], [1.0])
    """
    order = np.lexsort((y, x, times_us, consumers))
    consumers, times_us, x, y = consumers[order], times_us[order], x[order], y[order]
    first = np.searchsorted(events[0], times_us - condition.recent_us, side="left")
    end = np.searchsorted(events[0], times_us, side="right")
    moved = LastPlaces(last.x.copy(), last.y.copy())
    begins = np.zeros(len(order), np.bool_)
    _heed(
        consumers, times_us, x, y, first, end, events[1], events[2], condition.half_x, condition.half_y,
        condition.is_round, condition.degrees, condition.precision, condition.recall, moved.x, moved.y, begins,
    )  # fmt: skip
    heeded = np.zeros(len(order), np.bool_)
    heeded[order] = begins
    return heeded, moved


@jit
def _heed(
    consumer: I64, time: I64, x: F64, y: F64, first: I64, end: I64, event_x: F64, event_y: F64, half_x: float,
    half_y: float, is_round: bool, degrees: bool, precision: float, recall: float, last_x: F64, last_y: F64,
    heeded: np.ndarray,
) -> None:  # fmt: skip
    """Updates are sorted by consumer, time and place; of those of one time the last counts. Writes where the last
    interests are."""
    for k in range(len(consumer)):
        if k + 1 < len(consumer) and consumer[k + 1] == consumer[k] and time[k + 1] == time[k]:
            continue
        whose = consumer[k]
        if not np.isnan(last_x[whose]):
            if x[k] == last_x[whose] and y[k] == last_y[whose]:
                continue
            asked, processed, both = 0, 0, 0
            for event in range(first[k], end[k]):
                at_x, at_y = event_x[event], event_y[event]
                is_asked = is_inside(at_x, at_y, x[k], y[k], half_x, half_y, is_round, degrees)
                was_x, was_y = last_x[whose], last_y[whose]
                is_processed = is_inside(at_x, at_y, was_x, was_y, half_x, half_y, is_round, degrees)
                asked += int(is_asked)
                processed += int(is_processed)
                both += int(is_asked and is_processed)
            # A share of nothing is 1, as in lab/quality/precision_recall.py.
            if (processed == 0 or both / processed >= precision) and (asked == 0 or both / asked >= recall):
                continue
        heeded[k] = True
        last_x[whose], last_y[whose] = x[k], y[k]
