"""What a streaming query must know that goes on from a checkpoint, and how a clock is put back.

An event with a wrong time, years ahead, takes the clock of a checkpoint with it: whatever comes afterwards is late.
Rows that are too far ahead are rejected before (`situ.io.rows.ahead`); a checkpoint that has taken one is mended here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from situ.flow.inbox import INBOX_TIME

#: What operators, and moving subscriptions, know of the events that they have read.
_STATE = ("operator/", "inbox/", "port/", "moving/")


@dataclass(frozen=True, slots=True)
class Restart:
    """Operators in `changed` may start afresh.

    `starts` are the moments at which the query was started, in seconds since the epoch: from the last step before one
    of them to that moment nobody listened, and silence does not count. The clock goes back to `clock_back_to_us`, once:
    a state knows the last time to which it was put back.
    """

    changed: frozenset[str] = frozenset()
    starts: tuple[float, ...] = ()
    clock_back_to_us: int | None = None


#: Nothing has changed but that time went by.
AS_BEFORE = Restart()


def put_back(tables: Mapping[str, pa.Table], time_us: int) -> dict[str, pa.Table]:
    """The state of a shard whose clock has gone no further than a time.

    Events after that time which still wait are let go. Where time had passed it on all streams, operators have closed
    their windows too early, and start afresh; where another stream held time back, they have not, and go on.
    """
    clock = tables["clock"]
    passed = clock.filter(pc.equal(clock.column("stream"), "")).column("time")[0].as_py()
    lows = tables["low watermarks"]
    mended = dict(tables)
    if passed > time_us:
        mended = {name: table for name, table in tables.items() if not name.startswith(_STATE)}
        mended["low watermarks"] = lows.slice(0, 0)
    for name, table in list(mended.items()):
        if INBOX_TIME in table.column_names:
            mended[name] = table.filter(pc.less_equal(table.column(INBOX_TIME), time_us))
    for name, column in (("clock", "time"), ("shards", "low")):
        mended[name] = _at_most(tables[name], column, time_us)
    return mended


def _at_most(table: pa.Table, column: str, time_us: int) -> pa.Table:
    times = pc.min_element_wise(table.column(column), pa.scalar(time_us, pa.int64()))
    return table.set_column(table.column_names.index(column), column, times)
