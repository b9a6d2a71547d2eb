"""RECEP's Figures 8a to 8d: small runs, and what their parts say of given curves."""

from __future__ import annotations

import pytest

from situ.lab.figure import QUICK, Experiment, Figure
from situ.lab.recep.experiments.mobility import (
    batches_need_fewer,
    deviates_little,
    figure_8a,
    figure_8b,
    figure_8c,
    figure_8d,
    lower_at_less,
    lower_for_larger,
    lower_with_more,
    mnh_needs_fewer,
    mqc_saves_more,
    nearly_none,
    stays_above,
)


def quietly(done: int, total: int, what: str) -> None:
    assert 0 <= done < total, what


def values(figure: Figure, name: str) -> list[float]:
    return [y for _, y in figure.curves[name]]


@pytest.mark.storm
@pytest.mark.parametrize("experiment", [figure_8a, figure_8b, figure_8c, figure_8d])
def test_small_runs(experiment: Experiment) -> None:
    figure = experiment(QUICK, 1, quietly)
    assert figure.name == experiment.__name__.removeprefix("figure_")
    assert all([x for x, _ in points] == [0.5, 0.9] for points in figure.curves.values())
    assert figure == experiment(QUICK, 1, quietly)


@pytest.mark.slow
def test_figure_8a_lower_thresholds_save() -> None:
    figure = figure_8a(QUICK, 1, quietly)
    for heuristic in ("mqc", "mnh"):
        low, high = values(figure, f"{heuristic}, 2000 m")
        assert 0 < low < high < 1


@pytest.mark.storm
def test_figure_8b_quality_is_kept() -> None:
    figure = figure_8b(QUICK, 1, quietly)
    for name, points in figure.curves.items():
        assert all(y >= x for x, y in points), name
        assert len(figure.deviations.get(name, points)) == len(points)


@pytest.mark.storm
def test_figure_8c_batches_are_judged_less() -> None:
    figure = figure_8c(QUICK, 1, quietly)
    for heuristic in ("mqc", "mnh"):
        batches, single = (values(figure, f"{heuristic}, {how}") for how in ("batches", "single selections"))
        assert all(10 * a < b for a, b in zip(batches, single, strict=True))


@pytest.mark.storm
def test_figure_8d_more_consumers_share_more() -> None:
    figure = figure_8d(QUICK, 1, quietly)
    assert all(a < b for a, b in zip(values(figure, "6 cars"), values(figure, "2 cars"), strict=True))


LOW, HIGH = ((0.5, 0.1), (1.0, 0.4)), ((0.5, 0.3), (1.0, 0.9))
TURNED = ((0.5, 0.4), (1.0, 0.1))


def test_parts_of_8a() -> None:
    assert lower_at_less({"a": LOW, "b": HIGH}).holds
    assert not lower_at_less({"a": LOW, "b": TURNED}).holds
    by_side = {"mqc, 1 m": HIGH, "mqc, 2 m": LOW, "mnh, 1 m": HIGH, "mnh, 2 m": LOW}
    assert lower_for_larger(by_side, (1, 2)).holds
    crossing = lower_for_larger({**by_side, "mnh, 2 m": ((0.5, 0.1), (1.0, 0.95))}, (1, 2))
    assert not crossing.holds
    assert crossing.seen == "so it is at 0.5, but not at 1"
    assert nearly_none(((0.5, 0.95), (1.0, 1.0)), 500, 0.1).holds
    assert not nearly_none(HIGH, 500, 0.1).holds
    assert mqc_saves_more({"mqc, 1 m": LOW, "mnh, 1 m": HIGH}).holds
    assert not mqc_saves_more({"mqc, 1 m": LOW, "mnh, 1 m": LOW}).holds


def test_parts_of_8b() -> None:
    assert stays_above({("a", 0.5): 0.5, ("a", 0.9): 0.95}).holds
    below = stays_above({("a", 0.5): 0.7, ("a", 0.9): 0.85})
    assert not below.holds
    assert below.seen == "below: a: 0.85 at 0.9"
    assert deviates_little({"a": (0.1, 0.02)}).holds
    assert not deviates_little({"a": (0.1, 0.02), "b": (0.11,)}).holds


def test_parts_of_8c() -> None:
    fewer = {"mqc, batches": ((0.5, 2.0),), "mnh, batches": ((0.5, 1.0),),
             "mqc, single selections": ((0.5, 20.0), (0.9, 1.0)), "mnh, single selections": ((0.5, 10.0),)}  # fmt: skip
    assert batches_need_fewer(fewer).holds
    assert not batches_need_fewer({**fewer, "mnh, batches": ((0.5, 1.1),)}).holds
    assert mnh_needs_fewer(fewer).holds
    assert not mnh_needs_fewer({**fewer, "mnh, batches": ((0.5, 2.0),)}).holds


def test_parts_of_8d() -> None:
    assert lower_with_more({"1": HIGH, "2": LOW}).holds
    assert not lower_with_more({"1": LOW, "2": HIGH}).holds
    assert not lower_with_more({"1": HIGH, "2": LOW, "3": TURNED}).holds
