"""What runs together, what crosses, and what the plan says of it."""

from __future__ import annotations

import pytest

from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.spark.plan.partitioning import Anywhere, ByKey, BySlice, OneTask, Partitioning, partitioning_of
from situ.runtime.spark.plan.plan import SparkPlan, plan_on_spark

MINUTE = 60_000_000
STREAMS = """
stream A(k int, m int, v int, x double, ts timestamp) time ts
stream B(k int, m int, v int, ts timestamp) time ts  order v
"""


def plan(rules: str) -> SparkPlan:
    return plan_on_spark(resolve(parse(STREAMS + rules)))


def partitioning(rule: str) -> Partitioning:
    graph = resolve(parse(f"{STREAMS} subscribe Q {rule}"))
    return partitioning_of(graph.operators[-1])


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("detect A(v > 3) as a", Anywhere()),
        ("detect A(v > 3) as a or B as b", Anywhere()),
        ("detect A as a then B as b within 1 s group by k", ByKey(("k",))),
        ("detect A as a then B as b within 1 min group by k, m", ByKey(("k", "m"))),
        ("detect A as a then B as b within 2 min", BySlice(8 * MINUTE, 2 * MINUTE)),
        ("detect A as a then B as b within 1 s", BySlice(MINUTE, MINUTE // 60)),
        ("detect A as a and B as b within 2 min", BySlice(8 * MINUTE, 2 * MINUTE)),
        ("detect A as a then last B as b within 2 min", BySlice(8 * MINUTE, 2 * MINUTE)),
        ("detect A as a then B as b then not A within 2 min", BySlice(8 * MINUTE, 2 * MINUTE)),
        ("detect A as a then B{1,3} as b within 1 min from previous", BySlice(12 * MINUTE, 3 * MINUTE)),
        ("aggr every 1 min over 5 min detect A as a assign n = count(a)", BySlice(20 * MINUTE, 5 * MINUTE)),
        ("aggr every 1 min detect A as a assign n = count(a) group by k", ByKey(("k",))),
    ],
)  # fmt: skip
def test_partitioning(rule: str, expected: Partitioning) -> None:
    assert partitioning(rule) == expected


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("detect A as a then B as b within 1 s after match skip past last", "skipping"),
        ("detect A as a then B as b within 1 s after match pause 1 h", "pause"),
        ("detect A as a after match pause 1 h", "pause"),
        ("detect once A as a then B as b within 1 s", "once"),
        ("detect once A as a", "once"),
        ("detect A as a then B as b within 1 s consuming a", "consumption"),
        ("detect last A as a then B as b within 1 s", "selector"),
        ("detect A as a then B as b", "no window"),
        ("detect A as a then B+ as b within 1 min from previous", "no longest duration"),
        ("aggr every 10 events detect A as a assign n = count(a)", "count events"),
    ],
)
def test_one_task_says_why(rule: str, reason: str) -> None:
    found = partitioning(rule)
    assert isinstance(found, OneTask)
    assert reason in found.reason


def stages(plan: SparkPlan) -> list[list[str]]:
    return [[" ".join(o.name for o in route.operators) for route in stage.routes] for stage in plan.stages]


def test_operators_of_one_key_share_a_route() -> None:
    assert stages(plan("""
        subscribe P detect A as a then B as b within 1 s group by k
        subscribe Q detect B as a then A as b within 1 s group by k
        subscribe R detect B as a then A as b within 1 s group by m
    """)) == [["P Q", "R"]]  # fmt: skip


def test_a_chain_with_one_key_is_one_stage() -> None:
    assert stages(plan("""
        define D(k) detect A as a then B as b within 1 s assign k = b.k group by k
        subscribe P detect D as d then A as a within 1 s group by k
    """)) == [["D P"]]  # fmt: skip


def test_a_chain_that_regroups_takes_a_stage_for_each_key() -> None:
    assert stages(plan("""
        define D(m) detect A as a then B as b within 1 s assign m = b.m group by k
        define E(m) detect D as a then D as b within 1 s assign m = b.m group by m
        subscribe P detect E as e then A as a within 1 s
    """)) == [["D"], ["E"], ["P"]]  # fmt: skip


def test_a_key_that_was_changed_on_the_way_regroups() -> None:
    assert stages(plan("""
        define D(k) detect A as a then B as b within 1 s assign k = b.k + 1 group by k
        subscribe P detect D as d then A as a within 1 s group by k
    """)) == [["D"], ["P"]]  # fmt: skip


def test_filters_run_where_their_readers_run() -> None:
    assert stages(plan("""
        define D(k) detect A(v > 3) as a assign k = a.k
        subscribe P detect D as d then B as b within 1 s group by k
    """)) == [["D P"]]  # fmt: skip


def test_a_filter_with_readers_by_two_keys_is_made_before_one_of_them() -> None:
    found = stages(plan("""
        define D(k, m) detect A(v > 3) as a assign k = a.k, m = a.m
        subscribe P detect D as d then B as b within 1 s group by k
        subscribe Q detect D as d then B as b within 1 s group by m
    """))  # fmt: skip
    assert found == [["D P"], ["Q"]]


def test_what_runs_anywhere_joins_a_route_that_reads_the_same() -> None:
    assert stages(plan("""
        subscribe P detect A(v > 3) as a
        subscribe Q detect A as a then B as b within 1 s group by k
    """)) == [["P Q"]]  # fmt: skip


def test_slices_are_not_read_by_what_would_see_events_twice() -> None:
    found = stages(plan("""
        define D(v) detect A as a then B as b within 1 s assign v = b.v
        subscribe P detect D as d
        subscribe Q detect D as d or A as a
    """))  # fmt: skip
    assert found == [["D P"], ["Q"]]


def test_explain_says_what_is_pushed_and_what_crosses() -> None:
    text = str(plan("""
        subscribe P
          detect   A(v > 3 and x < 1) as a then A(v = 1) as b then B(v = 2) as c within 1 s
          assign   k = a.k
          group by k
    """))  # fmt: skip
    assert (
        text
        == """\
read A: rows that fulfil a test
  test 0 in Catalyst: this.v > 3 and this.x < 1
  test 1 in Catalyst: this.v = 1
  cross: the time, k, m, v, x, marks of the tests
  m, v, x: only because equal times are ordered by all attributes; \
`order ATTRIBUTE` in the declaration of A would need that one alone
read B: rows that fulfil a test
  test 0 in Catalyst: this.v = 2
  cross: the time, k, v
stage 1
  run by key: k
    P, from A, B"""
    )


def test_positions_let_all_rows_cross() -> None:
    text = str(plan("subscribe P detect A(v = 1) as a then immediately A(v = 2) as b within 1 s group by k"))
    assert "read A: all rows" in text
    assert "all rows cross: positions count in P" in text
