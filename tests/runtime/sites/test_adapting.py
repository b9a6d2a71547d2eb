"""Demands of plans that run: measured, changed, and kept by transitions that one site coordinates."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from runtime.sites.adapting_world import BEGUN, QUERY, AdaptingWorld, done, network_of, plan_of
from situ.core.errors import QueryError
from situ.flow.latency import ResultSeen
from situ.graph.query import Demand
from situ.lang.demands import JudgedDemand, parse_demands
from situ.network.network import Coordination, Network, NetworkError
from situ.runtime.sites.adapting.analysis import BrokenDemands
from situ.runtime.sites.adapting.coordinator import CoordinatorState
from situ.runtime.sites.adapting.fitness import Fitness, KeptLooks, order_of_trial, selection_probabilities
from situ.runtime.sites.adapting.looks import KnownSite, Look, latencies_us
from situ.runtime.sites.adapting.measuring import overhead_bytes
from situ.runtime.sites.adapting.planning import LIBRARY, TransitionCost, suited_to
from situ.runtime.sites.adapting.tasks import TransitionStep, TransitionTask
from situ.runtime.sites.deployed_plan import Strategy
from situ.runtime.sites.messages import Adapt, ChangeDemands, Done, Transit
from situ.runtime.sites.simulation.world import Faults

SETTINGS = Coordination("hall", period_s=1.0, patience_s=3.0, lead_s=5.0, settle_s=5.0)


# ---- the paper's equations, by hand


def test_scores_are_normalised_and_old_ones_fade() -> None:
    """Equation 1. Means 0.75, 0.5 and 0: their mean is 5/12, and they are 0.75 apart."""
    looks = {"latency": {"a": KeptLooks(4, 3), "b": KeptLooks(2, 1), "c": KeptLooks(5, 0)}}
    first = Fitness(looks).updated(decay=0.5)
    assert first.scores["latency"] == pytest.approx({"a": 4 / 9, "b": 1 / 9, "c": -5 / 9})
    # Now a keeps it 3 of 8 times: means 0.375, 0.5 and 0; mean 7/24, 0.5 apart; half of it is what it was.
    later = Fitness({"latency": {**looks["latency"], "a": KeptLooks(8, 3)}}, first.scores).updated(decay=0.5)
    assert later.scores["latency"] == pytest.approx(
        {
            "a": (0.375 - 7 / 24) / 0.5 / 2 + 4 / 9 / 2,
            "b": (0.5 - 7 / 24) / 0.5 / 2 + 1 / 9 / 2,
            "c": (0 - 7 / 24) / 0.5 / 2 - 5 / 9 / 2,
        }
    )


def test_where_all_are_alike_scores_are_nothing() -> None:
    assert Fitness({"hops": {"a": KeptLooks(3, 3), "b": KeptLooks(1, 1)}}).updated(0.5).scores == {
        "hops": {"a": 0.0, "b": 0.0}
    }


def test_the_overall_score_is_the_sum_over_what_is_demanded() -> None:
    fitness = Fitness(scores={"latency": {"a": 0.5, "b": -0.5}, "hops": {"a": -0.2}, "load": {"b": 9.0}})
    assert fitness.score("a", ["latency", "hops"]) == pytest.approx(0.3)
    assert fitness.score("b", ["latency", "hops"]) == pytest.approx(-0.5)


@pytest.mark.parametrize(("count", "worst"), [(2, 0.0), (3, 0.5), (5, 0.2), (4, 1.0)])
def test_selection_probabilities_are_a_distribution(count: int, worst: float) -> None:
    """Equation 2: the worst has worst / N, the best (2 - worst) / N, and those between lie on a line."""
    shares = selection_probabilities(count, worst)
    assert sum(shares) == pytest.approx(1.0)
    assert shares[0] == pytest.approx(worst / count)
    assert shares[-1] == pytest.approx((2 - worst) / count)
    assert all(b - a == pytest.approx(shares[1] - shares[0]) for a, b in pairwise(shares))


def test_the_draw_follows_the_ranks() -> None:
    fitness = Fitness({"hops": dict.fromkeys("abc", KeptLooks(1, 1))}, {"hops": {"a": -1.0, "b": 0.1, "c": 2.0}})
    first = [order_of_trial("abc", "abc", fitness, ["hops"], 0, 0.3, random.Random(n))[0] for n in range(3_000)]
    shares = [first.count(name) / len(first) for name in "abc"]
    assert shares == pytest.approx(selection_probabilities(3, 0.3), abs=0.03)


def test_what_has_never_run_is_tried_first_in_turns() -> None:
    fitness = Fitness({"hops": {"b": KeptLooks(1, 0)}})
    orders = [order_of_trial("abcd", "abc", fitness, ["hops"], turn, 0.2, random.Random(1)) for turn in range(3)]
    assert [order[:2] for order in orders] == [["a", "c"], ["c", "a"], ["a", "c"]]
    assert all(sorted(order) == list("abcd") for order in orders)


def test_every_demand_has_mechanisms_that_serve_it() -> None:
    for metric in ("latency", "overhead", "load", "hops", "bandwidth-delay"):
        assert set(suited_to([metric])) <= set(LIBRARY)
        assert suited_to([metric]), metric


def test_waiting_is_no_cost() -> None:
    settings = replace(SETTINGS, time_weight=2.0, overhead_weight=0.5)
    assert TransitionCost(3.0, 100.0, 4_000.0).weighted(settings) == 3.0 * 2.0 + 4.0 * 0.5


# ---- analysis


def test_a_demand_is_broken_until_it_is_kept_by_a_margin() -> None:
    demand = Demand("load", 100)

    def broken_at(values: Sequence[float | None]) -> list[bool]:
        state, is_broken = BrokenDemands({}), []
        for second, value in enumerate(values):
            state = state.looked([JudgedDemand("S", demand, value)], float(second))
            is_broken.append(bool(state.for_long(2.0)))
        return is_broken

    assert broken_at([101, 101, 101]) == [False, False, True]
    assert broken_at([101, 80, 101, 101]) == [False, False, False, False]  # a moment is not enough
    assert broken_at([101, 99, 99]) == [False, False, True]  # nearly kept is not kept
    assert broken_at([101, None, None]) == [False] * 3  # nobody has seen that it is still broken
    assert broken_at([101, None, 101]) == [False, False, True]
    assert broken_at([99, 99, 99, None]) == [False] * 4


def test_control_messages_are_counted_by_site_and_result() -> None:
    def known(site: str, sent: tuple[int, int], found: tuple[int, int]) -> KnownSite:
        looks = [Look(site, "x", 0, 1, 0, sent=s, found={"S": f}) for s, f in zip(sent, found, strict=True)]
        return KnownSite(looks[1], 0.0, (looks[0],))

    sites = {"a": known("a", (10, 40), (0, 0)), "b": known("b", (0, 10), (5, 9))}
    assert overhead_bytes(["S", "T"], sites) == {"S": 96 * 40 / 2 / 4}


def test_latency_is_told_by_clocks_that_are_off() -> None:
    """The source's clock is an hour ahead, and its answer took 20 ms there and back."""
    hour = 3_600_000_000
    source = Look("field", "x", 10_010_000 + hour, 1, 0, reached={7: (9_500_000 + hour,)})
    root = Look("hall", "y", 10_000_000, 1, 0, results={"S": (ResultSeen(7, 9_900_000), ResultSeen(8, 9_990_000))})
    known = {
        "field": KnownSite.of(source, 10.0, 10.02, None),
        "hall": KnownSite.of(root, 10.0, 10.0, None),
    }
    assert latencies_us(known, {7}) == {"S": [400_000]}


# ---- words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("latency < 0 ms", "no plan keeps"),
        ("speed < 3", "demands of S"),
        ("hops < 3, hops < 4", "contradict"),
        ("hops < 3 subscribe T detect A as a assign t = a.t", "more than demands"),
    ],
)
def test_demands_that_nobody_can_mean(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        parse_demands(text, "S")


def test_the_network_file_names_the_coordinator() -> None:
    with pytest.raises(NetworkError, match="there is no site 'hal'"):
        network_of(Coordination("hal"))
    with pytest.raises(NetworkError, match="period_s is 0"):
        network_of(Coordination("hall", period_s=0))


def test_what_is_decided_is_journalled_whole() -> None:
    task = TransitionTask((TransitionStep({"Hot": "hall"}, {"Hot": "mfgs"}),), "it is told to", 5, "greedy", (2, 3))
    decided = CoordinatorState(
        True, "query", {"Alarm": "hops < 2"}, Fitness({"hops": {"a": KeptLooks(2, 1)}}), "greedy", 4, task
    )
    assert CoordinatorState.of_json(decided.to_json()) == decided


# ---- simulated sites


def transit(*, sequential: bool = False, strategy: Strategy = "mfgs", **sites: str) -> Transit:
    """Operators go to sites, all at once, or one after another."""
    groups = [{name: site} for name, site in sites.items()] if sequential else [sites]
    steps = tuple(TransitionStep(of, dict.fromkeys(of, strategy)) for of in groups)
    return Transit(json.dumps(TransitionTask(steps, "somebody wants it", 5_000_000).to_json()))


def broken_and_kept(network: Network, faults: Faults | None = None, seed: int = 1) -> AdaptingWorld:
    """Operators run in the cellar, which is too far away for what is demanded."""
    world = AdaptingWorld(
        network, plan_of(network, "latency < 450 ms, hops < 5", "cellar"), 40, seed, faults or Faults()
    )
    world.at(1, lambda: world.ask(Adapt(on=True)))
    return world


def test_a_broken_demand_is_kept_again_after_a_transition() -> None:
    world = broken_and_kept(network_of(SETTINGS))
    world.world.run_for(35)
    status = world.status()
    (latency, hops) = status["demands"]
    assert (latency["kept"], hops["kept"]) == (True, True)
    # 10 ms from the sources, and the fifth of a second until the next event tells that no other one comes.
    assert 200_000 < latency["measured"] < 450_000
    assert status["transitions"] == 1
    assert status["mechanism"] in suited_to(["latency"])
    assert [decision["chosen"] for decision in status["decisions"]] == [status["mechanism"]]
    assert status["last"]["versions"] == [2]
    assert 0 < status["last"]["seconds"] < 10
    assert 10_000 <= status["monitored"]["round_trips_us"]["hall"]["north"] <= 60_000
    # In event time, which goes five times as fast.
    assert status["monitored"]["rates_per_s"]["north"]["Door"] == pytest.approx(1.0, rel=0.1)
    assert status["monitored"]["latencies_us"]["south"]["Alarm"] == pytest.approx(latency["measured"], rel=0.2)
    plans = world.finish()
    assert [{*(place.site for place in plan.operators.values())} == {"cellar"} for plan in plans] == [True, False]


def test_demands_are_measured_where_nothing_is_to_be_moved() -> None:
    network = network_of(None)
    plan = plan_of(network, "latency < 100 s, overhead < 1 MB, load < 1000, hops < 3, bandwidth-delay < 9", "hall")
    world = AdaptingWorld(network, plan, 20, clocks_off_s={"north": 3_600.0, "south": -50.0})
    world.world.run_for(18)
    demands = {each["metric"]: each for each in world.status()["demands"]}
    assert {name: each["kept"] for name, each in demands.items()} == dict.fromkeys(demands, True)
    assert 200_000 < demands["latency"]["measured"] < 400_000
    assert demands["hops"]["measured"] == 1
    assert 15 < demands["load"]["measured"] * 5 < 200  # in event time, which goes five times as fast
    assert world.finish()[-1].version == 1


def test_nothing_is_moved_that_would_not_help_and_nothing_swings() -> None:
    """No placement is as fast as this: all are looked at, and nothing is moved."""
    network = network_of(SETTINGS)
    world = AdaptingWorld(network, plan_of(network, "latency < 10 ms", "hall"), 40)
    world.at(1, lambda: world.ask(Adapt(on=True)))
    world.world.run_for(35)
    status = world.status()
    assert status["transitions"] == 0
    assert status["decisions"]
    assert all(decision["chosen"] is None for decision in status["decisions"])
    assert len(world.finish()) == 1


@pytest.mark.parametrize(("every_s", "moved"), [(2.0, 0), (7.0, 1)])
def test_a_link_that_swings_does_not_move_operators_to_and_fro(every_s: float, moved: int) -> None:
    """The link to the cellar is slow for some seconds, then fast, then slow again. The network file calls it fast, so
    sites have to time it themselves. Too short a time starts nothing; after a longer one operators move away, for good.
    """
    network = network_of(SETTINGS, far_ms=5.0)
    world = AdaptingWorld(network, plan_of(network, "latency < 450 ms", "cellar"), 40)
    world.at(1, lambda: world.ask(Adapt(on=True)))

    def slow(ms: float) -> None:
        for site in ("north", "south", "hall"):
            world.latency_ms |= dict.fromkeys([(site, "cellar"), ("cellar", site)], ms)

    for number in range(int(35 / every_s)):
        ms = 200.0 if number % 2 else 15.0
        world.at(number * every_s, lambda ms=ms: slow(ms))  # type: ignore[misc]
    world.world.run_for(38)
    status = world.status()
    assert status["transitions"] == moved, status["decisions"]
    plans = world.finish()
    assert ("cellar" in {place.site for place in plans[-1].operators.values()}) == (not moved)


def test_demands_change_while_events_flow() -> None:
    network = network_of(SETTINGS)
    world = AdaptingWorld(network, plan_of(network, "", "cellar"), 40)
    world.at(1, lambda: world.ask(Adapt(on=True)))
    world.at(8, lambda: world.ask(ChangeDemands("Alarm", "latency < 450 ms")))
    world.at(2, lambda: world.ask(ChangeDemands("Alert", "hops < 3")))
    world.at(3, lambda: world.ask(ChangeDemands("Alarm", "latency < 0 ms")))
    world.at(4, lambda: world.ask(ChangeDemands("Alarm", "hops < 3"), to="north"))
    world.world.run_for(38)
    reasons = [answer.reason for _, answer in world.answers if isinstance(answer, Done)]
    assert [bool(reason) for reason in reasons] == [False, True, True, True, False]
    assert "no subscription 'Alert' runs" in reasons[1]
    assert "no plan keeps" in reasons[2]
    assert "north does not coordinate: hall does" in reasons[3]
    (latency,) = world.status()["demands"]
    assert latency["kept"]
    assert len(world.finish()) == 2


def test_a_changed_demand_is_kept_within_ten_seconds() -> None:
    """With windows of 5 s, the settings of a network file that says nothing, and event time that goes as clocks do."""
    network = network_of(Coordination("hall"))
    text = QUERY.replace("within 20 s", "within 5 s").replace("within 15 s", "within 5 s")
    world = AdaptingWorld(network, plan_of(network, "", "cellar", text=text), 40, per_s=1)
    world.at(1, lambda: world.ask(Adapt(on=True)))
    world.at(12, lambda: world.ask(ChangeDemands("Alarm", "latency < 1300 ms")))
    kept = []
    for second in range(13, 36):
        world.at(second, lambda second=second: kept.append((second, world.status()["demands"][0]["kept"])))  # type: ignore[misc]
    world.world.run_for(37)
    assert (kept[1][1], kept[-1][1]) == (False, True), kept
    assert next(second for second, is_kept in kept if is_kept) <= 12 + 10, kept
    assert len(world.finish()) == 2


def test_a_transition_by_hand_and_one_that_cannot_be() -> None:
    network = network_of(None)  # results go to the hall, so it coordinates
    text = QUERY + "  after match skip past last\n"
    world = AdaptingWorld(network, plan_of(network, "", {"Hot": "north", "Alarm": "hall"}, text=text), 40)
    world.at(2, lambda: world.ask(transit(Alarm="south", strategy="sms")))
    world.at(
        3, lambda: world.ask(transit(Hot="cellar"))
    )  # which has no part in the plan, and no network file to say so
    world.at(4, lambda: world.ask(transit(Hot="south")))
    world.at(4.1, lambda: world.ask(transit(Hot="hall")))
    world.at(5, lambda: world.ask(transit(Cold="hall")))
    world.at(20, lambda: world.ask(transit(Hot="hall")))
    world.world.run_for(36)
    reasons = [answer.reason for _, answer in world.answers if isinstance(answer, Done)]
    assert "Alarm cannot be moved by sms: a match removes later ones" in reasons[0]
    assert "cellar has no part in the plan" in reasons[1]
    assert "a transition is under way" in reasons[3]
    assert [bool(reason) for reason in reasons] == [True, True, False, True, True, False]
    assert world.status()["transitions"] == 2
    assert [plan.operators["Hot"].site for plan in world.finish()] == ["north", "south", "hall"]


KILLED_AFTER = [*range(4), *(pytest.param(number, marks=pytest.mark.storm) for number in range(4, 150))]


@pytest.mark.parametrize("number", KILLED_AFTER)
def test_a_coordinator_that_is_killed_at_any_step_goes_on(number: int) -> None:
    """It is killed after what it does next of all that a transition takes, and once more later; never half a plan."""
    network = network_of(SETTINGS)
    world = AdaptingWorld(network, plan_of(network, "", "cellar"), 24, number, per_s=3)
    is_sequential = number % 3 == 2
    world.at(3, lambda: world.ask(transit(Hot="north", Alarm="hall", sequential=is_sequential)))
    world.at(3, lambda: world.kill_after("hall", number))
    world.at(9, lambda: world.kill_after("hall", number // 2))
    plans = world.finish()
    assert [done(answer) for _, answer in world.answers] == [True]
    between = [{"Hot": "north", "Alarm": "cellar"}] if is_sequential else []
    assert [{name: place.site for name, place in plan.operators.items()} for plan in plans[1:]] == [
        *between,
        {"Hot": "north", "Alarm": "hall"},
    ]
    assert world.world.now < BEGUN + 60


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.storm if seed >= 3 else ()) for seed in range(60)]
)
def test_storms_of_the_loop(seed: int) -> None:
    """Demands that change, messages that are lost, sites that are killed: whatever is moved, all is found once."""
    rng = random.Random(f"loop {seed}")
    network = network_of(SETTINGS if rng.random() < 0.7 else None, far_ms=rng.choice([50.0, 200.0]))
    places = {name: rng.choice(["north", "south", "hall", "cellar"]) for name in ("Hot", "Alarm")}
    faults = Faults(
        delay_s=(0.001, rng.choice([0.01, 0.1])),
        loss=rng.choice([0, 0.05, 0.2]),
        repeat=rng.choice([0, 0.1]),
        kills=rng.choice([0, 3, 6]),
        cuts=rng.choice([0, 2]),
        until_s=20.0,
    )
    plan = plan_of(network, rng.choice(["", "hops < 2", "latency < 400 ms"]), places, ways=rng.random() < 0.7)
    world = AdaptingWorld(network, plan, 30, seed, faults, per_s=3)
    world.at(1, lambda: world.ask(Adapt(on=True)))
    for second in (8, 16):
        demands = rng.choice(["latency < 300 ms", "hops < 2", "overhead < 1 KB", "load < 1", "bandwidth-delay < 1", ""])
        world.at(second, lambda demands=demands: world.ask(ChangeDemands("Alarm", demands)))  # type: ignore[misc]
        site = rng.choice(["north", "south", "hall"])
        in_turn = rng.random() < 0.5
        move = transit(Hot=site, Alarm=rng.choice(["north", "hall"]), sequential=in_turn)
        world.at(second + 3, lambda move=move: world.ask(move))  # type: ignore[misc]
    world.finish()
