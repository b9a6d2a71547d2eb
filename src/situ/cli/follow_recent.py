"""The last complex events of a streaming query, for a person who watches: where results go if nobody says where.

Spark may call a sink in another process than this one (Spark Connect does), so the rows come by files, which go as
soon as they have been read.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from situ.cli.recent_events import RecentEvents, latest
from situ.io.permissions import PRIVATE
from situ.runtime.spark.sinks.result_tables import Tables, bytes_to_table, table_to_bytes
from situ.runtime.spark.stages.output import COMPLEX_EVENT, TaggedOutput

_ROWS = "name string, rows bigint, packed binary"
_ARROW = pa.schema([("name", pa.string()), ("rows", pa.int64()), ("packed", pa.binary())])


@dataclass(frozen=True)
class RecentSink:
    """Counts the complex events of a micro-batch, and keeps the last `limit` of each subscription."""

    directory: Path
    output: TaggedOutput
    limit: int

    def write(self, events: DataFrame, batch: int) -> None:
        # All rows are read, whatever is kept of them: Spark keeps the state of tasks only that it has run to the end.
        complex_events = events.filter(F.col("_kind") == COMPLEX_EVENT)
        rows = complex_events.mapInArrow(LastFew(Tables(self.output), self.limit), _ROWS).collect()
        if rows:
            PRIVATE.make_directory(self.directory)
            table = pa.Table.from_pylist([row.asDict() for row in rows], _ARROW)
            unfinished = self.directory / f".{batch}"
            with PRIVATE.open_new(unfinished) as file:
                file.write(table_to_bytes(table))
            os.replace(unfinished, self.directory / str(batch))


@dataclass(frozen=True)
class LastFew:
    """Gives, in a task, how many complex events there are of each subscription, and the last of them."""

    tables: Tables
    limit: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts: Counter[str] = Counter()
        latest_rows: dict[str, pa.Table] = {}
        for batch in batches:
            for _, name, table in self.tables.split(batch):
                counts[name] += table.num_rows
                latest_rows[name] = latest([latest_rows[name], table] if name in latest_rows else [table], self.limit)
        rows = [
            {"name": name, "rows": counts[name], "packed": table_to_bytes(table)} for name, table in latest_rows.items()
        ]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, _ARROW)


@dataclass(frozen=True)
class RecentDirectory:
    """What `RecentSink` left in a directory."""

    directory: Path
    limit: int

    def take(self) -> dict[str, RecentEvents]:
        """Takes out all complex events that came since the last call, by subscription."""
        counts: Counter[str] = Counter()
        tables: dict[str, list[pa.Table]] = {}
        for path in sorted((p for p in self.directory.glob("[0-9]*") if p.name.isdigit()), key=lambda p: int(p.name)):
            for row in bytes_to_table(path.read_bytes()).to_pylist():
                table = bytes_to_table(row["packed"])
                counts[row["name"]] += row["rows"]
                earlier = tables.setdefault(row["name"], [])
                if earlier and earlier[0].schema != table.schema:  # the rule has been replaced
                    earlier.clear()
                earlier.append(table)
            path.unlink()
        return {name: RecentEvents(counts[name], latest(parts, self.limit)) for name, parts in tables.items()}

    def clear(self) -> None:
        """Forget what an earlier run has left."""
        for path in self.directory.glob("*"):
            path.unlink()
