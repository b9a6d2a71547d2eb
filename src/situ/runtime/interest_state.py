"""The state of a flow whose groups are interests: picked by interest, and put together again.

Sections of state are rows (kernel/snapshot.py), so those of some interests are some rows of every table.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from situ.kernel.arrays import I64
from situ.mobility.moving_query import INTEREST

Tables = dict[str, pa.Table]

#: Events of open selections, which are remembered where their atomic events are asked for.
_LOG = " log"


def parted(tables: Mapping[str, pa.Table], keys: I64) -> tuple[Tables, Tables]:
    """The state of some interests, and that of all others."""
    some, others = Tables(), Tables()
    wanted = pa.array(keys)
    for name, table in tables.items():
        column = _column_of_interests(table)
        if column is None:  # what does not depend on interests: how far time has come
            some[name] = others[name] = table
            continue
        mine = pc.is_in(table.column(column), wanted)
        some[name], others[name] = table.filter(mine), table.filter(pc.invert(mine))
    for name in tables:
        if name.endswith(_LOG):  # it names groups by the rows of another table
            mine = pc.is_in(tables[name.removesuffix(_LOG)].column("key 0"), wanted).to_numpy()
            some[name] = _renumbered(some[name], np.cumsum(mine) - 1)
            others[name] = _renumbered(others[name], np.cumsum(~mine) - 1)
    return some, others


def joined(one: Mapping[str, pa.Table], other: Mapping[str, pa.Table]) -> Tables:
    """The state of all interests of two flows, of which time has passed as far in both."""
    tables = Tables()
    for name in dict.fromkeys([*one, *other]):
        both = [tables_[name] for tables_ in (one, other) if name in tables_]
        if name == "low watermarks":
            tables[name] = _lower(*both)
        elif len(both) == 1 or _column_of_interests(both[0]) is None:
            tables[name] = both[-1]
        else:
            if name.endswith(_LOG):
                groups = [tables_[name.removesuffix(_LOG)].num_rows for tables_ in (one, other)]
                both[1] = _renumbered(both[1], np.arange(groups[1]) + groups[0])
            tables[name] = pa.concat_tables(both, promote_options="permissive")
    return tables


def _renumbered(log: pa.Table, numbers: np.ndarray) -> pa.Table:
    group = numbers[log.column("group").to_numpy()]
    return log.set_column(log.schema.get_field_index("group"), "group", pa.array(group))


def _lower(one: pa.Table, other: pa.Table) -> pa.Table:
    time = np.minimum(one.column("time").to_numpy(), other.column("time").to_numpy())
    return one.set_column(one.schema.get_field_index("time"), "time", pa.array(time))


def _column_of_interests(table: pa.Table) -> str | None:
    """INTEREST is the first group key of every rule, and an attribute of every event."""
    return next((name for name in ("key 0", f"group.{INTEREST}", INTEREST) if name in table.column_names), None)
