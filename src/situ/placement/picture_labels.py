"""Where labels stand in a picture: beside what they name, over as few other things as possible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from situ.kernel.arrays import F64

#: Directions in which a label may stand from its site, the best first; and how far, in steps.
DIRECTIONS = tuple(math.pi * k / 8 for k in (0, 8, 4, 12, 2, 14, 6, 10, 1, 15, 7, 9, 3, 5, 11, 13))
STEPS = (0.0, 14.0, 32.0, 56.0, 90.0, 130.0)

#: What it costs to cover a point on a line, and to be a pixel further away, in pixels of other labels covered.
LINE_PRICE, STEP_PRICE = 25.0, 1.0


@dataclass(frozen=True, slots=True)
class Label:
    """A box, by its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    def overlap(self, other: Label) -> float:
        wide = min(self.x + self.width, other.x + other.width) - max(self.x, other.x)
        high = min(self.y + self.height, other.y + other.height) - max(self.y, other.y)
        return wide * high if wide > 0 and high > 0 else 0.0

    def holds(self, points: F64) -> int:
        """How many of the points lie in it."""
        x, y = points.T
        within = (self.x <= x) & (x <= self.x + self.width) & (self.y <= y) & (y <= self.y + self.height)
        return int(within.sum())


class Labels:
    """The labels placed so far, in a picture of some size. `lines`: points on what had better not be covered."""

    def __init__(self, width: float, height: float, lines: F64) -> None:
        self._picture, self._lines = Label(0.0, 0.0, width, height), lines
        self._taken: list[Label] = []

    def keep_free(self, at: F64, radius: float) -> None:
        """No label is to cover this."""
        self._taken.append(Label(float(at[0]) - radius, float(at[1]) - radius, 2 * radius, 2 * radius))

    def place_if_free(self, at: F64, gap: float, width: float, height: float) -> Label | None:
        """A place beside a point that covers no other label, if there is one.

        >>> import numpy as np
        >>> labels = Labels(100.0, 100.0, np.array([[60.0, 50.0]]))
        >>> labels.place_if_free(np.array([50.0, 50.0]), 5.0, 20.0, 10.0)
        Label(x=25.0, y=45.0, width=20.0, height=10.0)
        >>> labels.place_if_free(np.array([50.0, 50.0]), 5.0, 20.0, 120.0) is None
        True
        """
        label = self._best(at, gap, width, height, STEPS[:1])
        if self._covers(label) > 0:
            return None
        self._taken.append(label)
        return label

    def place(self, at: F64, gap: float, width: float, height: float) -> Label:
        """The place near a point that covers least."""
        label = self._best(at, gap, width, height, STEPS)
        self._taken.append(label)
        return label

    def _best(self, at: F64, gap: float, width: float, height: float, steps: Sequence[float]) -> Label:
        places = [(step, self._beside(at, gap + step, turn, width, height)) for step in steps for turn in DIRECTIONS]
        return min(places, key=lambda place: STEP_PRICE * place[0] + self._price(place[1]))[1]

    def _price(self, label: Label) -> float:
        return self._covers(label) + LINE_PRICE * label.holds(self._lines)

    def _beside(self, at: F64, gap: float, direction: float, width: float, height: float) -> Label:
        east, south = math.cos(direction), math.sin(direction)
        x = float(at[0]) + east * (gap + width / 2) - width / 2
        y = float(at[1]) + south * (gap + height / 2) - height / 2
        return Label(round(x, 3), round(y, 3), width, height)

    def _covers(self, label: Label) -> float:
        """The area of what is below it, and of what lies outside of the picture."""
        outside = label.width * label.height - label.overlap(self._picture)
        return sum(label.overlap(other) for other in self._taken) + (2 * outside if outside > 1e-6 else 0.0)


def text_width(text: str, size: float) -> float:
    """A careful estimate for Helvetica and its kin: no font is at hand where the picture is made."""
    em = sum(0.32 if c in " ,.;:!|'()[]{}ijltfI" else 0.92 if c in "mwMW…@%" or ord(c) > 0x2E7F else 0.64 for c in text)
    return em * size
