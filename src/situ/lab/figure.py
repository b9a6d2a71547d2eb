"""A figure of a paper, drawn again: our curves, what the paper says of its own, and whether ours say so too.

A module of experiments has `FIGURES`: by the name of a figure, the experiment that makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, TypeAlias

import pyarrow as pa

from situ.lab.claims import CheckedClaim, verdict


class Scale(Enum):
    """How much is tried: all that the figure needs, in minutes, or just enough to see that it runs, in seconds."""

    FULL = "full"
    QUICK = "quick"


FULL, QUICK = Scale.FULL, Scale.QUICK

#: Called as work goes on: how much is done, of how much, and what is tried.
Say: TypeAlias = Callable[[int, int, str], None]

#: The points of a curve: x and y.
Points: TypeAlias = tuple[tuple[float, float], ...]

#: Makes a figure. The seed is that of the first case.
Experiment: TypeAlias = Callable[[Scale, int, Say], "Figure"]


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves over one axis. `names`: those of the values of x, where these are things and no scale."""

    title: str
    x_label: str
    curves: Mapping[str, Points]
    names: Mapping[float, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Figure:
    """Curves by name, in the order in which they are told. `claim`: what the paper says of this figure, in words, if
    that is more than its single statements; `parts`: these, held against our curves. Where an axis is logarithmic, 0 is
    drawn at its left end.

    `deviations`: the standard deviation at each point, of curves that show it.
    `setting`: what the curves were found in; `beside`: curves of another setting, which are shown and not judged.
    `looks`: the number of the look of each curve; that of its place, where none is given.
    `names`: those of the values of x, where these are things and no scale.
    `cases`: what the curves are means of, a row each.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    curves: dict[str, Points]
    claim: str
    parts: tuple[CheckedClaim, ...]
    log_x: bool = False
    log_y: bool = False
    deviations: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    setting: str = ""
    beside: Panel | None = None
    names: Mapping[float, str] = field(default_factory=dict)
    looks: Mapping[str, int] = field(default_factory=dict)
    cases: pa.Table | None = None

    @property
    def panels(self) -> tuple[Panel, ...]:
        own = Panel(self.setting, self.x_label, self.curves, self.names)
        return (own,) if self.beside is None else (own, self.beside)

    @property
    def verdict(self) -> str:
        """
        >>> Figure("6x", "Up", "x", "y", {"ours": ((0.0, 1.0),)}, "It grows.", (CheckedClaim("up", "1", True),)).verdict
        'holds'
        """
        return verdict(self.parts)


def to_json(figure: Figure) -> dict[str, Any]:
    """
    >>> grows = CheckedClaim("up", "1", True)
    >>> shown = to_json(Figure("6x", "Up", "x", "y", {"ours": ((0.0, 1.0),)}, "It grows.", (grows,)))
    >>> shown["verdict"], shown["curves"]
    ('holds', {'ours': [[0.0, 1.0]]})
    """
    panels = [{name: [list(p) for p in points] for name, points in each.curves.items()} for each in figure.panels]
    return {
        "figure": figure.name,
        "title": figure.title,
        "x": figure.x_label,
        "y": figure.y_label,
        "verdict": figure.verdict,
        "claim": figure.claim,
        "claims": [asdict(part) for part in figure.parts],
        "curves": panels[0],
        "beside": panels[1] if figure.beside else {},
        "deviations": {name: list(values) for name, values in figure.deviations.items()},
    }


def to_markdown(figure: Figure, picture: str) -> list[str]:
    """The lines of a report: the picture, the paper's claim, and what we see of each part of it."""
    return [
        f"## Figure {figure.name}",
        "",
        f"{figure.title}: {figure.verdict}.",
        "",
        f"![Figure {figure.name}]({picture})",
        "",
        *([f"The paper: {figure.claim}", ""] if figure.claim else []),
        "| the paper says | we see | |",
        "| --- | --- | --- |",
        *(f"| {part.claim} | {part.seen} | {'yes' if part.holds else 'no'} |" for part in figure.parts),
    ]
