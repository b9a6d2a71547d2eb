"""EdgeCEP's experiments: what they count, and that their figures can say yes and no."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from network.networks import line
from situ.lab.edgecep import laboratory
from situ.lab.edgecep.experiments import radius
from situ.lab.edgecep.experiments.laboratory import counted_run
from situ.lab.edgecep.experiments.nursing_home import backlog_share, entrusted_sites, reach
from situ.lab.edgecep.scenarios import entrusted_by_source, nursing_home, three_buildings
from situ.lab.figure import QUICK
from situ.placement.coverage import Coverage
from situ.placement.edgecep import decided, first_sites, flooding_packets, rounds
from situ.placement.edgecep_optimal import optimal_sites
from situ.placement.problem import Input, Kind, PlannedOperator, Problem, Sources
from situ.placement.task_flows import TaskFlows


def test_rounds_begin_with_the_first_plan_and_end_with_one_that_stays() -> None:
    tasks = TaskFlows.of(three_buildings(300.0))
    steps = list(rounds(tasks, 1))
    assert steps[0] == (first_sites(tasks), 0)
    assert steps[-1][0] == steps[-2][0]
    assert steps[-1] == decided(tasks, 1)
    assert [packets for _, packets in steps] == sorted(packets for _, packets in steps)


def test_what_the_scenarios_say_of_themselves() -> None:
    home = TaskFlows.of(nursing_home())
    assert len(home.problem.network.sites) == 31
    assert reach(home) == (8, 13)
    # The paper's Table II b has 31 packets for neighbours alone, and 958 for all.
    assert [flooding_packets(home.problem, radius) for radius in (1, 13, None)] == [31, 959, 961]
    buildings = three_buildings(100.0)
    hops = buildings.network.ways_from(buildings.root).hops
    assert hops.max() == radius.REACHES_SERVER


def test_tasks_that_each_source_entrusts_are_the_optimum() -> None:
    own = TaskFlows.of(entrusted_by_source(nursing_home()))
    whole = TaskFlows.of(nursing_home())
    sites = entrusted_sites(own)
    assert own.violation(sites) == 0
    assert sum(own.problem.rates[o.name] for o in own.problem.operators) == pytest.approx(
        sum(whole.problem.rates[o.name] for o in whole.problem.operators)
    )
    one_floor = [n for n, operator in enumerate(own.problem.operators) if "A3" in operator.name]
    few = replace(own.problem, operators=tuple(own.problem.operators[n] for n in one_floor))
    few = replace(few, sources={e: s for e, s in few.sources.items() if any(e in o.events for o in few.operators)})
    best = optimal_sites(TaskFlows.of(few))
    assert TaskFlows.of(few).volume(best) == pytest.approx(TaskFlows.of(few).volume([sites[n] for n in one_floor]))


def test_what_waits_before_one_link_does_not_ask_for_the_next() -> None:
    """8 and 4 per s, 12 together, on a link for 6, then one for 4; the first task's output is nothing."""
    operators = tuple(PlannedOperator(f"C{n}", Kind.OR, (Input(f"E{n}"),), selectivity=1e-12) for n in (0, 1))
    sources = {f"E{n}": Sources(np.array([0]), np.array([rate])) for n, rate in ((0, 8.0), (1, 4.0))}
    tasks = TaskFlows.of(Problem(operators, sources, line(1, 1), 2, Coverage()))
    assert backlog_share(tasks, (2, 2), 6.0) == pytest.approx(0.5)
    assert backlog_share(tasks, (1, 2), 6.0) == pytest.approx(0.5)
    assert backlog_share(tasks, (0, 2), 3.0) == pytest.approx(0.25)
    assert backlog_share(tasks, (0, 0), 3.0) == 0


def test_the_laboratory_is_the_example_that_is_printed() -> None:
    example = Path(__file__).parents[3] / "examples" / "edgecep" / "edgecep.situ"
    assert laboratory.query() == example.read_text()


@pytest.mark.parametrize("figure", ["5b", "5c"])
def test_figures_of_the_buildings(figure: str) -> None:
    made = radius.FIGURES[figure](QUICK, 1, lambda done, total, what: None)
    assert made.curves
    assert all(part.seen for part in made.parts)


@pytest.mark.storm
def test_brokers_of_the_laboratory_find_the_same_and_send_less() -> None:
    run_s = 1_800.0
    base = counted_run(replace(laboratory.NETWORK, brokers=None), 1, run_s)
    flow = counted_run(laboratory.NETWORK, 1, run_s)
    assert flow.results == base.results
    assert flow.versions > 1
    assert flow.total("b6") < base.events["b6"] / 100
    # 20 frames per second for 10 minutes, as in the paper's Table III.
    assert base.events["b6"] == pytest.approx(422.5e6, rel=0.001)
