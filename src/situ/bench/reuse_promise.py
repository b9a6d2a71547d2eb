"""Whether what is promised of a quality holds on both traces, on every engine: nothing below, every figure true, and
the same from all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from situ.bench.reuse_streaming import streamed, write_pieces
from situ.bench.reuse_truth import PromiseKept, kept
from situ.bench.sections import Say
from situ.bench.sharing_drivers import TOLD, TRACES, Tables, between, second_by_second, tables_of
from situ.bench.suite import Bar, BenchFigure
from situ.runtime.embedded import Engine
from situ.runtime.spark.detect import detect
from situ.runtime.spark.session.session import borrowed_session

DRIVERS, SINCE_S, UNTIL_S = 300, 400, 700
#: Micro-batches of so many seconds, in so many shards.
BATCH_S, SHARDS = 20, 3
#: Who lets time pass at the end of a stream: in no one's square, long after all others.
LAST_DRIVER, LAST_S, FAR_M = "~", 3_600, 1e6

Found = dict[str, pa.Table]


def promise_figures(say: Say) -> Iterator[BenchFigure]:
    """Hold what each engine delivers against raw events, and against what the others deliver."""
    total, differing, rows = PromiseKept(), 0, 0
    with borrowed_session(conf={"spark.sql.shuffle.partitions": str(SHARDS)}) as spark:
        for trace in TRACES:
            tables = between(tables_of(trace, DRIVERS), SINCE_S, UNTIL_S)
            whole: Found = {}
            for engine, found in _by_engine(spark, _with_an_end(tables)):
                whole = whole or found
                for name, table in found.items():
                    total += kept(name, table, tables)
                    differing += not table.equals(whole[name])
                    rows += table.num_rows
                say(f"{engine}, {trace}: {total}")
    engines = f"{DRIVERS} drivers, {UNTIL_S - SINCE_S} s, both traces; embedded, fed, Spark batch and streaming"
    detail = f"{engines}: {total.spans:,} spans, {total.between:,} of them where regions change"
    none = Bar("at most", 0)
    yield BenchFigure("spans below their thresholds", total.below, "spans", detail, {}, none)
    detail = f"precision and recall on {rows:,} results, by raw events"
    yield BenchFigure("figures that differ from the oracle's by more than 1e-9", total.wrong, "spans", detail, {}, none)
    detail = "of windows and of a pattern, all rows with their figures and regions"
    yield BenchFigure("engines that deliver something else", differing, "of 16", detail, {}, none)


def _with_an_end(tables: Tables) -> Tables:
    last = {"time_us": (UNTIL_S + LAST_S) * 1_000_000, "vehicle": LAST_DRIVER, "x": FAR_M, "y": FAR_M, "speed": 99.0}
    return {
        name: pa.concat_tables([table, pa.Table.from_pylist([last], table.schema)]) for name, table in tables.items()
    }


def _by_engine(spark: SparkSession, tables: Tables) -> Iterator[tuple[str, Found]]:
    yield "embedded", _in_order([output.complex_events for output in Engine(TOLD).run(tables)])
    engine, outputs = Engine(TOLD), []
    for piece in second_by_second(tables):
        outputs += [engine.feed(table, name).complex_events for name, table in piece.items()]
    yield "fed", _in_order([*outputs, engine.close().complex_events])
    detection = detect(TOLD, {name: spark.createDataFrame(table) for name, table in tables.items()})
    yield "Spark", _in_order([{name: detection[name].toArrow() for name in detection.names}])
    with tempfile.TemporaryDirectory() as directory:
        write_pieces(tables, BATCH_S, Path(directory))
        yield "Spark streaming", _in_order([streamed(spark, TOLD, Path(directory), SHARDS)])


def _in_order(outputs: list[Found]) -> Found:
    """All that was found, by subscription, in an order that all engines can give; without who lets time pass."""
    found = {}
    for name in outputs[0]:
        table = pa.concat_tables([output[name] for output in outputs])
        table = table.filter(pc.not_equal(table["consumer"], LAST_DRIVER))
        columns = sorted(column for column in table.column_names if column == "_time" or not column.startswith("_"))
        table = table.select(columns).set_column(
            columns.index("_time"), "_time", table["_time"].cast(pa.timestamp("us", "UTC"))
        )
        found[name] = table.sort_by([(column, "ascending") for column in columns]).combine_chunks()
    return found
