"""Very many groups: restarts from snapshots change nothing, for patterns and windows, in several shards."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from situ.core.errors import QueryError
from situ.kernel.state.case_state import MANY_GROUPS
from situ.runtime.embedded import Engine

STREAM = "stream E(name string, part int, v int, ts int) time ts in ms order v\n"
RULES = {
    "next": "detect E(v < 500) as a then E(v > a.v) as b within 300 ms assign name = a.name, a = a.v, b = b.v",
    "loop, last": "detect E(v < 500) as a then E(v > a.v)+ as b then last E(v < 400) as c within 300 ms "
    "assign name = a.name, a = a.v, b = count(b), c = c.v",
    "skipping": "detect E(v < 500) as a then each E(v > a.v) as b within 300 ms assign name = a.name, a = a.v, b = b.v",
    "pausing": "detect E(v < 900) as a assign name = a.name, a = a.v",
    "windows of time": "aggr every 20 ms over 40 ms detect E "
    "assign name = group.name, part = group.part, n = count(E), s = sum(E.v)",
    "windows of events": "aggr every 2 events over 3 events detect E "
    "assign name = group.name, part = group.part, n = count(E), s = sum(E.v)",
}


def query(rule: str) -> str:
    after = {"skipping": " after match skip past last", "pausing": " after match pause 200 ms"}.get(rule, "")
    return f"{STREAM}subscribe S {RULES[rule]} group by name, part{after}"


def events(size: int, keys: int) -> pa.Table:
    rng = np.random.default_rng(size)
    number = rng.integers(0, keys, size)
    name = pa.array([f"sensor {n}" for n in number // 2], mask=number // 2 == 7)
    part = pa.array(number % 2, mask=number == 20)
    return pa.table({"name": name, "part": part, "v": rng.integers(0, 1000, size), "ts": np.arange(size) // 20})


def found(engine: Engine, pieces: list[pa.Table], restart: bool) -> list[tuple[object, ...]]:
    outputs = []
    for piece in pieces:
        outputs.append(engine.feed(piece))
        if restart:
            data = engine.snapshot()
            engine = Engine(engine.query, threads=engine.threads)
            engine.restore(data)
    outputs.append(engine.close())
    tables = [output.complex_events["S"] for output in outputs]
    return sorted((tuple(row.values()) for table in tables for row in table.to_pylist()), key=str)


@pytest.mark.jit_only  # it takes many events
@pytest.mark.parametrize("rule", RULES)
def test_restarts_change_nothing(rule: str) -> None:
    table = events(12_000, 2 * MANY_GROUPS)
    pieces = [table.slice(begin, 3_000) for begin in range(0, len(table), 3_000)]
    expected = found(Engine(query(rule), threads=1), [table], restart=False)
    assert len(expected) > 100
    assert found(Engine(query(rule), threads=4), pieces, restart=True) == expected


@pytest.mark.parametrize("rule", ["windows of time", "windows of events"])
def test_chosen_windows_give_just_their_results(rule: str) -> None:
    table = events(3_000, 24)
    chosen: dict[tuple[object, ...], list[int]] = {
        ("sensor 1", 0): [1, 2],
        (None, 1): [3],
        ("sensor 10", None): [4, 0],
        ("sensor 99", 0): [1],
    }

    def rows(only: dict[str, object] | None) -> list[dict[str, object]]:
        engine = Engine(query(rule), provenance=True, only_selections=only)  # type: ignore[arg-type]
        return [row for output in engine.run({"E": table}) for row in output.complex_events["S"].to_pylist()]

    wanted = [row for row in rows(None) if row["_selection"] in chosen.get((row["name"], row["part"]), ())]
    assert {(row["name"], row["part"]) for row in wanted} == {*list(chosen)[:3]}
    assert rows({"S": chosen}) == wanted


@pytest.mark.parametrize("key", [("sensor 1",), ("sensor 1", "x"), (1, 2)], ids=str)
def test_a_key_that_does_not_fit_is_an_error(key: tuple[object, ...]) -> None:
    engine = Engine(query("next"), only_selections={"S": {key: [0]}})
    with pytest.raises(QueryError, match="does not fit `group by`"):
        list(engine.run({"E": events(20, 3)}))
