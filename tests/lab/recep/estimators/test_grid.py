"""The estimate from a coarse grid: against cells in Python, and how it falls to the exact figures."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from lab.recep.estimators.random_selections import pairs_of, random_pairs, random_sets, sets_of, share
from situ.core.errors import InputError
from situ.kernel.arrays import F64, I64
from situ.lab.recep.estimators.grid import Cells, Dependencies, Grids, counts_of_grids, quality_of_grids
from situ.lab.recep.estimators.pairs import counts_of_pairs


def random_events(rng: np.random.Generator, count: int) -> tuple[F64, F64, I64]:
    x, y = rng.uniform(-50, 50, (2, count))
    return x, y, rng.integers(-100, 100, count)


def counters(selections: list[set[int]], x: F64, y: F64, time_us: I64, cells: Cells) -> list[Counter[tuple[int, ...]]]:
    def cell(e: int) -> tuple[int, ...]:
        return int(x[e] // cells.side_m), int(y[e] // cells.side_m), int(time_us[e] // cells.step_us)

    return [Counter(map(cell, one)) for one in selections]


def as_counters(grids: Grids) -> list[list[int]]:
    parts = np.split(grids.counts, grids.offsets[1:-1])
    return [sorted(part.tolist()) for part in parts]


@pytest.mark.parametrize("seed", range(5))
def test_cells_in_python(seed: int) -> None:
    """The actual dependency of the one asked against the reuse dependency of the one processed."""
    rng = np.random.default_rng(seed)
    events = random_events(rng, 60)
    actual, reuse = random_sets(rng, 30, 60, 30), random_sets(rng, 30, 60, 30)
    cells = Cells(30.0, 60)
    codes = cells.codes(*events)
    by_actual, by_reuse = (Grids.of(sets_of(selections), codes) for selections in (actual, reuse))
    asked, processed = random_pairs(rng, 30, 200)
    wanted, used = (counters(selections, *events, cells) for selections in (actual, reuse))
    expected = []
    for one, other in ((wanted[i], used[j]) for i, j in zip(asked, processed, strict=True)):
        both = (one & other).total()
        expected.append((share(both, other.total()), share(both, one.total())))
    assert pairs_of(quality_of_grids(Dependencies.of(by_actual, by_reuse), asked, processed)) == expected
    assert len(set(expected)) > 10


@pytest.mark.parametrize("seed", range(5))
def test_finer_cells_fall_to_the_exact_figures(seed: int) -> None:
    rng = np.random.default_rng(seed)
    events = random_events(rng, 80)
    selections = random_sets(rng, 30, 80, 60)
    sets = sets_of(selections)
    asked, processed = random_pairs(rng, 30, 200)
    exact = counts_of_pairs(sets, asked, processed).both
    before = np.full(200, 100)
    for halvings in range(8):  # each cell is divided into eight
        cells = Cells(128.0 / 2**halvings, 128 >> halvings)
        grids = Grids.of(sets, cells.codes(*events))
        found = counts_of_grids(Dependencies.of(grids, grids), asked, processed)
        assert np.all(found.both <= before)
        assert np.all(found.both >= exact)
        assert (found.asked.tolist(), found.processed.tolist()) == (
            sets.sizes[asked].tolist(),
            sets.sizes[processed].tolist(),
        )
        if halvings == 0:
            assert np.any(found.both > exact)
        before = found.both
    assert len(np.unique(cells.codes(*events))) == 80
    assert before.tolist() == exact.tolist()


def test_no_grids() -> None:
    none = np.zeros(0, np.int64)
    grids = Grids.of(sets_of([]), none)
    assert len(grids) == 0
    assert pairs_of(quality_of_grids(Dependencies.of(grids, grids), none, none)) == []


def test_events_that_are_nowhere_are_only_like_each_other() -> None:
    x = np.array([np.nan, 0.0, 0.0, np.nan, np.inf])
    y = np.array([0.0, np.nan, 0.0, np.nan, 0.0])
    codes = Cells(10.0, 10).codes(x, y, np.array([5, 5, 5, 15, 5]))
    assert codes[0] == codes[1]
    assert len({*codes[1:4].tolist()}) == 3


def test_cells_have_a_code_for_any_time_and_place() -> None:
    """Negative places and times, microseconds since 1970, and the far ends: all different, none below 0."""
    place = np.array([-1e7, -1.0, 0.0, 1.0, 1e7])
    time_us = np.array([-1_800_000_000_000_000, -1, 0, 1_800_000_000_000_000])
    x, y, t = (v.reshape(-1) for v in np.meshgrid(place, place, time_us))
    codes = Cells(100.0, 1_000_000).codes(x, y, t)
    assert len(np.unique(codes)) == 4 * 4 * 4  # 0 and 1 m are in one cell
    assert codes.min() >= 0


@pytest.mark.parametrize(("side_m", "step_us"), [(0.0, 1), (-1.0, 1), (np.nan, 1), (np.inf, 1), (1.0, 0), (1.0, -5)])
def test_cells_without_a_size(side_m: float, step_us: int) -> None:
    with pytest.raises(InputError, match="there are no cells"):
        Cells(side_m, step_us)
