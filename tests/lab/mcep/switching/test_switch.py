"""Switching an operator graph gives what the definition of moving subscriptions says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from lab.mcep.switching.scenarios import (
    ALL_RULES,
    INTERESTS,
    LOCAL,
    events_of,
    expected_of,
    graph_of,
    rows_of,
    run,
    tables_of,
)
from mobility.interests_by_words import deliveries, located
from mobility.interests_by_words import interests_of as interests_by_words
from mobility.test_moving import STREAMS, in_order, random_events, shuffled
from situ.core.errors import InputError, SituError
from situ.lab.mcep.switching.locality import preserves_locality
from situ.lab.mcep.switching.switch import switch
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.mobility.interests import Updates, interests_of

SOME = [(rule, INTERESTS[(0, 1, 3)[number % 3]]) for number, rule in enumerate(ALL_RULES)]
EVERY = [(rule, interest) for rule in ALL_RULES for interest in INTERESTS]


def check(rule: str, interest: str, seeds: range, seconds: int) -> None:
    graph = graph_of(rule, interest)
    some = 0
    for seed in seeds:
        events = events_of(seed, rule, interest, seconds)
        expected = expected_of(rule, graph, events)
        for optimise in (False, True):
            switched = run(graph, events, optimise=optimise, deliver="complete")
            assert in_order(rows_of(switched)) == in_order(expected), (seed, optimise)
        some += len(expected)
    assert some


@pytest.mark.parametrize(("rule", "interest"), SOME)
def test_delivered_is_what_the_definition_says(rule: str, interest: str) -> None:
    check(rule, interest, range(2), 8)


@pytest.mark.storm
@pytest.mark.parametrize(("rule", "interest"), EVERY)
def test_delivered_is_what_the_definition_says_of_more(rule: str, interest: str) -> None:
    check(rule, interest, range(2, 4), 14)


@pytest.mark.parametrize("rule", ["chain", "join", "two paths"])
@pytest.mark.parametrize("per_arrival", [1, 3])
def test_what_arrives_during_a_switch_is_neither_lost_nor_doubled(rule: str, per_arrival: int) -> None:
    """However long a switch takes, a complete result is the same."""
    graph = graph_of(rule, INTERESTS[3])
    events = events_of(5, seconds=12)
    expected = expected_of(rule, graph, events)
    assert expected
    for optimise in (False, True):
        switched = run(graph, events, optimise=optimise, per_arrival=per_arrival, deliver="complete")
        assert in_order(rows_of(switched)) == in_order(expected)


@pytest.mark.parametrize("rule", ["single", "sequence", "skip", "chain"])
def test_best_effort_delivers_some_of_what_is_complete(rule: str) -> None:
    graph = graph_of(rule, INTERESTS[3])
    fewer = 0
    for seed in range(2, 4):
        events = events_of(seed, rule, seconds=12)
        complete = Counter(rows_of(run(graph, events, deliver="complete")))
        slow, quick = (
            Counter(rows_of(run(graph, events, deliver="best effort", per_arrival=n, optimise=False)))
            for n in (1, None)
        )
        assert slow <= quick <= complete
        fewer += slow.total() < complete.total()
    assert fewer, "history never took too long"


def test_a_streaming_optimiser_makes_best_effort_better() -> None:
    graph = graph_of("sequence", INTERESTS[3])
    events = events_of(1, seconds=12)
    off, on = (
        Counter(rows_of(run(graph, events, deliver="best effort", per_arrival=1, optimise=optimise)))
        for optimise in (False, True)
    )
    assert off < on


@pytest.mark.parametrize("rule", ["sequence", "chain", "of means", "means of chains", "two paths"])
def test_no_operator_sees_events_of_two_interests(rule: str) -> None:
    interest = INTERESTS[0]
    graph = graph_of(rule, interest)
    (subscription,) = graph.query.subscriptions
    events = events_of(2, rule)
    switched = run(graph, events, provenance=True)
    streams = sorted(graph.needed("Near") & {"Car", "Lamp"})
    rows = [(row["ts"], name, row) for name in streams for row in by_time(events[name])]
    arrived = [row for _, _, row in sorted(rows, key=lambda one: one[:2])]
    places = {(key, number): row for key, number, row in begun(graph, events)}
    checked = 0
    for consumer, known in switched.provenance.items():
        for _, number, atoms in known.selections:
            assert all(located(subscription, places[consumer, number], arrived[atom]) for atom in atoms)
            checked += len(atoms)
    assert checked > 100


def by_time(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda row: row["ts"])  # type: ignore[arg-type, return-value]


def begun(graph: object, events: dict[str, list[dict[str, object]]]) -> list[tuple[object, int, dict[str, object]]]:
    """(consumer, number of the interest, the update that began it), as the oracle has them."""
    (subscription,) = graph.query.subscriptions  # type: ignore[attr-defined]
    interests = interests_by_words(subscription, events, 0.0, leaves=lambda row: False)
    return [(consumer, number, row) for consumer, number, row, _ in interests]


@pytest.mark.parametrize("rule", ALL_RULES)
def test_an_optimiser_streams_and_runs_no_more(rule: str) -> None:
    graph = graph_of(rule, INTERESTS[0])
    events = events_of(1, rule)
    off, on = (run(graph, events, optimise=optimise).counts for optimise in (False, True))
    assert all(on.streamed[stream] <= off.streamed[stream] for stream in off.streamed)
    assert on.events_streamed < off.events_streamed
    read = off.streamed.total()
    assert on.streamed.total() + on.reused.total() + on.logged.total() == read, "each event, in one way or another"
    assert all(on.steps_run[name] + on.steps_reused[name] == off.steps_run[name] for name in off.steps_run)


def test_a_graph_that_preserves_locality_streams_a_small_part() -> None:
    graph = graph_of("local chain", "around Car square 60 m lifetime 10 s")
    events = events_of(3, seconds=14)
    off, on = (run(graph, events, optimise=optimise).counts for optimise in (False, True))
    assert on.events_streamed < 0.4 * off.events_streamed
    assert on.steps_reused.total() > 0
    assert off.steps_reused.total() + off.logged.total() + off.reused.total() == 0


def test_events_that_others_have_a_say_in_are_logged() -> None:
    graph = graph_of("chain", INTERESTS[0])
    counts = run(graph, events_of(1, "chain", seconds=12)).counts
    pairs = ("Pair", "Near")
    assert counts.reused[pairs] == 0
    assert counts.logged[pairs] >= counts.log_messages[pairs] > 0
    rarely = run(graph, events_of(1, "chain", seconds=12), log_every_us=60_000_000).counts
    assert rarely.logged[pairs] == counts.logged[pairs]
    assert rarely.log_messages[pairs] < counts.log_messages[pairs]


@pytest.mark.parametrize("rule", LOCAL)
def test_less_history_finds_no_more_where_locality_is_preserved(rule: str) -> None:
    """Elsewhere it might: what is missing may be what is in the way of a match."""
    graph = graph_of(rule, INTERESTS[0])
    assert preserves_locality(graph, "Near")
    events = events_of(1, rule)
    basic, windows, none = (
        Counter(rows_of(run(graph, events, initialisation=how))) for how in ("basic", "windows", "none")
    )
    assert windows <= basic
    assert none <= basic
    assert none.total() < basic.total()


def test_a_consumer_without_a_place_and_no_consumer_at_all() -> None:
    graph = graph_of("single", INTERESTS[0])
    lost = {"id": 1, "x": None, "y": 0.0, "v": 1, "ts": 0}
    assert rows_of(run(graph, {"Car": [lost], "Lamp": []})) == []
    assert run(graph, {"Car": [], "Lamp": []}).counts.switches == 0


def test_an_unknown_subscription_is_an_error() -> None:
    graph = graph_of("single", INTERESTS[0])
    with pytest.raises(SituError, match="no moving subscription 'Neer'"):
        switch(graph, "Neer", tables_of({"Car": [], "Lamp": []}))


def test_missing_events_are_an_error() -> None:
    with pytest.raises(InputError, match="no events for stream Lamp"):
        switch(graph_of("sequence", INTERESTS[0]), "Near", {"Car": tables_of(events_of(1))["Car"]})


def test_interests_by_quality_are_to_be_given() -> None:
    graph = graph_of("single", "around Car square 30 m update when quality quality precision 0.9")
    with pytest.raises(SituError, match="nobody said when"):
        run(graph, events_of(1))
    given = interests_of(Updates(pa.array([0]), np.array([0]), np.zeros(1), np.zeros(1)))
    assert run(graph, events_of(1), interests=given).counts.switches == 1


@pytest.mark.parametrize("rule", ["chain", "local chain", "of means", "join"])
def test_best_effort_with_time_for_history_is_the_same_with_an_optimiser(rule: str) -> None:
    graph = graph_of(rule, INTERESTS[3])
    events = events_of(2, rule)
    off, on = (run(graph, events, deliver="best effort", optimise=optimise) for optimise in (False, True))
    assert in_order(rows_of(on)) == in_order(rows_of(off))
    assert on.counts.steps_reused.total() > 0


def test_counts_print_themselves() -> None:
    told = str(run(graph_of("chain", INTERESTS[0]), events_of(1, "chain")).counts)
    assert "Pair -> Near: " in told
    assert "correlation steps" in told


def test_delivered_has_the_attributes_and_whose_they_are() -> None:
    delivered = run(graph_of("single", INTERESTS[0]), events_of(1)).delivered
    assert delivered.column_names == ["v", "consumer", "interest", "_time"]
    assert delivered.schema.field("_time").type == pa.timestamp("us", tz="UTC")


def random_query(rng: np.random.Generator) -> tuple[str, str, int, int]:
    """Definitions, a rule and how many seconds it looks back in Car and Lamp: one or two levels, windows at random."""
    low, high, every = (int(n) for n in rng.integers(1, 4, 3))
    then = ("then", "then each")[rng.integers(2)]
    level = [
        (f"detect Car as a {then} Lamp(v >= a.v) as b within {low} s assign v = b.v", low, low),
        (f"detect Car(v > 1) as a and Lamp as b within {low} s assign v = a.v", low, low),
        (f"detect Car(v > 1){{1,2}} as a {then} Car(v < 2) as b within {low} s assign v = b.v + count(a)", low, 0),
        (f"aggr every {every} s over {low + 1} s detect Car and outer Lamp assign v = count(Car)", low + 1, low + 1),
        ("detect Car(v > 2) as a assign v = a.v", 0, 0),
    ]
    body, cars, lamps = level[rng.integers(len(level))]
    above = [
        (f"detect Below as p {then} Below(v > p.v) as q within {high} s assign v = q.v", high),
        (f"detect Below as p then not Lamp within {high} s assign v = p.v", high),
        (f"aggr every {every} s over {high} s detect Below assign v = sum(Below.v)", high),
        (f"detect Below as p {then} Car(v > p.v) as q within {high} s assign v = q.v after match skip past last", high),
    ]
    if rng.random() < 0.2:
        return "", body, cars, lamps
    rule, span = above[rng.integers(len(above))]
    reads_lamps = lamps > 0 or "not Lamp" in rule
    return f"define Below(v) {body}\n", rule, cars + span, (lamps + span) if reads_lamps else 0


def random_interest(rng: np.random.Generator) -> str:
    size = int(rng.integers(15, 70))
    shape = (f"square {size} m", f"circle {size // 2} m", f"rectangle {size} m x 25 m")[rng.integers(3)]
    update = ("update basic", "update every 2 s", "update moved 8 m")[rng.integers(3)]
    return f"around {('Car', 'Lamp')[rng.integers(2)]} {shape} {update} lifetime {rng.integers(0, 6)} s"


def check_random(seed: int) -> int:
    rng = np.random.default_rng([seed, 77])
    definitions, rule, cars_s, lamps_s = random_query(rng)
    interest = random_interest(rng)
    focal = interest.split()[1]
    graph = resolve(parse(f"{STREAMS}{definitions}subscribe Near for {focal}(id) {rule} {interest}"))
    events = random_events(rng, 10)
    expected = sorted(deliveries(graph, events, {"Car": cars_s, "Lamp": lamps_s}), key=lambda one: one[:3])
    per_arrival = (None, 2)[rng.integers(2)]
    for optimise in (False, True):
        switched = run(graph, events, optimise=optimise, per_arrival=per_arrival)
        assert in_order(rows_of(switched)) == in_order(expected), (seed, optimise)
    return len(expected)


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_windows_and_interests(seed: int) -> None:
    check_random(seed)


@pytest.mark.storm
def test_more_random_graphs_windows_and_interests() -> None:
    assert sum(check_random(seed) > 0 for seed in range(8, 60)) > 20


def test_updates_and_events_may_come_in_any_order() -> None:
    graph = graph_of("chain", INTERESTS[0])
    events = events_of(4)
    mixed = {name: shuffled(np.random.default_rng(1), rows) for name, rows in events.items()}
    assert in_order(rows_of(run(graph, mixed))) == in_order(rows_of(run(graph, events)))


def test_a_consumer_that_jumps_to_where_nothing_is() -> None:
    graph = graph_of("single", "around Lamp square 20 m lifetime 10 s")
    cars = [{"id": 1, "x": 0.0, "y": 0.0, "v": 4, "ts": ts} for ts in range(9)]
    lamp = [{"id": 7, "x": x, "y": 0.0, "v": 0, "ts": ts} for ts, x in ((2, 0.0), (4, 1e6), (6, 5.0))]
    switched = run(graph, {"Car": cars, "Lamp": lamp})
    assert [row[1:3] for row in rows_of(switched)] == [(1, t) for t in range(5)] + [(3, t) for t in range(9)]
    assert switched.counts.reused.total() == 0
