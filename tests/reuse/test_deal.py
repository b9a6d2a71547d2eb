"""Interests dealt out to shards: evenly, near ones together, the same for everyone who asks."""

from __future__ import annotations

import numpy as np
import pytest

from situ.reuse.deal import deal


@pytest.mark.parametrize("degrees", [False, True])
@pytest.mark.parametrize("shards", [2, 3, 8])
def test_shards_have_about_as_many_each(shards: int, degrees: bool) -> None:
    rng = np.random.default_rng(shards)
    x, y = rng.normal(10, 0.02, (2, 2000)) if degrees else rng.normal(0, 1000, (2, 2000))
    counts = np.bincount(deal(x, y, shards, degrees), minlength=shards)
    assert counts.min() > 2000 / shards / 2
    assert counts.max() < 2000 / shards * 2


def test_near_ones_come_together() -> None:
    """Of all pairs within 100 m of each other, few are apart; if they were dealt out at random, most would be."""
    rng = np.random.default_rng(1)
    x, y = rng.uniform(0, 3000, (2, 1000))
    shard = deal(x, y, 4)
    near = np.hypot(x[:, None] - x, y[:, None] - y) < 100
    assert np.mean((shard[:, None] == shard)[near]) > 0.9


def test_the_order_does_not_matter() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.uniform(-500, 500, (2, 300))
    order = rng.permutation(300)
    assert deal(x[order], y[order], 5).tolist() == deal(x, y, 5)[order].tolist()


def test_few_are_dealt_out_too() -> None:
    assert deal(np.zeros(0), np.zeros(0), 3).tolist() == []
    assert deal(np.array([5.0]), np.array([5.0]), 3).tolist() == [0]
    assert len(set(deal(np.array([0.0, 4000.0, 8000.0]), np.zeros(3), 3).tolist())) == 3


def test_many_at_one_place_are_divided() -> None:
    counts = np.bincount(deal(np.zeros(1000), np.zeros(1000), 4), minlength=4)
    assert counts.min() > 100
