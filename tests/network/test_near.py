"""Nearest points, pairs within a radius and joins against all pairs."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest

from situ.network.near import great_circle_km, joined, nearest, within

SEEDS = range(15)


def points_of(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 80))
    return rng.normal(size=(count, 2)) * rng.choice([0.1, 5.0], size=(count, 1)) + rng.integers(0, 3, size=(count, 1))


def distances(points: np.ndarray) -> np.ndarray:
    return np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_nearest(seed: int) -> None:
    points = points_of(seed)
    order = np.argsort(distances(points) + np.diag(np.full(len(points), np.inf)), axis=1)[:, : min(3, len(points) - 1)]
    expected = {tuple(sorted((point, int(other)))) for point, row in enumerate(order) for other in row}
    assert [tuple(pair) for pair in nearest(points, 3).tolist()] == sorted(expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_within(seed: int) -> None:
    points = points_of(seed)
    far = distances(points)
    expected = [(a, b) for a, b in itertools.combinations(range(len(points)), 2) if far[a, b] <= 1.5]
    assert [tuple(pair) for pair in within(points, 1.5).tolist()] == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_joins_are_those_of_a_minimum_spanning_tree_over_the_parts(seed: int) -> None:
    points = points_of(seed)
    far, given = distances(points), within(points_of(seed), 0.3)
    full = nx.Graph()
    full.add_nodes_from(range(len(points)))
    full.add_weighted_edges_from((a, b, far[a, b]) for a, b in itertools.combinations(range(len(points)), 2))
    for a, b in given.tolist():
        full[a][b]["weight"] = 0.0
    tree = {(min(a, b), max(a, b)) for a, b in nx.minimum_spanning_edges(full, data=False) if full[a][b]["weight"] > 0}
    expected = sorted(tree | {tuple(pair) for pair in given.tolist()})
    assert [tuple(pair) for pair in joined(points, given).tolist()] == expected


def test_one_point_has_no_others() -> None:
    alone = np.array([[1.0, 2.0]])
    assert nearest(alone, 3).shape == within(alone, 9.0).shape == joined(alone, nearest(alone, 3)).shape == (0, 2)


def test_great_circles() -> None:
    assert great_circle_km(0, 0, 90, 0) == pytest.approx(6371 * np.pi / 2)
    assert great_circle_km(179.5, 0, -179.5, 0) == pytest.approx(6371 * np.pi / 180)
    assert great_circle_km(10, 90, 200, -90) == pytest.approx(6371 * np.pi)
    assert great_circle_km(7, 8, 7, 8) == 0
