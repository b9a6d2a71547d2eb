"""Draws figures: a panel, or two of them side by side, with the names of curves to the right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from situ.core.errors import SituError
from situ.lab.figure import Figure, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

#: The looks of curves, in their order; beyond these, lines are dashed, then dotted.
COLOURS = (
    "#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#17becf", "#7f7f7f", "#e377c2", "#bcbd22",
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "X", "P", "*", "<", ">")
LINES = ("-", "--", ":")
#: Every other marker is hollow and larger, so that one of a curve that is just the same shows within.
SIZES = (5, 9)


def check_can_draw() -> None:
    """Raises an error if there is no matplotlib, before hours of work end without a picture."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise SituError("pictures need matplotlib", remedy="pip install 'situ[examples]'") from None


def draw(figure: Figure, out: Path) -> None:
    """Writes a figure as a PNG."""
    from matplotlib.figure import Figure as Drawing

    panels = figure.panels
    drawing = Drawing(figsize=(3.2 + 4 * len(panels), 3.6), layout="constrained")
    axes = drawing.subplots(1, len(panels), squeeze=False)[0]
    for axis, panel in zip(axes, panels, strict=True):
        _draw_curves(axis, panel, figure)
        _scale_axes(axis, panel, figure)
        axis.set_xlabel(panel.x_label)
        axis.set_title(panel.title, fontsize=9)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel(figure.y_label)
    drawing.suptitle(f"Figure {figure.name}: {figure.title}", fontsize=10)
    if figure.curves:
        handles, labels = axes[0].get_legend_handles_labels()
        drawing.legend(handles, labels, loc="outside right upper", fontsize=8, frameon=False, handlelength=3)
    save(drawing, out)


def _draw_curves(axis: Axes, panel: Panel, figure: Figure) -> None:
    places = {x: place for place, x in enumerate(panel.names)}
    for number, (name, points) in enumerate(panel.curves.items()):
        again, look = divmod(figure.looks.get(name, number), len(COLOURS))
        axis.errorbar(
            [places.get(x, x) for x, _ in points], [y for _, y in points], label=name, capsize=2,
            yerr=figure.deviations.get(name) if panel.curves is figure.curves else None,
            color=COLOURS[look], marker=MARKERS[look], markersize=SIZES[look % 2],
            markerfacecolor="none" if look % 2 else COLOURS[look],
            linestyle="none" if places else LINES[again % len(LINES)],
        )  # fmt: skip


def _scale_axes(axis: Axes, panel: Panel, figure: Figure) -> None:
    """A logarithmic axis with a 0 is linear up to the smallest value above it."""
    points = [point for curve in panel.curves.values() for point in curve]
    for log, place, rescale in ((figure.log_x, 0, axis.set_xscale), (figure.log_y, 1, axis.set_yscale)):
        values = [point[place] for point in points]
        above = [value for value in values if value > 0]
        if place == 0 and panel.names:
            axis.set_xticks(range(len(panel.names)), list(panel.names.values()), fontsize=8)
        elif log and len(above) < len(values):
            rescale("symlog", linthresh=min(above, default=1.0))
        elif log:
            rescale("log")
        elif place == 1:
            axis.set_ylim(bottom=min([0.0, *values]))


def save(drawing: Drawing, out: Path) -> None:
    """64 colours are enough, and make a file of a third of the size."""
    from PIL import Image

    drawing.savefig(out, dpi=100)
    with Image.open(out) as drawn:
        few = drawn.convert("RGB").quantize(64, dither=Image.Dither.NONE)
    few.save(out, optimize=True)
