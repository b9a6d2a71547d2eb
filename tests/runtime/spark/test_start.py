"""Silences that come first, in rules without groups, begin at the start that a query is told: on Spark in the one task
that owns the rule, also where no event ever comes to it."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.command import situ
from conformance.question import tagged_to_found
from runtime.spark.streaming_without_spark import StreamingQuery
from runtime.spark.without_spark import detect_without_spark, output_without_spark
from situ.graph.operators import OperatorGraph
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.embedded import Engine
from situ.runtime.spark.plan.plan import plan_on_spark
from situ.runtime.spark.stages.restart import Restart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAMS = """
stream X(v int, ts int) time ts in s
stream Y(v int, ts int) time ts in s
"""
#: In one task: of streams (`Quiet`, whose every event breaks the silence), and in a later stage, of complex events.
QUERY = f"""{STREAMS}
define High(v) detect X(v > 1) as one then X(v > one.v) as two within 1 s assign v = two.v group by v
subscribe Quiet detect no X for 2 s assign n = 1
subscribe Calm detect no High for 3 s as q then Y as y within 1 min assign v = y.v, over = time(q)
subscribe Each detect Y as y assign v = y.v
"""
SCHEMA = pa.schema({"v": pa.int64(), "ts": pa.int64()})
START = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
Seconds = Mapping[str, Sequence[int]]


def graph_of(text: str = QUERY, start: datetime | None = START) -> OperatorGraph:
    return Engine(text, start=start).graph


def rows(seconds: Seconds) -> dict[str, pa.Table]:
    """Events at these seconds, numbered by their values."""
    return {n: pa.table({"v": list(range(len(s))), "ts": list(s)}, SCHEMA) for n, s in seconds.items()}


def found_in(tables: Mapping[str, pa.Table]) -> dict[str, Counter[str]]:
    return {name: Counter(map(str, t.to_pylist())) for name, t in tables.items() if name != "High"}


def by_engine(seconds: Seconds, start: datetime | None = START) -> dict[str, Counter[str]]:
    outputs = list(Engine(QUERY, start=start).run(rows(seconds)))
    names = outputs[0].complex_events
    return found_in({name: pa.concat_tables([o.complex_events[name] for o in outputs]) for name in names})


@pytest.mark.parametrize(
    "seconds",
    [
        {"X": [], "Y": []},
        {"X": [], "Y": [2, 9]},
        {"X": [5, 6, 7, 8, 20], "Y": [3, 4, 9, 30]},
        {"X": [0, 2], "Y": [0, 12]},
    ],
    ids=["nothing", "nothing for one rule", "some", "before the start"],
)
def test_a_batch_begins_once(seconds: Seconds) -> None:
    expected = by_engine(seconds)
    assert expected != by_engine(seconds, start=None)
    for seed in range(8):
        tagged = detect_without_spark(graph_of(), rows(seconds), random.Random(seed))
        found = tagged_to_found(graph_of(), output_without_spark(graph_of()), tagged)
        assert found_in(found.complex_events) == expected


def test_a_plan_says_in_which_stages_one_task_begins() -> None:
    assert len(plan_on_spark(graph_of()).stages) == 2
    assert plan_on_spark(graph_of()).beginning_stages == (0, 1)
    assert plan_on_spark(graph_of(start=None)).beginning_stages == ()
    grouped = f"{STREAMS}subscribe Quiet detect no X for 2 s assign v = group.v group by v"
    assert plan_on_spark(graph_of(grouped)).beginning_stages == ()


@pytest.mark.parametrize("shards", [1, 3, 8])
def test_a_stream_begins_once_however_its_state_is_divided(shards: int) -> None:
    """Every step reads and writes the state; in some micro-batches only the other stream has rows, which lets a silence
    be over while nothing is held."""
    query = StreamingQuery(graph_of(), random.Random(shards), shards)
    batches = [{"Y": [2]}, {"X": [5, 6]}, {"Y": [9, 12]}, {"X": [13]}, {"Y": [20]}, {"X": [20]}, {"X": [30], "Y": [30]}]
    tagged = [query.micro_batch(rows(batch)) for batch in batches]
    found = found_in(tagged_to_found(query.graph, query.output, pa.concat_tables(tagged)).complex_events)
    engine = Engine(QUERY, start=START)
    outputs = [engine.feed(table, name) for batch in batches for name, table in rows(batch).items()]
    assert found == found_in(
        {name: pa.concat_tables([o.complex_events[name] for o in outputs]) for name in ("Quiet", "Calm", "Each")}
    )
    assert sum(count for row, count in found["Quiet"].items() if "0, 0, 3," in row) == 1
    assert found["Calm"]


def test_a_rule_that_comes_later_begins_no_earlier_than_it_came() -> None:
    before = graph_of(f"{STREAMS}subscribe Each detect X as x assign v = x.v")
    after = graph_of(f"{STREAMS}subscribe Each detect X as x assign v = x.v\nsubscribe Quiet detect no Y for 2 s")
    query = StreamingQuery(before, random.Random(1), 3)
    query.micro_batch(rows({"X": [10], "Y": [10]}))
    query = query.restarted(after, Restart(frozenset({"Quiet"})))
    tagged = [query.micro_batch(rows({"X": [second], "Y": [second]})) for second in (11, 16)]
    found = tagged_to_found(after, query.output, pa.concat_tables(tagged)).complex_events["Quiet"]
    assert [time.second for time in found.column("_time").to_pylist()] == [13]
    first, second = Engine(before, start=START), Engine(after, start=START)
    for name in "XY":
        first.feed(rows({name: [10]})[name], name)
    second.restore(first.snapshot(), changed=["Quiet"])
    outputs = [second.feed(rows({name: [s]})[name], name) for s in (11, 16) for name in "XY"]
    times = [t.second for o in outputs for t in o.complex_events["Quiet"].column("_time").to_pylist()]
    assert times == [13]


def test_a_silence_that_was_over_before_a_restart_does_not_begin_again() -> None:
    """Every event of the pattern breaks the silence, so nothing else would say that it had begun."""
    engine = Engine(QUERY, start=START)
    for name, second in (("X", 10), ("Y", 10), ("X", 20), ("Y", 40), ("X", 30), ("Y", 50), ("Y", 60)):
        engine.feed(rows({name: [second]})[name], name)
    state, engine = engine.snapshot(), Engine(QUERY, start=START)
    engine.restore(state)
    times = engine.feed(rows({"X": [70]})["X"], "X").complex_events["Quiet"].column("_time").to_pylist()
    assert [time.second for time in times] == [32]


# --- on Spark


def test_tables_without_rows(spark: SparkSession) -> None:
    """Spark by itself would make no task of them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from situ.runtime.spark.detect import detect

    nothing = spark.createDataFrame([], from_arrow_schema(SCHEMA))
    detection = detect(QUERY, {"X": nothing, "Y": nothing}, start=START)
    (row,) = detection.events.select("_name", "_time").collect()
    assert (row["_name"], row["_time"].timestamp()) == ("Quiet", 3.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "quiet.situ").write_text(QUERY)
    return tmp_path


def write(folder: Path, number: int, seconds: Seconds) -> None:
    for name, table in rows(seconds).items():
        path = folder / name / f"{number}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + number,) * 2)


def command(folder: Path, *options: object) -> tuple[int, str, str]:
    sources = [part for name in "XY" for part in ("--source", f"{name}={folder / name}")]
    return situ("run", folder / "quiet.situ", *sources, *options)


@pytest.mark.storm
def test_the_command_line(spark: SparkSession, folder: Path) -> None:
    """Files; then the same as streams, over two starts, of which the second goes on with the first one's start."""
    seconds = {"X": [5, 6, 7, 8, 20], "Y": [3, 4, 9, 30]}
    write(folder, 0, seconds)
    told = "--start", "1970-01-01T00:00:01"
    for engine in ("embedded", "spark"):
        code, out, error = command(folder, "--engine", engine, *told, "--limit", 0)
        expected = sum(of_rule.total() for of_rule in by_engine(seconds).values())
        assert (code, f"{expected} complex events in" in out) == (0, True), out + error
    following = "--follow", "--once", "--checkpoint", folder / "ck", "--out", folder / "out", "--shards", 3
    assert command(folder, *following, *told)[0] == 0
    write(folder, 1, {"X": [40], "Y": [40]})
    assert command(folder, *following)[0] == 0
    assert "was begun with --start 1970-01-01 00:00:01, not" in command(folder, *following, "--start", "1970-01-02")[2]
    quiet = pq.read_table(folder / "out" / "Quiet").column("_time").to_pylist()
    engine = Engine(QUERY, start=START)
    outputs = [engine.feed(t, n) for s in (seconds, {"X": [40], "Y": [40]}) for n, t in rows(s).items()]
    expected = [time for o in outputs for time in o.complex_events["Quiet"].column("_time").to_pylist()]
    assert sorted(t.timestamp() for t in quiet) == sorted(t.timestamp() for t in expected)
    assert len(expected) > 2


@pytest.mark.storm
def test_random_queries(spark: SparkSession, tmp_path: Path) -> None:
    """What the oracle says, of tables and streams."""
    from conformance.question import Merged, rows_of
    from conformance.spark_batch import SparkBatch
    from conformance.spark_streaming import SparkStreaming
    from conformance.test_random_queries import answer, quiet

    questions = [q for q in map(quiet, range(40)) if plan_on_spark(replace(q.graph, start_us=0)).beginning_stages]
    questions = [replace(q, graph=replace(q.graph, start_us=1_000_000)) for q in questions]
    questions = [q for q in questions if answer(q) is not None][:8]
    assert len(questions) > 3
    endless = [q for q in questions if not q.ends_only]
    for way, asked in ((SparkBatch(spark, mixed=True), questions), (SparkStreaming(spark, tmp_path), endless)):
        merged = Merged.of(asked)
        graph = replace(resolve(parse(merged.whole.text)), start_us=1_000_000)
        answers = merged.answers(way.run(replace(merged.whole, graph=graph), random.Random(1)))
        for question, found in zip(asked, answers, strict=True):
            assert rows_of(question, found) == answer(question), question
