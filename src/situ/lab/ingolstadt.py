"""The trace that MCEP's experiments run on: vehicles in Ingolstadt, one row for each vehicle and second."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FILE = Path(__file__).parent / "data" / "ingolstadt" / "vehicles.parquet"


@cache
def trace() -> pa.Table:
    """The trace by time, then vehicle: time_us, vehicle, x, y (m), speed (m/s), acceleration (m/s2), lane.

    >>> rows = trace()
    >>> rows.num_rows, rows.column_names
    (336258, ['time_us', 'vehicle', 'x', 'y', 'speed', 'acceleration', 'lane'])
    >>> rows.slice(1, 1).to_pylist()[0]["x"]
    1945.94
    """
    rows = pq.read_table(FILE, partitioning=None)
    hundredths = {"x": "x_cm", "y": "y_cm", "speed": "speed_cm_per_s", "acceleration": "acceleration_cm_per_s2"}
    table = pa.table(
        {
            "time_us": rows["time_s"].to_numpy().astype(np.int64) * 1_000_000,
            "vehicle": rows["vehicle"].cast(pa.string()),
            **{name: rows[column].to_numpy() / 100.0 for name, column in hundredths.items()},
            "lane": rows["lane"].cast(pa.string()),
        }
    )
    return table.sort_by([("time_us", "ascending"), ("vehicle", "ascending")])
