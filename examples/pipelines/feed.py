"""Puts minutes of the traffic of Ingolstadt into a folder, as a file that comes in whole.

python examples/pipelines/feed.py /tmp/situ-pipelines/incoming 0 10
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

VEHICLES = Path(__file__).parents[1] / "traffic" / "vehicles.parquet"


def feed(folder: Path, begin: float, end: float) -> int:
    """The rows from one minute to another, without it; how many."""
    table = pq.read_table(VEHICLES)
    minute = pc.divide(table["time_s"], 60.0)
    rows = table.filter(pc.and_(pc.greater_equal(minute, begin), pc.less(minute, end)))
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".minutes-{begin:g}-{end:g}.parquet"  # Spark passes over names that begin with a dot
    pq.write_table(rows, unfinished)
    unfinished.rename(folder / unfinished.name.removeprefix("."))
    return int(rows.num_rows)


if __name__ == "__main__":
    incoming, first, last = sys.argv[1:]
    print(f"{feed(Path(incoming), float(first), float(last)):,} rows in {incoming}")
