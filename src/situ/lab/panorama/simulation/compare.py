"""What a cost model predicted against what a run counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from situ.lab.panorama.simulation.simulate import SimulationRun
from situ.placement.evaluate import cost_of, traffic_of
from situ.placement.plan import Placed
from situ.placement.problem import Problem


@dataclass(frozen=True, slots=True)
class Figures:
    """Messages x hops (or prices)."""

    data: float
    requests: float

    @property
    def total(self) -> float:
        return self.data + self.requests


@dataclass(frozen=True, slots=True)
class CostComparison:
    """What the model predicts and what a simulation counted, for the same time. Counted requests are those that begin a
    pull.

    `extensions` of them are counted apart. `episodes`: what requests would be if one were enough for each time without
    a gap that is pulled, known beforehand.
    """

    predicted: Figures
    counted: Figures
    extensions: float
    episodes: float

    @property
    def data_error(self) -> float:
        """Relative to what was counted; positive if the prediction is too high."""
        return relative_error(self.predicted.data, self.counted.data)

    @property
    def requests_error(self) -> float:
        return relative_error(self.predicted.requests, self.counted.requests)

    @property
    def total_error(self) -> float:
        return relative_error(self.predicted.total, self.counted.total)

    @property
    def all_error(self) -> float:
        """The error of the total, extensions included."""
        return relative_error(self.predicted.total, self.counted.total + self.extensions)

    @property
    def episodes_error(self) -> float:
        """The error of the total, with one request for each episode."""
        return relative_error(self.predicted.total, self.counted.data + self.episodes)


def relative_error(predicted: float, counted: float) -> float:
    """0 where both are 0.

    >>> relative_error(90.0, 100.0), relative_error(0.0, 0.0)
    (-0.1, 0.0)
    """
    if predicted == counted:
        return 0.0
    return (predicted - counted) / counted if counted else float("inf")


def compare_with_model(
    problem: Problem, placed: Sequence[Placed], run: SimulationRun, duration_s: float
) -> CostComparison:
    """The run's events occurred in so many seconds."""
    data = total = 0.0
    for sent in traffic_of(problem, placed):
        total += cost_of(problem, placed, sent)
        data += cost_of(problem, placed, replace(sent, requests_per_s=0.0))
    predicted = Figures(data * duration_s, (total - data) * duration_s)
    counted = Figures(run.data_cost, run.request_cost)
    return CostComparison(predicted, counted, run.extension_cost, run.episode_cost)
