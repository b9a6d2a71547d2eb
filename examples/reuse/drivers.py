"""The drivers who ask: every third car of the traffic example, in the order in which they set off.

python examples/reuse/drivers.py out/reuse/Driver.parquet
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

VEHICLES = Path(__file__).resolve().parents[1] / "traffic" / "vehicles.parquet"


def vehicles_of(minutes: int) -> pa.Table:
    """The first minutes of the trace, by time."""
    rows = pq.read_table(VEHICLES, filters=[("time_s", "<", 60 * minutes)])
    return rows.sort_by([("time_s", "ascending"), ("vehicle", "ascending")])


def every_third(vehicles: pa.Table) -> pa.Table:
    """Where the 3rd, 6th, 9th ... car is, second by second. The rows are by time."""
    drivers = vehicles["vehicle"].unique()[2::3]
    chosen = vehicles.filter(pc.is_in(vehicles["vehicle"], drivers))
    return chosen.select(["time_s", "vehicle", "x", "y"])


def write(table: pa.Table, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


if __name__ == "__main__":
    drivers = every_third(vehicles_of(minutes=20))
    print(f"{len(drivers['vehicle'].unique())} drivers: {write(drivers, Path(sys.argv[1]))}")
