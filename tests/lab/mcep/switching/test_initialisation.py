"""Initialisation points: how far back, and how complete."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from situ.core.functions import default
from situ.graph.operators import OperatorGraph
from situ.kernel.batch import Batch
from situ.kernel.operator import contexts_of
from situ.lab.mcep.switching.initialisation import (
    EndingInterest,
    WindowHistory,
    basic_history,
    spans_of_count,
    time_of_count,
)
from situ.lab.mcep.switching.switch import switch
from situ.lang.parse import parse
from situ.lang.resolve import resolve

STREAMS = """
stream Car(id int, x double, y double, v int, ts int) time ts in ms at (x, y)
stream Me(id int, x double, y double, ts int) time ts in ms at (x, y)
"""


def graph_of(rule: str, definitions: str = "") -> OperatorGraph:
    return resolve(parse(f"{STREAMS}{definitions}subscribe Near for Me(id) {rule} around Me square 100 m"))


def estimated_s(graph: OperatorGraph, times_s: list[float], v: int = 1) -> dict[str, float]:
    """The estimate of "windows", if all types had recent events at these times."""
    columns = {"v": pa.array([v] * len(times_s)), "id": pa.array([1] * len(times_s))}
    recent = Batch((np.array(times_s) * 1e6).astype(np.int64), columns)
    windows = WindowHistory(graph, "Near", contexts_of(graph, default, provenance=True))
    estimate = windows.estimate(EndingInterest(0, lambda _: recent))
    return {name: back_us / 1e6 for name, back_us in estimate.back_us.items()}


@pytest.mark.parametrize(
    ("rule", "seconds"),
    [
        ("detect Car(v > 0){4} as a within 20 s assign n = count(a)", 8.0),
        ("detect Car(v > 0){4} as a then Car as b within 20 s assign n = count(a)", 10.0),
        ("detect Car(v > 0){4} as a then Car as b within 9 s assign n = count(a)", 9.0),
        ("detect Car(v > 0)+ as a within 20 s assign n = count(a)", 20.0),
        ("detect Car as a and Car as b within 20 s assign n = b.v", 2.0),
        ("detect Car as a then not Car within 20 s assign n = a.v", 20.0),
        ("detect Car as a then last Car as b within 20 s assign n = a.v", 20.0),
        ("aggr every 5 s over 15 s detect Car assign n = count(Car)", 15.0),
        ("detect Car(v > 5){4} as a within 20 s assign n = count(a)", 20.0),  # no such events: nothing is known
    ],
)
def test_windows_become_times(rule: str, seconds: float) -> None:
    """Events come every 2 s."""
    assert estimated_s(graph_of(rule), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]) == {"Car": pytest.approx(seconds)}


def test_operators_on_a_path_add_up() -> None:
    definitions = "define Pair(v) detect Car as a then Car as b within 9 s assign v = b.v\n"
    graph = graph_of("detect Pair{3} as p within 60 s assign n = count(p)", definitions)
    assert estimated_s(graph, [0.0, 2.0, 4.0]) == {"Car": pytest.approx(3 * 2 + 2 * 2)}
    assert dict(basic_history(graph, "Near").back_us) == {"Car": 69_000_000}


def test_counts_are_by_group() -> None:
    times = np.array([0, 1, 10, 11, 20, 21])
    assert time_of_count(times, np.array([0, 1, 0, 1, 0, 1]), 3, 1000) == 30
    assert time_of_count(times, np.zeros(6, np.int64), 2, 1000) == 8
    assert spans_of_count(times, np.array([0, 1, 0, 1, 0, 1]), 2, 21, 1000).tolist() == [10]


def test_a_mean_is_of_the_last_times_between_events() -> None:
    """Those of the first 20 events are 100, the following ones are 1."""
    times = np.cumsum([100] * 20 + [1] * 20)
    group = np.zeros(40, np.int64)
    assert time_of_count(times, group, 2, 10_000) == 2
    assert time_of_count(times, group, 20, 10_000) == 20
    assert time_of_count(times, group, 30, 10_000) == 20 + 10 * 100
    assert time_of_count(times, group, 30, 150) == 150
    assert time_of_count(times[:1], group[:1], 2, 150) == 150


def passing_cars(rng: np.random.Generator, seconds: int) -> dict[str, pa.Table]:
    """Cars that come at random, all around somebody who walks on."""
    times = np.sort(rng.integers(0, 1000 * seconds, 3 * seconds))
    count = len(times)
    walked = np.arange(0, 1000 * seconds, 1000)
    return {
        "Car": pa.table({"id": np.arange(count), "x": times / 1000.0, "y": np.zeros(count), "v": np.ones(count, int),
                         "ts": times}),
        "Me": pa.table({"id": np.ones(seconds, int), "x": walked / 1000.0, "y": np.zeros(seconds), "ts": walked}),
    }  # fmt: skip


@pytest.mark.parametrize("count", [3, 8])
def test_expected_completeness_is_near_what_is_measured(count: int) -> None:
    graph = graph_of(f"detect Car(v > 0){{{count}}} as a within 15 s assign n = count(a)")
    events = passing_cars(np.random.default_rng(count), 60)
    basic, windows, none = (
        switch(graph, "Near", events, initialisation=how, optimise=False) for how in ("basic", "windows", "none")
    )
    measured = windows.delivered.num_rows / basic.delivered.num_rows
    assert (basic.expected_completeness, none.expected_completeness) == (1.0, None)
    assert measured == pytest.approx(windows.expected_completeness, abs=0.05)
    assert none.delivered.num_rows < windows.delivered.num_rows < basic.delivered.num_rows
    assert windows.counts.events_streamed < basic.counts.events_streamed
    assert windows.counts.overhead < 0.5 * basic.counts.overhead
    assert none.counts.overhead == 0
