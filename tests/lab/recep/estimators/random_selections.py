"""Random selections as Python sets, and quality by the words of its definition."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from situ.kernel.arrays import I64
from situ.lab.quality.atoms import AtomSets
from situ.lab.quality.precision_recall import MeasuredQuality


def by_words(asked: set[int], processed: set[int]) -> tuple[float, float]:
    both = len(asked & processed)
    return share(both, len(processed)), share(both, len(asked))


def share(part: Fraction | int, whole: Fraction | int) -> float:
    return float(Fraction(part) / Fraction(whole)) if whole else 1.0


def random_sets(rng: np.random.Generator, count: int, atoms: int, most: int = 12) -> list[set[int]]:
    return [set(rng.integers(0, atoms, rng.integers(0, most)).tolist()) for _ in range(count)]


def random_pairs(rng: np.random.Generator, selections: int, count: int) -> tuple[I64, I64]:
    asked, processed = rng.integers(0, selections, (2, count))
    return asked, processed


def sets_of(selections: Sequence[set[int]]) -> AtomSets:
    offsets = np.cumsum([0, *map(len, selections)])
    return AtomSets.of(np.array([atom for one in selections for atom in one], np.int64), offsets)


def pairs_of(quality: MeasuredQuality) -> list[tuple[float, float]]:
    return list(zip(quality.precision.tolist(), quality.recall.tolist(), strict=True))
