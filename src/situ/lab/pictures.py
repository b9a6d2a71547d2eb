"""Draws the curves of an experiment: networks of antennas on the left, the real topologies on the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from situ.core.errors import SituError
from situ.lab.panorama.experiments.table import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: One look for each mechanism, in all pictures: colour, marker, its size, line. Where two plans are often the same, one
#: marker is larger and hollow, so that the other shows within.
LOOKS = {
    "sbon": ("#8c564b", "v", 6, ":"),
    "cpp": ("#7f7f7f", "s", 5, "--"),
    "grin": ("#bcbd22", "D", 5, "--"),
    "greedy": ("#2ca02c", "^", 6, "-"),
    "greedy+": ("#17becf", "o", 10, "-"),
    "heuristic": ("#ff7f0e", "o", 5, "-"),
    "heuristic+": ("#1f77b4", "X", 6, "-"),
    "optimal": ("#d62728", "s", 12, "-."),
}
HOLLOW = ("greedy+", "optimal")


def check_can_draw() -> None:
    """Before hours of work: pictures need matplotlib."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise SituError("pictures need matplotlib", remedy="pip install 'situ[examples]'") from None


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves over one kind of networks. `names`: of the values of x, where these are no scale but things."""

    title: str
    curves: dict[str, Curve]
    x_label: str
    names: dict[float, str] = field(default_factory=dict)


def draw_curves(panels: Sequence[Panel], out: Path, *, y_label: str, log_x: bool, log_y: bool) -> None:
    """The mean of each mechanism over what is varied."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, panel in zip(axes, panels, strict=True):
        for name, curve in panel.curves.items():
            colour, marker, size, line = LOOKS[name]
            xs = [[*panel.names].index(x) for x in curve.x] if panel.names else curve.x
            axis.plot(
                xs, curve.mean, color=colour, marker=marker, markersize=size, label=name,
                markerfacecolor="none" if name in HOLLOW else colour, linestyle="none" if panel.names else line,
            )  # fmt: skip
        _dress(axis, panel, log_x, log_y)
    axes[0].set_ylabel(y_label)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8, frameon=False)
    save(figure, out)


def draw_boxes(panels: Sequence[Panel], out: Path, *, y_label: str) -> None:
    """The distribution over all cases: the middle half as a box, 5% to 95% as whiskers, the mean as a diamond."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axis, panel in zip(axes, panels, strict=True):
        boxes = axis.boxplot(
            [curve.values[0] for curve in panel.curves.values()], whis=(5, 95), showfliers=False, showmeans=True,
            patch_artist=True, medianprops={"color": "black"},
            meanprops={"marker": "D", "markerfacecolor": "white", "markeredgecolor": "black", "markersize": 4},
        )  # fmt: skip
        for box, name in zip(boxes["boxes"], panel.curves, strict=True):
            box.set_facecolor(LOOKS[name][0])
        axis.set_xticks(range(1, len(panel.curves) + 1), list(panel.curves), rotation=30, ha="right")
        axis.set_title(panel.title, fontsize=10)
        axis.grid(axis="y", alpha=0.3)
    axes[0].set_ylabel(y_label)
    save(figure, out)


def _dress(axis: Axes, panel: Panel, log_x: bool, log_y: bool) -> None:
    from matplotlib.ticker import NullFormatter

    if panel.names:
        axis.set_xticks(range(len(panel.names)), list(panel.names.values()), fontsize=8)
    else:
        ticks = sorted({x for curve in panel.curves.values() for x in curve.x})
        if log_x:
            axis.set_xscale("log")
        axis.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axis.xaxis.set_minor_formatter(NullFormatter())
    if log_y:
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=0)
    axis.set_title(panel.title, fontsize=10)
    axis.set_xlabel(panel.x_label)
    axis.grid(alpha=0.3)


def save(figure: Figure, out: Path) -> None:
    """64 colours are enough, and make a file of a third of the size."""
    from PIL import Image

    figure.savefig(out, dpi=100)
    with Image.open(out) as drawn:
        few = drawn.convert("RGB").quantize(64, dither=Image.Dither.NONE)
    few.save(out, optimize=True)
