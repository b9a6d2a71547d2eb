"""The mechanisms of TCEP and EdgeCEP that choose sites alone, each against brute force for its own objective."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from network.networks import line
from placement.oracle import Way, all_rates, tell, ways_of
from placement.random_problems import Shape, random_problem, with_capacities, with_sites
from situ.network.generate import random_geometric
from situ.network.network import Link, Network, Site
from situ.network.vivaldi import ROUNDS
from situ.placement.central import central
from situ.placement.coverage import Coverage
from situ.placement.evaluate import overloaded_sites
from situ.placement.hop import hop
from situ.placement.mobile import mobile, walk
from situ.placement.naive import naive
from situ.placement.optimal import optimal
from situ.placement.overhead import bytes_per_broker, control_packets, packets_per_broker
from situ.placement.plan import Placed, Plan, pushed
from situ.placement.problem import Input, Kind, PlannedOperator, Problem, Sources
from situ.placement.producer_consumer import producer_consumer
from situ.placement.random_sites import random_sites
from situ.placement.relaxation import relaxation, relaxed
from situ.placement.sbon import sbon

SMALL = Shape(operators=(2, 3), sites=(4, 9), plans=np.inf)
SHARED = replace(SMALL, shared=True)


def sites_of(plan: Plan) -> list[int]:
    return [placed.site for placed in plan.placed]


def origins_of(problem: Problem, number: int, sites: list[int]) -> dict[int, float]:
    """Events per second that an operator reads of each site, from the words of the definition."""
    rates, origins = all_rates(problem), dict[int, float]()
    for event in {read.event for read in problem.operators[number].inputs}:
        shares = {read.filter: read.share for read in problem.operators[number].inputs if read.event == event}
        passing = 1 - float(np.prod([1 - share for share in shares.values()]))
        if event in problem.sources:
            at = zip(problem.sources[event].sites.tolist(), problem.sources[event].rates_per_s, strict=True)
        else:
            names = [operator.name for operator in problem.operators]
            at = zip([sites[names.index(event)]], [rates[event]], strict=True)
        for site, rate in at:
            origins[site] = origins.get(site, 0.0) + passing * float(rate)
    return origins


# ---- producer-consumer


def test_what_one_producer_can_answer_runs_there_and_everything_else_at_the_consumer() -> None:
    at_producers = 0
    for seed in range(40):
        problem = random_problem(seed, replace(SMALL, inputs=(1, 2), sites=(2, 4), shared=seed % 2 == 1))
        plan, places = producer_consumer(problem), dict[str, set[int]]()
        for event, sources in problem.sources.items():
            places[event] = set(sources.sites.tolist())
        for operator, site in zip(problem.operators, sites_of(plan), strict=True):
            origins = set().union(*(places[read.event] for read in operator.inputs))
            assert {site} == origins if len(origins) == 1 else site == problem.root
            at_producers += len(origins) == 1 and site != problem.root
            places[operator.name] = {site}
    assert at_producers > 3


# ---- random


def test_random_sites_follow_the_seed_and_all_sites_are_drawn() -> None:
    problem = random_problem(3, SMALL)
    assert random_sites(problem) == random_sites(problem)
    drawn = {site for seed in range(200) for site in sites_of(random_sites(replace(problem, seed=seed)))}
    assert drawn == set(range(len(problem.network.sites)))
    turned = replace(problem, operators=problem.operators[:1], seed=7)
    assert sites_of(random_sites(turned)) == sites_of(random_sites(replace(problem, seed=7)))[:1]


def test_random_sites_have_room() -> None:
    for seed in range(30):
        problem = random_problem(seed, SMALL)
        full = int(np.random.default_rng(seed).integers(len(problem.network.sites)))
        sites = [replace(site, operators=0 if n == full else None) for n, site in enumerate(problem.network.sites)]
        assert full not in sites_of(random_sites(replace(with_sites(problem, tuple(sites)), seed=seed)))


# ---- central


def test_central_is_the_best_single_site_that_has_room() -> None:
    elsewhere = 0
    for seed in range(40):
        problem = random_problem(seed, SHARED)
        if seed % 2:
            problem = with_capacities(problem, np.random.default_rng(seed))
        costs = {}
        for site in range(len(problem.network.sites)):
            placed = [Placed(site, pushed(operator)) for operator in problem.operators]
            if not overloaded_sites(problem, placed):
                costs[site] = tell(problem, placed).cost
        if not costs:
            continue
        plan = central(problem)
        assert len(set(sites_of(plan))) == 1
        assert plan.cost == pytest.approx(min(costs.values()))
        elsewhere += plan.cost < naive(replace(problem, network=random_problem(seed, SHARED).network)).cost
    assert elsewhere > 5


# ---- hop


def test_hop_runs_nearest_to_the_sources_by_hops_alone() -> None:
    for seed in range(40):
        problem = random_problem(seed, replace(SHARED, ties=seed % 2 == 1))
        ways, sites = ways_of(problem), list[int]()
        plan = hop(problem)
        for number, operator in enumerate(problem.operators):
            origins = []
            for event in {read.event for read in operator.inputs}:
                at = (
                    problem.sources[event].sites.tolist()
                    if event in problem.sources
                    else [sites[problem.number[event]]]
                )
                origins += at
            keys = [
                (sum(ways[s, o].hops for o in origins), ways[s, problem.root].hops, ways[s, problem.root].latency_ns)
                for s in range(len(problem.network.sites))
            ]
            assert keys[plan.placed[number].site] == min(keys)
            sites.append(plan.placed[number].site)


def test_hop_passes_over_a_site_without_room() -> None:
    operator = PlannedOperator("C", Kind.OR, (Input("A"),), selectivity=0.1)
    free = Problem((operator,), {"A": Sources(np.array([0]), np.array([5.0]))}, line(1, 1, 1), 3, Coverage())
    assert sites_of(hop(free)) == [0]
    sites = (replace(free.network.sites[0], load_per_s=4.9), *free.network.sites[1:])
    assert sites_of(hop(with_sites(free, sites))) == [1]


# ---- mobile


def random_tree(sites: int, rng: np.random.Generator) -> Network:
    links = [Link(f"s{int(rng.integers(site))}", f"s{site}", float(rng.uniform(1, 9))) for site in range(1, sites)]
    return Network(tuple(Site(f"s{site}") for site in range(sites)), tuple(links))


def hops_to(ways: Mapping[tuple[int, int], Way], site: int, origins: Mapping[int, float]) -> float:
    return sum(rate * ways[site, origin].hops for origin, rate in origins.items())


@pytest.mark.parametrize("tree", [True, False])
def test_mobile_comes_to_rest_where_no_neighbour_is_nearer_and_on_a_tree_no_site(tree: bool) -> None:
    moved = 0
    for seed in range(30):
        problem = random_problem(seed, SHARED)
        rng = np.random.default_rng(seed)
        if tree:
            problem = replace(problem, network=random_tree(len(problem.network.sites), rng))
        plan, ways = mobile(problem), ways_of(problem)
        for number in range(len(problem.operators)):
            origins, at = origins_of(problem, number, sites_of(plan)), plan.placed[number].site
            others = range(len(problem.network.sites)) if tree else problem.network.neighbours(at).tolist()
            nearest = min(hops_to(ways, other, origins) for other in [at, *others])
            assert hops_to(ways, at, origins) == pytest.approx(nearest), seed
            moved += at != problem.root
    assert moved > 20


class Told:
    """A line of sites whose answers are given, and a record of who was asked."""

    def __init__(self, distances: list[float]) -> None:
        self.distances, self.asked = distances, list[int]()

    def neighbours(self, site: int) -> tuple[int, ...]:
        return tuple(other for other in (site - 1, site + 1) if 0 <= other < len(self.distances))

    def distance(self, site: int, origins: Mapping[int, float]) -> float:
        self.asked.append(site)
        return self.distances[site]


def test_mobile_asks_neighbours_alone_and_counts_packets() -> None:
    told = Told([9.0, 1.0, 5.0, 4.0, 3.0, 2.0])
    assert walk(told, 5, {}) == (5, 2)  # the neighbour is no nearer: a question and an answer
    assert told.asked == [5, 4]
    told = Told([2.0, 1.0, 3.0, 4.0, 7.0])
    assert walk(told, 4, {}) == (1, 2 + 1 + 4 + 1 + 4 + 1 + 4)
    assert set(told.asked) == {4, 3, 2, 1, 0}


# ---- relaxation


def usage(problem: Problem, ways: Mapping[tuple[int, int], Way], sites: list[int]) -> float:
    """Rate x latency^2 of all that flows."""
    rates = all_rates(problem)
    pulls = [
        rate * ways[site, origin].latency_ns ** 2
        for number, site in enumerate(sites)
        for origin, rate in origins_of(problem, number, sites).items()
    ]
    outputs = [ways[sites[n], problem.root].latency_ns ** 2 * rates[problem.operators[n].name] for n in problem.outputs]
    return sum(pulls) + sum(outputs)


def test_the_network_usage_of_relaxation_is_near_the_least() -> None:
    """Two operators, on all pairs of sites: the space of coordinates is not exact, but nearly."""
    ratios = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        network = random_geometric(12, rng)
        sources = {e: Sources(rng.choice(12, 2, replace=False), rng.uniform(0.1, 5, 2)) for e in "AB"}
        first = PlannedOperator("C", Kind.OR, (Input("A"),), selectivity=0.3)
        second = PlannedOperator("D", Kind.OR, (Input("B"), Input("C")), selectivity=0.3)
        problem = Problem((first, second), sources, network, int(rng.integers(12)), Coverage())
        ways = ways_of(problem)
        least = min(usage(problem, ways, list(sites)) for sites in itertools.product(range(12), repeat=2))
        ratios.append(usage(problem, ways, sites_of(relaxation(problem))) / least)
    assert np.mean(ratios) < 1.15
    assert max(ratios) < 1.7


def test_relaxation_rests_where_the_solver_says_and_counts_what_it_sends() -> None:
    same = 0
    for seed in range(20):
        problem = random_problem(seed, SMALL)
        plan = relaxation(problem)
        same += sites_of(plan) == sites_of(sbon(problem))
        assert plan.packets is not None
        assert plan.packets > 2 * ROUNDS * len(problem.network.sites)
    assert same >= 18  # a place between two sites may fall to the one or the other
    held, pulls = np.array([[3.0, -1.0], [-1.0, 2.0]]), np.array([[2.0, 0.0], [0.0, 1.0]])
    places, packets = relaxed(held, pulls, np.array([[0.0], [10.0]]), 0)
    assert places.ravel() == pytest.approx(np.linalg.solve(held, [0.0, 10.0]), abs=0.01)
    assert packets > 2 + 2  # two sites told their coordinates, and both operators moved more than once


# ---- overhead


def test_control_packets_by_hand() -> None:
    """A line a - b - c - d with the root at d: C runs at a, where A occurs; B comes from b and c."""
    operators = (
        PlannedOperator("C", Kind.OR, (Input("A"),), selectivity=0.1),
        PlannedOperator("D", Kind.OR, (Input("B"), Input("C")), selectivity=0.1),
    )
    sources = {"A": Sources(np.array([0]), np.array([1.0])), "B": Sources(np.array([1, 2]), np.array([1.0, 1.0]))}
    problem = Problem(operators, sources, line(1, 1, 1), 3, Coverage())
    plan = producer_consumer(problem)
    assert sites_of(plan) == [0, 3]
    assert control_packets(problem, plan) == 1 + 3  # C is sent to a; D subscribes to C at a, to B at b and at c
    assert packets_per_broker(problem, plan) == 1.0
    assert bytes_per_broker(problem, plan) == 96.0
    assert control_packets(problem, naive(problem)) == 3  # A at a, B at b and c
    best = optimal(problem)
    away = sum(placed.site != 3 for placed in best.placed)
    assert best.packets is None
    assert control_packets(problem, best) >= 3 + away  # three reports


def test_mechanisms_that_ask_less_send_less() -> None:
    problem = random_problem(5, SMALL)
    by_name = {plan.mechanism: control_packets(problem, plan) for plan in (mobile(problem), relaxation(problem))}
    assert by_name["mobile"] < by_name["relaxation"]
