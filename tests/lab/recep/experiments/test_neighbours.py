"""RECEP's Figures 8e to 8g: small runs, and what their parts say of given curves."""

from __future__ import annotations

import pytest

from situ.lab.figure import QUICK, Experiment, Figure
from situ.lab.recep.experiments.neighbours import (
    falls_along,
    figure_8e,
    figure_8f,
    figure_8g,
    lower_farther,
    predicted_as_said,
)


def quietly(done: int, total: int, what: str) -> None:
    assert 0 <= done < total, what


def values(figure: Figure, name: str) -> list[float]:
    return [y for _, y in figure.curves[name]]


@pytest.mark.storm
@pytest.mark.parametrize("experiment", [figure_8e, figure_8f, figure_8g])
def test_small_runs(experiment: Experiment) -> None:
    figure = experiment(QUICK, 1, quietly)
    assert figure.name == experiment.__name__.removeprefix("figure_")
    assert all(0 < y <= 1 for points in figure.curves.values() for _, y in points)
    assert figure == experiment(QUICK, 1, quietly)


@pytest.mark.slow
def test_figure_8e_more_neighbours_save() -> None:
    few, many = values(figure_8e(QUICK, 1, quietly), "2000 m, no farther than 2000 m")
    assert many < few < 1


@pytest.mark.storm
def test_figure_8f_interests_that_hold_the_town_agree() -> None:
    figure = figure_8f(QUICK, 1, quietly)
    town, part = (min(values(figure, f"{side_m} m, no farther than 2000 m")) for side_m in (5000, 2000))
    assert town > 0.999 > part


@pytest.mark.storm
def test_figure_8g_the_optimist_is_wrong() -> None:
    figure = figure_8g(QUICK, 1, quietly)
    wrong, right = (values(figure, f"2000 m, {how}") for how in ("optimistic", "pessimistic"))
    assert all(a < b for a, b in zip(wrong, right, strict=True))


UP, DOWN, FLAT = ((1.0, 0.2), (2.0, 0.4)), ((1.0, 0.4), (2.0, 0.2)), ((1.0, 0.3), (2.0, 0.3))


def test_parts_of_8e_and_8f() -> None:
    assert falls_along({"a": DOWN, "b": FLAT}, "").holds
    assert not falls_along({"a": FLAT}, "").holds
    assert not falls_along({"a": DOWN, "b": UP}, "").holds
    assert lower_farther({"a": ((1.0, 0.5),), "b": DOWN}, "").holds
    assert not lower_farther({"a": DOWN, "b": UP}, "").holds


def test_parts_of_8g() -> None:
    means = {"optimistic": 0.5, "current selection": 0.7, "event pattern": 0.8, "pessimistic": 0.9}
    level = {name: ((0.5, value),) for name, value in means.items()}
    turned = {**level, "optimistic": ((0.5, 0.75),)}
    assert [part.holds for part in predicted_as_said(level, level, 500)] == [True, True]
    assert [part.holds for part in predicted_as_said(turned, level, 500)] == [False, True]
    assert [part.holds for part in predicted_as_said(level, turned, 500)] == [True, False]
