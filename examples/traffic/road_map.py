"""A map of situations: the shape of a mark says what it is, its colour when it was.

`draw_map(found)` takes a table (pandas) for each kind of `MARKS`, with the columns `x`, `y` and `_time`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from PIL import Image

HERE = Path(__file__).resolve().parent
MINUTES = Normalize(0, 20)
# A colour for each minute. plasma is even in lightness and safe for colour-blind eyes; its yellow end fades on white.
COLOURS = ListedColormap(mpl.colormaps["plasma"](np.linspace(0, 0.88, 20)))
INK, QUIET, ROAD = "#1c1f24", "#686d75", "#c3c7cd"


@dataclass(frozen=True, slots=True)
class Mark:
    """How a kind of situation is drawn: `size` is the diameter, `room` what it keeps free of others, in points."""

    label: str
    shape: str
    size: float
    room: float
    numbered: bool = False


#: In the order in which they claim their place: those in front are moved aside least.
MARKS = {
    "Accident": Mark("looks like an accident", "^", 16, 16, numbered=True),
    "Queue": Mark("queue, for three minutes", "s", 8, 9.5),
    "HardBraking": Mark("hard braking", "o", 4.6, 4.8),
}


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the map, in metres."""

    left: float
    bottom: float
    width: float
    height: float

    def holds(self, places: pd.DataFrame) -> pd.Series:
        x, y = places["x"] - self.left, places["y"] - self.bottom
        return x.between(0, self.width) & y.between(0, self.height)


TOWN = Region(-30, -60, 2740, 2780)
CROSSING = Region(1478, 1583, 372, 300)  # where most accident-like situations and half of the queues are


def draw_map(found: Mapping[str, pd.DataFrame], roads: Path = HERE / "roads.json") -> Figure:
    """Draws all situations on the roads of the town, and once more, larger, those of its busiest crossing."""
    wide, high = 10.0, 10.15
    figure = Figure(figsize=(wide, high), facecolor="white")
    shapes = json.loads(roads.read_text())
    town = figure.add_axes((0, 0, 1, TOWN.height / TOWN.width * wide / high))
    draw_roads(town, TOWN, shapes, width=0.75)
    draw_marks(town, TOWN, found)
    crossing = figure.add_axes((0.735, 0.04, 0.25, 0.25 * CROSSING.height / CROSSING.width * wide / high))
    draw_roads(crossing, CROSSING, shapes, width=2.4)
    draw_marks(crossing, CROSSING, found)
    frame = (CROSSING.left, CROSSING.bottom), CROSSING.width, CROSSING.height
    town.add_patch(Rectangle(*frame, facecolor="none", edgecolor=QUIET, linewidth=0.8))
    draw_scale(town, 40, 20, 500)
    draw_legend(figure, found)
    figure.text(0.735, 0.027, "The crossing in the frame, larger.", size=9, color=QUIET, va="top")
    return figure


def figure_to_png(figure: Figure, dpi: int) -> bytes:
    """With a palette, which makes it a third of the size."""
    drawn, small = BytesIO(), BytesIO()
    figure.savefig(drawn, dpi=dpi)
    Image.open(drawn).convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE).save(small, "PNG", optimize=True)
    return small.getvalue()


def draw_roads(axes: Axes, region: Region, shapes: list[dict], width: float) -> None:
    axes.set(xlim=(region.left, region.left + region.width), ylim=(region.bottom, region.bottom + region.height))
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=region != TOWN, color=QUIET, linewidth=0.8)
    lines = [road["shape"] for road in shapes]
    widths = [width * road["lanes"] ** 0.7 for road in shapes]
    axes.add_collection(LineCollection(lines, colors=ROAD, linewidths=widths, capstyle="round"))


def draw_marks(axes: Axes, region: Region, found: Mapping[str, pd.DataFrame]) -> None:
    """Marks that would cover each other are moved aside; a thin line leads back to the place of those moved far."""
    metres_per_point = region.width / (axes.get_position().width * axes.figure.get_figwidth() * 72)
    rows = pd.concat([numbered(found[kind]).assign(kind=kind) for kind in MARKS if kind in found])
    rows = rows[region.holds(rows)]
    places = rows[["x", "y"]].to_numpy(float)
    rooms = rows["kind"].map(lambda kind: MARKS[kind].room).to_numpy(float) * metres_per_point
    put = spread(places, rooms)
    far = np.hypot(*(put - places).T) > 1.5 * rooms
    axes.add_collection(LineCollection(np.stack([places, put], 1)[far], colors=QUIET, linewidths=0.4, zorder=2))
    colours = COLOURS(MINUTES(minutes(rows["_time"])))
    for kind, mark in MARKS.items():
        mine = (rows["kind"] == kind).to_numpy()
        look = {"marker": mark.shape, "s": mark.size**2, "edgecolors": "white", "linewidths": 0.5, "zorder": 3}
        axes.scatter(*put[mine].T, c=colours[mine], **look)
        if mark.numbered:
            draw_numbers(axes, put[mine], rows["number"][mine], colours[mine])


def draw_numbers(axes: Axes, places: np.ndarray, numbers: pd.Series, colours: np.ndarray) -> None:
    look = {"textcoords": "offset points", "size": 7, "weight": "bold", "ha": "center", "va": "center"}
    for place, number, colour in zip(places, numbers, colours, strict=True):
        light = colour[:3] @ (0.3, 0.6, 0.1) > 0.56
        axes.annotate(str(number), place, xytext=(0, -2), color=INK if light else "white", zorder=4, **look)


def numbered(table: pd.DataFrame) -> pd.DataFrame:
    """In order of time, with the numbers that the map and the tables show."""
    table = table.sort_values(["_time", "lane"], ignore_index=True)
    return table.assign(number=table.index + 1)


def spread(places: np.ndarray, diameters: np.ndarray) -> np.ndarray:
    """Moves circles so that none covers another: each to the nearest free point of a spiral around its place."""
    steps = np.arange(2_000)
    radius = np.sqrt(steps) * diameters.min(initial=100) / 4
    angle = steps * np.pi * (3 - np.sqrt(5))
    spiral = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    put = places.copy()
    for i, (place, diameter) in enumerate(zip(places, diameters, strict=True)):
        apart = np.hypot(*(place + spiral[:, None] - put[:i]).transpose(2, 0, 1))
        free = (apart >= (diameter + diameters[:i]) / 2).all(axis=1)
        put[i] = place + spiral[np.argmax(free)]
    return put


def minutes(times: pd.Series) -> np.ndarray:
    """Since the beginning of the simulation, whose clock starts with 1 January 1970."""
    return (times - pd.Timestamp(0)).dt.total_seconds().to_numpy() / 60


def draw_scale(axes: Axes, x: float, y: float, metres: int) -> None:
    axes.plot([x, x, x + metres, x + metres], [y + 15, y, y, y + 15], color=INK, linewidth=1.2)
    axes.text(x + metres / 2, y + 10, f"{metres} m", ha="center", va="bottom", color=INK, size=10)


def draw_legend(figure: Figure, found: Mapping[str, pd.DataFrame]) -> None:
    figure.text(0.02, 0.975, "Twenty minutes of traffic in Ingolstadt", size=19, weight="bold", color=INK, va="top")
    look = {"linestyle": "", "markerfacecolor": QUIET, "markeredgecolor": "white"}
    marks = [
        Line2D([], [], marker=mark.shape, markersize=mark.size, label=f"{mark.label} ({len(found[kind])})", **look)
        for kind, mark in MARKS.items()
        if kind in found
    ]
    figure.legend(marks, [mark.get_label() for mark in marks], loc="upper left", bbox_to_anchor=(0.008, 0.944),
                  frameon=False, fontsize=11, labelcolor=INK)  # fmt: skip
    bar = figure.add_axes((0.024, 0.80, 0.25, 0.014))
    figure.colorbar(ScalarMappable(MINUTES, COLOURS), cax=bar, orientation="horizontal", ticks=range(0, 21, 5))
    bar.set_title("minutes since the start", size=11, color=INK, loc="left")
    bar.tick_params(length=0, labelsize=10, labelcolor=INK)
    figure.axes[-1].spines[:].set_visible(False)
    note = "Marks that would cover each other are moved aside.\nSimulated with SUMO: RESCO scenario ingolstadt21."
    figure.text(0.36, 0.027, note, size=9, color=QUIET, va="center")
