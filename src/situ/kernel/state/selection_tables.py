"""The log of open selections as a table, and back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from situ.graph.query import Within
from situ.kernel.arrays import I64
from situ.kernel.batch import ORIGINS, one_chunk
from situ.kernel.matching.selections import SelectionLog
from situ.kernel.state.checks import (
    numbers,
    require_between,
    require_columns,
    require_event_times,
    require_sorted,
    require_whole,
)


def log_to_table(log: SelectionLog, chosen: np.ndarray) -> pa.Table:
    """The candidates that open selections of some groups may hold; a group is the row of its section."""
    mine = log.take(np.flatnonzero(chosen[log.group]))
    numbers = {name: pa.array(getattr(mine, name)) for name in ("time", "opened", "reported")}
    section = (np.cumsum(chosen) - 1)[mine.group]
    return pa.table({"group": pa.array(section)} | numbers | mine.columns)


def log_of_table(table: pa.Table, within: Within | None, groups: I64, types: Mapping[str, pa.DataType]) -> SelectionLog:
    """What `log_to_table` gave, of groups that have these numbers here."""
    columns = {name: one_chunk(table.column(name)) for name in types}
    require_columns(columns, types)
    require_whole(columns[ORIGINS], ORIGINS)
    section, time, opened = (numbers(table.column(name), np.int64, name) for name in ("group", "time", "opened"))
    require_between(section, 0, len(groups), "groups of selections")
    require_sorted(section, "groups of selections")
    require_event_times(time)
    reported = numbers(table.column("reported"), np.uint8, "selections")
    return SelectionLog(within, groups[section], time, opened, reported, columns)
