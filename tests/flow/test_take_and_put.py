"""State that is taken out of a flow and put into another one: nothing is lost, nothing comes twice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flow.test_flow import STREAM, batch, flow_of
from situ.core.errors import StateError
from situ.kernel.operator import Produced
from situ.kernel.state.snapshot import pack, unpack

RULES = {
    "pattern": "subscribe S detect A as a then A(v > a.v) as b within 6 s assign v = b.v group by k",
    "each": "subscribe S detect A as a then each A(v > a.v) as b within 6 s assign a = a.v, b = b.v group by k",
    "loop": "subscribe S detect A as a then A(v = a.v)+ greedy as b within 8 s assign n = count(b) group by k",
    "absence": "subscribe S detect A(v > 2) as a then not A(v = 0) within 3 s assign v = a.v group by k",
    "timed out": "subscribe S detect A(v > 2) as a then A(v = 0) as b within 3 s assign v = a.v group by k"
    "  report timed out",
    "skip": "subscribe S detect A as a then A as b then A(v > a.v) as c within 9 s assign v = c.v group by k"
    "  after match skip past last",
    "consuming": "subscribe S detect A as a then A(v > a.v) as b within 6 s assign v = b.v consuming a group by k",
    "last": "subscribe S detect A as a then last A(v > 1) as b within 4 s assign a = a.v, b = b.v group by k",
    "positions": "subscribe S detect A as a then immediately A(v > a.v) as b within 6 s assign v = b.v group by k",
    "windows": "subscribe S aggr every 2 s over 5 s detect A as a assign n = count(a), v = sum(a.v) group by k",
    "windows of events": "subscribe S aggr every 2 events over 3 events detect A as a assign v = sum(a.v) group by k",
    "join": "subscribe S join every 3 s on v detect A(v > 0) as a and A(v < 3) as b assign v = a.v group by k",
    "chain": "define Rise(k, v) detect A as a then A(v > a.v) as b within 3 s assign k = b.k, v = b.v group by k\n"
    "subscribe S detect Rise as r then Rise as s within 6 s assign r = r.v, s = s.v group by k",
}
KEYS, STEPS = 5, 40

Found = Counter[tuple[Any, ...]]


def rows_of(produced: dict[str, Produced]) -> Found:
    found: Found = Counter()
    for name, result in produced.items():
        for kind, events in (("", result.events), (" timed out", result.timed_out)):
            columns = [column.to_pylist() for column in events.columns.values()]
            found.update((name + kind, *row) for row in zip(events.times.tolist(), *columns, strict=True))
    return found


def random_rows(random: np.random.Generator) -> list[tuple[int, int, int]]:
    """Rows (k, v, ts) of one step; times in microseconds, which are seconds to the rules' windows."""
    return [(int(random.integers(KEYS)), int(random.integers(4)), 0) for _ in range(random.integers(0, 5))]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.storm) for seed in range(1, 6))])
@pytest.mark.parametrize("rule", RULES)
def test_groups_that_move_between_flows_find_what_they_find_in_one(rule: str, seed: int) -> None:
    random = np.random.default_rng([seed, *rule.encode()])
    text = STREAM + RULES[rule]
    (whole, whole_ports), *parts = [flow_of(text) for _ in range(3)]
    flows = [flow for flow, _ in parts]
    place = np.zeros(KEYS, np.int64)
    expected, found = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    for step in range(1, STEPS + 1):
        time_us = step * 700_000
        rows = [(k, v, time_us) for k, v, _ in random_rows(random)]
        whole.add(whole_ports["A"], batch(*rows))
        for number, (flow, ports) in enumerate(parts):
            flow.add(ports["A"], batch(*(row for row in rows if place[row[0]] == number)))
        passed = time_us if step < STEPS else int(np.iinfo(np.int64).max)
        expected += rows_of(whole.advance(passed))
        for flow in flows:
            found += rows_of(flow.advance(passed))
        # What has come is at `time_us`, which has not passed: it waits, and moves along.
        movers = np.flatnonzero(random.random(KEYS) < 0.3)
        for number, flow in enumerate(flows):
            mine = movers[place[movers] == number]
            other = flows[1 - number]
            other.put(unpack(pack(flow.take_groups([pa.array(mine)]))))
        place[movers] = 1 - place[movers]
    assert found == expected
    assert sum(expected.values()) > 0


@pytest.mark.parametrize("seed", range(3))
def test_an_operator_that_moves_goes_on_elsewhere(seed: int) -> None:
    random = np.random.default_rng(seed)
    text = STREAM + RULES["chain"]
    whole, whole_ports = flow_of(text)
    home, home_ports = flow_of(text)
    away, _ = flow_of(text)
    program = away.programs["S"]
    away.take("S")
    away.take("Rise")
    at_home = True
    expected, found = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    for step in range(1, STEPS + 1):
        time_us = step * 700_000
        rows = [(k, v, time_us) for k, v, _ in random_rows(random)]
        for flow, ports in ((whole, whole_ports), (home, home_ports)):
            flow.add(ports["A"], batch(*rows))
        passed = time_us if step < STEPS else int(np.iinfo(np.int64).max)
        expected += Counter({row: n for row, n in rows_of(whole.advance(passed)).items() if row[0] == "S"})
        made = home.advance(passed)
        found += Counter({row: n for row, n in rows_of(made).items() if row[0] == "S"})
        if not at_home:
            away.add(away.port("Rise"), made["Rise"].events)
            found += rows_of(away.advance(passed, {"Rise": made["Rise"].low_watermark}))
        if random.random() < 0.3:
            if at_home:
                away.put(unpack(pack(home.take("S"))), program)
            else:
                home.put(unpack(pack(away.take("S"))), program)
            at_home = not at_home
    assert found == expected
    assert sum(expected.values()) > 0


def test_a_group_is_put_in_once() -> None:
    flow, ports = flow_of(STREAM + RULES["pattern"])
    flow.add(ports["A"], batch((1, 1, 10)))
    flow.advance(20)
    state = flow.snapshot()
    with pytest.raises(StateError, match="given once more"):
        flow.put(state)


def test_groups_leave_a_flow_with_a_stream_that_nobody_reads() -> None:
    flow, ports = flow_of(STREAM + "stream B(k int, v int, ts int) time ts in s\n" + RULES["pattern"])
    flow.add(ports["A"], batch((1, 1, 10)))
    flow.add(ports["B"], batch((1, 1, 10)))
    state = flow.take_groups([pa.array([1])])
    other, _ = flow_of(STREAM + RULES["pattern"])
    other.put(state)
    assert [len(waiting) for waiting in other.nodes["S"].inboxes["A"].waiting] == [1]
