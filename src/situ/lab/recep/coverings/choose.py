"""Which reuse pays: how an operator's selections are shared, or not at all (RECEP leaves this open, section 7).

A sample of selections is covered with every setting that comes into question. That says how many would be processed,
how long finding out takes, and how good the results would be. With what processing costs, as measured, it says how long
each setting takes:

    alone   the cost of processing every selection
    shared  the cost of processing the covering ones + the time that it took to find them

The setting that takes least is chosen, of those that keep the thresholds. It has to save some share of the time, since
measured costs are not exact: else reuse is off.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

#: The share of time that reuse has to save.
LEAST_SAVING = 0.1

Setting = TypeVar("Setting")


@dataclass(frozen=True, slots=True)
class Nearest:
    """The coordinated choice of neighbours: k_p nearest, no farther than d."""

    distance_m: float
    most: int

    def __str__(self) -> str:
        return f"the {self.most} nearest within {self.distance_m:g} m"


@dataclass(frozen=True, slots=True)
class Trial(Generic[Setting]):
    """What a setting did with the sample, and how long it took to decide on it. `kept` is whether the quality reached
    the thresholds."""

    setting: Setting
    asked: int
    processed: int
    estimations: int
    deciding_s: float
    kept: bool

    def shared_s(self, selection_s: float) -> float:
        return self.processed * selection_s + self.deciding_s


@dataclass(frozen=True, slots=True)
class ReuseChoice(Generic[Setting]):
    """What was chosen, None for no reuse, and why."""

    setting: Setting | None
    reason: str

    def __str__(self) -> str:
        return f"reuse {'off' if self.setting is None else f'on: {self.setting}'}; {self.reason}"


def choose(
    selection_s: float, trials: Iterable[Trial[Setting]], least_saving: float = LEAST_SAVING
) -> ReuseChoice[Setting]:
    """The setting that takes least time, of equals the first; none if that saves too little. `selection_s` is what it
    costs to process a selection.

    >>> import textwrap
    >>> choice = choose(1e-3, [Trial("mqc, batches of 10 s", 1000, 200, 5_000, 0.005, True)])
    >>> print(textwrap.fill(str(choice), 114))
    reuse on: mqc, batches of 10 s; it processes 200 of 1000 selections, 205 ms in all (5 ms for 6.2 estimations per
    covered selection), against 1000 ms alone
    """
    tried = list(trials)
    worthwhile = [trial for trial in tried if trial.kept and trial.processed < trial.asked]
    if not worthwhile:
        cause = "no setting covers any selection" if all(trial.kept for trial in tried) else "none keeps the thresholds"
        return ReuseChoice(None, cause if tried else "nothing was sampled")
    best = min(worthwhile, key=lambda trial: trial.shared_s(selection_s))
    reason = _in_words(best, selection_s)
    if best.shared_s(selection_s) > (1 - least_saving) * best.asked * selection_s:
        return ReuseChoice(None, f"does not pay by {least_saving:.0%}: at best, {best.setting}; {reason}")
    return ReuseChoice(best.setting, reason)


def _in_words(trial: Trial[Setting], selection_s: float) -> str:
    per_covered, in_all_ms = trial.estimations / (trial.asked - trial.processed), trial.shared_s(selection_s) * 1e3
    return (
        f"it processes {trial.processed} of {trial.asked} selections, {in_all_ms:.4g} ms in all "
        f"({trial.deciding_s * 1e3:.3g} ms for {per_covered:.1f} estimations per covered selection), "
        f"against {trial.asked * selection_s * 1e3:.4g} ms alone"
    )
