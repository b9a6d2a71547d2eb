"""Sets of numbers by rows: taken, put one after another, and united."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from situ.kernel.arrays import I64
from situ.kernel.matching.machine import jit, jit_with_memory
from situ.lab.quality.atoms import AtomSets


def single(count: int) -> AtomSets:
    """Each number from 0 on as a set of its own."""
    return AtomSets(np.arange(count), np.arange(count + 1))


def empty(count: int) -> AtomSets:
    """A number of sets without anything in them."""
    return AtomSets(np.zeros(0, np.int64), np.zeros(count + 1, np.int64))


def take(sets: AtomSets, rows: I64) -> AtomSets:
    """The sets with these numbers.

    >>> take(AtomSets.of(np.array([1, 2, 3]), np.array([0, 2, 3])), np.array([1, 0])).atoms.tolist()
    [3, 1, 2]
    """
    sizes = sets.sizes[rows]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    places = np.repeat(sets.offsets[:-1][rows] - offsets[:-1], sizes) + np.arange(offsets[-1])
    return AtomSets(sets.atoms[places], offsets)


def after_another(parts: Sequence[AtomSets]) -> AtomSets:
    """The sets of all parts, part by part."""
    if len(parts) == 1:
        return parts[0]
    sizes = np.concatenate([part.sizes for part in parts])
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return AtomSets(np.concatenate([part.atoms for part in parts]), offsets)


def united(sets: AtomSets, members: I64, offsets: I64) -> AtomSets:
    """Unions: the k-th is of the sets that `members` names from offset k to offset k + 1.

    >>> sets = AtomSets.of(np.array([1, 2, 2, 3]), np.array([0, 2, 4]))
    >>> united(sets, np.array([0, 1, 1]), np.array([0, 2, 3])).atoms.tolist()
    [1, 2, 3, 2, 3]
    """
    count, marks = len(offsets) - 1, np.full(int(sets.atoms.max(initial=-1)) + 1, -1, np.int64)
    counts = np.zeros(count + 1, np.int64)
    _unite(sets.atoms, sets.offsets, members, offsets, marks, counts, np.zeros(0, np.int64), False)
    bounds = np.cumsum(counts)
    atoms = np.empty(int(bounds[-1]), np.int64)
    marks[:] = -1
    _unite(sets.atoms, sets.offsets, members, offsets, marks, bounds, atoms, True)
    _sort_each(atoms, bounds)
    return AtomSets(atoms, bounds)


def with_one(sets: AtomSets, numbers: I64) -> AtomSets:
    """Each set with one number more.

    >>> with_one(AtomSets.of(np.array([1, 2]), np.array([0, 2])), np.array([0])).atoms.tolist()
    [0, 1, 2]
    """
    atoms = np.insert(sets.atoms, sets.offsets[:-1], numbers)
    return AtomSets.of(atoms, sets.offsets + np.arange(len(sets.offsets)))


@jit
def _unite(atoms: I64, offsets: I64, members: I64, of: I64, marks: I64, counts: I64, united: I64, write: bool) -> None:
    """Counts in `counts`, one place further, or writes from where `counts` says."""
    for k in range(len(of) - 1):
        at = counts[k] if write else 0
        for m in range(of[k], of[k + 1]):
            for i in range(offsets[members[m]], offsets[members[m] + 1]):
                atom = atoms[i]
                if marks[atom] != k:
                    marks[atom] = k
                    if write:
                        united[at] = atom
                    at += 1
        if not write:
            counts[k + 1] = at


@jit_with_memory
def _sort_each(atoms: I64, offsets: I64) -> None:
    for k in range(len(offsets) - 1):
        atoms[offsets[k] : offsets[k + 1]].sort()
