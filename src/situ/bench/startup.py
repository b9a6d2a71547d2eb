"""How long `situ run` takes to start with a query that it has never seen, beside a bare Python that starts."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from situ.bench.workload import STREAM

#: What situ cannot do without: its libraries, a file, and one compiled function from Numba's cache on disk.
BARE = """
import sys
import numba, numpy
import pyarrow.parquet as pq

@numba.njit("int64(int64[:])", cache=True)
def total(values):
    sum_ = 0
    for value in values:
        sum_ += value
    return sum_

print(total(pq.read_table(sys.argv[1]).column("id").to_numpy()))
"""

ROUNDS = 3


def startup_seconds(directory: Path) -> tuple[float, float]:
    """(situ, bare Python), each the median of starts after a first one that filled the caches on disk."""
    with tempfile.TemporaryDirectory() as scratch:
        bare = Path(scratch) / "bare.py"
        bare.write_text(BARE)
        _, *bare_s = (_seconds([str(bare), str(directory)]) for _ in range(1 + ROUNDS))
        _, *situ_s = (_seconds(_situ_run(_new_query(Path(scratch), i), directory)) for i in range(1 + ROUNDS))
    return statistics.median(situ_s), statistics.median(bare_s)


def _new_query(scratch: Path, number: int) -> Path:
    """A query that no cache can know: each has one more step than the last, and constants of this moment."""
    steps = " then ".join(f"Event(type = {i} and value != {time.time_ns() + i}) as e{i}" for i in range(2 + number))
    file = scratch / f"new{number}.situ"
    file.write_text(
        f"{STREAM}\nsubscribe New{number}\n  detect {steps} within 10 s\n  assign key = e0.key\n  group by key\n"
    )
    return file


def _situ_run(query: Path, directory: Path) -> list[str]:
    return ["-m", "situ.cli.app", "run", "--engine", "embedded", str(query), "--source", f"Event={directory}", "--json"]


def _seconds(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start
