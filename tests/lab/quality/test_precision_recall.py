"""Precision and recall against Python sets, on random sets, on provenance of the engine, and on regions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from situ.lab.quality.atoms import AtomSets, atoms_of_origins
from situ.lab.quality.precision_recall import MeasuredQuality, quality_of_masks, quality_of_sets
from situ.runtime.embedded import Engine
from situ.space.geometry import Shape


def by_words(asked: set[object], processed: set[object]) -> tuple[float, float]:
    both = len(asked & processed)
    precision = Fraction(both, len(processed)) if processed else Fraction(1)
    recall = Fraction(both, len(asked)) if asked else Fraction(1)
    return float(precision), float(recall)


def random_lists(rng: np.random.Generator, count: int, atoms: int) -> list[list[int]]:
    return [rng.integers(0, atoms, rng.integers(0, 12)).tolist() for _ in range(count)]


def sets_of(lists: list[list[int]]) -> AtomSets:
    offsets = np.cumsum([0, *map(len, lists)])
    return AtomSets.of(np.array([atom for one in lists for atom in one], np.int64), offsets)


def pairs(quality: MeasuredQuality) -> list[tuple[float, float]]:
    return list(zip(quality.precision.tolist(), quality.recall.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_pairs_of_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    asked, processed = random_lists(rng, 200, 15), random_lists(rng, 200, 15)
    expected = [by_words(set(a), set(p)) for a, p in zip(asked, processed, strict=True)]
    assert pairs(quality_of_sets(sets_of(asked), sets_of(processed))) == expected
    assert len(set(expected)) > 10


def test_sets_may_be_none_at_all() -> None:
    none = AtomSets.of(np.zeros(0, np.int64), np.zeros(1, np.int64))
    assert pairs(quality_of_sets(none, none)) == []


def test_nothing_processed_is_precise_and_nothing_asked_is_complete() -> None:
    some, nothing = sets_of([[1, 2]]), sets_of([[]])
    assert pairs(quality_of_sets(some, nothing)) == [(1.0, 0.0)]
    assert pairs(quality_of_sets(nothing, some)) == [(0.0, 1.0)]
    assert pairs(quality_of_sets(nothing, nothing)) == [(1.0, 1.0)]


@pytest.mark.parametrize("seed", range(5))
def test_all_combinations_of_masks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    asked, processed = rng.random((7, 9)) < 0.3, rng.random((5, 9)) < 0.5
    quality = quality_of_masks(asked, processed)
    for i in range(7):
        for j in range(5):
            expected = by_words(set(np.flatnonzero(asked[i])), set(np.flatnonzero(processed[j])))
            assert (quality.precision[i, j], quality.recall[i, j]) == expected


def test_more_than_is_asked_is_noise_and_less_is_missing() -> None:
    """Precision and recall exchange their places with asked and processed."""
    rng = np.random.default_rng(9)
    one, other = sets_of(random_lists(rng, 50, 9)), sets_of(random_lists(rng, 50, 9))
    there, back = quality_of_sets(one, other), quality_of_sets(other, one)
    np.testing.assert_array_equal(there.precision, back.recall)
    np.testing.assert_array_equal(there.recall, back.precision)


# ---- provenance

RISES = """
stream Car(id int, v int, ts int) time ts in s
stream Lamp(id int, v int, ts int) time ts in s
subscribe Rise detect Car as a then Lamp(v > a.v) as b then each Car as c within 6 s assign v = b.v
"""


def random_tables(rng: np.random.Generator, rows: int) -> dict[str, pa.Table]:
    def table() -> pa.Table:
        columns = (rng.integers(0, 3, rows), rng.integers(0, 5, rows), np.sort(rng.integers(0, 20, rows)))
        return pa.table(dict(zip(("id", "v", "ts"), columns, strict=True)))

    return {"Car": table(), "Lamp": table()}


def origins(rng: np.random.Generator) -> pa.Array:
    outputs = list(Engine(RISES, provenance=True).run(random_tables(rng, 30)))
    return pa.concat_tables([o.complex_events["Rise"] for o in outputs]).column("_origins").combine_chunks()


def test_complex_events_by_their_origins() -> None:
    rng = np.random.default_rng(4)
    one, other = origins(rng), origins(rng)
    count = min(len(one), len(other), 60)
    assert count > 20
    one, other = one.slice(3, count - 3), other.slice(0, count - 3)  # a slice begins behind its first atoms
    asked, processed = atoms_of_origins(one, other)
    rows = zip(one.to_pylist(), other.to_pylist(), strict=True)
    expected = [by_words(*({(a["stream"], a["row"]) for a in atoms} for atoms in row)) for row in rows]
    assert pairs(quality_of_sets(asked, processed)) == expected
    assert len(set(expected)) > 2


# ---- regions


@pytest.mark.parametrize("is_round", [True, False])
def test_regions_over_events(is_round: bool) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 20, (2, 60)).astype(float)
    x[::9] = np.nan
    centres = rng.integers(0, 20, (2, 8)).astype(float)
    held = Shape(5.0, 5.0, is_round).holds(x, y, *centres)
    quality = quality_of_masks(held[:4], held[4:])

    def inside(centre: int) -> set[object]:
        dx, dy = np.abs(x - centres[0, centre]), np.abs(y - centres[1, centre])
        return {k for k in range(60) if (dx[k] ** 2 + dy[k] ** 2 <= 25 if is_round else max(dx[k], dy[k]) <= 5)}

    for i in range(4):
        for j in range(4):
            assert (quality.precision[i, j], quality.recall[i, j]) == by_words(inside(i), inside(4 + j))
