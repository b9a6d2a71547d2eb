"""Sets of atomic events: what selections and complex events are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from situ.kernel.arrays import I64
from situ.kernel.matching.machine import jit


@dataclass(frozen=True, slots=True)
class AtomSets:
    """Sets of numbers of atomic events: set k has those from offset k to offset k + 1, sorted, each once.

    >>> sets = AtomSets.of(np.array([7, 3, 7, 5]), np.array([0, 3, 3, 4]))
    >>> sets.atoms.tolist(), sets.sizes.tolist()
    ([3, 7, 5], [2, 0, 1])
    """

    atoms: I64
    offsets: I64

    @classmethod
    def of(cls, atoms: I64, offsets: I64) -> AtomSets:
        """Numbers in any order, some perhaps more than once."""
        count = len(offsets) - 1
        owner = np.repeat(np.arange(count), np.diff(offsets))
        order = np.lexsort((atoms, owner))
        owner, atoms = owner[order], atoms[order]
        fresh = np.ones(len(atoms), np.bool_)
        fresh[1:] = (owner[1:] != owner[:-1]) | (atoms[1:] != atoms[:-1])
        sizes = np.bincount(owner[fresh], minlength=count)
        return cls(atoms[fresh], np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))

    @property
    def sizes(self) -> I64:
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1


def atoms_of_origins(*columns: pa.Array) -> list[AtomSets]:
    """The sets that `_origins` columns name, of all columns in one numbering, so that they can be compared.

    An atomic event is a row of a stream. A null names no event.

    >>> one = pa.array([[{"stream": "A", "row": 1}, {"stream": "B", "row": 1}], []])
    >>> two = pa.array([[{"stream": "B", "row": 1}], None])
    >>> [sets.sizes.tolist() for sets in atoms_of_origins(one, two)]
    [[2, 0], [1, 0]]
    """
    lengths = [column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False) for column in columns]
    flat = [column.flatten() for column in columns]
    streams = pa.concat_arrays([atoms.field("stream").cast(pa.string()) for atoms in flat]).dictionary_encode()
    rows = np.concatenate([atoms.field("row").to_numpy(zero_copy_only=False) for atoms in flat]).astype(np.int64)
    codes = streams.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    _, numbers = np.unique(np.stack([codes, rows]), axis=1, return_inverse=True)
    ends = np.cumsum([len(atoms) for atoms in flat])
    parts = np.split(numbers.reshape(-1).astype(np.int64), ends[:-1])
    return [
        AtomSets.of(part, np.concatenate([[0], np.cumsum(length)]).astype(np.int64))
        for part, length in zip(parts, lengths, strict=True)
    ]


def common(one: AtomSets, other: AtomSets) -> I64:
    """How many atomic events the k-th sets of both have in common.

    >>> sets = AtomSets.of(np.array([1, 2, 2, 3]), np.array([0, 2, 4]))
    >>> common(sets, AtomSets.of(np.array([2, 4, 1]), np.array([0, 2, 3]))).tolist()
    [1, 0]
    """
    assert len(one) == len(other), (len(one), len(other))
    counts = np.zeros(len(one), np.int64)
    _count_common(one.atoms, one.offsets, other.atoms, other.offsets, counts)
    return counts


@jit
def _count_common(one: I64, one_offsets: I64, other: I64, other_offsets: I64, counts: I64) -> None:
    for k in range(len(counts)):
        i, j = one_offsets[k], other_offsets[k]
        while i < one_offsets[k + 1] and j < other_offsets[k + 1]:
            a, b = one[i], other[j]
            if a == b:
                counts[k] += 1
            i += int(a <= b)
            j += int(b <= a)
