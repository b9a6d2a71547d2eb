"""The location monitor's update condition `when quality` (MCEP, section 5.1, condition 3).

At each location update, the region around the consumer now (what is asked) is held against the region of the last
interest (what is processed), on the most recent atomic events. The update begins an interest if precision or recall is
below its threshold. One at the place of the last interest never does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from situ.kernel.arrays import F64, I64
from situ.kernel.matching.machine import inlined, jit
from situ.mobility.interests import Interests, Updates, in_order, interests_at
from situ.space.geometry import is_inside
from situ.space.pairs import Located, together
from situ.space.precision_recall import precision_and_recall


class Condition(NamedTuple):
    """`update when quality`: the shape of the region (space/geometry.py), how long events are recent, and the
    thresholds."""

    half_x: float
    half_y: float
    is_round: bool
    recent_us: int
    precision: float
    recall: float
    degrees: bool = False


class LastPlaces(NamedTuple):
    """Where the last interest of each consumer, by number, is; NaN for one who has none yet."""

    x: F64
    y: F64

    @classmethod
    def none(cls, consumers: int) -> LastPlaces:
        """For so many consumers who have no interest yet."""
        return cls(np.full(consumers, np.nan), np.full(consumers, np.nan))


class _SortedUpdates(NamedTuple):
    """Location updates by consumer, time and place, each with the events that are recent then, from first to end."""

    consumer: I64
    time_us: I64
    x: F64
    y: F64
    first_event: I64
    end_event: I64


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
    times_us = times_us[order]
    first_event = np.searchsorted(events[0], times_us - condition.recent_us, side="left")
    end_event = np.searchsorted(events[0], times_us, side="right")
    updates = _SortedUpdates(consumers[order], times_us, x[order], y[order], first_event, end_event)
    moved = LastPlaces(last.x.copy(), last.y.copy())
    begins = np.zeros(len(order), np.bool_)
    _heed(updates, events, condition, moved, begins)
    heeded = np.zeros(len(order), np.bool_)
    heeded[order] = begins
    return heeded, moved


@jit
def _heed(updates: _SortedUpdates, events: Located, condition: Condition, last: LastPlaces, heeded: np.ndarray) -> None:
    """Mark the updates that begin an interest, and write where the last interests are.

    Of a consumer's updates of one time the last counts.
    """
    consumer, time_us = updates.consumer, updates.time_us
    for update in range(len(consumer)):
        later = update + 1
        if later < len(consumer) and consumer[later] == consumer[update] and time_us[later] == time_us[update]:
            continue
        x, y, whose = updates.x[update], updates.y[update], consumer[update]
        if not np.isnan(last.x[whose]):
            if x == last.x[whose] and y == last.y[whose]:
                continue
            if _is_still_good(update, last.x[whose], last.y[whose], updates, events, condition):
                continue
        heeded[update] = True
        last.x[whose], last.y[whose] = x, y


@inlined
def _is_still_good(
    update: int, last_x: float, last_y: float, updates: _SortedUpdates, events: Located, condition: Condition
) -> bool:
    """Whether the region of the last interest serves the consumer at the place of an update well enough."""
    x, y, event_x, event_y = updates.x[update], updates.y[update], events[1], events[2]
    half_x, half_y, is_round, degrees = condition.half_x, condition.half_y, condition.is_round, condition.degrees
    asked, processed, both = 0, 0, 0
    for event in range(updates.first_event[update], updates.end_event[update]):
        is_asked = is_inside(event_x[event], event_y[event], x, y, half_x, half_y, is_round, degrees)
        is_processed = is_inside(event_x[event], event_y[event], last_x, last_y, half_x, half_y, is_round, degrees)
        asked += int(is_asked)
        processed += int(is_processed)
        both += int(is_asked and is_processed)
    precision, recall = precision_and_recall(both, asked, processed)
    return precision >= condition.precision and recall >= condition.recall
