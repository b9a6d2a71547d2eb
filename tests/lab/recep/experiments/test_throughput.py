"""RECEP's Figures 8h and 8i: the workload, what is predicted of it, small runs, and what parts say of given curves."""

from __future__ import annotations

import numpy as np
import pytest

from situ.lab.figure import QUICK, Experiment
from situ.lab.recep.experiments.throughput import (
    HALF,
    RECENT,
    THRESHOLD,
    WINDOW,
    _in_both,
    best_with_few,
    better_with_more,
    figure_8h,
    figure_8i,
    grows_along,
    measured,
    more_estimations,
    pays_in_the_end,
    process,
    share,
    workload,
)


def test_windows_slide_over_what_an_operator_takes() -> None:
    work = workload(5, 100, np.random.default_rng(3))
    windows, owner = work.windows(), work.selections.owner
    assert owner.tolist() == np.repeat(np.arange(5), 20).tolist()
    for k in (0, 7, 99):
        taken = np.flatnonzero(work.holds[owner[k], RECENT:]) + RECENT
        expected = taken[k % 20 : k % 20 + WINDOW]
        assert windows.atoms[windows.offsets[k] : windows.offsets[k + 1]].tolist() == expected.tolist()
        assert work.selections.begin_us[k] == expected[0] - RECENT
        assert work.selections.end_us[k] == expected[-1] - RECENT


def test_interests_are_a_quarter() -> None:
    work = workload(20, 4000, np.random.default_rng(3))
    assert HALF == 0.25
    assert work.holds.mean() == pytest.approx(0.25, abs=0.02)


def test_the_average_is_one_however_often() -> None:
    work = workload(3, 60, np.random.default_rng(3))
    some = np.array([0, 31, 59])
    expected = work.values[work.windows().atoms].reshape(-1, WINDOW).mean(axis=1)[some]
    for complexity in (1, 3):
        np.testing.assert_allclose(process(work, some, complexity), expected)


@pytest.mark.parametrize("batches", [1, 4])
def test_batches_of_one_time_are_processed_for_one_another(batches: int) -> None:
    work = workload(12, 1200, np.random.default_rng(3))
    shared = share(work, batches)
    by, own = shared.covering.by, shared.batched
    length_us = -(-int(work.selections.begin_us.max() + 1) // batches)
    assert (own.begin_us // length_us == own.begin_us[by] // length_us).all()
    assert set(shared.processed.tolist()) == set(np.flatnonzero(by[own.batch] == own.batch).tolist())
    assert 0 < len(shared.processed) < 1200
    quality = measured(work, shared)
    assert quality.precision.mean() > THRESHOLD < quality.recall.mean()
    assert (quality.precision[shared.processed] == 1).all()


def test_what_operators_have_in_common() -> None:
    holds = np.random.default_rng(3).random((7, 100)) < 0.4
    assert _in_both(holds).tolist() == (holds.astype(int) @ holds.T.astype(int)).tolist()


def test_more_batches_judge_more() -> None:
    work = workload(12, 1200, np.random.default_rng(3))
    assert share(work, 8).covering.estimations > share(work, 2).covering.estimations


@pytest.mark.parametrize("experiment", [figure_8h, figure_8i])
def test_small_runs(experiment: Experiment) -> None:
    steps: list[tuple[int, int]] = []
    figure = experiment(QUICK, 1, lambda done, total, _: steps.append((done, total)))
    assert figure.name == experiment.__name__.removeprefix("figure_")
    assert all(y > 0 for points in figure.curves.values() for _, y in points)
    assert steps == [(done, len(steps)) for done in range(len(steps))]


UP, DOWN = ((1.0, 0.5), (10.0, 1.5)), ((1.0, 1.5), (10.0, 0.5))
LOW = ((1.0, 0.1), (10.0, 0.2))


def test_what_parts_say() -> None:
    assert grows_along({"a": UP}, "up").holds
    assert not grows_along({"a": UP, "b": DOWN}, "up").holds
    assert pays_in_the_end({"a": UP}).seen == "it pays with a from 10 on"
    assert not pays_in_the_end({"a": UP, "b": LOW}).holds
    assert better_with_more({"a": LOW, "b": UP}, "").holds
    assert not better_with_more({"a": UP, "b": LOW}, "").holds
    assert more_estimations({1: 10, 2: 20}).holds
    assert not more_estimations({1: 10, 2: 10}).holds
    assert best_with_few({"a": DOWN}).holds
    assert not best_with_few({"a": DOWN, "b": UP}).holds
