"""Rows that come too late: judged one after the other, by the largest time of the rows before them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from situ.core.time import BEGINNING
from situ.flow.inbox import latest
from situ.graph.query import Stream
from situ.kernel.arrays import I64


def judge_lateness(times: I64, stream: Stream, latest_us: int, passed_us: int) -> tuple[npt.NDArray[np.bool_], I64]:
    """Which rows of a source are late, and for each row the time before which it would be.

    `latest_us` is the largest time of the source before these rows; before `passed_us` every row is late.

    >>> stream = Stream("Ping", (), time="ms", watermark_us=10)
    >>> late, limits = judge_lateness(np.array([100, 85, 95]), stream, BEGINNING, 0)
    >>> late.tolist(), limits.tolist()
    ([False, True, False], [0, 90, 90])
    """
    if len(times) == 1:  # most rows that come one by one
        limit = max(passed_us, BEGINNING if latest_us == BEGINNING else latest_us - stream.watermark_us)
        limits = np.array([limit])
        return times < limits, limits
    before = latest(times, latest_us)
    limits = np.where(before == BEGINNING, BEGINNING, before - stream.watermark_us)
    limits = np.maximum(limits, passed_us)
    return times < limits, limits


def late_table(events: pa.Table, late: npt.NDArray[np.bool_], lateness: I64) -> pa.Table:
    """The late rows among events, each with how late it is."""
    rows = events.filter(pa.array(late))
    return rows.append_column("_lateness", pa.array(lateness[late], pa.duration("us")))
