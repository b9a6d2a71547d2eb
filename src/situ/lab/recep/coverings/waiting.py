"""What the processing phase reads and says: selections that wait, and which of them are processed for which (RECEP,
section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situ.core.errors import SituError
from situ.kernel.arrays import F64, I64
from situ.lab.quality.atoms import AtomSets


@dataclass(frozen=True, slots=True)
class Neighbours:
    """For whom operators may process: operator k for those from offset k to offset k + 1. Not symmetric.

    >>> neighbours = Neighbours.of(np.array([0, 2]), np.array([1, 1]), 3)
    >>> neighbours.offsets.tolist(), neighbours.others.tolist(), neighbours.turned().others.tolist()
    ([0, 1, 1, 2], [1, 1], [0, 2])
    """

    offsets: I64
    others: I64

    @classmethod
    def of(cls, operator: I64, on_behalf_of: I64, count: int) -> Neighbours:
        """From pairs in any order, of `count` operators."""
        order = np.lexsort((on_behalf_of, operator))
        sizes = np.bincount(operator, minlength=count)
        return cls(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), on_behalf_of[order].astype(np.int64))

    @property
    def sizes(self) -> I64:
        return np.diff(self.offsets)

    def turned(self) -> Neighbours:
        """The same relation the other way round: by whom each operator's selections may be processed."""
        count = len(self.offsets) - 1
        return Neighbours.of(self.others, np.repeat(np.arange(count), self.sizes), count)


@dataclass(frozen=True, slots=True)
class WaitingSelections:
    """Selections of one group that are not yet processed. Thresholds are those of the operator that asks.

    `sets` says which pairs are compared at all: those that have an atomic event in common, or are both empty. Without
    an estimate it is also what they are judged by. `neighbours` None is all of the group. An operator is not its own
    neighbour: its selections are never processed for one another.

    >>> sets = AtomSets.of(np.array([1, 2, 1, 2, 3]), np.array([0, 2, 5]))
    >>> len(WaitingSelections(sets, np.array([0, 1]), np.array([0.5, 0.5]), np.array([1.0, 1.0])))
    2
    """

    sets: AtomSets
    owner: I64
    precision: F64
    recall: F64
    neighbours: Neighbours | None = None

    def __post_init__(self) -> None:
        assert len(self.owner) == len(self.sets), (len(self.owner), len(self.sets))
        check_thresholds(self.precision, "precision")
        check_thresholds(self.recall, "recall")
        operators = len(self.precision)
        assert len(self.recall) == operators, (len(self.recall), operators)
        assert not len(self.owner) or 0 <= self.owner.min() <= self.owner.max() < operators, "operators count from 0"
        assert self.neighbours is None or len(self.neighbours.offsets) == operators + 1, "neighbours of all operators"

    def __len__(self) -> int:
        return len(self.owner)


def check_thresholds(thresholds: F64, name: str) -> None:
    """A share can be neither below 0 nor above 1.

    >>> check_thresholds(np.array([0.5, 1.2]), "recall")
    Traceback (most recent call last):
        ...
    situ.core.errors.SituError: operator 1 asks for a recall of 1.2, which cannot be.
      Ask for a share from 0 to 1.
    """
    wrong = np.flatnonzero(~((thresholds >= 0) & (thresholds <= 1)))
    if len(wrong):
        raise SituError(
            f"operator {wrong[0]} asks for a {name} of {thresholds[wrong[0]]}, which cannot be",
            remedy="Ask for a share from 0 to 1.",
        )


@dataclass(frozen=True, slots=True)
class Covering:
    """Which selection is processed on behalf of each; itself, if it is a covering one. And how many pairs were judged
    to find that.

    >>> covering = Covering(np.array([1, 1, 2]), 4)
    >>> covering.processed.tolist(), covering.covered
    ([1, 2], 1)
    """

    by: I64
    estimations: int

    @property
    def processed(self) -> I64:
        """The covering selections."""
        return np.flatnonzero(self.by == np.arange(len(self.by)))

    @property
    def covered(self) -> int:
        """How many selections need not be processed."""
        return len(self.by) - len(self.processed)
