"""Where the boxes of a picture stand: layers from left to right, few crossings, readers beside what they read.

The usual steps of layered drawing (Sugiyama, Tagawa, Toda 1981): long edges get a bend in every layer that they
pass, each layer is ordered by the mean place of its neighbours, and then boxes move as near to their neighbours as
the order lets them. Nothing is random, so the same graph gives the same picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TypeAlias

#: Odd, so that the last word is that of the layers on the right: readers stand beside what they read.
SWEEPS = 25

#: A box by its name, or the bend of the edge (reader, read) in a layer between the two.
Node: TypeAlias = str | tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Layout:
    """The vertical middle of every node, and the nodes that each edge (reader, read) passes, from left to right."""

    middle: Mapping[Node, float]
    paths: Mapping[tuple[str, str], tuple[Node, ...]]


def lay_out(
    layer_of: Mapping[str, int], edges: Iterable[tuple[str, str]], height_of: Mapping[str, float], gap: float
) -> Layout:
    """Vertical places for boxes whose layers are given; `edges` are (reader, read).

    >>> layout = lay_out({"A": 0, "B": 0, "P": 1}, [("P", "A"), ("P", "B")], dict.fromkeys("ABP", 10.0), gap=4.0)
    >>> layout.middle
    {'A': -7.0, 'B': 7.0, 'P': 0.0}
    """
    paths = {(reader, read): _path(reader, read, layer_of) for reader, read in edges}
    layers: list[list[Node]] = [[] for _ in range(1 + max(layer_of.values(), default=-1))]
    neighbours: dict[Node, list[Node]] = {}
    for name, layer in layer_of.items():
        layers[layer].append(name)
        neighbours[name] = []
    for path in paths.values():
        for bend in path[1:-1]:
            assert isinstance(bend, tuple), "only the ends of a path are boxes"
            layers[bend[2]].append(bend)
            neighbours[bend] = []
        for left, right in pairwise(path):
            neighbours[left].append(right)
            neighbours[right].append(left)
    heights: dict[Node, float] = {node: height_of[node] if isinstance(node, str) else 0.0 for node in neighbours}
    middle = {node: float(place) for nodes in layers for place, node in enumerate(nodes)}
    for sweep in range(SWEEPS):
        for nodes in layers if sweep % 2 == 0 else reversed(layers):
            nodes.sort(key=lambda node: _wish(node, neighbours, middle))
            _pack(nodes, [_wish(node, neighbours, middle) for node in nodes], heights, gap, middle)
    return Layout(middle, paths)


def _path(reader: str, read: str, layer_of: Mapping[str, int]) -> tuple[Node, ...]:
    bends = ((reader, read, layer) for layer in range(layer_of[read] + 1, layer_of[reader]))
    return (read, *bends, reader)


def _wish(node: Node, neighbours: Mapping[Node, list[Node]], middle: Mapping[Node, float]) -> float:
    """Where a node would stand if it were alone in its layer: in the middle of its neighbours."""
    return fmean(middle[other] for other in neighbours[node]) if neighbours[node] else middle[node]


def _pack(
    layer: Sequence[Node], wishes: list[float], heights: Mapping[Node, float], gap: float, middle: dict[Node, float]
) -> None:
    """Move the nodes of a layer as near to their wishes as order and distance allow (least squares).

    With the smallest distances subtracted this is isotonic regression: runs of nodes that would overlap merge, and
    take the mean of their wishes.
    """
    offsets = [0.0]
    for upper, lower in pairwise(layer):
        offsets.append(offsets[-1] + heights[upper] / 2 + gap + heights[lower] / 2)
    runs: list[list[float]] = []
    for wish, offset in zip(wishes, offsets, strict=True):
        runs.append([wish - offset])
        while len(runs) > 1 and fmean(runs[-2]) > fmean(runs[-1]):
            runs[-2:] = [runs[-2] + runs[-1]]
    starts = (fmean(run) for run in runs for _ in run)
    for node, start, offset in zip(layer, starts, offsets, strict=True):
        middle[node] = start + offset
