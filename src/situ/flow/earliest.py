"""The order in which results are shown and written: by time, the same however an engine came by them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from situ.io.files.json_text import column_to_json


def earliest(table: pa.Table, limit: int) -> pa.Table:
    """The first rows by time; of equal times, by the other columns from left to right: null, then smaller values. Lists
    count by their text.

    So the rows do not depend on how an engine came by them.

    >>> earliest(pa.table({"lane": ["b", None, "a"], "_time": [1, 1, 2]}), 2).to_pydict()
    {'lane': [None, 'b'], '_time': [1, 1]}
    """
    if limit <= 0:
        return table.slice(0, 0)
    times = table.column("_time").cast(pa.int64()).to_numpy()
    if len(times) > limit:  # few rows are sorted, and no others kept in memory
        last = np.partition(times, limit - 1)[limit - 1]
        table = table.filter(pa.array(times <= last))
    keys: list[pa.ChunkedArray] = []
    for name in ["_time", *(name for name in table.column_names if name != "_time")]:
        column = table.column(name)
        if column.null_count:
            keys.append(column.is_valid())
        if pa.types.is_floating(column.type):
            keys.append(pc.is_nan(column))  # after the numbers; Arrow puts it wherever it puts null
        if pa.types.is_list(column.type):
            keys.append(pa.chunked_array([column_to_json(chunk) for chunk in column.chunks], pa.string()))
        elif not pa.types.is_null(column.type):
            keys.append(column)
    numbered = {str(number): key for number, key in enumerate(keys)}
    order = pc.sort_indices(pa.table(numbered), sort_keys=[(number, "ascending") for number in numbered])
    return table.take(order.slice(0, limit))
