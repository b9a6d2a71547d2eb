"""Any plan gives the embedded engine's complex events; what is sent is what an enumeration of combinations says."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lab.panorama.simulation.scenarios import Scenario, embedded, random_plan, random_scenario
from runtime.sites.combinations import Event, Question
from situ.core.errors import InputError
from situ.core.time import END
from situ.lab.panorama.simulation.events import Occurred
from situ.lab.panorama.simulation.simulate import SimulationRun, simulate
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.network import Link, Network, Site
from situ.network.statistics import Statistics
from situ.placement.coverage import Coverage
from situ.placement.evaluate import evaluate, sets_of_steps
from situ.placement.from_graph import problem_of
from situ.placement.plan import Placed
from situ.placement.problem import PlacementError
from situ.runtime.embedded.engine import Engine


def rows(events: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(sorted(event.items())) for event in events)


def run_of(scenario: Scenario, placed: tuple[Placed, ...]) -> SimulationRun:
    return simulate(scenario.problem, scenario.graph, placed, scenario.events)


def check_complex_events(scenario: Scenario, run: SimulationRun) -> None:
    for name, expected in embedded(scenario).items():
        assert rows(run.complex_events[name].to_pylist()) == rows(expected), (scenario.text, name)


def check_latencies(scenario: Scenario, placed: tuple[Placed, ...], run: SimulationRun) -> None:
    """No complex event comes earlier than its time, or later than the plan says."""
    said = evaluate(scenario.problem, placed)
    for number, operator in enumerate(scenario.problem.operators):
        own_ns = run.complex_events[operator.name].column("_time").cast(pa.int64()).to_numpy() * 1000
        took = run.detected_ns[operator.name] - own_ns
        assert (took >= 0).all()
        assert (took <= said.operator_ns[number]).all()
        if number in scenario.problem.outputs:
            assert (run.latency_ns[operator.name] <= said.output_ns[number]).all()


@pytest.mark.parametrize("seed", range(150))
def test_any_plan_gives_the_embedded_engines_complex_events(seed: int) -> None:
    scenario = random_scenario(seed, others=seed % 3 == 0)
    rng = np.random.default_rng(1000 + seed)
    for _ in range(2):
        placed = random_plan(scenario.problem, rng)
        run = run_of(scenario, placed)
        check_complex_events(scenario, run)
        check_latencies(scenario, placed, run)


@pytest.mark.storm
@pytest.mark.parametrize("seed", range(200, 1400))
def test_any_plan_gives_the_embedded_engines_complex_events_at_length(seed: int) -> None:
    scenario = random_scenario(seed, others=seed % 3 == 0, most=20)
    placed = random_plan(scenario.problem, np.random.default_rng(seed))
    run = run_of(scenario, placed)
    check_complex_events(scenario, run)
    check_latencies(scenario, placed, run)


# ---- what is sent


class Enumeration:
    """What a plan sends, of combinations that are enumerated one by one. Plain operators only."""

    def __init__(self, scenario: Scenario, placed: tuple[Placed, ...]) -> None:
        self.scenario, self.problem = scenario, scenario.problem
        found = embedded(scenario)
        self.events = {name: some.rows.to_pylist() for name, some in scenario.events.items()} | found
        #: (event type, site) -> numbers of the events that are sent there.
        self.sent: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
        for operator, where in zip(self.problem.operators, placed, strict=True):
            self._deliver(operator.name, where)

    def _time_us(self, event: dict[str, Any]) -> int:
        return event["ts"] * 1000 if "ts" in event else round(event["_time"].timestamp() * 1_000_000)

    def _deliver(self, name: str, where: Placed) -> None:
        plain = self.scenario.plain[name]
        depth = {operator.name: operator.depth for operator in self.scenario.graph.operators}
        order = sorted((depth.get(event, 0), event) for event, _ in plain.reads)
        ranks = tuple(order.index((depth.get(event, 0), event)) for event, _ in plain.reads)
        question = Question(plain.ordered, plain.window_s * 1_000_000, ranks)
        delivered: dict[int, list[Event]] = {}
        for earlier, step in sets_of_steps(where):
            for number in step:
                event, least = plain.reads[number]
                opened = question.combinations([delivered[other] for other in earlier]) if earlier else None
                delivered[number] = []
                for index, row in enumerate(self.events[event]):
                    joining = (number, self._time_us(row), 0)
                    if least is not None and row["v"] < least:
                        continue
                    if opened is None or any(question.fits([*combination, joining]) for combination in opened):
                        delivered[number].append(joining)
                        self.sent[event, where.site].add(index)


@pytest.mark.parametrize("seed", range(100))
def test_messages_are_those_of_an_enumeration(seed: int) -> None:
    scenario = random_scenario(seed)
    placed = random_plan(scenario.problem, np.random.default_rng(2000 + seed))
    expected = Enumeration(scenario, placed)
    run = run_of(scenario, placed)
    to_root = {scenario.problem.operators[number].name for number in scenario.problem.outputs}
    counted = {(sent.event, sent.to): sent for sent in run.sent if sent.event not in to_root}
    assert {key: sent.messages for key, sent in counted.items()} == {key: len(expected.sent[key]) for key in counted}
    assert {key for key, some in expected.sent.items() if some} <= counted.keys()
    for (event, to), sent in counted.items():
        hops = scenario.problem.network.ways_from(to).hops
        if event in scenario.events:
            assert sent.cost == sum(hops[scenario.events[event].sites[index]] for index in expected.sent[event, to])
        else:
            assert sent.cost == len(expected.sent[event, to]) * hops[placed[scenario.problem.number[event]].site]
    for name in to_root:
        (sent,) = [sent for sent in run.sent if sent.event == name]
        assert sent.messages == len(expected.events[name])


# ---- examples

NETWORK = Network(
    (Site("left"), Site("middle"), Site("right")), (Link("left", "middle", 10.0), Link("middle", "right", 20.0))
)
LEFT, MIDDLE, RIGHT = range(3)
MS = 1_000_000


def example(text: str, at: dict[str, int], times_s: dict[str, list[float]]) -> Scenario:
    """Streams at one site each, with events at these seconds."""
    streams = "".join(f"stream {name}(v int, ts int) time ts in ms\n" for name in at)
    graph = resolve(parse(streams + text))
    rates = Statistics({name: {NETWORK.names[site]: 1.0} for name, site in at.items()})
    problem = problem_of(graph, NETWORK, rates, Coverage(), root="middle")
    events = {}
    for name, site in at.items():
        times = times_s.get(name, [])
        columns = {"v": range(len(times)), "ts": [round(time * 1000) for time in times]}
        table = pa.table({key: pa.array(values, pa.int64()) for key, values in columns.items()})
        events[name] = Occurred(table, np.full(len(times), site))
    return Scenario(text, graph, problem, events, {})


def sent_to(run: SimulationRun, event: str, site: int) -> Any:
    (found,) = [sent for sent in run.sent if (sent.event, sent.to) == (event, site)]
    return found


AND = "subscribe All detect e1 and e2 and e3 within 2500 ms assign x = e1.v"
SEQ = "subscribe All detect e6 then e7 then e8 within 3 s assign x = e6.v"


def test_the_papers_conjunction() -> None:
    """PaNORAMA, figure 7: e3 -> e1 -> e2."""
    times = {"e3": [10], "e1": [7.4, 11, 12.6], "e2": [8.4, 8.5, 12.5, 12.6]}
    scenario = example(AND, {"e1": LEFT, "e2": RIGHT, "e3": MIDDLE}, times)
    run = run_of(scenario, (Placed(MIDDLE, ((2,), (0,), (1,))),))
    arrived = {event: sent_to(run, event, MIDDLE).arrived_ns.tolist() for event in ("e1", "e2", "e3")}
    assert arrived["e3"] == [10_000 * MS]
    assert arrived["e1"] == [END, 11_010 * MS, END]  # asked for at 10 s, before it occurs
    assert arrived["e2"] == [END, 11_050 * MS, 12_520 * MS, END]  # asked for at 11.010 s, and 40 ms for both ways
    assert run.detected_ns["All"].tolist() == [11_050 * MS, 12_520 * MS]
    assert run.latency_ns["All"].tolist() == [50 * MS, 20 * MS]
    assert (run.data_cost, run.request_cost, run.extension_cost) == (3.0, 2.0, 0.0)
    assert run.buffered_ns == {"e1": 0, "e2": (11_030 - 8_500) * MS}
    assert run.enlarged_window_ns == {"All": (2_500 + 60) * MS}  # 10 there and back, 20 there and back


def test_the_papers_sequence() -> None:
    """PaNORAMA, figure 8: e7 -> e8 -> e6."""
    times = {"e7": [10], "e8": [9, 12, 13.001], "e6": [8.999, 9, 10, 10.001]}
    scenario = example(SEQ, {"e6": LEFT, "e7": MIDDLE, "e8": RIGHT}, times)
    run = run_of(scenario, (Placed(MIDDLE, ((1,), (2,), (0,))),))
    assert sent_to(run, "e8", MIDDLE).arrived_ns.tolist() == [END, 12_020 * MS, END]
    assert sent_to(run, "e6", MIDDLE).arrived_ns.tolist() == [END, 12_040 * MS, 12_040 * MS, END]
    assert len(run.detected_ns["All"]) == 2


def test_at_one_site_what_is_pushed_for_one_is_not_requested_for_another() -> None:
    text = """
    define One(v) detect A as a then B as b within 2 s assign v = a.v
    define Two(v) detect C as c then B as b within 2 s assign v = c.v
    subscribe Both detect One or Two"""
    times = {"A": [1.0], "B": [1.5, 2.5, 9.0], "C": [2.0]}
    scenario = example(text.replace("detect One or Two", "detect One as x or Two as y assign v = coalesce(x.v, y.v)"),
                       {"A": MIDDLE, "B": RIGHT, "C": LEFT}, times)  # fmt: skip
    or_, pulls, pushes = Placed(MIDDLE, ((0, 1),)), ((0,), (1,)), ((0, 1),)
    both = run_of(scenario, (Placed(MIDDLE, pulls), Placed(MIDDLE, pushes), or_))
    b = sent_to(both, "B", MIDDLE)
    assert (b.messages, b.requests.starts, b.requests.extensions) == (3, 0, 0)
    apart = run_of(scenario, (Placed(MIDDLE, pulls), Placed(RIGHT, pushes), or_))
    b = sent_to(apart, "B", MIDDLE)
    assert (b.messages, b.requests.starts, b.asking_cost) == (2, 1, 1.0)
    shared = run_of(scenario, (Placed(MIDDLE, pulls), Placed(MIDDLE, pulls), or_))
    b = sent_to(shared, "B", MIDDLE)
    assert (b.messages, b.requests.starts, b.requests.extensions) == (2, 1, 1)  # one extension, from 3 s to 4 s


def test_filters_are_applied_at_the_source() -> None:
    scenario = example("subscribe Two detect A(v = 1) or B assign x = 1", {"A": LEFT, "B": RIGHT}, {"A": [1, 2, 3]})
    run = run_of(scenario, (Placed(RIGHT, ((0, 1),)),))
    assert sent_to(run, "A", RIGHT).cost == 2.0  # one message, two hops


def test_of_duplicates_one_counts() -> None:
    graph = resolve(parse("stream A(id int, ts int) time ts in s unique id\nsubscribe All detect A assign id = A.id"))
    problem = problem_of(graph, NETWORK, Statistics({"A": {"left": 1.0, "right": 1.0}}), Coverage(), root="middle")
    table = pa.table({"id": [1, 1, 2], "ts": [5, 5, 5]})
    run = simulate(problem, graph, [Placed(MIDDLE, ((0,),))], {"A": Occurred(table, np.array([LEFT, RIGHT, RIGHT]))})
    assert sorted(run.complex_events["All"].column("id").to_pylist()) == [1, 2]
    assert run.data_cost == 2.0


def test_rows_that_do_not_fit_are_no_events() -> None:
    """The others are still where they occurred."""
    scenario = example("subscribe All detect A assign ts = A.ts", {"A": RIGHT}, {})
    table = pa.table({"v": [1, 2, 3], "ts": pa.array([1, None, 3], pa.int64())})
    events = {"A": Occurred(table, np.array([RIGHT, LEFT, RIGHT]))}
    run = simulate(scenario.problem, scenario.graph, [Placed(MIDDLE, ((0,),))], events)
    assert run.complex_events["All"].column("ts").to_pylist() == [1, 3]
    assert run.latency_ns["All"].tolist() == [20 * MS, 20 * MS]


def test_complex_events_have_the_extent_of_their_atomic_events() -> None:
    text = """
    stream A(x double, y double, ts int) time ts in s  at (x, y)
    stream B(ts int) time ts in s
    define Pair(ts) detect A then each B within 5 s assign ts = B.ts
    subscribe Both detect Pair and A within 9 s assign ts = Pair.ts"""
    graph = resolve(parse(text))
    problem = problem_of(graph, NETWORK, Statistics({"A": {"left": 1.0}, "B": {"right": 1.0}}), Coverage(), root="left")
    tables = {
        "A": pa.table({"x": [1.0, 2.0, 9.0], "y": [5.0, 4.0, 3.0], "ts": [1, 3, 30]}),
        "B": pa.table({"ts": [2, 4, 20]}),
    }
    events = {"A": Occurred(tables["A"], np.full(3, LEFT)), "B": Occurred(tables["B"], np.full(3, RIGHT))}
    run = simulate(problem, graph, [Placed(MIDDLE, ((1,), (0,))), Placed(RIGHT, ((0,), (1,)))], events)
    found = [row for output in Engine(graph).run(tables) for row in output.complex_events["Both"].to_pylist()]
    assert len(found) == 6
    assert rows(run.complex_events["Both"].to_pylist()) == rows(found)


@pytest.mark.parametrize(
    ("steps", "message"),
    [(((0,),), "do not take each of its 2 inputs once"), (((0, 1), ()), "do not take"), (((0,), (1,)), "cannot pull")],
)
def test_a_plan_that_does_not_fit_is_refused(steps: Any, message: str) -> None:
    scenario = example("subscribe Either detect A or B assign x = 1", {"A": LEFT, "B": RIGHT}, {})
    with pytest.raises(PlacementError, match=message):
        run_of(scenario, (Placed(MIDDLE, steps),))


def test_events_that_do_not_fit_are_refused() -> None:
    scenario = example("subscribe Either detect A or B assign x = 1", {"A": LEFT, "B": RIGHT}, {"A": [1]})
    plan = [Placed(MIDDLE, ((0, 1),))]
    with pytest.raises(InputError, match="no events of B"):
        simulate(scenario.problem, scenario.graph, plan, {"A": scenario.events["A"]})
    with pytest.raises(InputError, match="no stream 'C' in the query"):
        simulate(scenario.problem, scenario.graph, plan, scenario.events | {"C": scenario.events["A"]})
    elsewhere = Occurred(scenario.events["A"].rows, np.array([RIGHT]))
    with pytest.raises(InputError, match="not one of its sources"):
        simulate(scenario.problem, scenario.graph, plan, scenario.events | {"A": elsewhere})
    with pytest.raises(InputError, match="Give a site for each row"):
        Occurred(scenario.events["A"].rows, np.array([LEFT, LEFT]))
