"""Which operators move, by which strategy and why, and in which versions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from situ.runtime.sites.carrying import done_us
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace, PlanError, plan_of_json, plan_to_json
from situ.runtime.sites.transition import BytesToMove, moves_between, placed_at, versions_of

QUERY = """
stream A(n int, t timestamp) time t
define Pair(n) detect A as a then A(n > a.n) as b within 5 s assign n = b.n
define Alone(n) detect A as a then A as b within 5 s assign n = b.n after match skip past last
subscribe Both detect Pair as p then Alone as q within 3 s assign n = q.n
"""
BEFORE = DeployedPlan(
    3, QUERY, {"A": ("north",)}, {name: OperatorPlace("north") for name in ("Pair", "Alone", "Both")}, ("town",)
)
TO_TOWN = placed_at(BEFORE, {"Pair": "town", "Alone": "town", "Both": "town"})


def test_auto_takes_what_moves_fewer_bytes_where_it_is_exact() -> None:
    traffic = {"Pair": BytesToMove(10_000, 100), "Alone": BytesToMove(10_000, 100), "Both": BytesToMove(10, 100)}
    moves = moves_between(TO_TOWN, BEFORE, "auto", traffic, lead_s=2)
    assert [(move.operator, move.strategy) for move in moves] == [("Pair", "sms"), ("Alone", "mfgs"), ("Both", "mfgs")]
    pair, alone, both = moves
    assert pair.bytes_by == {"naive": 10_000, "mfgs": 10_200, "sms": 500}
    assert "sms" not in alone.bytes_by
    assert alone.reason.startswith("a match removes later ones")
    assert both.bytes_by == {"naive": 10, "mfgs": 210, "sms": 300}


def test_a_wish_that_is_not_exact_is_refused() -> None:
    with pytest.raises(PlanError, match="Alone cannot be moved by sms: a match removes later ones"):
        moves_between(TO_TOWN, BEFORE, "sms")
    assert {move.strategy for move in moves_between(TO_TOWN, BEFORE, "mfgs")} == {"mfgs"}
    assert {move.strategy for move in moves_between(TO_TOWN, BEFORE, "naive")} == {"naive"}


def test_what_would_lose_something_is_refused() -> None:
    pulling = replace(BEFORE.operators["Both"], steps=(("Pair",), ("Alone",)))
    before = replace(BEFORE, operators={**BEFORE.operators, "Both": pulling})
    with pytest.raises(PlanError, match="Both cannot be moved: it pulls"):
        moves_between(TO_TOWN, before, "auto")
    with pytest.raises(PlanError, match="cannot be moved: Spark runs it"):
        moves_between(TO_TOWN, BEFORE, "auto", on_spark={"town"})
    with pytest.raises(PlanError, match="no operator 'Triple' runs"):
        placed_at(BEFORE, {"Triple": "town"})


def test_all_at_once_is_one_version() -> None:
    moves = moves_between(TO_TOWN, BEFORE, "auto")
    (version,) = versions_of(TO_TOWN, BEFORE, moves, "concurrent")
    assert version.version == 4
    assert {name: place.carried_from for name, place in version.operators.items()} == dict.fromkeys(
        BEFORE.operators, "north"
    )
    assert plan_of_json(plan_to_json(version)) == version


def test_one_after_another_is_a_version_for_each_inputs_first() -> None:
    moves = moves_between(TO_TOWN, BEFORE, "mfgs")
    versions = versions_of(TO_TOWN, BEFORE, moves, "sequential")
    assert [version.version for version in versions] == [4, 5, 6]
    moved = [[n for n, p in v.operators.items() if p.carried_from not in (None, p.site)] for v in versions]
    assert moved == [["Pair"], ["Alone"], ["Both"]]
    assert {place.site for place in versions[-1].operators.values()} == {"town"}
    for last, version in zip([BEFORE, *versions], versions, strict=False):
        for name, place in version.operators.items():
            assert place.carried_from == last.operators[name].site
            assert place.strategy == ("mfgs" if place.carried_from != place.site else "naive")


def test_a_version_ends_when_what_began_before_is_done() -> None:
    """After its own window, and after as long as what it reads may lag: three seconds, and five."""
    places = {**TO_TOWN.operators, "Both": OperatorPlace("town", carried_from="north", strategy="sms")}
    plan = replace(TO_TOWN, operators=places, starts_us=10_000_000)
    assert done_us(plan) == 10_000_001 + 3_000_000 + 5_000_000
    assert done_us(TO_TOWN) < 0


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ('{"site": "town", "from": "north", "by": "magic"}', "moves by 'magic', and not by one of naive, mfgs, sms"),
        ('{"site": "town", "by": "sms"}', "moves by sms, and not from another site"),
        ('{"site": "town", "from": "town", "by": "mfgs"}', "moves by mfgs, and not from another site"),
    ],
)
def test_plans_that_say_what_none_says(place: str, message: str) -> None:
    text = plan_to_json(BEFORE).replace('"Both": {\n   "site": "north"\n  }', f'"Both": {place}')
    with pytest.raises(PlanError, match=message):
        plan_of_json(text)
