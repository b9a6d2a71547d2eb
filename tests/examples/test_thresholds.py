"""A thousand rules from a table: as a text and with the builder, against plain loops."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest

import situ
from examples.scripts import script

CALLS, SEED = 20_000, 7
DAY_S = 24 * 3600

example = partial(script, "telecom")


@pytest.fixture(scope="module")
def rules() -> Any:
    return example("thresholds")


def test_both_ways_to_write_the_rules_are_one(rules: Any) -> None:
    table = rules.thresholds(SEED)
    assert situ.unparse(rules.rules_as_objects(table)) == situ.unparse(situ.parse(rules.rules_as_text(table)))


def test_the_rules_find_what_loops_find(rules: Any) -> None:
    table = rules.thresholds(SEED)
    engine = situ.Engine(rules.rules_as_objects(table))
    assert engine.describe_rules().startswith("1,000 rules of one shape run as one program")
    calls = example("generate").generate(CALLS, SEED).calls.select(list(rules.ATTRIBUTES))
    found: Counter[tuple[Any, ...]] = Counter()
    for output in engine.run(calls):
        for name, of_rule in output.complex_events.items():
            for row in of_rule.to_pylist():
                assert name == f"Antenna{row['antenna']}"
                found[row["caller"], row["antenna"], row["long_s"], row["seconds"]] += 1
    assert found == expected(calls.to_pylist(), dict(zip(*map(_column(table), ("antenna", "long_s")), strict=True)))
    assert len(found) > 20


def _column(table: Any) -> Any:
    return lambda name: table.column(name).to_pylist()


def expected(calls: list[dict[str, Any]], long_s: dict[int, int]) -> Counter[tuple[Any, ...]]:
    """Every long call with the next long one of its caller at its antenna, if that comes within a day."""
    latest: dict[tuple[str, int], dict[str, Any]] = {}
    found: Counter[tuple[Any, ...]] = Counter()
    for call in sorted(calls, key=lambda call: call["started"]):
        antenna = call["antenna"]
        if antenna not in long_s or call["duration_s"] <= long_s[antenna]:
            continue
        before = latest.get((call["caller"], antenna))
        if before is not None and (call["started"] - before["started"]).total_seconds() <= DAY_S:
            total = before["duration_s"] + call["duration_s"]
            found[call["caller"], antenna, long_s[antenna], total] += 1
        latest[call["caller"], antenna] = call
    return found
