"""Which reuse pays: heuristic, batch size, neighbours and estimator of an operator, or none (RECEP leaves this open,
section 7).

A sample of what waits in a processing phase is covered with every setting. That says how many selections would be
processed, how many pairs judged, and how good the results would be. With what processing and judging cost, as measured,
it says how long each setting takes:

    alone   the cost of processing every selection
    shared  the cost of processing the covering ones + pairs judged x the cost of an estimation
            + what it costs to make the sample ready for the covering

The setting that takes least is chosen, of those that keep the thresholds. It has to save some share of the time, since
measured costs are not exact: else reuse is off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.quality.atoms import AtomSets
from situ.quality.pairs import Estimator, quality_of_pairs
from situ.reuse.batches import Batched, Selections, by_count
from situ.reuse.cover import Heuristic, cover
from situ.reuse.neighbours import Interests, coordinated

#: How an estimator is made for batches; None is what they have in common, counted exactly.
Estimators = Mapping[str, Callable[[Batched], Estimator | None]]

ESTIMATORS: Estimators = {
    "whole batches": lambda _: None,
    "average": lambda batched: batched.by_selections("average"),
    "every selection": lambda batched: batched.by_selections("every"),
}

#: The share of time that reuse has to save.
LEAST_SAVING = 0.1


@dataclass(frozen=True, slots=True)
class Nearest:
    """The coordinated choice of neighbours: k_p nearest, no farther than d."""

    distance_m: float
    most: int

    def __str__(self) -> str:
        return f"the {self.most} nearest within {self.distance_m:g} m"


@dataclass(frozen=True, slots=True)
class Setting:
    """How work is shared. `batch` None is all selections of an operator, `neighbours` None all of the group.

    >>> print(Setting("mqc", 10, None, "average"))
    mqc, batches of 10, neighbours: all of the group, judged by: average
    """

    heuristic: Heuristic
    batch: int | None
    neighbours: Nearest | None
    estimator: str

    def __str__(self) -> str:
        sizes = {1: "single selections", None: "all in one batch"}
        size = sizes.get(self.batch, f"batches of {self.batch}")
        near = self.neighbours or "all of the group"
        return f"{self.heuristic}, {size}, neighbours: {near}, judged by: {self.estimator}"


@dataclass(frozen=True, slots=True)
class Costs:
    """As measured: of a selection that is processed, of each event in it, of an estimation by each estimator, and of
    making a selection ready for the covering."""

    selection_s: float
    event_s: float
    estimation_s: Mapping[str, float]
    ready_s: float = 0.0

    def processing_s(self, selections: int, events: int) -> float:
        return selections * self.selection_s + events * self.event_s


@dataclass(frozen=True, slots=True)
class Trial:
    """What a setting did with the sample. `kept` is whether each operator's average quality reached its thresholds."""

    setting: Setting
    asked: int
    asked_events: int
    processed: int
    processed_events: int
    estimations: int
    kept: bool

    def alone_s(self, costs: Costs) -> float:
        return costs.processing_s(self.asked, self.asked_events)

    def shared_s(self, costs: Costs) -> float:
        judging_s = self.estimations * costs.estimation_s[self.setting.estimator] + self.asked * costs.ready_s
        return costs.processing_s(self.processed, self.processed_events) + judging_s


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen, None for no reuse, and why."""

    setting: Setting | None
    alone_s: float
    shared_s: float
    reason: str

    def __str__(self) -> str:
        return f"reuse {'off' if self.setting is None else f'on: {self.setting}'}\n  {self.reason}"


def choose(costs: Costs, trials: Iterable[Trial], least_saving: float = LEAST_SAVING) -> Choice:
    """The setting that takes least time, of equals the first; none if that saves too little.

    >>> costs = Costs(selection_s=1e-3, event_s=0.0, estimation_s={"average": 1e-6})
    >>> print(choose(costs, [Trial(Setting("mqc", 10, None, "average"), 1000, 30_000, 200, 6_000, 5_000, True)]))
    reuse on: mqc, batches of 10, neighbours: all of the group, judged by: average
      processes 200 of 1000 selections; 6.2 estimations per covered one take 5 ms; 205 ms in all, against 1000 ms alone
    """
    tried = list(trials)
    kept = [trial for trial in tried if trial.kept and trial.processed < trial.asked]
    alone_s = tried[0].alone_s(costs) if tried else 0.0
    if not kept:
        cause = "no setting covers any selection" if all(trial.kept for trial in tried) else "none keeps the thresholds"
        return Choice(None, alone_s, alone_s, "nothing was sampled" if not tried else cause)
    best = min(kept, key=lambda trial: trial.shared_s(costs))
    shared_s = best.shared_s(costs)
    reason = _in_words(best, costs)
    if shared_s > (1 - least_saving) * alone_s:
        return Choice(None, alone_s, shared_s, f"does not pay by {least_saving:.0%}: at best, {best.setting}, {reason}")
    return Choice(best.setting, alone_s, shared_s, reason)


def _in_words(trial: Trial, costs: Costs) -> str:
    judging_s = trial.estimations * costs.estimation_s[trial.setting.estimator]
    per_covered = trial.estimations / (trial.asked - trial.processed)
    return (
        f"processes {trial.processed} of {trial.asked} selections; {per_covered:.1f} estimations per covered one take "
        f"{judging_s * 1e3:.3g} ms; {trial.shared_s(costs) * 1e3:.4g} ms in all, "
        f"against {trial.alone_s(costs) * 1e3:.4g} ms alone"
    )


def settings(
    estimators: Iterable[str],
    batches: Iterable[int | None] = (1, 10, 100, None),
    neighbours: Iterable[Nearest | None] = (None,),
) -> list[Setting]:
    """All that can be tried. With single selections all exact estimators say the same, but cost differently.

    >>> len(settings(["average"]))
    8
    """
    heuristics: tuple[Heuristic, ...] = ("mqc", "mnh")
    return [Setting(*one) for one in product(heuristics, batches, neighbours, estimators)]


def sampled(selections: Selections, most: int) -> Selections:
    """The latest of all operators' selections. Fewer operators would overlap less than all do, so none is left out.

    >>> times = np.array([10, 30, 20])
    >>> sampled(Selections(np.arange(3), times, times, AtomSets(times, np.arange(4))), 2).sets.atoms.tolist()
    [30, 20]
    """
    latest = np.sort(np.argsort(selections.begin_us, kind="stable")[max(len(selections) - most, 0) :])
    sizes = selections.sets.sizes[latest]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    starts = np.repeat(selections.sets.offsets[latest] - offsets[:-1], sizes)
    sets = AtomSets(selections.sets.atoms[starts + np.arange(offsets[-1])], offsets)
    return Selections(selections.owner[latest], selections.begin_us[latest], selections.end_us[latest], sets)


def try_setting(
    setting: Setting,
    sample: Selections,
    precision: F64,
    recall: F64,
    interests: Interests | None = None,
    estimators: Estimators = ESTIMATORS,
) -> Trial:
    """Cover a sample. Thresholds and interests are of operators.

    >>> sets = AtomSets.of(np.array([1, 2, 1, 2]), np.array([0, 2, 4]))
    >>> sample = Selections(np.array([0, 1]), np.array([1, 1]), np.array([2, 2]), sets)
    >>> try_setting(Setting("mqc", 1, None, "average"), sample, np.ones(2), np.ones(2)).processed
    1
    """
    nearest = setting.neighbours
    near = coordinated(interests, nearest.distance_m, nearest.most) if nearest and interests else None
    batched = by_count(sample, setting.batch)
    estimate = estimators[setting.estimator](batched)
    covering = cover(setting.heuristic, batched.waiting(precision, recall, near), estimate)
    by = batched.of_selections(covering).by
    processed = np.isin(batched.batch, covering.processed)
    sizes = sample.sets.sizes
    return Trial(
        setting, len(sample), int(sizes.sum()), int(processed.sum()), int(sizes[processed].sum()),
        covering.estimations, _is_kept(sample, by, precision, recall),
    )  # fmt: skip


def _is_kept(sample: Selections, by: I64, precision: F64, recall: F64) -> bool:
    """Whether the average over each operator's selections is at or above its thresholds; rounding apart."""
    quality = quality_of_pairs(sample.sets, np.arange(len(sample)), by)
    counts = np.maximum(np.bincount(sample.owner, minlength=len(precision)), 1)
    some = np.bincount(sample.owner, minlength=len(precision)) > 0
    means = [
        np.bincount(sample.owner, figures, minlength=len(precision)) / counts
        for figures in (quality.precision, quality.recall)
    ]
    return bool(np.all((means[0] >= precision - 1e-9)[some]) and np.all((means[1] >= recall - 1e-9)[some]))
