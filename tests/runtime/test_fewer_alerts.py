"""`after match pause` and `detect once`: what they keep, for how long, and where they are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from situ.core.errors import QueryError, SituWarning
from situ.graph.describe import describe
from situ.kernel.pattern_operator import PatternOperator
from situ.kernel.state.case_state import MANY_GROUPS
from situ.kernel.state.snapshot import unpack
from situ.runtime.embedded import Engine

STREAM = "stream E(k int, v int, ts int) time ts in s\n"
PAUSE = STREAM + "subscribe S detect E assign k = E.k, ts = E.ts group by k after match pause 1 h"
HOUR = 3600


def rows(keys: range, second: int) -> pa.Table:
    return pa.table({"k": [*keys], "v": [0] * len(keys), "ts": [second] * len(keys)})


def marks(engine: Engine) -> int:
    """How many groups a snapshot of the engine has."""
    return unpack(engine.snapshot())["operator/S/case 0"].num_rows


def test_a_pause_is_forgotten_when_it_is_over() -> None:
    engine = Engine(PAUSE)
    engine.feed(rows(range(100), 0))
    engine.feed(rows(range(1), HOUR))
    assert marks(engine) == 100  # an event at the end of the pause may still come
    engine.feed(rows(range(1), HOUR + 5))
    engine.feed(rows(range(1), HOUR + 6))
    assert marks(engine) == 1


def test_groups_whose_pause_is_over_give_their_place_to_others() -> None:
    engine = Engine(PAUSE)
    found = 0
    for hours in range(20):
        keys = range(hours * MANY_GROUPS, (hours + 1) * MANY_GROUPS)
        found += len(engine.feed(rows(keys, 2 * HOUR * hours)).complex_events["S"])
    operator = engine._flow.nodes["S"].operator
    assert isinstance(operator, PatternOperator)
    assert len(operator.cases[0].state.groups) <= 4 * MANY_GROUPS
    assert found + len(engine.close().complex_events["S"]) == 20 * MANY_GROUPS


def test_a_pause_outlives_a_restart_without_an_event() -> None:
    engine = Engine(PAUSE)
    engine.feed(rows(range(3), 0))
    engine.feed(rows(range(3, 4), 1))
    again = Engine(PAUSE)
    again.restore(engine.snapshot())
    outputs = [again.feed(rows(range(3), HOUR)), again.feed(rows(range(3), HOUR + 1)), again.close()]
    found = [tuple(row[n] for n in ("k", "ts")) for o in outputs for row in o.complex_events["S"].to_pylist()]
    assert found == [(3, 1), (0, HOUR + 1), (1, HOUR + 1), (2, HOUR + 1)]


def test_once_with_a_key_is_refused_on_input_without_end() -> None:
    query = STREAM + "subscribe S detect once E as a then E(v > a.v) as b within 5 s assign k = a.k group by k"
    with pytest.warns(SituWarning, match="keeps a mark for every key"):
        engine = Engine(query)
    with pytest.raises(QueryError, match=r"S detects once for each key.*\n.*after match pause T"):
        engine.feed(rows(range(3), 0))


def test_once_ends_the_partial_matches_of_its_start() -> None:
    """A loop that could go on for ever takes no more memory after its match."""
    query = STREAM + "subscribe S detect once E as a then E+ as b assign n = count(b)"
    with pytest.warns(SituWarning, match="without `within`"):
        engine = Engine(query)
    table = pa.table({"k": [0] * 100_000, "v": [0] * 100_000, "ts": range(100_000)})
    assert [row["n"] for output in engine.run({"E": table}) for row in output.complex_events["S"].to_pylist()] == [1]


def test_explain_says_what_stays() -> None:
    query = STREAM + "subscribe S detect once E as a then E as b within 5 s assign k = a.k"
    assert "once E as a then E as b within 5 s" in describe(Engine(query).graph)
    assert "pause      1 h" in describe(Engine(PAUSE).graph)
