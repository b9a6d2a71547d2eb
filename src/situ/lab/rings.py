"""A second trace: vehicles in a town of rings, one row for each vehicle and second."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pyarrow as pa

from situ.lab.sumo_trace import read_trace

FILE = Path(__file__).parent / "data" / "rings" / "vehicles.parquet"


@cache
def trace() -> pa.Table:
    """The trace by time, then vehicle: time_us, vehicle, x, y (m), speed (m/s), acceleration (m/s2), lane.

    >>> trace().num_rows
    262110
    """
    return read_trace(FILE)
