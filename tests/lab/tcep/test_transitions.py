"""TCEP's figures: transitions at simulated sites, and what is said of them."""

from __future__ import annotations

import numpy as np
import pytest

from situ.lab.figure import QUICK
from situ.lab.tcep.experiments import mechanisms
from situ.lab.tcep.experiments.strategies import FIGURES
from situ.lab.tcep.scenario import OPERATORS, TransitionSetting, moving_of
from situ.lab.tcep.simulated import TransitionRun, run_transition
from situ.runtime.sites.transition import StrategyWish

SMALL = TransitionSetting(window_s=1.0, pieces_per_s=5.0)


@pytest.fixture(scope="module")
def runs() -> dict[StrategyWish, TransitionRun]:
    strategies: tuple[StrategyWish, ...] = ("sms", "mfgs", "auto")
    return {strategy: run_transition(SMALL, strategy, "concurrent", 3) for strategy in strategies}


def silent(done: int, total: int, what: str) -> None:
    assert 0 <= done <= total


def test_every_operator_moves(runs: dict[StrategyWish, TransitionRun]) -> None:
    for run in runs.values():
        assert sorted(move.operator for move in run.moves) == sorted(moving_of(SMALL).after)
        assert {move.operator.rstrip("0") for move in run.moves} == {*OPERATORS}
        assert run.ended_s > run.began_s
        assert (np.diff(run.result_times_s) >= 0).all()


def test_what_is_cut_waits_for_a_window_and_sends_no_state(runs: dict[StrategyWish, TransitionRun]) -> None:
    sms, mfgs = ({move.operator: move for move in run.moves} for run in (runs["sms"], runs["mfgs"]))
    for name in ("Entered0", "Left0"):
        assert sms[name].wait_s == pytest.approx(SMALL.lead_s + SMALL.window_s, abs=0.01)
        assert mfgs[name].wait_s == pytest.approx(SMALL.lead_s, abs=0.01)
    assert runs["sms"].seconds > SMALL.window_s > runs["mfgs"].seconds
    assert all(move.moved_bytes > 0 for move in mfgs.values())


def test_results_come_as_before(runs: dict[StrategyWish, TransitionRun]) -> None:
    """As many as without a transition: all highways in every fifth of a second."""
    for run in runs.values():
        during = (run.result_times_s >= run.began_s) & (run.result_times_s < run.began_s + 4.0)
        assert abs(int(during.sum()) - 200) <= 10


def test_mechanisms_beside_each_other() -> None:
    figure = mechanisms.figure_2(QUICK, 1, silent)
    assert [len(points) for points in figure.curves.values()] == [5, 5]
    assert all(points[-1][1] == 1.0 for points in figure.curves.values())


@pytest.mark.parametrize("name", FIGURES)
def test_figures(name: str) -> None:
    figure = FIGURES[name](QUICK, 1, silent)
    assert figure.name == name
    assert figure.parts
    assert all(points for points in figure.curves.values())
