"""A streaming query gives what the oracle says, however rows come: in any micro-batches, partitions and shards."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from oracle import TooLarge
from oracle import detect as ask_oracle
from runtime.comparison import counted, expected, tables
from runtime.spark.streaming_without_spark import (
    Observed,
    StreamingQuery,
    far_away,
    in_time,
    late_rows,
    micro_batches,
    random_rules,
    random_streams,
)
from seed_blocks import blocks
from situ.core.errors import StateError
from situ.graph.operators import OperatorGraph
from situ.graph.rule_properties import has_unbounded_state
from situ.kernel.state import snapshot
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.embedded import Engine
from situ.runtime.spark.plan import partitioning
from situ.runtime.spark.plan.plan import plan_on_spark
from situ.runtime.spark.stages.restart import Restart
from strategies import SECOND, Rows, make_rows

BLOCK = 3
SHARDS = [1, 2, 5]


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The windows of random queries are seconds long."""
    monkeypatch.setattr(partitioning, "SHORTEST_SLICE_US", 1)
    monkeypatch.setattr(partitioning, "SLICE_PER_WINDOW", 1)


def graphs(
    block: int, kind: str, *, idle: bool = False, unique: bool = False, parts: int = 2
) -> Iterator[tuple[str, random.Random, OperatorGraph]]:
    """Random queries without unbounded state; several small ones over the same streams are one."""
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        rng = random.Random(f"{kind} {seed}")
        rules = [random_rules(rng.randrange(10**6), names) for names in ("DM", "EN", "GO")[: rng.randint(1, parts)]]
        text = random_streams(rng, idle=idle, unique=unique) + "\n".join(rules)
        graph = resolve(parse(text))
        if not any(map(has_unbounded_state, graph.operators)):
            yield f"seed {seed}\n{text}", rng, graph


def answer(graph: OperatorGraph, events: Rows) -> Any:
    """What the oracle says; None if brute force would take too long."""
    try:
        return expected(graph, ask_oracle(graph, events, limit=12))
    except TooLarge:
        return None


@blocks(1, 3, 40)
def test_any_division_of_rows_that_are_in_time(block: int) -> None:
    """The same complex events in the end, and after each micro-batch all that the embedded engine has found."""
    for text, rng, graph in graphs(block, "in time"):
        events = make_rows(rng.choice)
        want = answer(graph, events)
        if want is None:
            continue
        query = StreamingQuery(graph, rng, rng.choice(SHARDS))
        engine = Engine(graph, show_definitions=True)
        so_far: list[pa.Table] = []
        outputs = []
        for rows in [*micro_batches(rng, in_time(rng, graph, events)), far_away(graph)]:
            so_far.append(query.micro_batch(tables(graph, rows)))
            outputs += [engine.feed(table, name) for name, table in tables(graph, rows).items()]
            now_found, certain = query.found(so_far), counted(graph, outputs)
            assert all(certain[name] <= now_found[name] for name in certain), text
        assert not any(output.late for output in outputs)
        assert now_found == want, text


# --- late rows and idle streams


def arriving_anyhow(rng: random.Random, events: Rows) -> list[tuple[str, dict[str, Any]]]:
    """Rows that are roughly in order, some of them far behind."""
    delay = lambda: rng.choice([0, 0, 1, 2, 3, rng.randint(0, 9)])  # noqa: E731
    rows = [(row["ts"] + delay(), rng.random(), name, row) for name in events for row in events[name]]
    return [(name, row) for _, _, name, row in sorted(rows, key=lambda item: item[:2])]


@blocks(1, 3, 40)
def test_late_rows_and_idle_streams(block: int) -> None:
    """What is found is what the oracle finds in the rows that came in time."""
    for text, rng, graph in graphs(block, "late", idle=block % 2 == 0, parts=3):
        observed = Observed(StreamingQuery(graph, rng, rng.choice(SHARDS)), text)
        now = 100.0
        for rows in [*micro_batches(rng, arriving_anyhow(rng, make_rows(rng.choice))), far_away(graph)]:
            now += rng.choice([0, 1, 3])
            observed.give(rows, now)
        want = answer(graph, observed.accepted)
        assert want is None or observed.found == want, text


@blocks(1, 2, 16)
def test_rows_that_are_delivered_again(block: int) -> None:
    """A copy is dropped, before or after the row that it is a copy of, unless it is late."""
    for text, rng, graph in graphs(block, "again", unique=True):
        events = make_rows(rng.choice)
        events = {name: rows + [row for row in rows if rng.random() < 0.4] for name, rows in events.items()}
        observed = Observed(StreamingQuery(graph, rng, rng.choice(SHARDS)), text)
        for rows in [*micro_batches(rng, arriving_anyhow(rng, events)), far_away(graph)]:
            observed.give(rows)
        want = answer(graph, observed.accepted)
        assert want is None or observed.found == want, text


# --- rules that change


@blocks(1, 3, 30)
def test_rules_that_come_change_and_go(block: int) -> None:
    """Rules that stay give what they would have given; a new one gives what is in the rows that come after it."""
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        rng = random.Random(f"changed {seed}")
        streams = random_streams(rng)
        kept, old, new = (random_rules(rng.randrange(10**6), named) for named in ("DM", "EN", rng.choice(["EN", "GO"])))
        new = new.replace("FE", "FX")  # a rule of the same name and program would go on
        old, new = rng.choice([(old, new), (old, new), ("", new), (old, "")])
        stay, fresh, before, after = (resolve(parse(streams + part)) for part in (kept, new, kept + old, kept + new))
        if any(has_unbounded_state(operator) for graph in (before, after) for operator in graph.operators):
            continue
        text = f"seed {seed}\n{streams}\n{kept}\n--- before\n{old}\n--- after\n{new}"
        levels = max(len(plan_on_spark(graph).stages) for graph in (before, after))
        observed = Observed(StreamingQuery(before, rng, rng.choice(SHARDS), levels), text)
        batches = micro_batches(rng, arriving_anyhow(rng, make_rows(rng.choice)))
        change = rng.randint(0, len(batches))
        for rows in batches[:change]:
            observed.give(rows)
        found, accepted = dict(observed.found), {name: len(rows) for name, rows in observed.accepted.items()}
        observed.found = {}
        observed.change(after, names(before) - names(stay))
        for rows in [*batches[change:], far_away(after)]:
            observed.give(rows)
        want = answer(stay, observed.accepted)
        if want is not None:
            assert {name: found.get(name, Counter()) + observed.found[name] for name in want} == want, text
        want = answer(fresh, {name: rows[accepted.get(name, 0) :] for name, rows in observed.accepted.items()})
        if want is not None:
            assert {name: observed.found[name] for name in want} == want, text


def names(graph: OperatorGraph) -> frozenset[str]:
    return frozenset(operator.name for operator in graph.operators)


@blocks(1, 2, 15)
def test_a_new_rule_that_reads_a_definition(block: int) -> None:
    """It gets the complex events that are found from then on; what it says of them is what it says of a stream."""
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        rng = random.Random(f"reader {seed}")
        streams = random_streams(rng)
        kept, new = (random_rules(rng.randrange(10**6), named) for named in ("DM", "GO"))
        before = resolve(parse(streams + kept))
        made = [o.name for o in before.operators if o.depth == 1 and o.name.startswith("D")]
        if not made:
            continue
        source = rng.choice(made)
        new = re.sub(r"\bA\b", source, new)
        after = resolve(parse(streams + kept + new))
        if any(map(has_unbounded_state, after.operators)):
            continue
        text = f"seed {seed}\n{streams}\n{kept}\n--- new\n{new}"
        shards, levels = rng.choice(SHARDS), len(plan_on_spark(after).stages)
        observed = Observed(StreamingQuery(before, rng, shards, levels), text)
        batches = micro_batches(rng, in_time(rng, before, make_rows(rng.choice)))
        change = rng.randint(0, len(batches))
        for rows in batches[:change]:
            observed.give(rows)
        accepted = {name: len(rows) for name, rows in observed.accepted.items()}
        observed.found = {}
        observed.change(after, frozenset())
        for rows in [*batches[change:], far_away(after)]:
            observed.give(rows)
        fresh = resolve(parse(f"{streams}stream {source}(k int, v int, ts int) time ts in s\n{new}"))
        read = {name: rows[accepted.get(name, 0) :] for name, rows in observed.accepted.items()}
        read[source] = [{"k": k, "v": v, "ts": t // SECOND} for k, v, t in observed.found[source].elements()]
        want = answer(fresh, read)
        assert want is None or {name: observed.found[name] for name in want} == want, text


# --- single properties

STREAM = "stream A(k int, v int, n int, ts int) time ts in s watermark 2 s\n"
RISE = "subscribe M detect A as a then A(v > a.v) as b within 5 s assign a = a.n, b = b.n group by k\n"


def row(k: int, v: int | None, n: int, ts: int | None) -> dict[str, Any]:
    return {"k": k, "v": v, "n": n, "ts": ts}


def give(query: StreamingQuery, rows: list[dict[str, Any]], stream: str = "A", now: float = 0.0) -> pa.Table:
    return query.micro_batch(tables(query.graph, {stream: rows}), now)


FORGETFUL = {
    "sequence by key": "detect A as a then A(v > a.v + 5) as b within 5 s assign k = a.k group by k",
    "positions by key": "detect A as a then immediately A(v > a.v + 5) as b within 5 s assign k = a.k group by k",
    "absence by key": "detect A as a then not A(v = 7) within 5 s assign k = a.k group by k",
    "skip by key": "detect A+ as a then A(v > 3) as b within 5 s assign n = b.n group by k after match skip past last",
    "consuming by key": "detect A as a then A(v > 3) as b within 5 s assign n = a.v consuming b group by k",
    "last by key": "detect A as a then last A as b within 5 s assign n = a.v group by k",
    "timed out": "detect A as a then A(v > a.v + 5) as b within 5 s assign k = a.k group by k report timed out",
    "slices": "detect A as a then A(v > a.v + 5) as b within 5 s assign k = a.k",
    "one task": "detect A as a then A(v > a.v + 5) as b within 5 s assign k = a.k after match skip past last",
    "aggregation by key": "aggr every 5 s detect A assign n = count(A) group by k",
    "aggregation": "aggr every 5 s over 9 s detect A assign n = count(A)",
    "join": "join every 5 s on k detect A as a and A(v > a.v) as b assign n = a.v",
    "chain": "detect D as a then D as b within 9 s assign n = a.v group by k",
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", FORGETFUL.values(), ids=FORGETFUL)
def test_state_forgets_what_windows_have_passed(rule: str) -> None:
    """Ever new keys and ever new slices of time: afterwards there are as few bytes as before."""
    chain = "define D(k, v) detect A as a then A(v > a.v) as b within 5 s assign k = b.v, v = a.k group by k\n"
    rng = random.Random(1)
    query = StreamingQuery(resolve(parse(STREAM + chain * ("D as" in rule) + "subscribe M " + rule)), rng, 2)
    largest, left = [], []
    for begin in range(0, 160_000, 10_000):
        give(query, [row(begin + i, rng.randrange(9), i, begin + i % 10) for i in range(100)])
        largest.append(query.state_bytes)
        for later in (1000, 2000):
            give(query, [row(1, 1, 1, begin + later)])
        left.append(query.state_bytes)
    assert {*left[8:]} <= {*left[:8]}
    assert max(left) < min(largest)


def test_states_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    query = StreamingQuery(resolve(parse(STREAM + RISE)), random.Random(1), 2)
    give(query, [row(1, 1, 1, 1), row(1, 2, 2, 2), row(2, 1, 3, 9)])

    def go_on(text: str, *changed: str, shards: int = 2) -> pa.Table:
        graph, states = resolve(parse(text)), dict(query.states)
        other = StreamingQuery(graph, random.Random(1), shards, restart=Restart(frozenset(changed)), states=states)
        return give(other, [row(1, 1, 4, 20)])

    assert go_on(STREAM + RISE).num_rows == 0
    with pytest.raises(StateError, match="the checkpoint's state is in 2 shards, and the query runs with 1"):
        go_on(STREAM + RISE, shards=1)
    with pytest.raises(StateError, match="the snapshot's state of M is of another program"):
        go_on(STREAM + RISE.replace("5 s", "6 s"))
    with pytest.raises(StateError, match=r"the checkpoint has state of M, which the query does not have\.\n"):
        go_on(STREAM + RISE.replace("M", "N"))
    assert go_on(STREAM + RISE.replace("M", "N"), "M").num_rows == 0
    monkeypatch.setattr(snapshot, "VERSION", snapshot.VERSION + 1)
    with pytest.raises(StateError, match="the snapshot has version"):
        go_on(STREAM + RISE)


def test_a_rule_that_another_one_moves_is_refused() -> None:
    """F goes with the first rule that reads it by key; the others are of the next stage."""
    judged = STREAM + "define F(k, v) detect A(v > 0) as a assign k = a.k, v = a.v\n"
    rules = {name: f"subscribe {name} detect F as a then F as b within 5 s group by {name.lower()}\n" for name in "KV"}
    query = StreamingQuery(resolve(parse(judged + rules["K"])), random.Random(1), 2, levels=2)
    give(query, [row(1, 1, 1, 1), row(1, 2, 2, 2)])
    with pytest.raises(StateError, match="the checkpoint has state of K, which the query does not have in this place"):
        give(query.restarted(resolve(parse(judged + rules["V"] + rules["K"]))), [row(1, 1, 3, 3)])
    give(query.restarted(resolve(parse(judged + rules["K"] + rules["V"]))), [row(1, 1, 3, 3)])


def test_figures_count_rows_candidates_and_duplicates() -> None:
    text = STREAM.replace(" watermark", " unique n watermark") + FEW
    query = StreamingQuery(resolve(parse(text)), random.Random(1), 3)
    rows = [row(k, v, n, 3) for n, (k, v) in enumerate((k, v) for k in range(5) for v in range(4))]
    result = give(query, [*rows, *rows[:7], row(1, 1, 99, None)])
    figures = {name: sum(figure[name] for figure in query.figures) for name in ("input", "events", "duplicates")}
    candidates = [r for r in [*rows, *rows[:7]] if r["v"] >= 2]
    assert figures == {"input": 28, "events": len(candidates), "duplicates": 0}  # time has not passed yet
    assert [(r["_kind"], r["_name"], json.loads(r["_row"])["n"]) for r in result.to_pylist()] == [("rejected", "A", 99)]
    result = give(query, [row(1, 1, 100, 50)])
    duplicates = [r for r in rows[:7] if r["v"] >= 2]
    assert sum(figure["duplicates"] for figure in query.figures) == len(duplicates)
    assert sum(figure["found"] for figure in query.figures) == result.num_rows == 5
    assert sum(figure["state_bytes"] for figure in query.figures) == query.state_bytes


FEW = "subscribe M detect A(v = 2) as a then A(v = 3) as b within 5 s assign k = a.k group by k\n"


def test_wall_time_lets_time_pass_without_rows() -> None:
    """B sends nothing: after five seconds its silence holds A no longer back, in all stages."""
    streams = STREAM + "stream B(k int, v int, n int, ts int) time ts in s idle after 5 s\n"
    pair = "detect {0} as a then {0} as b within 5 s assign k = b.v, v = a.v group by k\n"
    rules = f"define D(k, v) {pair.format('A')}subscribe M {pair.format('D')}subscribe N detect B(v > 0)"
    query = StreamingQuery(resolve(parse(streams + rules)), random.Random(1), 2)
    assert give(query, [row(1, 1, 1, 1), row(1, 1, 2, 2), row(1, 1, 3, 3), row(1, 1, 4, 9)], now=50.0).num_rows == 0
    assert set(query.timers.values()) == {55.0}
    assert give(query, [row(1, 1, 5, 9)], now=54.0).num_rows == 0
    assert query.micro_batch({}, now=54.9).num_rows == 0
    found = query.found([query.micro_batch({}, now=55.0)])
    assert (found["D"].total(), found["M"].total()) == (2, 1)
    assert not query.timers
    late = give(query, [row(1, 1, 6, 6), row(1, 0, 7, 5), row(1, 1, 8, 7)], "B", now=56.0)
    assert late_rows(late) == Counter({("B", 1, '{"k": 1, "v": 1, "n": 6, "ts": 6}'): 1})
    assert set(query.timers.values()) == {61.0}


#: What D finds is certain later than its time; M is of the next stage.
UNCERTAIN = [
    f"detect {pattern} within 3 s assign k = group.k, v = b.v group by k after match {skip}"
    for pattern, skip in [
        ("A as a then A(v = a.v + 1) as b", "skip past last"),
        ("A as a then A(v = a.v + 1) as b", "skip to next"),
        ("A+ as a then A(v > sum(a.v)) as b", "skip to last a"),
    ]
]


@pytest.mark.slow
@pytest.mark.parametrize("rule", UNCERTAIN)
def test_a_later_stage_waits_for_what_is_not_certain_yet(rule: str) -> None:
    streams = "".join(f"stream {name}(k int, v int, n int, ts int) time ts in s\n" for name in "AB")
    reader = "subscribe M detect D as d then B as b within 4 s assign d = d.v, b = b.n"
    graph = resolve(parse(f"{streams}define D(k, v) {rule}\n{reader}"))
    for seed in range(3):
        rng = random.Random(seed)
        events = {name: [row(n % 5 // 4, rng.randrange(4), n, n // 2) for n in range(12)] for name in "AB"}
        query = StreamingQuery(graph, rng, rng.choice(SHARDS))
        results = [query.micro_batch(tables(graph, rows)) for rows in micro_batches(rng, in_time(rng, graph, events))]
        results.append(query.micro_batch(tables(graph, far_away(graph))))
        want = expected(graph, ask_oracle(graph, events))
        assert query.found(results) == want, f"seed {seed}"
