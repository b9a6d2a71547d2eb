"""Self-configuration: how the selections of a type of operator are shared, from a sample of them.

The sample is covered with every setting that comes into question, just as it would be in the run, and some of it is
processed. Both are timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from situ.core.time import END
from situ.kernel.arrays import F64, I64
from situ.kernel.operator import Context
from situ.lab.fresh_operator import fresh_operator
from situ.lab.recep.coverings.choose import Nearest, ReuseChoice, Trial, choose
from situ.lab.recep.coverings.cover import Heuristic
from situ.lab.recep.estimators.grid import Cells
from situ.lab.recep.selections.arrived import Inputs
from situ.lab.recep.selections.covering import Least, covered
from situ.lab.recep.selections.deciding import Decided, decided
from situ.lab.recep.selections.judging import Evidence
from situ.lab.recep.selections.managers import GroupsOverTime
from situ.lab.recep.selections.reading import ReuseInput
from situ.lab.recep.selections.selected import Selected
from situ.lab.recep.selections.settings import ByCount, ByTime, Estimator, ReuseSettings
from situ.lab.recep.selections.streaming import disparity_of, measured

#: So many selections are a sample.
SAMPLE = 1_000
#: Processing is timed so often; other work on the machine makes it longer, never shorter.
REPEATED = 3
BATCHES = (ByCount(1), ByTime(10_000_000), ByTime(60_000_000), None)


@dataclass(frozen=True, slots=True)
class ReuseQuestion:
    """An operator, what its instances select, and what consumers ask for."""

    context: Context
    inputs: Inputs
    selected: Selected
    read: ReuseInput
    before: Sequence[Decided]
    regions: GroupsOverTime
    least: Least
    settings: ReuseSettings
    clock: Callable[[], float]


def chosen(question: ReuseQuestion) -> ReuseChoice[ReuseSettings]:
    """What pays for an operator. `settings` says how quality is judged and predicted, and by how many managers."""
    if not len(question.selected):
        return choose(0.0, list[Trial[ReuseSettings]]())
    rows = _latest(question.selected.begin_us)
    sample = replace(question, selected=question.selected.some(rows))
    _tried(sample, replace(question.settings, heuristic="mqc"))  # the first one may be compiled, and is not counted
    trials = [_tried(sample, settings) for settings in _in_question(question.settings, question.read)]
    return choose(_selection_s(question, rows), trials)


def _in_question(settings: ReuseSettings, read: ReuseInput) -> Iterator[ReuseSettings]:
    reach_m = max(read.shape.half_x, read.shape.half_y)
    neighbours = (None, settings.neighbours or Nearest(reach_m / 2, 5))
    heuristics: tuple[Heuristic, ...] = ("mqc", "mnh")
    estimators: tuple[Estimator, ...] = ("exact", "spatial", Cells(reach_m / 10, 10_000_000))
    if settings.over == "every":  # nothing else says that of every selection
        estimators = ("exact",)
    for heuristic, batch, near, estimator in product(heuristics, BATCHES, neighbours, estimators):
        yield replace(settings, heuristic=heuristic, batch=batch, neighbours=near, estimator=estimator, auto=False)


def _latest(begin_us: I64) -> I64:
    """The latest of all instances' selections. Fewer instances would overlap less than all do, so none is left out."""
    return np.sort(np.argsort(begin_us, kind="stable")[-SAMPLE:])


def _tried(question: ReuseQuestion, settings: ReuseSettings) -> Trial[ReuseSettings]:
    sample, read, least = question.selected, question.read, question.least
    begin_s = question.clock()
    disparity = disparity_of(sample, read) if np.any(least.disparity > 0) else None
    evidence = Evidence.of(sample, question.inputs, read, settings, disparity, np.zeros(len(sample), np.bool_))
    batches = decided(sample, read.interests, question.before, settings)
    covering = covered(evidence, batches, question.regions, least, settings)
    deciding_s = question.clock() - begin_s
    quality, is_covered = measured(sample, covering.by), covering.by != np.arange(len(sample))
    is_kept = all(
        _is_enough(figures, asked, sample.owner, is_covered)
        for figures, asked in ((quality.precision, least.precision), (quality.recall, least.recall))
    )
    processed = len(sample) - int(np.count_nonzero(is_covered))
    return Trial(settings, len(sample), processed, covering.estimations, deciding_s, is_kept)


def _is_enough(figures: F64, least: F64, owner: I64, is_covered: np.ndarray) -> bool:
    """Whether the average over what is covered of each instance is at or above its threshold; rounding apart."""
    sums = np.bincount(owner[is_covered], figures[is_covered], minlength=len(least))
    counts = np.bincount(owner[is_covered], minlength=len(least))
    return bool(np.all(sums >= counts * (least - 1e-9)))


def _selection_s(question: ReuseQuestion, rows: I64) -> float:
    """What it costs to process a selection, apart from what it costs to read events."""
    steps = question.selected.steps
    assert steps is not None, "its selections may be processed one without the other"
    is_sampled = np.zeros(len(question.selected), np.bool_)
    is_sampled[rows] = True

    def seconds(which: np.ndarray) -> float:
        begin_s = question.clock()
        fresh_operator(question.context, steps.chosen(which)).process(question.inputs.batches, END)
        return question.clock() - begin_s

    seconds(is_sampled)  # may be compiled
    least_s = (min(seconds(which) for _ in range(REPEATED)) for which in (is_sampled, np.zeros_like(is_sampled)))
    return max(next(least_s) - next(least_s), 0.0) / len(rows)
