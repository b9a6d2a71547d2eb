"""Many rules that run as one beside each of them by itself, over all operators and policies: whole, in pieces, after
restarts, and with rules that come and go. One rule by itself is what the oracle judges (tests/conformance)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from runtime.comparison import tables
from silences import quiet_scenario
from situ.core.errors import MemoryExceeded, SituError
from situ.core.functions import default
from situ.flow.nodes import FamilyNode
from situ.graph.expressions import Expression, In, Literal, replace_children
from situ.graph.operators import OperatorGraph
from situ.graph.patterns import Absence, And, EventTest, Loop, Or, Pattern, Seq, Step
from situ.graph.query import Query, Rule, Subscription
from situ.kernel.compile import Programs, refuse_unbounded_state
from situ.kernel.operator import contexts_of
from situ.lang.resolve import resolve
from situ.runtime.embedded import Engine, Output
from strategies import Rows, Scenario, random_scenario

Found = dict[tuple[str, str], Counter[tuple[Any, ...]]]


def other_constants(expression: Expression, rng: random.Random) -> Expression:
    """The expression with other integers."""
    match expression:
        case Literal(int(value)) if not isinstance(value, bool):
            return Literal(rng.choice([value, 0, 1, 2, 3]))
        case In(operand, items, negated):
            return In(other_constants(operand, rng), tuple(other_constants(i, rng) for i in items), negated)  # type: ignore[misc]
        case _:
            return replace_children(expression, lambda child: other_constants(child, rng))


def other_test(test: EventTest, rng: random.Random) -> EventTest:
    return test if test.condition is None else replace(test, condition=other_constants(test.condition, rng))


def other_pattern(pattern: Pattern, rng: random.Random) -> Any:
    match pattern:
        case Step():
            return replace(pattern, test=other_test(pattern.test, rng))
        case Loop():
            until = pattern.until and other_test(pattern.until, rng)
            return replace(pattern, body=other_pattern(pattern.body, rng), until=until)
        case Seq(parts):
            return Seq(tuple(
                replace(part, test=other_test(part.test, rng)) if isinstance(part, Absence)
                else replace(part, pattern=other_pattern(part.pattern, rng)) for part in parts
            ))  # fmt: skip
        case And(steps):
            return And(tuple(other_pattern(step, rng) for step in steps))
        case Or(alternatives):
            return Or(tuple(other_pattern(alternative, rng) for alternative in alternatives))


def other_rule(rule: Rule, rng: random.Random) -> Rule:
    return replace(rule, cases=tuple(
        replace(
            case,
            detect=other_pattern(case.detect, rng),
            assign=tuple(replace(a, expression=other_constants(a.expression, rng)) for a in case.assign),
        )
        for case in rule.cases
    ))  # fmt: skip


def some_scenario(seed: int, **options: Any) -> Scenario:
    """One of three with silences."""
    return quiet_scenario(seed) if seed % 3 == 2 else random_scenario(seed, **options)


def rules_like(scenario: Scenario, rng: random.Random, count: int = 4) -> Query:
    """The query with its subscription, others of about the same shape, and one that has nothing in common with it."""
    (first,) = scenario.query.subscriptions
    others = [Subscription(f"M{n}", other_rule(first.rule, rng)) for n in range(count)]
    return replace(scenario.query, subscriptions=(first, *others))


def alone(query: Query, name: str) -> OperatorGraph:
    return resolve(replace(query, subscriptions=tuple(s for s in query.subscriptions if s.name == name)))


def counted(outputs: Iterable[Output], names: Iterable[str]) -> Found:
    found: Found = {}
    for output in outputs:
        for kind in ("complex_events", "timed_out"):
            for name, table in getattr(output, kind).items():
                rows = Counter(tuple(map(repr, row.values())) for row in table.to_pylist())
                found[kind, name] = found.get((kind, name), Counter()) + rows
    return {(kind, name): rows for (kind, name), rows in found.items() if name in {*names} and rows}


def fed(events: Rows, rng: random.Random) -> list[Rows]:
    """Events in order of time, cut anywhere."""
    ordered = sorted(((row["ts"], name, row) for name, rows in events.items() for row in rows), key=lambda e: e[:2])
    pieces: list[Rows] = [{}]
    for _, name, row in ordered:
        if rng.random() < 0.4:
            pieces.append({})
        pieces[-1].setdefault(name, []).append(row)
    return pieces


def feed(engine: Engine, piece: Rows) -> list[Output]:
    return [engine.feed(table, name) for name, table in tables(engine.graph, piece).items() if table.num_rows]


def joint_rules(engine: Engine) -> int:
    return sum(isinstance(node, FamilyNode) for node in engine._flow.nodes.values())


def resolved(query: Query) -> OperatorGraph | None:
    try:
        return resolve(query)
    except SituError:
        return None  # with these constants a type does not fit


def is_bounded(graph: OperatorGraph) -> bool:
    try:
        refuse_unbounded_state(graph)
    except SituError:
        return False
    return True


def found_by_all(engine: Engine, query: Query, events: Rows) -> Found | None:
    """What rules find that run as one; None if one of them by itself, too, has more matches than memory."""
    names = [subscription.name for subscription in query.subscriptions]
    try:
        return counted(engine.run(tables(engine.graph, events)), names)
    except MemoryExceeded:
        assert any(_exceeds_memory(alone(query, name), events) for name in names)
        return None


def _exceeds_memory(graph: OperatorGraph, events: Rows) -> bool:
    try:
        for _ in Engine(graph).run(tables(graph, events)):
            pass
    except MemoryExceeded:
        return True
    return False


def seeds(count: int, block: int) -> list[Any]:
    return [pytest.param(range(n, n + block), marks=[pytest.mark.storm] if n >= count else []) for n in
            range(0, 40 * count, block)]  # fmt: skip


@pytest.mark.parametrize("block", seeds(60, 60))
def test_rules_that_run_as_one_find_what_each_finds(block: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of them a few events at a time, or without gathering their columns, as where there are many pairs of a rule
    and an event."""
    joint = complex_events = 0
    for seed in block:
        rng = random.Random(seed)
        monkeypatch.setattr("situ.flow.family.PAIRS_AT_ONCE", rng.choice([5, 1 << 22]))
        monkeypatch.setattr("situ.kernel.state.store._MANY_PAIRS", 4096 * (seed % 2))
        scenario = some_scenario(seed, most=14, duplicates=seed % 4 == 0)
        query = rules_like(scenario, rng)
        graph = resolved(query)
        if graph is None:
            continue
        threads = rng.choice([1, 2])
        engine = Engine(graph, threads=threads)
        joint += joint_rules(engine)
        names = [subscription.name for subscription in query.subscriptions]
        found = found_by_all(engine, query, scenario.events)
        if found is None:
            continue
        for name in names:
            own = alone(query, name)
            expected = counted(Engine(own).run(tables(own, scenario.events)), [name])
            mine = {key: rows for key, rows in found.items() if key[1] == name}
            assert mine == expected, (seed, name)
            complex_events += sum(map(len, expected.values()))
    assert joint > 2 * len(block)
    assert complex_events > len(block)


@pytest.mark.parametrize("block", seeds(20, 20))
def test_rules_that_run_as_one_in_pieces_with_restarts_come_and_go(
    block: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart rules may be gone, and others there: those that stay find what they find by themselves, and those
    that come what an engine finds that begins then."""
    complex_events = 0
    for seed in block:
        rng = random.Random(seed)
        monkeypatch.setattr("situ.kernel.state.store._MANY_PAIRS", 4096 * (seed % 2))
        scenario = some_scenario(seed, most=14, duplicates=seed % 4 == 0)
        query = rules_like(scenario, rng)
        graph = resolved(query)
        if graph is None or not is_bounded(graph):
            continue
        names = [subscription.name for subscription in query.subscriptions]
        pieces = fed(scenario.events, rng)
        here = {name for name in names if rng.random() < 0.7} or {names[0]}
        running = Engine(some(query, here), threads=rng.choice([1, 2]))
        by_itself = {name: Engine(alone(query, name)) for name in here}
        outputs: list[Output] = []
        expected: dict[str, list[Output]] = {name: [] for name in names}
        for piece in pieces:
            outputs += feed(running, piece)
            for name, engine in by_itself.items():
                expected[name] += feed(engine, piece)
            if rng.random() < 0.5:
                gone = {name for name in sorted(here) if rng.random() < 0.2}
                come = {name for name in names if name not in here and rng.random() < 0.5}
                if here - gone | come:
                    here = here - gone | come
                    snapshot = running.snapshot()
                    running = Engine(some(query, here), threads=rng.choice([1, 2]))
                    running.restore(snapshot)
                    by_itself = restarted(query, by_itself, here, snapshot, rng)
        outputs.append(running.close())
        for name, engine in by_itself.items():
            expected[name].append(engine.close())
        found = counted(outputs, names)
        for name in names:
            mine = {key: rows for key, rows in found.items() if key[1] == name}
            assert mine == counted(expected[name], [name]), (seed, name)
            complex_events += sum(map(len, mine.values()))
    assert complex_events > len(block) // 2


def some(query: Query, names: set[str]) -> OperatorGraph:
    return resolve(replace(query, subscriptions=tuple(s for s in query.subscriptions if s.name in names)))


def restarted(
    query: Query, engines: dict[str, Engine], here: set[str], snapshot: bytes, rng: random.Random
) -> dict[str, Engine]:
    """Engines of one rule each, from their own snapshots or from that of all rules together: both must fit."""
    new = {}
    for name in sorted(here):
        new[name] = Engine(alone(query, name))
        new[name].restore(engines[name].snapshot() if name in engines and rng.random() < 0.5 else snapshot)
    return new


QUERY = """
stream A(k int, v int, ts int) time ts in s
subscribe One   detect A(v = 1) as a then A(v > a.v + 1) as b within 9 s assign k = a.k, rule = 'one', by = 5 group by k
subscribe Two   detect A(v = 2) as a then A(v > a.v + 2) as b within 9 s assign k = a.k, rule = 'two', by = 6 group by k
subscribe Three detect A(v in (1, 3)) as a then A(v > a.v + 3) as b within 9 s
  assign k = a.k, rule = 'three', by = 7 group by k
"""


def test_constants_come_out_by_rule() -> None:
    engine = Engine(QUERY)
    assert joint_rules(engine) == 3
    values = [1, 2, 3, 4, 5, 6]
    (output,) = engine.run(pa.table({"k": [0] * 6, "v": values, "ts": values}))
    rows = {name: table.to_pylist() for name, table in output.complex_events.items()}
    assert {(name, row["rule"], row["by"]) for name, of in rows.items() for row in of} == {
        ("One", "one", 5), ("Two", "two", 6), ("Three", "three", 7)
    }  # fmt: skip
    assert [len(of) for of in rows.values()] == [1, 1, 1]


def test_a_rule_that_is_removed_leaves_nothing_to_the_next_of_its_number() -> None:
    graph = resolve_of(QUERY)
    engine = Engine(graph)
    flow = engine._flow
    engine.feed(pa.table({"k": [0, 0], "v": [1, 0], "ts": [1, 2]}))  # time has passed the first one
    context = flow.programs.contexts["One"]  # type: ignore[attr-defined]
    flow.remove_rule("One")
    flow.add_rule(context)
    output = engine.feed(pa.table({"k": [0, 0], "v": [3, 9], "ts": [3, 20]}))
    assert output.complex_events["One"].num_rows == 0
    assert isinstance(flow.nodes["One"], FamilyNode)


def resolve_of(text: str) -> OperatorGraph:
    from situ.lang.parse import parse

    return resolve(parse(text))


@pytest.mark.parametrize("block", seeds(120, 120))
def test_a_shape_tells_of_a_rule_what_its_own_program_tells(block: range) -> None:
    """So that planners need not compile thousands of rules."""
    shaped = 0
    for seed in block:
        rng = random.Random(seed)
        graph = resolved(rules_like(some_scenario(seed), rng))
        if graph is None:
            continue
        programs = Programs(contexts_of(graph, default, provenance=False))
        for name in programs:
            own = programs[name]
            tests = own.tests()
            judged = {c for conditions in tests.values() for c in conditions if rng.random() < 0.5}
            assert {t: {*c} for t, c in programs.tests(name).items()} == {t: {*c} for t, c in tests.items()}
            assert programs.columns_read(name, judged) == own.columns_read(judged)
            assert programs.template(name).counts_positions == own.counts_positions
            assert programs.template(name).begins_in_silence == own.begins_in_silence
            shaped += programs.shaped(name) is not None
    assert shaped > 3 * len(block)
