"""What a plan sends over each link."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from situ.lab.panorama.experiments.cases import CaseShape, random_case
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.generate import random_geometric
from situ.network.network import Link, Network, Site
from situ.network.statistics import Statistics
from situ.placement.coverage import Coverage
from situ.placement.evaluate import evaluate
from situ.placement.from_graph import problem_of
from situ.placement.link_load import flows_of, messages_on_links, overloaded_links
from situ.placement.mechanisms import mechanism
from situ.placement.paper_costs import PaperCosts
from situ.placement.plan import Placed
from situ.placement.problem import Problem

TEXT = """
stream A(ts timestamp) time ts
stream B(ts timestamp) time ts
subscribe C detect A as a then each B as b within 1 s assign ts = a.ts
"""


def line(capacity_per_s: float | None = None) -> Problem:
    """a - hub - root, with b beside hub."""
    links = Link("a", "hub", 1.0), Link("b", "hub", 1.0), Link("hub", "root", 1.0, capacity_per_s=capacity_per_s)
    network = Network(tuple(map(Site, ("a", "b", "hub", "root"))), links)
    return problem_of(
        resolve(parse(TEXT)), network, Statistics({"A": {"a": 2.0}, "B": {"b": 5.0}}), Coverage(), root="root"
    )


def loads(problem: Problem, *placed: Placed) -> dict[str, float]:
    found = messages_on_links(problem.network, flows_of(problem, placed))
    return {f"{load.link.a} - {load.link.b}": load.messages_per_s for load in found}


def test_everything_is_pushed_to_the_root() -> None:
    problem = line()
    assert loads(problem, Placed(problem.root, ((0, 1),))) == {"a - hub": 2.0, "b - hub": 5.0, "hub - root": 7.0}


def test_only_results_leave_the_site_of_the_operator() -> None:
    """1 s x 2 x 5 results per second go on from the hub; b is pulled, and its events and requests share one link."""
    problem = line()
    need = Coverage().need(problem.operators[0], np.array([2.0, 5.0]), (0,), (1,))
    found = loads(problem, Placed(problem.network.number("hub"), ((0,), (1,))))
    assert found == pytest.approx(
        {"a - hub": 2.0, "b - hub": 5.0 * need.fraction + need.requests_per_s, "hub - root": 10.0}
    )


def test_flows_say_what_is_pulled() -> None:
    problem = line()
    flows = flows_of(problem, (Placed(0, ((1,), (0,))),))
    assert {flow.event: flow.pulled for flow in flows} == {"A": True, "B": False, "C": False}
    assert {flow.event: (flow.start, flow.to) for flow in flows} == {"A": (0, 0), "B": (1, 0), "C": (0, 3)}


def test_what_one_reader_has_pushed_is_pushed() -> None:
    text = TEXT + "subscribe D detect B as b then each A as a within 2 s assign ts = a.ts"
    given = Statistics({"A": {"a": 2.0}, "B": {"b": 5.0}})
    problem = problem_of(resolve(parse(text)), line().network, given, Coverage(), root="root")
    pulled = {flow.event: flow.pulled for flow in flows_of(problem, (Placed(2, ((0,), (1,))), Placed(2, ((0, 1),))))}
    assert pulled == dict.fromkeys("ABCD", False)


def test_messages_are_counted_whichever_model_made_the_plan() -> None:
    problem, placed = line(), (Placed(2, ((0,), (1,))),)
    assert flows_of(replace(problem, model=PaperCosts()), placed) == flows_of(problem, placed)


@pytest.mark.parametrize(("capacity_per_s", "names"), [(None, []), (7.0, []), (6.9, ["hub"])])
def test_links_that_carry_too_much(capacity_per_s: float | None, names: list[str]) -> None:
    problem = line(capacity_per_s)
    found = overloaded_links(problem, (Placed(problem.root, ((0, 1),)),))
    assert [load.link.a for load in found] == names
    assert all(load.messages_per_s == 7.0 for load in found)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", ["naive", "greedy+", "cpp"])
def test_messages_on_all_links_are_the_cost(seed: int, name: str) -> None:
    """Summed over links they are messages x hops, also where operators share events."""
    rng = np.random.default_rng(seed)
    shape = CaseShape(sources=4, shared_events=seed % 3)
    problem = random_case(random_geometric(30, rng), rng, shape).problem()
    placed = mechanism(name)(problem).placed
    found = messages_on_links(problem.network, flows_of(problem, placed))
    assert sum(load.messages_per_s for load in found) == pytest.approx(evaluate(problem, placed).cost)
