"""Groups against a quad-tree by recursion, and what must hold while operators join, move and leave in any order."""

from __future__ import annotations

import numpy as np
import pytest

from situ.core.errors import SituError
from situ.lab.recep.selections.groups import SHARES, DividedSquare, Groups, regroup
from situ.lab.recep.selections.moving_groups import all_at


class TreeByWords:
    """Remembers which squares are divided; squares are named by the way down: quarters 0 to 3."""

    def __init__(self, region: DividedSquare) -> None:
        self.region, self.divided = region, set[tuple[int, ...]]()
        self.places: dict[int, tuple[float, float]] = {}

    def cells(self) -> dict[int, tuple[int, ...]]:
        found: dict[int, tuple[int, ...]] = {}
        still: set[tuple[int, ...]] = set()
        region = self.region

        def visit(way: tuple[int, ...], x: float, y: float, side: float, inside: list[int]) -> None:
            many = len(inside) > region.most
            stays = way in self.divided and len(inside) > region.most // 2
            if len(way) == region.deepest or not (many or stays):
                found.update(dict.fromkeys(inside, way))
                return
            still.add(way)
            half = side / 2
            for quarter in range(4):
                right, up = quarter % 2, quarter // 2
                part = [
                    one
                    for one in inside
                    if (self.places[one][0] >= x + half) == right and (self.places[one][1] >= y + half) == up
                ]
                visit((*way, quarter), x + right * half, y + up * half, half, part)

        visit((), region.x, region.y, region.side, sorted(self.places))
        self.divided = still
        return found


def number(way: tuple[int, ...]) -> int:
    cell = 1
    for quarter in way:
        cell = 4 * cell + quarter
    return cell


Places = dict[int, tuple[float, float]]


def at(groups: Groups, places: Places) -> tuple[Groups, int]:
    """The groups when operators are at these places, and how many came, went, or changed their group."""
    before = dict(zip(groups.operator.tolist(), groups.group.tolist(), strict=True))
    x, y = np.array([places[one] for one in sorted(places)], np.float64).reshape(-1, 2).T
    groups = all_at(groups, np.array(sorted(places), np.int64), x, y)
    after = dict(zip(groups.operator.tolist(), groups.group.tolist(), strict=True))
    return groups, sum(before.get(one) != after.get(one) for one in {*before, *after})


def left(groups: Groups, gone: int) -> tuple[Groups, int]:
    places = zip(groups.x.tolist(), groups.y.tolist(), strict=True)
    return at(groups, {one: place for one, place in zip(groups.operator.tolist(), places, strict=True) if one != gone})


def joined(groups: Groups, new: int, x: float, y: float) -> tuple[Groups, int]:
    places = zip(groups.x.tolist(), groups.y.tolist(), strict=True)
    return at(groups, dict(zip(groups.operator.tolist(), places, strict=True)) | {new: (x, y)})


def change(rng: np.random.Generator, places: Places, spread: float) -> None:
    """One joins, moves, or leaves."""
    what = rng.random()
    if len(places) < 59 and (not places or what < 0.25):
        places[int(rng.choice(np.setdiff1d(np.arange(60), list(places))))] = tuple(rng.normal(500, spread, 2).tolist())
    elif what < 0.42 or len(places) == 59:
        del places[int(rng.choice(sorted(places)))]
    else:
        places[int(rng.choice(sorted(places)))] = tuple(rng.normal(500, spread, 2).tolist())


@pytest.mark.parametrize("several", [1, 5])
@pytest.mark.parametrize("seed", range(12))
def test_operators_join_move_and_leave_in_any_order(seed: int, several: int) -> None:
    rng = np.random.default_rng(seed)
    most, spread = int(rng.integers(1, 9)), [300.0, 30.0, 1.0][seed % 3]
    region = DividedSquare(0.0, 0.0, 1000.0, most, deepest=int(rng.integers(0, 6)))
    groups, tree = Groups.empty(region), TreeByWords(region)
    for _ in range(200):
        for _ in range(several):
            change(rng, tree.places, spread)
        groups, _ = at(groups, tree.places)
        assert dict(zip(groups.operator.tolist(), (groups.group // SHARES).tolist(), strict=True)) == {
            one: number(way) for one, way in tree.cells().items()
        }
        assert len(groups.operator) == 0 or np.unique(groups.group, return_counts=True)[1].max() <= most


@pytest.mark.parametrize("seed", range(8))
def test_all_at_once_is_as_one_by_one_for_those_who_only_join(seed: int) -> None:
    rng = np.random.default_rng(seed)
    region = DividedSquare(-10.0, 5.0, 100.0, int(rng.integers(1, 6)), deepest=6)
    x, y = rng.normal(40, 25, (2, 80))
    groups = Groups.empty(region)
    for one in rng.permutation(80).tolist():
        groups, _ = joined(groups, one, x[one], y[one])
    at_once = regroup(region, x, y)
    assert np.array_equal(at_once.group // SHARES, groups.group // SHARES)
    assert np.array_equal(at_once.divided, groups.divided)
    assert len(np.unique(at_once.group)) > 5


def test_to_and_fro_divides_once() -> None:
    """One operator more and one less, again and again: the others move once."""
    rng = np.random.default_rng(2)
    groups = regroup(DividedSquare(0.0, 0.0, 100.0, 8), *(rng.random((2, 8)) * 100))
    moved = []
    for _ in range(10):
        groups, changed = joined(groups, 8, 50.0, 50.0)
        moved.append(changed)
        groups, changed = left(groups, 8)
        moved.append(changed)
    assert moved == [9] + [1] * 19
    for one in range(4):  # half of the bound is left: one group again
        groups, _ = left(groups, one)
    assert (groups.group // SHARES).tolist() == [1] * 4


def test_many_at_one_place_share_it_evenly() -> None:
    region = DividedSquare(0.0, 0.0, 100.0, 4, deepest=3)
    groups = regroup(region, np.full(10, 3.0), np.full(10, 3.0))
    assert np.bincount(groups.group % SHARES).tolist() == [4, 3, 3]
    groups = Groups.empty(region)
    for one in range(9):
        groups, _ = joined(groups, one, 3.0, 3.0)
    sizes = np.bincount(groups.group % SHARES)
    assert sizes.max() - sizes.min() <= 2
    assert sizes.sum() == 9
    for one in range(5):  # two managers of four suffice, half full
        groups, _ = left(groups, one)
    assert len(np.unique(groups.group)) <= 2


def test_the_smallest_share_is_given_up() -> None:
    groups = regroup(DividedSquare(0.0, 0.0, 100.0, 8, deepest=0), np.zeros(20), np.zeros(20))
    assert (groups.group % SHARES).tolist() == [k % 3 for k in range(20)]
    for one in (0, 3, 6, 1, 4, 7, 10, 2, 5, 8, 11):
        groups, changed = left(groups, one)
        assert changed == 1
    assert np.bincount(groups.group % SHARES).tolist() == [4, 3, 2]
    groups, changed = left(groups, 14)  # the other two are half full with what remains: 17 changes, too
    assert changed == 2
    assert np.bincount(groups.group % SHARES).tolist() == [4, 4]


def test_outside_belongs_to_the_border() -> None:
    groups = regroup(DividedSquare(0.0, 0.0, 100.0, 1), np.array([-500.0, 900.0]), np.array([50.0, 1e12]))
    assert (groups.group // SHARES).tolist() == [6, 7]


def test_bad_places_and_regions_are_refused() -> None:
    with pytest.raises(SituError, match="not a number"):
        joined(Groups.empty(DividedSquare(0.0, 0.0, 1.0, 1)), 1, float("nan"), 0.0)
    for side, most, deepest in ((0.0, 1, 1), (1.0, 0, 1), (1.0, 1, 21), (float("nan"), 1, 1)):
        with pytest.raises(SituError, match="no groups of"):
            DividedSquare(0.0, 0.0, side, most, deepest)
