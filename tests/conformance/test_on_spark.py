"""Spark gives what the files, Flink and the oracle say. Several questions are one query, and so one job.

A query of all of them would take longer: each of its tasks is sent the whole plan.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cases.case_file import Case, Found, compare, load
from conformance.flink import load as load_flink
from conformance.question import (
    Executor,
    Merged,
    Question,
    case_to_question,
    flink_to_question,
    rows_of,
    scenario_to_question,
)
from conformance.spark_batch import SparkBatch
from conformance.spark_files import SparkFiles
from conformance.spark_streaming import SparkStreaming
from conformance.test_cases import FILES, only_subscribed
from conformance.test_random_queries import answer, one_rule, quiet, several_rules
from conformance.ways import NOT_IN_TASKS, WAYS
from situ.runtime.spark.plan.plan import plan_on_spark
from strategies import random_scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

#: So many cases are one query; streaming ones cost more to start than to grow.
TOGETHER, STREAMED_TOGETHER = 8, 16
CASES = [load(path) for path in FILES if path.stem not in NOT_IN_TASKS]
BOUNDED = [case for case in CASES if not case.unbounded]
WITHOUT_END = [case for case in BOUNDED if not case_to_question(case).ends_only]
ARRIVING = [case for case in CASES if case.unbounded]


def groups(cases: Sequence[Case], size: int) -> list[list[Case]]:
    return [list(cases[begin : begin + size]) for begin in range(0, len(cases), size)]


def names(cases: Sequence[Case]) -> str:
    return f"{cases[0].name}..{cases[-1].name}"


def in_one_run(executor: Executor, questions: Sequence[Question], seed: int) -> Iterator[Found]:
    """What one run of all of them finds, question by question."""
    merged = Merged.of(questions)
    yield from merged.answers(executor.run(merged.whole, random.Random(seed)))


def check_cases(executor: Executor, cases: Sequence[Case]) -> None:
    answers = in_one_run(executor, [case_to_question(case) for case in cases], seed=1)
    for case, found in zip(cases, answers, strict=True):
        shown, expected = compare(case, lambda case, found=found: only_subscribed(case, found))  # type: ignore[misc]
        assert shown == expected, case.name


def check_questions(executor: Executor, questions: Sequence[Question], seed: int) -> None:
    answers = in_one_run(executor, questions, seed)
    for question, found in zip(questions, answers, strict=True):
        assert rows_of(question, found) == answer(question), question


def test_many_cases_in_batches(spark: SparkSession) -> None:
    """Of every kind one or two; the batch stage, which answers here, is asked all of them without Spark."""
    for cases in groups(BOUNDED[::3], TOGETHER):
        check_cases(SparkBatch(spark), cases)


@pytest.mark.storm
@pytest.mark.parametrize("cases", groups(BOUNDED, TOGETHER), ids=names)
def test_cases_in_batches(spark: SparkSession, cases: list[Case]) -> None:
    check_cases(SparkBatch(spark), cases)


def test_a_few_cases_in_files(spark: SparkSession, tmp_path: Path) -> None:
    """Of every kind one; `packets of files` and `slices of files`, which answer here, are asked all of them without
    Spark."""
    check_cases(SparkFiles(spark, tmp_path), BOUNDED[2::9])


@pytest.mark.storm
@pytest.mark.parametrize("cases", groups(BOUNDED, TOGETHER), ids=names)
def test_cases_in_files(spark: SparkSession, tmp_path: Path, cases: list[Case]) -> None:
    check_cases(SparkFiles(spark, tmp_path), cases)


def test_a_few_cases_in_streams(spark: SparkSession, tmp_path: Path) -> None:
    """Of every kind one; the stream stage, which answers here, is asked all of them without Spark."""
    check_cases(SparkStreaming(spark, tmp_path, micro_batches=1), WITHOUT_END[1::9])


@pytest.mark.storm
@pytest.mark.parametrize("cases", groups(WITHOUT_END, STREAMED_TOGETHER), ids=names)
def test_cases_in_streams(spark: SparkSession, tmp_path: Path, cases: list[Case]) -> None:
    check_cases(SparkStreaming(spark, tmp_path, micro_batches=1), cases)


@pytest.mark.storm
def test_rows_that_may_be_late_in_streams(spark: SparkSession, tmp_path: Path) -> None:
    """Lateness is judged micro-batch by micro-batch: each of these has one row."""
    check_cases(SparkStreaming(spark, tmp_path, micro_batches=100), ARRIVING)


@pytest.mark.connect
@pytest.mark.skipif("SPARK_REMOTE" not in os.environ, reason="the tests above ask for more than this without Connect")
def test_a_few_cases_on_connect(spark: SparkSession, tmp_path: Path) -> None:
    """On Spark Connect, what a query finds cannot differ, only how rows come and go: a few are enough."""
    check_cases(SparkBatch(spark), BOUNDED[::8])
    check_cases(SparkStreaming(spark, tmp_path, micro_batches=2), WITHOUT_END[4::9])


# --- Flink's cases: what the embedded engine answers, which is what Flink answers


@pytest.mark.storm
def test_flinks_cases(spark: SparkSession) -> None:
    questions = [flink_to_question(case) for case in load_flink()[::12]]
    for question, found in zip(questions, in_one_run(SparkBatch(spark), questions, 1), strict=True):
        whole = WAYS["embedded whole"].run(question, random.Random(1))
        assert rows_of(question, found) == rows_of(question, whole), question


# --- random queries


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[Callable[..., None]]:
    """Tells Spark how to run what follows, and takes it back."""
    named = {
        "partitions": "spark.sql.shuffle.partitions",
        "adaptive": "spark.sql.adaptive.enabled",
        "rows": "spark.sql.execution.arrow.maxRecordsPerBatch",
    }
    before = {key: spark.conf.get(key, None) for key in named.values() if key in spark.conf.getAll}

    def change(**values: object) -> None:
        for name, value in values.items():
            spark.conf.set(named[name], str(value))

    yield change
    for key in named.values():
        spark.conf.set(key, before[key]) if key in before else spark.conf.unset(key)


@pytest.mark.parametrize(
    ("first", "partitions", "adaptive", "rows"),
    [
        (40_005, 3, "false", 1),
        pytest.param(40_000, 1, "true", 10_000, marks=pytest.mark.storm),
        pytest.param(40_010, 8, "true", 3, marks=pytest.mark.storm),
    ],
)
@pytest.mark.storm
def test_random_queries_in_batches(
    spark: SparkSession, settings: Callable[..., None], first: int, partitions: int, adaptive: str, rows: int
) -> None:
    settings(partitions=partitions, adaptive=adaptive, rows=rows)
    questions = [scenario_to_question(f"seed {seed}", random_scenario(seed)) for seed in range(first, first + 5)]
    check_questions(SparkBatch(spark, mixed=True), [q for q in questions if answer(q) is not None], first)


@pytest.mark.storm
def test_random_queries_in_streams(spark: SparkSession, tmp_path: Path) -> None:
    """Several stages, and keys, slices and single tasks among them."""
    questions = [*(several_rules(seed) for seed in (30, 38, 89)), *(one_rule(seed) for seed in range(6))]
    questions = [q for q in questions if not q.ends_only and answer(q) is not None]
    plan = plan_on_spark(Merged.of(questions).whole.graph, tallies=False)
    assert len(plan.stages) > 1
    assert all(words in str(plan) for words in ("run by key", "run by slices", "run in one task"))
    check_questions(SparkStreaming(spark, tmp_path), questions, 1)


@pytest.mark.storm
def test_silences(spark: SparkSession, tmp_path: Path) -> None:
    """Where they come first, in groups, in slices of time and in one task, over tables and over streams."""
    questions = [quiet(seed) for seed in range(24)]
    questions = [q for q in questions if answer(q)]
    for begin in range(0, len(questions), TOGETHER):
        check_questions(SparkBatch(spark, mixed=True), questions[begin : begin + TOGETHER], begin)
    endless = [q for q in questions if not q.ends_only][:TOGETHER]
    check_questions(SparkStreaming(spark, tmp_path), endless, 1)
    assert any(count for q in endless for rows in (answer(q) or {}).values() for count in rows.values())
