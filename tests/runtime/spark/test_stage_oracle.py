"""The plan and the Python parts of the Spark engine give what the oracle says, however rows are divided."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from runtime.comparison import Found, _rows, expected, tables
from runtime.spark.without_spark import detect_without_spark
from situ.graph.operators import OperatorGraph
from situ.lang.unparse import unparse
from situ.runtime.spark import partitioning
from strategies import answered, random_scenario

BLOCK = 50


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The windows of random queries are seconds long."""
    monkeypatch.setattr(partitioning, "SHORTEST_SLICE_US", 1)
    monkeypatch.setattr(partitioning, "SLICE_PER_WINDOW", 1)


def found(graph: OperatorGraph, events: pa.Table) -> Found:
    result: Found = {operator.name: Counter() for operator in graph.operators}
    result |= {f"{operator.name} timed out": Counter() for operator in graph.operators if operator.rule.timed_out}
    for kind, suffix in (("complex event", ""), ("timed out", " timed out")):
        of_kind = events.filter(pc.equal(events.column("_kind"), kind))
        for operator in graph.operators:
            rows = of_kind.filter(pc.equal(of_kind.column("_name"), operator.name))
            if rows.num_rows:
                result[operator.name + suffix].update(_rows(graph, operator.name, rows))
    return result


@pytest.mark.parametrize("block", [*range(3), *(pytest.param(b, marks=pytest.mark.slow) for b in range(3, 16))])
def test_any_division_of_rows(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        scenario = random_scenario(seed)
        if (answer := answered(scenario)) is not None:
            graph, result = answer
            events = detect_without_spark(graph, tables(graph, scenario.events), random.Random(seed))
            assert found(graph, events) == expected(graph, result), f"seed {seed}\n{unparse(scenario.query)}"
