"""The trace that MCEP's experiments run on: vehicles in Ingolstadt, one row for each vehicle and second."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pyarrow as pa

from situ.lab.sumo_trace import read_trace

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
    return read_trace(FILE)
