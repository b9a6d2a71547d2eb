"""A figure of a paper, drawn again: our curves, what the paper says of its own, and whether ours say so too.

A module of figures has a function for each, `figure_6a(scale, seed, say) -> Figure` and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from situ.lab.panorama.experiments.claims import Part, verdict
from situ.lab.pictures import save

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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

#: The looks of curves, in their order; beyond these, lines are dashed, then dotted.
COLOURS = (
    "#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#17becf", "#7f7f7f", "#e377c2", "#bcbd22",
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "X", "P", "*", "<", ">")
LINES = ("-", "--", ":")


@dataclass(frozen=True, slots=True)
class Figure:
    """Curves by name, in the order in which they are told. `claim`: what the paper says of this figure, in words;
    `parts`: its single statements, held against our curves. Where an axis is logarithmic, 0 is drawn at its left end.
    `deviations`: the standard deviation at each point, of curves that show it.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    curves: dict[str, Points]
    claim: str
    parts: tuple[Part, ...]
    log_x: bool = False
    log_y: bool = False
    deviations: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """
        >>> Figure("6x", "Up", "x", "y", {"ours": ((0.0, 1.0),)}, "It grows.", (Part("up", "1", True),)).verdict
        'holds'
        """
        return verdict(list(self.parts))


def to_json(figure: Figure) -> dict[str, Any]:
    """
    >>> shown = to_json(Figure("6x", "Up", "x", "y", {"ours": ((0.0, 1.0),)}, "It grows.", (Part("up", "1", True),)))
    >>> shown["verdict"], shown["curves"]
    ('holds', {'ours': [[0.0, 1.0]]})
    """
    return {
        "figure": figure.name,
        "title": figure.title,
        "x": figure.x_label,
        "y": figure.y_label,
        "verdict": figure.verdict,
        "claim": figure.claim,
        "claims": [asdict(part) for part in figure.parts],
        "curves": {name: [list(point) for point in points] for name, points in figure.curves.items()},
        "deviations": {name: list(some) for name, some in figure.deviations.items()},
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
        f"The paper: {figure.claim}",
        "",
        "| the paper says | we see | |",
        "| --- | --- | --- |",
        *(f"| {part.claim} | {part.seen} | {'yes' if part.holds else 'no'} |" for part in figure.parts),
    ]


def draw(figure: Figure, out: Path) -> None:
    """One panel, the names of curves beside it."""
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(7.2, 3.6), layout="constrained")
    axis = drawing.subplots()
    for number, (name, points) in enumerate(figure.curves.items()):
        look, again = number % len(COLOURS), number // len(COLOURS)
        axis.errorbar(
            [x for x, _ in points], [y for _, y in points], yerr=figure.deviations.get(name), label=name, capsize=2,
            color=COLOURS[look], marker=MARKERS[look], markersize=5, linestyle=LINES[again % len(LINES)],
        )  # fmt: skip
    _scale_axes(axis, figure)
    axis.set_xlabel(figure.x_label)
    axis.set_ylabel(figure.y_label)
    axis.set_title(f"Figure {figure.name}: {figure.title}", fontsize=10)
    axis.grid(alpha=0.3)
    if figure.curves:
        drawing.legend(loc="outside right upper", fontsize=8, frameon=False, handlelength=3)
    save(drawing, out)


def _scale_axes(axis: Axes, figure: Figure) -> None:
    """A logarithmic axis with a 0 is linear up to the smallest value above it."""
    points = [point for curve in figure.curves.values() for point in curve]
    for log, place, rescale in ((figure.log_x, 0, axis.set_xscale), (figure.log_y, 1, axis.set_yscale)):
        values = [point[place] for point in points]
        above = [value for value in values if value > 0]
        if log and len(above) < len(values):
            rescale("symlog", linthresh=min(above, default=1.0))
        elif log:
            rescale("log")
        elif place == 1:
            axis.set_ylim(bottom=min([0.0, *values]))
