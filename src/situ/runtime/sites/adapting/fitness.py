"""How well mechanisms have kept demands, and which is tried next (TCEP, section 5.2, equations 1 and 2)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any


@dataclass(frozen=True, slots=True)
class KeptLooks:
    """How often it was looked at a demand while a mechanism was in charge, and how often it was kept."""

    looks: int = 0
    kept: int = 0

    @property
    def mean(self) -> float:
        return self.kept / self.looks if self.looks else 0.0


@dataclass(frozen=True, slots=True)
class Fitness:
    """What is known of mechanisms. `kept` is by metric and mechanism, over all looks since the query began; `scores`,
    by metric and mechanism, are those of equation 1 at the last transition."""

    kept: Mapping[str, Mapping[str, KeptLooks]] = field(default_factory=dict)
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def looked(self, mechanism: str, metric: str, is_kept: bool) -> Fitness:
        """The same after another look at a demand."""
        of_metric = self.kept.get(metric, {})
        before = of_metric.get(mechanism, KeptLooks())
        after = KeptLooks(before.looks + 1, before.kept + is_kept)
        return Fitness({**self.kept, metric: {**of_metric, mechanism: after}}, self.scores)

    def updated(self, decay: float) -> Fitness:
        """Scores at a transition (equation 1): the mean score of a mechanism, normalised over all that have run, and
        what is left of its last score. The first score of a mechanism has no earlier one to mix with: there `decay` is
        0, which the paper calls its initial value.

        >>> looks = Fitness({"latency": {"a": KeptLooks(4, 4), "b": KeptLooks(4, 1), "c": KeptLooks(2, 0)}})
        >>> {name: round(score, 4) for name, score in looks.updated(0.5).scores["latency"].items()}
        {'a': 0.5833, 'b': -0.1667, 'c': -0.4167}
        """
        scores: dict[str, dict[str, float]] = {}
        for metric, of_metric in self.kept.items():
            means = {name: kept.mean for name, kept in of_metric.items()}
            mean, spread = fmean(means.values()), max(means.values()) - min(means.values())
            last = self.scores.get(metric, {})
            scores[metric] = {}
            for name, of_mechanism in means.items():
                normalised = (of_mechanism - mean) / spread if spread else 0.0
                part = decay if name in last else 0.0
                scores[metric][name] = normalised * (1 - part) + last.get(name, 0.0) * part
        return Fitness(self.kept, scores)

    def score(self, mechanism: str, metrics: Sequence[str]) -> float:
        """The overall score of a mechanism: the sum over what is demanded."""
        return sum(self.scores.get(metric, {}).get(mechanism, 0.0) for metric in metrics)

    def tried(self, metrics: Sequence[str]) -> set[str]:
        """The mechanisms that were looked at for one of these metrics."""
        return {name for metric in metrics for name in self.kept.get(metric, {})}

    def to_json(self) -> dict[str, Any]:
        return {
            "kept": {m: {name: [k.looks, k.kept] for name, k in of.items()} for m, of in self.kept.items()},
            "scores": {metric: dict(of) for metric, of in self.scores.items()},
        }

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> Fitness:
        kept = {metric: {name: KeptLooks(*each) for name, each in of.items()} for metric, of in said["kept"].items()}
        return cls(kept, said["scores"])


def selection_probabilities(count: int, worst: float) -> list[float]:
    """By rank, from the worst to the best, how likely each of some mechanisms is chosen (equation 2): the worst with
    `worst` / count, the best with (2 - `worst`) / count, so that all of them are a distribution.

    >>> selection_probabilities(4, 0.4)
    [0.1, 0.2, 0.3, 0.4]
    >>> selection_probabilities(1, 0.4)
    [1.0]
    """
    if count == 1:
        return [1.0]
    best = 2.0 - worst
    return [round((worst + (best - worst) * rank / (count - 1)) / count, 12) for rank in range(count)]


def order_of_trial(
    candidates: Sequence[str],
    suited: Sequence[str],
    fitness: Fitness,
    metrics: Sequence[str],
    turn: int,
    worst: float,
    rng: random.Random,
) -> list[str]:
    """The mechanisms in the order in which they are tried.

    While some of those that say they serve what is demanded (`suited`) have never run, these come first, in turns
    (`turn` counts decisions). The others follow as they are drawn, one after another, by linear ranking of scores.
    """
    tried = fitness.tried(metrics)
    untried = [name for name in suited if name not in tried]
    first = untried[turn % len(untried) :] + untried[: turn % len(untried)] if untried else []
    rest = sorted((c for c in candidates if c not in first), key=lambda name: (fitness.score(name, metrics), name))
    drawn: list[str] = []
    while rest:
        name = rng.choices(rest, selection_probabilities(len(rest), worst))[0]
        rest.remove(name)
        drawn.append(name)
    return [*first, *drawn]
