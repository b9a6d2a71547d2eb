"""RECEP's mobility setup: what vehicles report, who asks, and what a run says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from situ.lab.figure import QUICK
from situ.lab.ingolstadt import trace
from situ.lab.recep.experiments.cases import (
    BEYOND_M_PER_S2,
    QUERY,
    RunSetup,
    S,
    crowded,
    measured,
    processed_share,
    runs,
    tables,
    told,
)
from situ.lab.recep.selections import ByCount, ByTime, ReuseSettings
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.embedded import Engine


def rows_of(vehicle: str) -> pa.Table:
    return trace().filter(pc.equal(trace()["vehicle"], vehicle))


def test_events_are_changes_that_vehicles_make() -> None:
    made = tables(3, 40, 4)
    for event in made["Speed"].slice(0, 5).to_pylist():
        rows = rows_of(event["vehicle"])
        row = rows["time_us"].to_pylist().index(event["time_us"] // S * S)
        assert abs(rows["acceleration"][row].as_py()) > BEYOND_M_PER_S2
        assert row == 0 or abs(rows["acceleration"][row - 1].as_py()) <= BEYOND_M_PER_S2
    for event in made["Lane"].slice(0, 5).to_pylist():
        rows = rows_of(event["vehicle"])
        row = rows["time_us"].to_pylist().index(event["time_us"] // S * S)
        before, now = (rows["lane"][k].as_py().rsplit("_", 1) for k in (row - 1, row))
        assert before[0] == now[0]
        assert before[1] != now[1]


def test_about_five_events_a_second() -> None:
    made = tables(3, 100, 4)
    seconds = (made["Me"]["time_us"][-1].as_py() - made["Speed"]["time_us"][0].as_py()) / S
    assert (made["Speed"].num_rows + made["Lane"].num_rows) / seconds == pytest.approx(5, abs=1.5)


def test_consumers_are_there_all_the_time() -> None:
    made = tables(3, 40, 4)["Me"]
    for consumer in set(made["id"].to_pylist()):
        times = made.filter(pc.equal(made["id"], consumer))["time_us"].to_numpy()
        assert np.diff(times).tolist() == [S] * 39
    assert len(set(made["id"].to_pylist())) == 4


def test_seeds_give_other_consumers() -> None:
    assert tables(3, 40, 4)["Me"] == tables(3, 40, 4)["Me"]
    assert set(tables(3, 40, 4)["Me"]["id"].to_pylist()) != set(tables(4, 40, 4)["Me"]["id"].to_pylist())


def test_more_consumers_are_those_and_others() -> None:
    few, many = (set(tables(3, 40, cars)["Me"]["id"].to_pylist()) for cars in (4, 7))
    assert few < many


def test_who_has_another_one_near() -> None:
    made = tables(3, 40, 6)["Me"].to_pylist()
    alone = 0
    for second in range(40):
        places = [(row["x"], row["y"]) for row in made[6 * second : 6 * second + 6]]
        near = [sum(max(abs(x - a), abs(y - b)) <= 300 for a, b in places) for x, y in places]
        alone += near.count(1)
    assert 0 < crowded(RunSetup(3, 40, 6, 600.0, 0.5, ReuseSettings("none"))) == pytest.approx(1 - alone / 240)


def test_the_query_is_the_papers_graph() -> None:
    graph = resolve(parse(QUERY.format(side_m=500)))
    assert [operator.name for operator in graph.operators] == ["Slowing", "Swerving", "Accident"]


def test_without_reuse_it_is_what_the_engine_finds() -> None:
    run = RunSetup(3, 30, 4, 1000.0, 1.0, ReuseSettings("none"))
    found = sum(output.complex_events["Accident"].num_rows for output in Engine(QUERY.format(side_m=1000)).run(
        tables(3, 30, 4)))  # fmt: skip
    got = measured(run)
    assert len(got.quality) == found > 0
    assert got.quality.min() == 1
    assert got.covered == got.estimations == 0
    assert processed_share(run) == 1


def test_reuse_saves_and_keeps_quality() -> None:
    run = RunSetup(3, 30, 6, 2000.0, 0.7, ReuseSettings("mqc", ByTime(10 * S)))
    assert 0 < processed_share(run) < 1
    got = measured(run)
    assert got.precision.mean() >= 0.7 <= got.recall.mean()
    assert got.covered > 0 < got.estimations


def test_runs_are_told_one_by_one() -> None:
    cases = {
        name: runs(QUICK, 5, (0.5, 0.9), 4, 500.0, ReuseSettings("mqc", batch))
        for name, batch in (("batches", ByTime(S)), ("single", ByCount(1)))
    }
    steps: list[tuple[int, int, str]] = []
    found = list(told(cases, lambda *step: steps.append(step)))
    assert [(name, run.threshold, run.seed) for name, run in found] == [
        ("batches", 0.5, 5), ("batches", 0.9, 5), ("single", 0.5, 5), ("single", 0.9, 5),
    ]  # fmt: skip
    assert steps == [(k, 4, name) for k, (name, _) in enumerate(found)]
