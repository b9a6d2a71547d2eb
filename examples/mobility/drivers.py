"""The drivers who ask: every tenth car of the traffic example, in the order in which they set off.

python examples/mobility/drivers.py out/mobility/drivers.parquet
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

VEHICLES = Path(__file__).resolve().parents[1] / "traffic" / "vehicles.parquet"


def every_tenth(vehicles: pa.Table) -> pa.Table:
    """Where the 10th, 20th, 30th ... car is, second by second."""
    in_order = vehicles.sort_by([("time_s", "ascending"), ("vehicle", "ascending")])
    drivers = in_order["vehicle"].unique()[9::10]
    chosen = in_order.filter(pc.is_in(in_order["vehicle"], drivers))
    return chosen.select(["time_s", "vehicle", "x", "y"])


def write_drivers(path: Path) -> int:
    """Writes them to a Parquet file; how many there are."""
    drivers = every_tenth(pq.read_table(VEHICLES))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(drivers, path)
    return len(drivers["vehicle"].unique())


if __name__ == "__main__":
    print(f"{write_drivers(Path(sys.argv[1]))} drivers: {sys.argv[1]}")
