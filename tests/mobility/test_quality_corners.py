"""Where the promise of `quality` might break: ties, silences, leaves, thresholds of everyone's own, late rows, restarts
at any decision, shards. What is delivered is what the definition says, and none of it is below what was asked."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from mobility.interests_by_words import Row
from mobility.sharing_cases import LAST_S, SAYING_SCHEMA, SharingCase, cases_of
from mobility.test_moving import by_arrival, shuffled
from mobility.test_quality import (
    MORE_RULES,
    RULES,
    counts_of,
    is_in_order,
    kept_word,
    run_whole,
    same,
    shared_rows,
    tagged,
)
from mobility.test_quality import fed as fed_in_pieces
from runtime.spark.streaming_without_spark import StreamingQuery
from runtime.spark.test_moving_stream import pieces_of
from runtime.spark.without_spark import detect_without_spark, output_without_spark
from seed_blocks import blocks
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.reuse.totals import Totals
from situ.runtime.embedded import Engine

#: The rules in parts: a test of a few cases of each is enough to run all of them.
RULES_OF = {"first": [*RULES][::2], "second": [*RULES][1::2], "more": [*MORE_RULES]}
SOME_RULES = ["first", "second", pytest.param("more", marks=pytest.mark.storm)]


def cases(rules: str, block: int, use: int, seconds: int = 12) -> list[SharingCase]:
    return cases_of(np.random.default_rng([block, len(rules), use]), RULES_OF[rules], seconds)


@blocks(0, 1, 60)
@pytest.mark.parametrize("rules", RULES_OF)
def test_the_embedded_engine(rules: str, block: int) -> None:
    covered = 0
    for case in cases(rules, block, 0):
        rng = np.random.default_rng(block)
        expected, judging = case.truth()
        kept_word(case.text, judging)
        found, engine = run_whole(case.text, {n: shuffled(rng, rows) for n, rows in case.events.items()}, SAYING_SCHEMA)
        assert is_in_order(found) or "leave" in case.clauses, case  # who comes anew counts from 1
        assert same(found, expected), case
        for restart in (False, True):
            pieces, counted = fed_in_pieces(case.text, case.events, rng, restart, SAYING_SCHEMA)
            assert same(pieces, expected), (case, restart)
            assert counts_of(counted) == counts_of(engine.reuse["Near"]), (case, restart)
        covered += engine.reuse["Near"].covered
    assert covered > 0


@blocks(0, 1, 12)
@pytest.mark.parametrize("rules", SOME_RULES)
def test_row_by_row_with_a_restart_after_every_row(rules: str, block: int) -> None:
    """So there is a restart before and after every decision."""
    for case in cases(rules, block, 1, seconds=5 if block == 0 else 12):
        expected, _ = case.truth()
        rows = [(row["ts"], name, row) for name, some in case.events.items() for row in some]
        engine, found = Engine(case.text_of_stream), []
        for _, name, row in sorted(rows, key=lambda item: item[:2]):
            found.append(engine.feed(pa.Table.from_pylist([row], SAYING_SCHEMA), name))
            snapshot, engine = engine.snapshot(), Engine(case.text_of_stream)
            engine.restore(snapshot)
        found.append(engine.close())
        assert same([row for output in found for row in shared_rows(output.complex_events["Near"])], expected), case


def in_pieces(case: SharingCase, pieces: list[dict[str, pa.Table]]) -> Engine:
    """The embedded engine after these pieces."""
    engine = Engine(case.text_of_stream)
    for piece in pieces:
        for name, table in piece.items():
            engine.feed(table, name)
    return engine


@blocks(0, 1, 40)
@pytest.mark.parametrize("rules", SOME_RULES)
def test_the_stages_of_spark(rules: str, block: int) -> None:
    """Batches and streams, in this process: the same rows, figures and regions, and the same counted."""
    for case in cases(rules, block, 2):
        rng = np.random.default_rng(block)
        expected, _ = case.truth()
        graph = resolve(parse(case.text))
        rows = detect_without_spark(graph, case.tables, random.Random(block))
        assert same(tagged(output_without_spark(graph), rows), expected), case
        of_tasks = [Totals(**totals) for totals in rows["_totals"].to_pylist() if totals is not None]
        whole = run_whole(case.text, case.events, SAYING_SCHEMA)[1].reuse["Near"]
        assert counts_of(sum(of_tasks, Totals())) == counts_of(whole), case
        for shards in (1, 3):
            pieces = pieces_of(rng, case.events, SAYING_SCHEMA)
            query = StreamingQuery(resolve(parse(case.text_of_stream)), random.Random(block), shards)
            found, counted = [], Totals()
            for piece in pieces:
                found += tagged(query.output, query.micro_batch(piece))
                counted = sum((Totals(**figures["reuse"]) for figures in query.figures), counted)
            assert same(*([row for row in some if row[2] < LAST_S] for some in (found, expected))), (case, shards)
            assert counts_of(counted) == counts_of(in_pieces(case, pieces).reuse["Near"]), (case, shards)


def with_stragglers(rng: np.random.Generator, events: dict[str, list[Row]]) -> list[tuple[str, Row]]:
    """All rows in order of arrival, some of them later than the watermark allows; then one of each stream that lets
    time pass."""
    rows = [(name, row) for name, some in events.items() for row in some]
    rows.sort(key=lambda item: item[1]["ts"] + (7 if rng.random() < 0.1 else rng.integers(0, 2)))
    return [*rows, *((name, {"id": 0, "x": None, "y": 0.0, "v": 0, "ts": 1000, "w": None}) for name in events)]


@blocks(0, 1, 30)
@pytest.mark.parametrize("rules", SOME_RULES)
def test_late_rows_count_nowhere(rules: str, block: int) -> None:
    """Late events are in no span, and late updates begin nothing: what is delivered is what the other rows give."""
    told = 0
    for case in cases(rules, block, 3):
        rng = np.random.default_rng(block)
        engine, found, late = Engine(case.text_of_stream), [], {name: [] for name in case.events}
        for name, row in with_stragglers(rng, case.events):
            output = engine.feed(pa.Table.from_pylist([row], SAYING_SCHEMA), name)
            found += shared_rows(output.complex_events["Near"])
            late[name] += [row] * sum(table.num_rows for table in output.late.values())
        told += sum(map(len, late.values()))
        in_time = {
            name: [row for row in rows if not any(row is other for other in late[name])]
            for name, rows in case.events.items()
        }
        expected, judging = replace(case, events=in_time).truth()
        kept_word(case.text, judging)
        assert same([row for row in found if row[2] < LAST_S], [row for row in expected if row[2] < LAST_S]), case
    assert told > 0


@blocks(0, 0, 20)
def test_shards_get_the_rows_in_any_order_and_agree(block: int) -> None:
    """Of streams with any number of shards, restarted with other micro-batches: the same results."""
    for case in cases("first", block, 4):
        found = []
        for shards in (1, 2, 5):
            rng = np.random.default_rng([block, shards])
            query = StreamingQuery(resolve(parse(case.text_of_stream)), random.Random(shards), shards)
            arriving = {name: by_arrival(rng, rows) for name, rows in case.events.items()}
            pieces = pieces_of(rng, arriving, SAYING_SCHEMA, int(rng.integers(3, 30)))
            found.append(sorted((r for p in pieces for r in tagged(query.output, query.micro_batch(p))), key=repr))
        assert found[0] == found[1] == found[2], case
