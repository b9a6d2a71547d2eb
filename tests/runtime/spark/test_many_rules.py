"""Rules of one shape on the Python parts of the Spark engine, beside each of them by itself: batches, and streams whose
rules come and go with restarts. Conditions are judged by Catalyst (here: by the kernel) or by the index in the packer.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from conformance.embedded import Whole
from conformance.question import Question, rows_of
from conformance.spark_batch import SparkBatch
from conformance.spark_streaming import SparkStreaming
from flow.test_families import alone, fed, is_bounded, resolved, rules_like, seeds, some, some_scenario
from runtime.comparison import tables
from runtime.spark.streaming_without_spark import StreamingQuery, found_in
from runtime.spark.without_spark import detect_without_spark, output_without_spark
from situ.core.errors import QueryError
from situ.core.functions import default
from situ.graph.operators import OperatorGraph
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.spark.follow.rule_change import change_of
from situ.runtime.spark.plan.plan import plan_on_spark
from situ.runtime.spark.stages.restart import Restart
from situ.runtime.spark.stages.stage_flow import stage_programs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Found = dict[str, Counter[tuple[Any, ...]]]
FAR_S = 1000


def of_rule(found: Found, name: str) -> Found:
    return {key: rows for key, rows in found.items() if key in (name, f"{name} timed out") and rows}


def batch(graph: OperatorGraph, events: dict[str, pa.Table], rng: random.Random) -> Found:
    return found_in(graph, output_without_spark(graph), detect_without_spark(graph, events, rng))


@pytest.mark.parametrize("block", seeds(12, 12))
def test_rules_that_run_as_one_in_a_batch_find_what_each_finds(block: range) -> None:
    complex_events = 0
    for seed in block:
        rng = random.Random(seed)
        scenario = some_scenario(seed, duplicates=seed % 4 == 0)
        query = rules_like(scenario, rng)
        graph = resolved(query)
        if graph is None:
            continue
        found = batch(graph, tables(graph, scenario.events), rng)
        for subscription in query.subscriptions:
            own = alone(query, subscription.name)
            expected = of_rule(batch(own, tables(own, scenario.events), rng), subscription.name)
            assert of_rule(found, subscription.name) == expected, (seed, subscription.name)
            complex_events += sum(map(len, expected.values()))
    assert complex_events > len(block) // 2


@pytest.mark.parametrize("block", seeds(6, 6))
def test_rules_that_run_as_one_in_a_stream_come_and_go_with_restarts(block: range) -> None:
    """A rule that stays goes on with its state: its own, or that of all rules together. Whether Catalyst or the index
    judges conditions may change with the rules."""
    complex_events = changes = 0
    for seed in block:
        rng = random.Random(seed)
        scenario = some_scenario(seed, most=14, duplicates=seed % 4 == 0)
        query = rules_like(scenario, rng)
        graph = resolved(query)
        if graph is None or not is_bounded(graph):
            continue
        names = [subscription.name for subscription in query.subscriptions]
        levels, shards = len(plan_on_spark(graph).stages), rng.choice([1, 2])
        here = {name for name in names if rng.random() < 0.7} or {names[0]}
        running = StreamingQuery(some(query, here), rng, shards, levels, most_in_catalyst=rng.choice([0, 100]))
        by_itself = {name: StreamingQuery(alone(query, name), rng, shards, levels) for name in here}
        found: Found = {}
        expected: Found = {}
        last = {stream.name: [_far_row(graph, stream.name)] for stream in graph.streams}
        for piece in [*fed(scenario.events, rng), last]:
            _add(found, running, piece)
            for name, one in by_itself.items():
                _add(expected, one, piece, name)
            come = {name for name in names if name not in here and rng.random() < 0.5}
            stay = {name for name in here if rng.random() < 0.8} | come
            if rng.random() < 0.4 and stay and _may_change(running.graph, some(query, stay), levels):
                let_go = Restart(frozenset(names))
                own = {name: by_itself[name] for name in sorted(here & stay) if rng.random() < 0.5}
                by_itself = {
                    name: own[name] if name in own else running.restarted(alone(query, name), let_go)
                    for name in sorted(stay)
                    if name in own or _may_change(running.graph, alone(query, name), levels)
                }
                running = running.restarted(some(query, stay), let_go, rng.choice([0, 100]))
                here, changes = stay, changes + 1
                if {*by_itself} != here:
                    break
        for name in by_itself:
            if name in here:
                assert of_rule(found, name) == of_rule(expected, name), (seed, name)
                complex_events += sum(map(len, of_rule(found, name).values()))
    assert complex_events > len(block) // 4
    assert changes > len(block) // 2


def _far_row(graph: OperatorGraph, stream: str) -> dict[str, Any]:
    return dict.fromkeys(graph.schemas[stream].names) | {"ts": FAR_S}


def _add(found: Found, query: StreamingQuery, piece: Any, name: str | None = None) -> None:
    arrived = {stream: table for stream, table in tables(query.graph, piece).items() if table.num_rows}
    for key, rows in query.found([query.micro_batch(arrived)]).items():
        if name is None or key in (name, f"{name} timed out"):
            found[key] = found.get(key, Counter()) + rows


def _may_change(before: OperatorGraph, after: OperatorGraph, levels: int) -> bool:
    try:
        change_of(plan_on_spark(before), plan_on_spark(after), levels, default)
    except QueryError:
        return False
    return True


RULES = "stream A(k int, v int, ts int) time ts in s\n" + "\n".join(
    f"subscribe R{n} detect A(v = {n}) as a then A(v > a.v + {n % 3}) as b within 9 s assign k = a.k group by k"
    for n in range(200)
)


def test_many_conditions_are_left_to_an_index() -> None:
    plan = plan_on_spark(resolve(parse(RULES)))
    assert "201 tests by an index: in the kernel; Catalyst judges no more than" in str(plan)
    assert "R0, R1" in str(plan)
    assert "and 180 more, from A" in str(plan)
    assert len(str(plan)) < 2000
    programs = stage_programs(plan, plan.stages[0], default, owns=True)
    assert len({id(programs.template(name)) for name in programs}) == 1
    assert not programs._compiled  # rules of one shape are not compiled one by one


#: Rules of five shapes: a join of two events, an absence with timed-out output, a loop that consumes, a window, and a
#: condition that reads one event alone.
SHAPES = (
    "detect A(v = {n}) as a then A(v > a.v + {c}) as b within 9 s assign k = a.k, rule = '{n}' group by k",
    "detect A(v = {n} and k > {c}) as a then not A(v = {c}) within 4 s assign k = a.k group by k report timed out",
    "detect A(v in ({n}, {c}))+ as a then A(k = {c}) as b within 7 s assign n = count(a) consuming a",
    "aggr every 10 s detect A(v < {n}) assign n = count(A), c = {c} group by k",
    "detect A(v = {n} and k != {c}) as a assign k = a.k, v = a.v + {c}",
)


def rules_of_several_shapes(count: int) -> Question:
    stream = "stream A(k int, v int, ts int) time ts in s\n"
    rules = (f"subscribe R{n} {SHAPES[n % 5].format(n=n, c=n % 4)}" for n in range(count))
    text, rng = stream + "\n".join(rules), random.Random(count)
    rows = [(rng.randrange(5), rng.randrange(count), ts) for ts in range(400)]
    k, v, ts = (pa.array(column, pa.int64()) for column in zip(*rows, strict=True))
    return Question("many rules", text, resolve(parse(text)), {"A": pa.table({"k": k, "v": v, "ts": ts})})


def found_one_by_one(question: Question) -> Any:
    """What each rule finds in an engine of its own."""
    rules = question.graph.query.subscriptions
    found: Any = {}
    for rule in rules:
        own = resolve(replace(question.graph.query, subscriptions=(rule,)))
        one = Question(rule.name, "", own, question.events)
        found |= rows_of(one, Whole().run(one, random.Random(0)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("count", [90, pytest.param(600, marks=pytest.mark.storm)])
def test_many_rules_on_spark_find_what_each_finds(spark: SparkSession, count: int, tmp_path: Path) -> None:
    """Over tables and as a stream; conditions are more than Catalyst judges."""
    question = rules_of_several_shapes(count)
    assert plan_on_spark(question.graph).reads[0].indexed
    expected = found_one_by_one(question)
    assert sum(map(len, expected.values())) > count
    for executor in (SparkBatch(spark, mixed=True), SparkStreaming(spark, tmp_path)):
        found = rows_of(question, executor.run(question, random.Random(count)))
        assert found == expected
