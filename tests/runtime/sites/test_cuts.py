"""What `situ.graph.cuts` says of a rule holds: an instance that finishes what began before a cut, and one that knows
nothing of the time before, find together what one instance finds. Of a rule that it says cannot be cut, they do not."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from runtime.comparison import _rows
from runtime.sites.moving import FROM_A_WINDOW_BEFORE, FROM_THE_CUT, NEVER, SHOWN_BY, STREAMS, moving_rows, rule_text
from runtime.sites.storm import table_of
from situ.core.functions import Functions
from situ.core.memory import MemoryBudget
from situ.core.time import BEGINNING, END
from situ.graph.cuts import Cut, cut_of
from situ.graph.operators import OperatorGraph
from situ.io.rows.conform import conform
from situ.kernel.batch import Batch, as_timestamps
from situ.kernel.operator import contexts_of
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.embedded.pieces import StreamReader
from situ.runtime.sites.lone_operator import LoneOperator

SECOND = 1_000_000
Found = Counter[tuple[Any, ...]]


def graph_of(row: str, rng: random.Random) -> OperatorGraph:
    declared = "\n".join(f"stream {name}(k int, v int, n int, ts int) time ts in s" for name in STREAMS)
    types = ("A", "B") if rng.random() < 0.5 else ("B", "A")
    return resolve(parse(f"{declared}\nsubscribe S {rule_text(rng, row, types)}"))


def found_by(
    graph: OperatorGraph, rows: dict[str, Any], since_us: int, own_us: tuple[int, int] | None, until_us: int = END
) -> Found:
    """What an instance finds that reads events from a time on, second by second, until time has come to another."""
    context = contexts_of(graph, Functions(), provenance=False)["S"]
    lone = LoneOperator(context, {s.name: s for s in graph.streams}, MemoryBudget.of_process(), own_us)
    found: Found = Counter()
    for second in range(-1, 17):
        events: dict[str, list[Batch]] = {}
        for stream in graph.streams:
            of_second = [row for row in rows[stream.name] if row["ts"] == second and second * SECOND >= since_us]
            conformed = conform(table_of(stream, of_second), stream)
            if of_second:
                reader = StreamReader(stream, frozenset({"k", "v", "n"}), provenance=False)
                events[stream.name] = [reader.batch(conformed)]
        low = END if second == 16 else (second + 1) * SECOND
        if second * SECOND >= until_us:
            break  # the instance has ended
        produced = lone.step(events, dict.fromkeys(STREAMS, low))
        if produced is not None:
            for kind, batch in (("found", produced.events), ("timed out", produced.timed_out)):
                names = [name for name in batch.columns if not name.startswith("_")]
                columns = {name: batch.columns[name] for name in names} | {"_time": as_timestamps(batch.times)}
                found.update((kind, *row) for row in _rows(graph, "S", pa.table(columns)))
    return found


def parts(graph: OperatorGraph, rows: dict[str, Any], cut_us: int, cut: Cut) -> tuple[Found, Found]:
    """What one instance finds, and what the two do together."""
    old = found_by(graph, rows, BEGINNING, (BEGINNING, cut_us), cut_us + cut.after_us)
    new = found_by(graph, rows, cut_us - cut.back_us, (cut_us, END))
    return found_by(graph, rows, BEGINNING, None), old + new


@pytest.mark.parametrize("row", [*FROM_THE_CUT, *FROM_A_WINDOW_BEFORE])
def test_rules_that_can_be_cut(row: str) -> None:
    matches_over_cut = 0
    for seed in range(5):
        rng = random.Random(f"{row} {seed}")
        graph, rows = graph_of(row, rng), moving_rows(rng)
        cut = cut_of(graph.operators[0].rule)
        assert isinstance(cut, Cut), cut
        assert bool(cut.back_us) == (row in FROM_A_WINDOW_BEFORE)
        cut_us = rng.randrange(4, 12) * SECOND
        whole, of_parts = parts(graph, rows, cut_us, cut)
        assert of_parts == whole, (row, seed)
        matches_over_cut += sum((found_by(graph, rows, cut_us, None) - whole).values()) > 0
        matches_over_cut += sum((whole - found_by(graph, rows, cut_us, None)).values()) > 0
    assert matches_over_cut


@pytest.mark.parametrize("row", NEVER)
def test_rules_that_cannot_be_cut(row: str) -> None:
    """Cut against the table, some of what they find would be lost, or found twice."""
    for seed in range(40):
        rng = random.Random(f"{row} {seed}")
        graph, rows = graph_of(row, rng), moving_rows(rng)
        assert isinstance(cut_of(graph.operators[0].rule), str)
        if row in SHOWN_BY:
            rows = {
                name: [{"k": 0, "v": v, "n": ts, "ts": ts} for ts, v in of.items()]
                for name, of in SHOWN_BY[row].items()
            }
        cut_us = (2 if row in SHOWN_BY else rng.randrange(4, 12)) * SECOND
        whole, of_parts = parts(graph, rows, cut_us, Cut(0, 4 * SECOND, ""))
        if of_parts != whole:
            return
    raise AssertionError(f"{row} could be cut, and the table says that it cannot")


@pytest.mark.parametrize("row", FROM_A_WINDOW_BEFORE)
def test_a_window_before_is_needed(row: str) -> None:
    for seed in range(40):
        rng = random.Random(f"{row} {seed}")
        graph, rows = graph_of(row, rng), moving_rows(rng)
        whole, of_parts = parts(graph, rows, rng.randrange(4, 12) * SECOND, Cut(0, 4 * SECOND, ""))
        if of_parts != whole:
            return
    raise AssertionError(f"{row} needs nothing of the time before, and the table says that it does")
