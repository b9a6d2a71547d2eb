"""The event streams and queries of the benchmarks, made the same way here and in FlinkCep.java.

Event number `id` (0, 1, 2, ...) has attributes drawn from one splitmix64 hash of `id`: `key` in 0..keys-1,
`type` in 0..types-1, `value` in 0..999; its time is `id` milliseconds. FlinkCep.java draws them with the
same arithmetic, so the numbers of matches must agree exactly.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

STREAM = "stream Event(id int, key int, type int, value int, ts timestamp) time ts order id"

#: Events that FlinkCEP reads, which is slower than the others.
PEER_EVENTS = 2_000_000
#: As many files as a table of this size usually has; each one is made in memory of its own.
FILES = 8


class Pattern(Enum):
    """Which query runs."""

    NEXT = "next"  # three steps, each takes the first event that fits
    EACH = "each"  # three steps, each takes every event that fits
    RISING = "rising"  # two steps, the second's condition reads the first's event


@dataclass(frozen=True, slots=True)
class Workload:
    """A query and the stream that it reads. `grouped`: the query groups events by their key."""

    pattern: Pattern = Pattern.NEXT
    types: int = 100
    keys: int = 1_000
    events: int = 8_000_000
    window_ms: int = 1_000_000
    grouped: bool = True


def query_text(workload: Workload) -> str:
    """The workload's query in situ's language, with one subscription.

    >>> print(query_text(Workload(Pattern.RISING, window_ms=500)))
    stream Event(id int, key int, type int, value int, ts timestamp) time ts order id
    subscribe Rising
      detect Event(type = 0) as a then Event(type = 0 and value > a.value + 500) as b within 500 ms
      assign key = a.key, a = time(a), b = time(b)
      group by key
    """
    group_by = "\n  group by key" if workload.grouped else ""
    match workload.pattern:
        case Pattern.NEXT:
            return f"{STREAM}\n{_triple('Next', 0, 'then', workload.window_ms)}{group_by}"
        case Pattern.EACH:
            return f"{STREAM}\n{_triple('Each', 0, 'then each', workload.window_ms)}{group_by}"
        case Pattern.RISING:
            return (
                f"{STREAM}\n"
                "subscribe Rising\n"
                "  detect Event(type = 0) as a then Event(type = 0 and value > a.value + 500) as b "
                f"within {workload.window_ms} ms\n"
                f"  assign key = a.key, a = time(a), b = time(b){group_by}"
            )
        case _:
            assert_never(workload.pattern)


def many_queries_text(workload: Workload) -> str:
    """One subscription for every triple of neighbouring types: with 100 types, 98 of them.

    >>> many_queries_text(Workload(types=100)).count("subscribe")
    98
    """
    triples = [_triple(f"Next{i}", i, "then", workload.window_ms) for i in range(workload.types - 2)]
    return "\n".join([STREAM, *(f"{triple}\n  group by key" for triple in triples)])


def _triple(name: str, first_type: int, contiguity: str, window_ms: int) -> str:
    a, b, c = (f"Event(type = {first_type + i}) as {alias}" for i, alias in enumerate("abc"))
    return (
        f"subscribe {name}\n"
        f"  detect {a} {contiguity} {b} {contiguity} {c} within {window_ms} ms\n"
        "  assign key = a.key, a = time(a), b = time(b), c = time(c)"
    )


def splitmix64(ids: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """One well-mixed 64-bit hash for each id.

    >>> hex(splitmix64(np.array([0]))[0])
    '0xe220a8397b1dcdaf'
    """
    z = ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def events(first: int, last: int, types: int, keys: int) -> pa.Table:
    """The events first..last-1 as an Arrow table.

    >>> events(7, 9, types=100, keys=1000).column("id").to_pylist()
    [7, 8]
    """
    ids = np.arange(first, last, dtype=np.int64)
    h = splitmix64(ids)
    return pa.table(
        {
            "id": ids,
            "key": ((h >> np.uint64(40)) % np.uint64(keys)).astype(np.int32),
            "type": (((h >> np.uint64(20)) & np.uint64(0xFFFFF)) % np.uint64(types)).astype(np.int32),
            "value": ((h & np.uint64(0xFFFFF)) % np.uint64(1000)).astype(np.int32),
            "ts": pa.array(ids, pa.timestamp("ms")).cast(pa.timestamp("us", tz="UTC")),
        }
    )


def cache_directory() -> Path:
    """Where benchmarks keep what is slow to make: $XDG_CACHE_HOME/situ, else ~/.cache/situ."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "situ"


def stream_on_disk(workload: Workload, cache: Path) -> Path:
    """The directory of Parquet files with the workload's events; made once, then found."""
    name = f"events-{workload.events}-types-{workload.types}-keys-{workload.keys}"
    directory = cache / "bench" / name
    if directory.is_dir():
        return directory
    # Made aside and renamed, so that a directory of this name is always whole.
    unfinished = directory.with_name(f"{name}.{os.getpid()}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    edges = [workload.events * i // FILES for i in range(FILES + 1)]
    for i, (first, last) in enumerate(pairwise(edges)):
        table = events(first, last, workload.types, workload.keys)
        pq.write_table(table, unfinished / f"part-{i:03d}.parquet")
    unfinished.rename(directory)
    return directory
