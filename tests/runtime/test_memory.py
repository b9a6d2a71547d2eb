"""Queries that would take more memory than there is end with an error that names rule, cause and remedy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from situ.core.errors import MemoryExceeded
from situ.core.memory import used_bytes
from situ.kernel import windows
from situ.lang.parse import parse
from situ.lang.resolve import resolve, warnings
from situ.runtime.embedded import Engine

STREAM = "stream A(k int, ts int) time ts in ms  order k"
COMBINATIONS = f"""{STREAM}
subscribe Four
  detect   A as a then each A as b then each A as c then each A as d within 1 h
  assign   k = d.k
"""
WINDOWS = f"""{STREAM}
subscribe Often
  aggr every 1 ms over 1 min
  detect   A as a
  assign   n = count(a)
"""


def rows(count: int) -> pa.Table:
    return pa.table({"k": np.arange(count), "ts": np.arange(count)})


@pytest.mark.jit_only
def test_matches_beyond_the_budget_end_with_an_error_that_names_the_rule() -> None:
    engine = Engine(COMBINATIONS, memory=used_bytes() + 200_000_000)
    with pytest.raises(MemoryExceeded, match=r"^Four needs .* there are too many matches") as error:
        list(engine.run({"A": rows(300)}))
    assert "Shorten its window" in error.value.remedy


def test_windows_beyond_the_budget_end_with_an_error_that_names_the_rule() -> None:
    engine = Engine(WINDOWS, memory=used_bytes() + 1_000_000)
    with pytest.raises(MemoryExceeded, match=r"^Often needs .* an event lies in up to 60,000 windows"):
        list(engine.run({"A": rows(300)}))


@pytest.mark.parametrize("pairs", [1, 7, 1000])
def test_windows_in_pieces_are_the_same(monkeypatch: pytest.MonkeyPatch, pairs: int) -> None:
    query = f"""{STREAM}
        define Counted(n) aggr every 3 ms over 10 ms detect A as a assign n = count(a)
        define Odd(n, k) aggr every 3 ms over 7 ms detect A as a assign n = count(a), k = group.k group by k
        define Pairs(k) join every 4 ms over 6 ms on k detect A as a and A as b assign k = a.k
        define Sevens(n) aggr every 2 events over 7 events detect A as a assign n = count(a)
        subscribe S detect Counted as c subscribe T detect Odd as o subscribe U detect Pairs as p
        subscribe V detect Sevens as s
    """
    random = np.random.default_rng(3)
    table = pa.table({"k": random.integers(0, 3, 60), "ts": np.sort(random.integers(0, 50, 60))})
    whole = [output.complex_events for output in Engine(query).run({"A": table})]
    monkeypatch.setattr(windows, "PAIRS_AT_ONCE", pairs)
    in_pieces = [output.complex_events for output in Engine(query).run({"A": table})]
    assert sum(t.num_rows for found in whole for t in found.values()) > 0
    assert whole == in_pieces


@pytest.mark.parametrize(
    ("query", "warning"),
    [
        (COMBINATIONS, "Four: of n events in its window there may be as many matches as n to the power of 4"),
        (WINDOWS, "Often: every event lies in 60,000 windows"),
    ],
)
def test_costly_rules_are_said_before_they_run(query: str, warning: str) -> None:
    assert any(message.startswith(warning) for message in warnings(resolve(parse(query))))
