"""Rows that lie ahead of the wall clock: a single one, ten years ahead, would make all rows after it late.

They are rejected before they can move time, in unbounded input only. `ahead T` in the declaration of a stream says how
far ahead is too far.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from situ.core.time import UNITS, format_duration, format_time
from situ.graph.query import Stream
from situ.io.files.json_text import rows_to_json
from situ.io.rows.conform import Conformed, rejected_table

#: How far a row of a source that is read as it comes may lie ahead, where its stream does not say.
DEFAULT_AHEAD_US = UNITS["day"]


def with_default_ahead(stream: Stream) -> Stream:
    """The stream as sources that are read as they come are judged."""
    return replace(stream, ahead_us=DEFAULT_AHEAD_US) if stream.ahead_us is None else stream


def reasons_ahead(times: np.ndarray, stream: Stream, now_us: int) -> dict[int, str]:
    """For each event that lies further ahead of the wall clock than its stream allows, the reason to reject it.

    >>> stream = Stream("Ping", (), time="ms", time_unit="ms", ahead_us=1_000_000)
    >>> reasons_ahead(np.array([5_000_000, 5_000_001]), stream, now_us=4_000_000)
    {1: 'ms: 1970-01-01 00:00:05.000001 is more than 1 s ahead of the wall clock'}
    """
    if stream.ahead_us is None or len(times) == 0 or times.max() <= now_us + stream.ahead_us:
        return {}
    allowed = format_duration(stream.ahead_us)
    return {
        row: f"{stream.time}: {format_time(int(times[row]))} is more than {allowed} ahead of the wall clock"
        for row in np.flatnonzero(times > now_us + stream.ahead_us).tolist()
    }


def without_events(part: Conformed, rows: list[int]) -> Conformed:
    """The part without some of its events."""
    is_kept = np.ones(len(part.times), np.bool_)
    is_kept[rows] = False
    events = part.events.filter(pa.array(is_kept)) if part.events.num_columns else part.events
    return Conformed(events, part.times[is_kept], part.rejected)


def reject_ahead(part: Conformed, stream: Stream, now_us: int, place: str) -> Conformed:
    """The part without the events that lie too far ahead, which are rejected rows instead."""
    reasons = reasons_ahead(part.times, stream, now_us)
    if not reasons:
        return part
    rows = list(reasons)
    rejected = rejected_table(reasons.values(), rows_to_json(part.events.take(rows)), [place] * len(rows))
    accepted = without_events(part, rows)
    return Conformed(accepted.events, accepted.times, pa.concat_tables([part.rejected, rejected]))
