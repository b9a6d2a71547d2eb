"""Random queries over random rows find what the oracle finds, in every way that runs in this process."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from conformance.by_oracle import Oracle
from conformance.embedded import InPieces, Whole
from conformance.question import Executor, Question, Rows, rows_of, scenario_to_question
from conformance.ways import ENGINES
from deep_patterns import MOST_EVENTS, DeepPen, deep_scenario
from oracle import TooLarge
from runtime.spark.streaming_without_spark import random_rules, random_streams
from seed_blocks import blocks
from silences import quiet_scenario
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from strategies import SECOND, Scenario, make_rows, random_scenario, scenarios

pytestmark = pytest.mark.usefixtures("short_slices")

ORACLE = Oracle(limit=12)
WATERMARK_S = 2
CHECKS = settings(
    max_examples=40,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)


def answer(question: Question) -> Rows | None:
    """What the oracle says; None if brute force would take too long."""
    try:
        return rows_of(question, ORACLE.run(question, random.Random(0)))
    except TooLarge:
        return None


def check(question: Question, executors: dict[str, Executor]) -> None:
    want = answer(question)
    for way, executor in executors.items():
        if want is not None and executor.accepts(question):
            found = rows_of(question, executor.run(question, random.Random(f"{question.name} {way}")))
            assert found == want, f"{way}: {question}"


def in_blocks(size: int, block: int, question_of: Callable[[int], Question], executors: dict[str, Executor]) -> None:
    for seed in range(block * size, (block + 1) * size):
        check(question_of(seed), executors)


def one_rule(seed: int) -> Question:
    """A query with up to two definitions and one subscription."""
    return scenario_to_question(f"seed {seed}", random_scenario(seed, watermark_s=WATERMARK_S))


def several_rules(seed: int) -> Question:
    """Several small queries over the same streams; as streaming queries, `test_stream_oracle` has them."""
    rng = random.Random(f"in time {seed}")
    rules = [random_rules(rng.randrange(10**6), names) for names in ("DM", "EN")[: rng.randint(1, 2)]]
    text = random_streams(rng) + "\n".join(rules)
    graph = resolve(parse(text))
    return scenario_to_question(f"several {seed}", Scenario(graph.query, make_rows(rng.choice)))


def nested(seed: int) -> Question:
    """Loops, groups, alternatives and absences inside each other."""
    return scenario_to_question(f"nested {seed}", deep_scenario(seed, watermark_s=WATERMARK_S))


def quiet(seed: int) -> Question:
    """Silences at every place."""
    return scenario_to_question(f"quiet {seed}", quiet_scenario(seed, watermark_s=WATERMARK_S))


def quiet_from_a_start(seed: int) -> Question:
    """The same; those that come first begin at a time that the engine is told."""
    question = quiet(seed)
    return replace(question, graph=replace(question.graph, start_us=(seed % 5 - 2) * SECOND))


QUICK_ONES = {way: ENGINES[way] for way in ("embedded whole", "embedded in pieces", "batch stage")}
EVERYWHERE = {way: ENGINES[way] for way in ENGINES if way != "embedded row by row"}
#: What writes and reads snapshots after every piece.
KEEPING = {way: ENGINES[way] for way in ("embedded with restarts", "stream stage")}


@blocks(2, 4, 60)
def test_one_rule(block: int) -> None:
    in_blocks(40, block, one_rule, QUICK_ONES)


@blocks(1, 2, 40)
def test_one_rule_with_its_state_as_bytes(block: int) -> None:
    in_blocks(15, block, one_rule, KEEPING)


@blocks(1, 2, 12)
def test_several_rules(block: int) -> None:
    in_blocks(10, block, several_rules, QUICK_ONES)


@blocks(2, 3, 60)
def test_patterns_that_nest(block: int) -> None:
    in_blocks(20, block, nested, QUICK_ONES)


@blocks(1, 2, 20)
def test_patterns_that_nest_with_their_state_as_bytes(block: int) -> None:
    in_blocks(20, block, nested, KEEPING)


@blocks(1, 3, 60)
def test_silences(block: int) -> None:
    in_blocks(20, block, quiet, QUICK_ONES)


@blocks(0, 1, 20)
def test_silences_with_their_state_as_bytes(block: int) -> None:
    in_blocks(20, block, quiet, KEEPING)


@blocks(0, 1, 20)
def test_silences_from_a_start(block: int) -> None:
    in_blocks(20, block, quiet_from_a_start, EVERYWHERE)


@CHECKS
@given(scenarios(definitions=0, most=MOST_EVENTS, pen=DeepPen))
def test_what_nests_and_fails_shrinks(scenario: Scenario) -> None:
    check(scenario_to_question("found by Hypothesis", scenario), {"whole": Whole(), "in pieces": InPieces()})


#: Seeds that found a bug once: groups renumbered by a restart, `immediately` and `and` in timed-out output, `last`
#: without a window and with consumption.
HARD = [100762, 101104, 101443, 101678, 102797, 102840, 103059, 103330, 103550, 104157, 104610, 106777, 106866]


@pytest.mark.parametrize("seed", HARD)
def test_seeds_that_were_hard(seed: int) -> None:
    question = one_rule(seed)
    assert answer(question) is not None
    check(question, ENGINES)


@CHECKS
@given(scenarios(watermark_s=WATERMARK_S))
def test_what_fails_shrinks(scenario: Scenario) -> None:
    check(scenario_to_question("found by Hypothesis", scenario), {"whole": Whole(), "in pieces": InPieces()})


#: Files that tasks of Spark's read by themselves.
OF_FILES = {way: ENGINES[way] for way in ("packets of files", "slices of files")}


@blocks(1, 2, 40)
def test_files_that_tasks_read(block: int) -> None:
    in_blocks(40, block, one_rule, OF_FILES)


@blocks(1, 1, 12)
def test_files_that_tasks_read_for_several_rules(block: int) -> None:
    in_blocks(10, block, several_rules, OF_FILES)


@blocks(1, 1, 20)
def test_files_that_tasks_read_for_silences(block: int) -> None:
    in_blocks(20, block, quiet, OF_FILES)
