"""The kernel for steps in a row against the one for all patterns: the same matches in the same order, and a state of
the one is a state of the other."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import situ
from situ.kernel.arrays import RUNS_USED
from situ.kernel.case_run import CaseRun
from situ.kernel.matching import matcher
from situ.kernel.matching.matcher import Shard
from situ.kernel.matching.sequences import is_sequence
from situ.kernel.pattern_operator import PatternOperator
from situ.kernel.state.case_state import FEW_EVENTS

STREAM = "stream R(k int, v int, ts int) time ts in s\n"


def _query(random_: random.Random) -> str:
    conditions = ("v = {}", "v > {}", "v < {}")
    steps, aliases = list[str](), "abcde"[: random_.randint(2, 5)]
    for number, alias in enumerate(aliases):
        asked = [random_.choice(conditions).format(random_.randrange(5))] if random_.random() < 0.8 else []
        if number and random_.random() < 0.3:
            asked.append(f"v >= {random_.choice(aliases[:number])}.v")
        steps.append(f"R({' and '.join(asked)}) as {alias}" if asked else f"R as {alias}")
    within = random_.choice(("within 9 s", "within 40 s", "within 8 s from previous"))
    after = random_.choice(("", "", "after match skip past last", "after match skip to next"))
    group_by = random_.choice(("group by k", "group by k", ""))
    assign = ", ".join(f"{alias} = time({alias})" for alias in aliases)
    return f"{STREAM}subscribe S detect {' then '.join(steps)} {within} assign {assign} {group_by} {after}"


def _found(query: str, pieces: list[pa.Table], restarts: random.Random | None) -> list[dict[str, object]]:
    engine, found = situ.Engine(query, threads=2), list[dict[str, object]]()
    for piece in pieces:
        found += engine.feed(piece).complex_events["S"].to_pylist()
        if restarts is not None and restarts.random() < 0.5:
            state = engine.snapshot()
            engine = situ.Engine(query, threads=2)
            engine.restore(state)
    return found + engine.close().complex_events["S"].to_pylist()


def _pieces(random_: random.Random) -> list[pa.Table]:
    rows = 240
    keys, values = ([random_.randrange(n) for _ in range(rows)] for n in (3, 5))
    times = sorted(random_.randrange(rows // 2) for _ in range(rows))
    table = pa.table({"k": keys, "v": values, "ts": times})
    cuts = sorted(random_.randrange(rows) for _ in range(5))
    return [table.slice(begin, end - begin) for begin, end in zip([0, *cuts], [*cuts, rows], strict=True)]


@pytest.mark.parametrize("seed", range(12))
def test_sequences_are_matched_as_by_the_kernel_for_all_patterns(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random_ = random.Random(seed)
    monkeypatch.setattr(matcher, "POOL", 8)  # so that there is too little room now and then
    query, pieces = _query(random_), _pieces(random_)
    of_sequences = _found(query, pieces, None)
    restarted = _found(query, pieces, random.Random(seed))
    with monkeypatch.context() as without:
        without.setattr(matcher, "is_sequence", lambda code: False)
        expected = _found(query, pieces, None)
        snapshot = situ.Engine(query)
        snapshot.feed(pieces[0])
        state = snapshot.snapshot()
    assert of_sequences == expected
    assert sorted(map(str, restarted)) == sorted(map(str, expected))
    taken_over = situ.Engine(query)
    taken_over.restore(state)
    rest = [row for piece in pieces[1:] for row in taken_over.feed(piece).complex_events["S"].to_pylist()]
    rest += taken_over.close().complex_events["S"].to_pylist()
    assert sorted(map(str, rest)) == sorted(map(str, expected[len(expected) - len(rest) :]))


@pytest.mark.parametrize(
    ("pattern", "is_one"),
    [
        ("R(v = 1) as a then R(v = 2) as b within 5 s", True),
        ("R(v = 1) as a then R(v > a.v) as b within 5 s", True),
        ("R(v = 1) as a then each R(v = 2) as b within 5 s", False),
        ("R(v = 1) as a then not R(v = 3) then R(v = 2) as b within 5 s", False),
        ("R(v = 1){2,} as a then R(v = 2) as b within 5 s", False),
        ("R(v = 1) as a then immediately R(v = 2) as b within 5 s", False),
        ("R(v = 1) as a", False),
        ("R(v = 1) as a then R(v = 2) as b within 5 s from b", False),
    ],
)
def test_which_programs_are_sequences(pattern: str, is_one: bool) -> None:
    engine = situ.Engine(f"{STREAM}subscribe S detect {pattern} assign n = 1 group by k")
    (case,) = engine.programs["S"].cases
    assert is_sequence(case.program.code) is is_one


def test_sequences_run_in_their_own_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise AssertionError("the kernel for all patterns was used")

    monkeypatch.setattr(Shard, "run", fails)
    query = f"{STREAM}subscribe S detect R(v = 1) as a then R(v = 2) as b within 5 s assign n = 1"
    engine = situ.Engine(query)
    engine.feed(pa.table({"k": [1, 1], "v": [1, 2], "ts": [0, 1]}))
    assert engine.close().complex_events["S"].num_rows == 1


def _only_case(engine: situ.Engine) -> CaseRun:
    (node,) = engine._flow.nodes.values()
    assert isinstance(node.operator, PatternOperator)
    (case,) = node.operator.cases
    return case


def test_partial_matches_that_are_over_do_not_pile_up() -> None:
    """No event ever continues one, so that no event looks at them."""
    engine = situ.Engine(f"{STREAM}subscribe S detect R(v = 1) as a then R(v = 2) as b within 5 s assign n = 1")
    rows = 3_000
    engine.feed(pa.table({"k": [1] * rows, "v": [1] * rows, "ts": list(range(rows))}))
    (shard,) = _only_case(engine).state.matcher.shards
    assert shard.counters[RUNS_USED] <= 32


def test_events_that_nobody_holds_do_not_pile_up() -> None:
    """Fed one by one: they are left out together, when there are many."""
    engine = situ.Engine(f"{STREAM}subscribe S detect R(v = 1) as a then R(v = 2) as b within 5 s assign n = 1")
    retained = []
    for second in range(300):
        engine.feed({"k": 1, "v": 1, "ts": second})
        retained.append(len(_only_case(engine).state.retained))
    assert 32 < max(retained) <= 2 * 7 + FEW_EVENTS + 1
    engine.snapshot()
    assert len(_only_case(engine).state.retained) <= 7
