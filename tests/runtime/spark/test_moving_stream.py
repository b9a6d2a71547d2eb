"""Moving subscriptions on unbounded input, as Spark runs them, but in this process."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from mobility.interests_by_words import Delivered, Row
from mobility.test_moving import (
    INTERESTS,
    RULES,
    SCHEMA,
    by_arrival,
    by_consumer,
    in_order,
    random_events,
    rows_of,
    text_of,
)
from runtime.spark.streaming_without_spark import StreamingQuery
from seed_blocks import every_one
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.embedded import Engine
from situ.runtime.spark.stages.output import COMPLEX_EVENT, TaggedOutput

Piece = dict[str, pa.Table]


def pieces_of(
    rng: np.random.Generator, events: dict[str, list[Row]], schema: pa.Schema = SCHEMA, most: int = 12
) -> list[Piece]:
    """Micro-batches, out of order within the watermark, and last one that lets all time pass."""
    waiting = {name: by_arrival(rng, rows) for name, rows in events.items()}
    pieces = []
    while any(waiting.values()):
        piece = {}
        for name in waiting:
            number = int(rng.integers(0, most))
            rows, waiting[name] = waiting[name][:number], waiting[name][number:]
            if rows:
                piece[name] = pa.Table.from_pylist(rows, schema)
        pieces.append(piece)
    end = {"id": 0, "x": None, "y": 0.0, "v": 0, "ts": 1000}
    return [*pieces, {name: pa.Table.from_pylist([end], schema) for name in events}]


def found_by(text: str, pieces: list[Piece]) -> list[Delivered]:
    """What the embedded engine finds in the same pieces, and does not wait for."""
    engine, found = Engine(text), []
    for piece in pieces:
        for name, table in piece.items():
            found += rows_of(engine.feed(table, name).complex_events["Near"])
    return by_consumer(found)


def streamed(query: StreamingQuery, pieces: list[Piece]) -> list[Delivered]:
    found = []
    for piece in pieces:
        rows = near_of(query.output, query.micro_batch(piece))
        found += sorted(rows, key=lambda row: row[:3])  # of one micro-batch, Spark's rows have no order
    return by_consumer(found)


def near_of(output: TaggedOutput, rows: pa.Table) -> list[Delivered]:
    """The complex events of `Near` in the tagged table."""
    (operator,) = (o for o in output.operators if o.name == "Near")
    names = {name: output.columns["Near", name][0] for name in operator.schema.names}
    rows = rows.filter((pa.compute.field("_name") == "Near") & (pa.compute.field("_kind") == COMPLEX_EVENT))
    return rows_of(pa.table({name: rows[column] for name, column in names.items()} | {"_time": rows["_time"]}))


@pytest.mark.parametrize(
    ("shards", "seeds"), [(3, [4]), *(pytest.param(shards, [0, 1, 2], marks=pytest.mark.storm) for shards in (1, 3))]
)
@every_one("rule", RULES, "interest", INTERESTS[:3])
def test_shards_find_what_the_embedded_engine_finds(rule: str, interest: str, shards: int, seeds: list[int]) -> None:
    text = text_of(rule, interest).replace("at (x, y)", "at (x, y) watermark 3 s")
    some = 0
    for seed in seeds:
        rng = np.random.default_rng([shards, len(rule), seed])
        pieces = pieces_of(rng, random_events(rng, seconds=20))
        expected = found_by(text, pieces)
        query = StreamingQuery(resolve(parse(text)), random.Random(shards), shards)
        assert in_order(streamed(query, pieces)) == in_order(expected)
        some += len(expected)
    assert some
