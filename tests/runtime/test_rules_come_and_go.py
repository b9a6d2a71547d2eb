"""`Engine.add` and `Engine.remove`: rules that come and go while an engine runs."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pyarrow as pa
import pytest

import situ
from situ.core.errors import QueryError

STREAM = "stream A(k int, v int, w int, ts int) time ts in s\n"


def rule(name: str, v: int, by: int) -> str:
    return f"""subscribe {name}
      detect A(v = {v}) as a then A(v > a.v + {by}) as b within 9 s assign k = a.k, rule = '{name}' group by k
    """


def rows(values: Iterable[tuple[int, int, int]]) -> pa.Table:
    k, v, ts = (list(column) for column in zip(*values, strict=True))
    return pa.table({"k": k, "v": v, "w": v, "ts": ts})


def test_a_rule_that_is_added_reads_what_time_has_not_passed() -> None:
    engine = situ.Engine(STREAM + rule("One", 1, 0))
    engine.feed(rows([(0, 1, 1), (0, 1, 2)]))  # time has passed the first event
    assert engine.add(rule("Two", 1, 1)) == ("Two",)
    output = engine.feed(rows([(0, 5, 3), (0, 0, 20)]))
    assert {name: found.num_rows for name, found in output.complex_events.items()} == {"One": 2, "Two": 1}
    assert "2 rules" not in engine.describe_rules()  # the first one began by itself, and stays by itself


def test_an_added_rule_may_read_other_columns_and_definitions() -> None:
    engine = situ.Engine(STREAM + "define D(k) detect A(v = 1) as a assign k = a.k\nsubscribe S detect D as d")
    engine.add("subscribe T detect D as d then A(w = 7) as b within 5 s assign w = b.w")
    output = engine.feed(rows([(0, 1, 1), (0, 7, 2), (0, 0, 20)]))
    assert output.complex_events["T"].column("w").to_pylist() == [7]


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.storm) for seed in range(4, 100))])
def test_rules_that_come_and_go_find_what_they_find_by_themselves(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All events are of different times, and rules change when time has passed all events but the last. The state of
    those that are gone goes at once, or with that of others."""
    rng = random.Random(seed)
    monkeypatch.setattr("situ.flow.family._MANY_GONE", rng.choice([1, 2, 16]))
    texts = {f"R{n}": rule(f"R{n}", rng.randrange(3), rng.randrange(2)) for n in range(12)}
    engine = situ.Engine(STREAM + "".join(texts[f"R{n}"] for n in range(6)), threads=rng.choice([1, 2]))
    alone = {f"R{n}": situ.Engine(STREAM + texts[f"R{n}"]) for n in range(6)}
    found: dict[str, int] = dict.fromkeys(texts, 0)
    expected = dict(found)
    pending = rows([(0, 0, 0)])
    for begun in (engine, *alone.values()):
        begun.feed(pending)
    for step in range(30):
        if rng.random() < 0.5:
            name = rng.choice([*texts])
            if name in alone:
                engine.remove(name)
                del alone[name]
            else:
                engine.add(texts[name])
                alone[name] = situ.Engine(STREAM + texts[name])
                alone[name].feed(pending)  # what time has not passed yet
        pending = rows([(rng.randrange(2), rng.randrange(4), step + 1)])
        for name, table in engine.feed(pending).complex_events.items():
            found[name] += table.num_rows
        for name, own in alone.items():
            expected[name] += own.feed(pending).complex_events[name].num_rows
        assert {*engine.graph.query.contents.split("subscriptions: ")[1].split(", ")} == {*alone}
    assert found == expected
    assert sum(found.values()) > 5


def test_what_cannot_be_added_or_removed_is_told() -> None:
    engine = situ.Engine(STREAM + "define D(k) detect A(v = 1) as a assign k = a.k\nsubscribe S detect D as d")
    with pytest.raises(QueryError, match="S is there already"):
        engine.add("subscribe S detect A(v = 2) as a assign k = a.k")
    with pytest.raises(QueryError, match="neither streams"):
        engine.add("stream B(ts int) time ts in s")
    with pytest.raises(QueryError, match="S reads it"):
        engine.remove("D")
    with pytest.raises(QueryError, match="no such rule"):
        engine.remove("T")
    with pytest.raises(QueryError, match="has no window"):
        engine.add("subscribe U detect A as a then A(v > a.v) as b")
    assert [*engine.feed(rows([(0, 1, 1)])).complex_events] == ["S"]


def test_a_snapshot_has_rules_that_were_added() -> None:
    engine = situ.Engine(STREAM + rule("One", 1, 0) + rule("Two", 2, 0))
    engine.add(rule("Three", 1, 1))
    engine.feed(rows([(0, 1, 1), (0, 0, 2)]))
    again = situ.Engine(engine.graph)
    again.restore(engine.snapshot())
    output = again.feed(rows([(0, 3, 3), (0, 0, 20)]))
    assert {name: found.num_rows for name, found in output.complex_events.items()} == {"One": 1, "Two": 0, "Three": 1}
