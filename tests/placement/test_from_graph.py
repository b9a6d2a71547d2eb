"""Rules of every kind -> what the planner sees of them; and what is wrong with statistics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from situ.core.errors import SituError
from situ.graph.operators import OperatorGraph
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.network import Link, Network, NetworkError, Site
from situ.network.statistics import Statistics, StatisticsError
from situ.placement.coverage import Coverage
from situ.placement.from_graph import planned, problem_of
from situ.placement.problem import Input, Kind, Limits, PlacementError, PlannedOperator

STREAMS = "".join(f"stream {name}(v int, k int, ts timestamp) time ts\n" for name in "ABCDEFGHIX")
NETWORK = Network(tuple(map(Site, "pqr")), (Link("p", "q", 2.0), Link("q", "r", 3.0)))
RATES = {"A": {"p": 1.0, "q": 0.5}, "B": {"r": 2.0}}


def graph_of(*rules: str) -> OperatorGraph:
    return resolve(parse(STREAMS + "\n".join(rules)))


def operator_of(detect: str, selectivity: dict[str, float] | None = None, before: str = "") -> PlannedOperator:
    graph = graph_of(f"subscribe S {before} detect {detect}")
    return planned(graph.operators[0], selectivity or {})


@dataclass(frozen=True)
class Row:
    """A `detect` clause, with what may follow it, and what is expected."""

    detect: str
    kind: Kind
    events: str
    can_pull: bool = False
    window_s: float = 0.0
    each: tuple[bool, ...] = ()
    before: str = ""
    filters: dict[str, str] = field(default_factory=dict)
    every_s: float | None = None
    selectivity: float = 1.0


V_OVER_1 = {"A": "this.v > 1"}
ROWS = [
    Row("A then each B then each C within 3 s", Kind.SEQ, "ABC", True, 3.0, (True, True)),
    Row("A then B then C within 3 s", Kind.SEQ, "ABC", True, 3.0, (False, False)),
    Row("A then each B then C within 500 ms", Kind.SEQ, "ABC", True, 0.5, (True, False)),
    Row("A and B within 2 s", Kind.AND, "AB", True, 2.0),
    Row("B and A and C within 2 s", Kind.AND, "BAC", True, 2.0),
    Row("A or B or C", Kind.OR, "ABC"),
    Row("A", Kind.OR, "A"),
    Row("A(v > 3)", Kind.OR, "A", filters={"A": "this.v > 3"}),
    # Conditions on one event alone are filters; those that join events are not.
    Row("A(v > 3) as a then B(v > a.v) within 1 s", Kind.SEQ, "AB", True, 1.0, (False,), filters={"A": "this.v > 3"}),
    Row("A as a and B(v > a.v and k = 1) as b within 1 s", Kind.AND, "AB", True, 1.0, filters={"B": "this.k = 1"}),
    # A window from event to event is longer as a whole; pull windows do not know it.
    Row("A then B then C within 2 s from previous", Kind.SEQ, "ABC", False, 4.0, (False, False)),
    # A type that is read twice, and whatever judges matches by other matches: one push step.
    Row("A as one then A as two within 1 s", Kind.SEQ, "AA", False, 1.0, (False,)),
    Row("A and A as other within 1 s", Kind.AND, "AA", False, 1.0),
    # Of the events that a selector chooses from, one stays.
    Row("A then first B within 1 s", Kind.SEQ, "AB", False, 1.0, (False,)),
    Row("last A then B within 1 s", Kind.SEQ, "AB", False, 1.0, (False,)),
    Row("A as a then B within 1 s consuming a", Kind.SEQ, "AB", False, 1.0, (False,)),
    Row("A then B within 1 s after match skip past last", Kind.SEQ, "AB", False, 1.0, (False,)),
    Row("A then B within 1 s after match skip to next", Kind.SEQ, "AB", False, 1.0, (False,)),
    Row("A then B within 1 s report timed out", Kind.SEQ, "AB", False, 1.0, (False,)),
    # Nine inputs have 7,087,261 ordered partitions.
    Row(" and ".join("ABCDEFGHI") + " within 1 s", Kind.AND, "ABCDEFGHI", False, 1.0),
    Row(" and ".join("ABCDEFGH") + " within 1 s", Kind.AND, "ABCDEFGH", True, 1.0),
    # Of no simple kind.
    Row("A then not X then B within 1 s", Kind.OTHER, "ABX"),
    Row("A then not X within 1 s", Kind.OTHER, "AX"),
    Row("A then B+ within 1 s", Kind.OTHER, "AB"),
    Row("A(v = 1) then B(v = 2){2,3} within 1 s", Kind.OTHER, "AB", filters={"A": "this.v = 1", "B": "this.v = 2"}),
    Row("(A and B) then C within 1 s", Kind.OTHER, "ABC"),
    Row("(A then B) or C within 1 s", Kind.OTHER, "ABC"),
    Row("A(v = 1) then B(v = 2)? then not B within 1 s", Kind.OTHER, "AB", filters={"A": "this.v = 1"}),
    # Events that fail a filter come between two others all the same.
    Row("A then immediately B(v = 1) within 1 s", Kind.OTHER, "AB"),
    Row("A(v = 1) then B+ immediately within 1 s", Kind.OTHER, "AB"),
    Row("A(v = 1) then not immediately X then B within 1 s", Kind.OTHER, "ABX"),
    Row("A(v = 1) then (B then immediately C) within 1 s", Kind.OTHER, "ABC"),
    # What did not come cannot be asked for afterwards: silences are pushed.
    Row("A(v = 1) then no X(v = 2) for 1 s", Kind.OTHER, "AX", filters={"A": "this.v = 1"}),
    Row("A then no X for 1 s then B within 2 s", Kind.OTHER, "ABX"),
    Row("A(v = 1) then immediately no X for 1 s", Kind.OTHER, "AX"),
    # One that comes first begins with any event of these types.
    Row("no X(v = 2) for 1 s then A(v = 1) within 1 s", Kind.OTHER, "AX"),
    # Windows.
    Row("A(v > 1) assign n = sum(A.v)", Kind.OTHER, "A", before="aggr every 2 s", every_s=2.0, filters=V_OVER_1),
    Row("A assign n = count(A)", Kind.OTHER, "A", before="aggr every 2 s over 6 s", every_s=2.0),
    Row("A(v > 1) assign n = count(A)", Kind.OTHER, "A", before="aggr every 5 events over 10 events", selectivity=0.2),
    Row("A as a and B as b assign x = a.v", Kind.OTHER, "AB", before="join every 4 s on k", every_s=4.0),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.before} {row.detect}".strip())
def test_a_rule_becomes_an_operator(row: Row) -> None:
    found = operator_of(row.detect, before=row.before)
    assert found.name == "S"
    assert found.kind is row.kind
    assert sorted(found.events) == sorted(row.events)
    if row.kind is not Kind.OTHER:
        assert "".join(found.events) == row.events
    assert found.can_pull is row.can_pull
    assert found.window_s == pytest.approx(row.window_s)
    assert found.each == row.each
    assert found.every_s == row.every_s
    assert found.selectivity == pytest.approx(row.selectivity)
    assert {read.event: read.filter for read in found.inputs if read.filter} == row.filters
    assert all(read.share == 1.0 for read in found.inputs)


def test_several_cases_are_of_no_simple_kind() -> None:
    found = planned(
        graph_of(
            "subscribe S case 0: detect A(v = 1) as a assign x = a.v case 1: detect B as b assign x = b.v"
        ).operators[0],
        {},
    )
    assert found.kind is Kind.OTHER
    assert not found.can_pull
    assert found.inputs == (Input("A", 1.0, "this.v = 1"), Input("B"))


def test_selectivities_are_those_of_operators_and_of_inputs_by_alias() -> None:
    found = operator_of("A(v > 3) as a then B(v > a.v and k = 1) as b within 1 s", {"S": 0.3, "S.a": 0.2, "S.b": 0.9})
    assert found.selectivity == 0.3
    assert found.inputs == (Input("A", 0.2, "this.v > 3"), Input("B", 0.9, "this.k = 1"))


def test_a_filter_reads_the_same_whatever_the_alias() -> None:
    """So that operators with equal filters share what is sent."""
    one = operator_of("A(v > 3 and this.k = 2) as a then B within 1 s")
    two = operator_of("B then A(v > 3 and k = 2) as other within 1 s")
    assert one.inputs[0].filter == two.inputs[1].filter != ""


# ---- problems


def problem(*rules: str, **others: Any) -> Any:
    given = {"rates": RATES, "selectivity": {}, **others}
    statistics = Statistics(given.pop("rates"), given.pop("selectivity"))
    rules = rules or ("subscribe S detect A then B within 1 s",)
    return problem_of(graph_of(*rules), NETWORK, statistics, Coverage(), **given)


def test_a_problem_has_the_operators_in_order_and_the_sources_that_they_read() -> None:
    found = problem(
        "subscribe S detect D1 and B within 2 s",
        "define D1(v) detect A as a then each B as b within 1 s assign v = a.v",
        root="r",
    )
    assert [operator.name for operator in found.operators] == ["D1", "S"]
    assert set(found.sources) == {"A", "B"}
    assert found.sources["A"].sites.tolist() == [0, 1]
    assert found.sources["A"].rates_per_s.tolist() == [1.0, 0.5]
    assert found.root == 2
    assert [found.operators[number].name for number in found.outputs] == ["S"]
    assert found.readers["B"] == (0, 1)
    assert found.shares_events


def test_sites_where_an_event_never_occurs_are_no_sources() -> None:
    found = problem(rates={"A": {"p": 1.0, "q": 0.0}, "B": {"r": 2.0}})
    assert found.sources["A"].sites.tolist() == [0]


def test_without_a_root_results_go_where_all_events_are_had_at_the_least_cost() -> None:
    assert problem().root == 2  # p: 0.5 + 4, q: 1 + 2, r: 2 + 0.5
    assert problem(rates={"A": {"p": 5.0}, "B": {"r": 1.0}}).root == 0
    assert problem(rates={"A": {"p": 1.0}, "B": {"r": 1.0}}).root == 0  # all alike: the first by name


ERRORS: list[tuple[dict[str, Any], type[SituError], str]] = [
    ({"rates": {**RATES, "Aa": {"p": 1.0}}}, PlacementError,
     r"rates are given for Aa, which the query does not have\.\n  known: A, B, C, .*Did you mean 'A'\?"),
    ({"rates": {"A": {"P": 1.0}, "B": {"r": 1.0}}}, NetworkError,
     r"rates of 'A': there is no site 'P'\.\n  known: p, q, r\."),
    ({"rates": {"A": {"p": -1.0}, "B": {"r": 1.0}}}, StatisticsError,
     r"rates of 'A' at site 'p': is -1\.0\.\n  Give a finite number that is not negative\."),
    ({"rates": {"A": {"p": float("nan")}}}, StatisticsError, "rates of 'A' at site 'p': is nan"),
    ({"rates": {"A": {"p": 1.0}}}, PlacementError,
     r"nothing is known of where B occurs\.\n  Give the rates of B\."),
    ({"rates": {"A": {"p": 1.0}, "B": {"r": 0.0}}}, PlacementError, "nothing is known of where B occurs"),
    ({"selectivity": {"T": 0.5}}, PlacementError,
     r"a selectivity is given for T, which the query does not have\.\n  known: S, S\.A"),
    ({"selectivity": {"S.b": 0.5}}, PlacementError, r"given for S\.b, .*Did you mean 'S\.A'|given for S\.b"),
    ({"selectivity": {"S": -0.5}}, StatisticsError, "selectivity of 'S': is -0.5"),
    ({"selectivity": {"S.A": 1.5}}, StatisticsError, "selectivity of 'S.A': is 1.5"),
    ({"root": "s"}, NetworkError, r"there is no site 's'\.\n  known: p, q, r\."),
    ({"limits": Limits(None, {"A": 5.0})}, PlacementError,
     r"a latency is asked for A, which the query does not have\.\n  known: S"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "error", "message"), ERRORS, ids=lambda value: str(value)[:40])
def test_what_is_wrong_with_statistics_is_said(given: dict[str, Any], error: type[SituError], message: str) -> None:
    with pytest.raises(error, match=message):
        problem(**given)


def test_a_pattern_without_a_window_has_no_rate() -> None:
    with pytest.raises(PlacementError, match=r"S has no window, so its rate is unknown\.\n  Write `within T`\."):
        problem("subscribe S detect A then B")
    with pytest.raises(PlacementError, match="S has no window"):
        problem("subscribe S detect A and B")


def test_a_query_without_operators_is_no_problem() -> None:
    with pytest.raises(PlacementError, match=r"the query has no operators\.\n  Write a define or a subscribe\."):
        problem("stream Z(ts timestamp) time ts")
