"""Golden snapshots: bytes that lie beside the tests, so that a change of their format is noticed.

    cd tests && ../.venv/bin/python -m conformance.golden     # writes those of this version anew

A change of format raises `situ.kernel.state.snapshot.VERSION`: the bytes of the version before stay where they are,
and the tests ask that they be refused with a clear message.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from runtime.comparison import tables
from runtime.spark.streaming_without_spark import StreamingQuery
from situ.kernel.state import snapshot
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.embedded import Engine
from strategies import Rows

DIRECTORY = Path(__file__).parent / "golden"

STREAMS = """
stream A(k string, v int, x double, y double, ts int) time ts in s  at (x, y)  watermark 2 s
stream B(k string, v int, x double, y double, ts int) time ts in s  unique v
"""

#: Together they have every kind of state.
QUERIES = {
    "patterns": """
        subscribe Pairs   detect A as a then B(v > a.v) as b within 9 s assign k = a.k, v = b.v group by k
        subscribe Loops   detect A(v < 5)+ as a then B as b within 9 s assign n = count(a), v = b.v
                          after match skip past last
        subscribe Absent  detect A as a then not B(v > 7) within 6 s assign v = a.v report timed out
        subscribe Last    detect A as a then last B as b within 9 s assign a = a.v, b = b.v consuming b
    """,
    "windows": """
        define   Rise(k, v) detect A as a then A(v > a.v) as b within 5 s assign k = a.k, v = b.v group by k
        subscribe Sums    aggr every 5 s over 10 s detect Rise assign n = count(Rise), v = sum(Rise.v) group by k
        subscribe Tens    aggr every 10 events detect A assign v = max(A.v)
        subscribe Joined  join every 5 s on k detect A as a and B as b assign v = a.v - b.v
    """,
    "moving": """
        subscribe Near for A(k)
          detect A as a then A(v > a.v) as b within 6 s assign v = b.v
          around A square 60 m lifetime 5 s
        subscribe Shared for A(k)
          detect A as a then A(v > a.v) as b within 6 s assign v = b.v
          around A square 60 m lifetime 5 s quality precision 0.5 recall 0.5
    """,
}
#: The state of a shard of a streaming query, as Spark keeps it.
STREAMED = ("patterns", "windows")
SHARD = (0, 0)


def rows_until(begin_s: int, end_s: int) -> Rows:
    """Events of these seconds, the same every time."""
    rng = random.Random(5)
    events: Rows = {"A": [], "B": []}
    for second in range(end_s):
        for stream in "AB":
            row: dict[str, Any] = {"k": rng.choice("abc"), "v": rng.randrange(10)}
            row |= {"x": rng.randrange(80) * 1.0, "y": rng.randrange(80) * 1.0, "ts": second}
            events[stream] += [row] * (second >= begin_s)
    return events


#: The snapshot is made after the first part.
PARTS = (rows_until(0, 12), rows_until(12, 30))


def engine_of(name: str) -> Engine:
    return Engine(STREAMS + QUERIES[name])


def feed(engine: Engine, rows: Rows) -> list[tuple[str, list[dict[str, Any]]]]:
    """What the engine finds in these rows."""
    outputs = [engine.feed(table, stream) for stream, table in tables(engine.graph, rows).items()]
    return [(name, table.to_pylist()) for output in outputs for name, table in output.complex_events.items()]


def streamed(name: str) -> StreamingQuery:
    """A streaming query in one shard that has read the first part."""
    query = StreamingQuery(resolve(parse(STREAMS + QUERIES[name])), random.Random(1), shards=1)
    query.micro_batch(tables(query.graph, PARTS[0]))
    return query


def snapshots() -> dict[str, bytes]:
    """The bytes that this version of situ writes, by the name of their file."""
    made = {}
    for name in QUERIES:
        engine = engine_of(name)
        feed(engine, PARTS[0])
        made[f"{name}.snapshot"] = engine.snapshot()
    return made | {f"{name}.shard": streamed(name).states[SHARD] for name in STREAMED}


def shown(contents: Mapping[str, pa.Table]) -> dict[str, tuple[str, list[dict[str, Any]]]]:
    """The tables of a snapshot with their columns, types and digests: what another Arrow writes in other bytes, too."""
    return {name: (str(table.schema), table.to_pylist()) for name, table in contents.items()}


def directory_of(version: int) -> Path:
    return DIRECTORY / f"version-{version}"


def main() -> None:
    """Writes the golden snapshots of this version."""
    directory = directory_of(snapshot.VERSION)
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in snapshots().items():
        (directory / name).write_bytes(data)
        print(f"{directory / name}: {len(data):,} bytes")


if __name__ == "__main__":
    main()
