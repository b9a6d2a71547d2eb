"""Two maps of one moment: the squares of all drivers, and the regions that serve them."""

from __future__ import annotations

import json
from colorsys import hls_to_rgb
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from moment import SQUARE_M, Moment
from PIL import Image

ROADS = Path(__file__).resolve().parents[1] / "traffic" / "roads.json"
INK, QUIET, ROAD, ALONE = "#1c1f24", "#686d75", "#c3c7cd", "#33638d"
LOW, WIDE, HIGH = (-260, -320), 3160, 3240  # the town, and room for the squares at its edge: m
GOLDEN = (5**0.5 - 1) / 2


def draw(moment: Moment) -> Figure:
    """Left what is asked for, right what is processed."""
    figure = Figure(figsize=(12, 6.6), facecolor="white")
    left, right = (figure.add_axes((side, 0.02, 0.498, 0.498 * 12 / 6.6 * HIGH / WIDE)) for side in (0, 0.502))
    number, count = len(moment.squares), moment.count
    draw_roads(left, f"{number} drivers, each with a square of 500 m")
    draw_squares(left, moment.squares, [ALONE] * number, 0.9)
    draw_dots(left, moment.squares, [ALONE] * number)
    draw_roads(right, f"{count} squares are processed, and serve all of them")
    colours = colours_of(moment)
    first = np.unique(moment.regions, return_index=True)[1]
    draw_squares(right, moment.served_by[first], [colours[one] for one in first], 1.3)
    lines = np.stack([moment.squares, moment.served_by], axis=1)
    right.add_collection(LineCollection(lines, colors=colours, linewidths=1.3, zorder=3))
    right.scatter(*moment.served_by[first].T, c=[colours[one] for one in first], s=26, marker="+", zorder=4)
    draw_dots(right, moment.squares, colours)
    minutes, seconds = divmod(moment.second, 60)
    note = f"{minutes:02}:{seconds:02} since the start. A dot is a driver, a cross the middle of a square that serves."
    figure.text(0.995, 0.016, note, size=9, color=QUIET, ha="right")
    return figure


def colours_of(moment: Moment) -> list[tuple[float, float, float]]:
    """A colour for each driver: that of the region. Hues are spread by the golden section, from west to east, so that
    neighbours differ."""
    numbers, first = np.unique(moment.regions, return_index=True)
    rank = dict(zip(numbers[np.argsort(moment.served_by[first, 0], kind="stable")], range(len(numbers)), strict=True))
    ranks = [rank[region] for region in moment.regions]
    return [hls_to_rgb(one * GOLDEN % 1, 0.36 + 0.1 * (one % 2), 0.75) for one in ranks]


def draw_roads(axes: Axes, title: str) -> None:
    axes.set(xlim=(LOW[0], LOW[0] + WIDE), ylim=(LOW[1], LOW[1] + HIGH), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.set_title(title, size=13, weight="bold", color=INK, pad=0)
    roads = json.loads(ROADS.read_text())
    widths = [0.6 * road["lanes"] ** 0.7 for road in roads]
    axes.add_collection(LineCollection([road["shape"] for road in roads], colors=ROAD, linewidths=widths, zorder=1))


def draw_squares(axes: Axes, middles: np.ndarray, colours: list, width: float) -> None:
    corners = middles - SQUARE_M / 2
    for corner, colour in zip(corners, colours, strict=True):
        axes.add_patch(Rectangle(corner, SQUARE_M, SQUARE_M, facecolor="none", edgecolor=colour, lw=width, zorder=2))
    patches = [Rectangle(corner, SQUARE_M, SQUARE_M) for corner in corners]
    axes.add_collection(PatchCollection(patches, facecolors=colours, edgecolors="none", alpha=0.05, zorder=2))


def draw_dots(axes: Axes, places: np.ndarray, colours: list) -> None:
    axes.scatter(*places.T, c=colours, s=22, edgecolors="white", linewidths=0.5, zorder=5)


def to_png(figure: Figure) -> bytes:
    """With a palette, which makes it half the size."""
    drawn, small = BytesIO(), BytesIO()
    figure.savefig(drawn, dpi=110)
    Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()
