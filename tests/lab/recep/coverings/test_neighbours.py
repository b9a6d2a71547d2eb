"""Processing neighbours against Figure 6 word for word."""

from __future__ import annotations

import math

import numpy as np
import pytest

from situ.core.errors import SituError
from situ.lab.recep.coverings.neighbours import InterestRectangles, coordinated, reference_graphs

Rectangle = tuple[float, float, float, float]


def rectangles(interests: InterestRectangles) -> list[Rectangle]:
    columns = (interests.x, interests.y, interests.half_x, interests.half_y)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def overlap(one: Rectangle, other: Rectangle) -> float:
    wide = min(one[0] + one[2], other[0] + other[2]) - max(one[0] - one[2], other[0] - other[2])
    high = min(one[1] + one[3], other[1] + other[3]) - max(one[1] - one[3], other[1] - other[3])
    return max(wide, 0.0) * max(high, 0.0)


def away(one: Rectangle, other: Rectangle) -> float:
    return math.hypot(one[0] - other[0], one[1] - other[1])


def reference_by_words(graphs: list[Rectangle], me: int, d: float) -> int:
    near = [g for g in range(len(graphs)) if away(graphs[g], graphs[me]) <= d]
    near = [g for g in near if g == me or overlap(graphs[g], graphs[me]) > 0]
    return max(near, key=lambda g: (sum(overlap(graphs[g], other) for other in graphs), -g))


def neighbours_by_words(graphs: list[Rectangle], d: float, most: int) -> list[list[int]]:
    neighbour: list[list[int]] = [[] for _ in graphs]
    for me in range(len(graphs)):
        h = graphs[reference_by_words(graphs, me, d)]
        near = sorted((away(h, graphs[o]), o) for o in range(len(graphs)) if o != me and away(h, graphs[o]) <= d)
        for _, other in near[:most]:
            neighbour[other].append(me)
    return neighbour


@pytest.mark.parametrize("seed", range(20))
def test_as_in_the_figure(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, d, most = int(rng.integers(1, 40)), float(rng.integers(0, 12)), int(rng.integers(1, 9))
    # Whole numbers: sums of areas are exact, and equal distances and areas occur.
    x, y, half_x, half_y = rng.integers(0, 15, (4, count)).astype(np.float64) / np.array([[1], [1], [3], [3]])
    interests = InterestRectangles(x, y, np.floor(half_x), np.floor(half_y))
    graphs = rectangles(interests)
    assert reference_graphs(interests, d).tolist() == [reference_by_words(graphs, g, d) for g in range(count)]
    found = coordinated(interests, d, most)
    assert [part.tolist() for part in np.split(found.others, found.offsets[1:-1])] == neighbours_by_words(
        graphs, d, most
    )


def test_most_and_distance_bound_who_processes_for_an_operator() -> None:
    rng = np.random.default_rng(3)
    interests = InterestRectangles.of(rng.random(300) * 1000, rng.random(300) * 1000, 100.0, 100.0)
    found = coordinated(interests, 80.0, 5)
    by = found.turned()
    assert by.sizes.max() == 5
    reference = reference_graphs(interests, 80.0)
    asked = np.repeat(np.arange(300), by.sizes)
    apart = np.hypot(
        interests.x[reference[asked]] - interests.x[by.others], interests.y[reference[asked]] - interests.y[by.others]
    )
    assert apart.max() <= 80.0
    assert not np.any(asked == by.others)
    pairs = set(zip(asked.tolist(), by.others.tolist(), strict=True))
    assert any((b, a) not in pairs for a, b in pairs)  # not symmetric


def test_no_operators() -> None:
    none = coordinated(InterestRectangles.of(np.zeros(0), np.zeros(0), 1.0, 1.0), 5.0, 2)
    assert (none.offsets.tolist(), none.others.tolist()) == ([0], [])


def test_bad_settings_are_refused() -> None:
    interests = InterestRectangles.of(np.zeros(2), np.zeros(2), 1.0, 1.0)
    with pytest.raises(SituError, match="there cannot be 0 neighbours"):
        coordinated(interests, 5.0, 0)
    for distance_m in (-1.0, float("nan")):
        with pytest.raises(SituError, match="neighbours cannot be"):
            coordinated(interests, distance_m, 1)
