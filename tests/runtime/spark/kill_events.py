"""Rows in micro-batches for the query of `kill_query.py`, and what is to be found in them."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from runtime.spark.kill_query import COLUMNS, FUNCTIONS, QUERY
from situ.lang.parse import parse
from situ.runtime.embedded import Engine

SECOND = 1_000_000
#: Of event time, in each micro-batch.
STEP_US = 3 * SECOND

Row: TypeAlias = dict[str, Any]
#: The rows of every stream, for each micro-batch.
Batches: TypeAlias = list[dict[str, list[Row]]]
#: Kind, name and content of results, and how often they are there.
Found: TypeAlias = Counter[tuple[str, str, frozenset[tuple[str, Any]]]]


# --- events


def make_batches(seed: int, number: int) -> Batches:
    """Rows that are roughly in order; some are late, some come again, some have no time. The last are far away, and of
    interest to no rule: all that time decides is decided then."""
    rng = random.Random(seed)
    ids = iter(range(10**6))

    def moment(batch: int, late_us: int) -> int | None:
        return None if rng.random() < 0.01 else batch * STEP_US + rng.randrange(-late_us, STEP_US)

    batches: Batches = []
    before: list[Row] = []
    for batch in range(number - 1):
        readings: list[Row] = []
        for _ in range(30):
            value = rng.randrange(-10, 100)
            readings.append(
                {"id": next(ids), "sensor": rng.randrange(6), "value": value, "ts": moment(batch, 4_500_000)}
            )
        readings += rng.sample([*readings, *before], 4)
        before = readings
        alarms = [
            {"id": next(ids), "zone": rng.randrange(3), "level": rng.randrange(6), "ts": moment(batch, 3_000_000)}
            for _ in range(4)
        ]
        batches.append({"Reading": readings, "Alarm": alarms})
    far = number * STEP_US + 3600 * SECOND
    reading, alarm = ({"id": next(ids), "ts": far} for _ in range(2))
    return [*batches, {"Reading": [reading | {"sensor": 0, "value": -1}], "Alarm": [alarm | {"zone": 0, "level": 0}]}]


def to_table(stream: str, rows: list[Row]) -> pa.Table:
    names = [column.split()[0] for column in COLUMNS[stream].split(", ")]
    types = {name: pa.timestamp("us", tz="UTC") if name == "ts" else pa.int32() for name in names}
    return pa.table({name: pa.array([row[name] for row in rows], type_) for name, type_ in types.items()})


def write_input(directory: Path, batches: Batches) -> None:
    for number, batch in enumerate(batches):
        for stream, rows in batch.items():
            file = directory / "in" / stream / f"{number:03}.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(to_table(stream, rows), file)
            os.utime(file, (number, number))  # Spark reads the oldest first


# --- what is to be found


def expected(batches: Batches) -> Found:
    """The batch result on all rows that are not late, and the late ones."""
    in_time, found = _judged(batches)
    engine = Engine(QUERY, FUNCTIONS, show_definitions=True)
    for output in engine.run({name: to_table(name, rows) for name, rows in in_time.items()}):
        for kind, tables in (
            ("complex event", output.complex_events),
            ("timed out", output.timed_out),
            ("rejected", output.rejected),
        ):
            for name, table in tables.items():
                found += counted(table, kind, name)
    return found


def _judged(batches: Batches) -> tuple[dict[str, list[Row]], Found]:
    """The rows that are in time, and those that are late, of which a rule would have read. Late is what is earlier
    than the latest of its stream in earlier micro-batches, less the watermark, or than what has passed everywhere."""
    watermarks = {stream.name: stream.watermark_us for stream in parse(QUERY).streams}
    own = dict.fromkeys(watermarks, -(10**15))
    passed = -(10**15)
    in_time: dict[str, list[Row]] = {name: [] for name in watermarks}
    late: Found = Counter()
    for batch in batches:
        for name, rows in batch.items():
            limit = max(own[name], passed)
            for row in rows:
                if row["ts"] is None or row["ts"] >= limit:
                    in_time[name].append(row)
                elif row.get("value", -1) >= 0 or row.get("level", 0) > 2:
                    content = {"_time": row["ts"], "_lateness": limit - row["ts"], "id of the row": row["id"]}
                    late["late", name, frozenset(content.items())] += 1
        for name, rows in batch.items():
            latest = max(row["ts"] for row in rows if row["ts"] is not None)
            own[name] = max(own[name], latest - watermarks[name])
        passed = max(passed, min(own.values()))
    return in_time, late


# --- what is found


def counted(table: pa.Table, kind: str = "", name: str = "") -> Found:
    """Rows without what is null in them, and without the place of a rejected one, which the sink does not decide."""
    for number, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
            table = table.set_column(number, column.name, table.column(number).cast(pa.int64()))
    rows = table.to_pylist()
    return Counter((row.pop("_kind", kind), row.pop("_name", name), _content(row)) for row in rows)


def _content(row: Row) -> frozenset[tuple[str, Any]]:
    content = {key: value for key, value in row.items() if value is not None and key != "_place"}
    if "_row" in content:
        content["id of the row"] = json.loads(content.pop("_row"))["id"]
    return frozenset(content.items())


def found_in_files(out: Path) -> Found:
    """In a directory of the file sink."""
    found: Found = Counter()
    folders = {"": "complex event", "_timed_out/": "timed out", "_late/": "late", "_rejected/": "rejected"}
    for folder, kind in folders.items():
        for file in out.glob(f"{folder}[A-Z]*/*.parquet"):
            found += counted(pq.ParquetFile(file).read(), kind, file.parent.name)
    return found


def assert_same(found: Found, wanted: Found) -> None:
    lost, doubled = wanted - found, found - wanted
    assert not lost, f"{lost.total()} lost: {sorted(map(str, lost))[:5]}"
    assert not doubled, f"{doubled.total()} too many: {sorted(map(str, doubled))[:5]}"
