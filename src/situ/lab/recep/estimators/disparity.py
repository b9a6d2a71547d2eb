"""How far the regions behind a selection agree (RECEP, section 3, equation 3).

    disparity(s) = sum over e in a(s) of |{r in I_u : l(e) in r}|  /  (|a(s)| |I_u|)

a(s) are the atomic events of the selection, l(e) is the place of one, and I_u are the interests of all operators that
took part in detecting what the selection comprises. 1 is good: every interest holds every event. A consumer's threshold
is a lower bound.
"""

from __future__ import annotations

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.kernel.matching.machine import jit
from situ.lab.quality.atoms import AtomSets
from situ.lab.quality.precision_recall import Mask
from situ.lab.recep.estimators.overlap import PlaneRegions
from situ.space.geometry import is_inside
from situ.space.precision_recall import shares


def disparity(sets: AtomSets, x: F64, y: F64, used: AtomSets, regions: PlaneRegions) -> F64:
    """Exact. Atomic event e is at (x[e], y[e]); set k of `used` has the numbers of the regions behind selection k.

    Borders belong to regions. An event at NaN is in no region. Without events, or without regions, there is nothing to
    disagree about: 1.

    >>> regions = PlaneRegions.of(np.array([0.0, 3.0]), np.zeros(2), 2.0, 2.0, is_round=False)
    >>> both = AtomSets.of(np.array([0, 1]), np.array([0, 2]))
    >>> disparity(both, np.array([1.0, 4.0]), np.zeros(2), both, regions).tolist()
    [0.75]
    """
    assert len(sets) == len(used), (len(sets), len(used))
    for numbers, limit in ((sets.atoms, min(len(x), len(y))), (used.atoms, len(regions))):
        assert len(numbers) == 0 or (numbers.min() >= 0 and numbers.max() < limit), limit
    held = np.zeros(len(sets), np.int64)
    r = regions
    _count_held(
        sets.atoms, sets.offsets, x, y, used.atoms, used.offsets, r.x, r.y, r.half_x, r.half_y, r.is_round, held
    )
    return shares(held, sets.sizes * used.sizes)


@jit
def _count_held(
    atoms: I64,
    offsets: I64,
    x: F64,
    y: F64,
    used: I64,
    used_offsets: I64,
    middle_x: F64,
    middle_y: F64,
    half_x: F64,
    half_y: F64,
    is_round: Mask,
    held: I64,
) -> None:
    for k in range(len(held)):
        found = 0
        for j in range(used_offsets[k], used_offsets[k + 1]):
            r = used[j]
            x_r, y_r, reach_x, reach_y = middle_x[r], middle_y[r], half_x[r], half_y[r]
            for i in range(offsets[k], offsets[k + 1]):
                at_x, at_y = x[atoms[i]], y[atoms[i]]
                found += int(is_inside(at_x, at_y, x_r, y_r, reach_x, reach_y, is_round[r], False))
        held[k] = found
