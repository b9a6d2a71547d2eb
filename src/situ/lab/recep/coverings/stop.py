"""Recursive stop: which selections of preceding operators nobody needs (RECEP, section 4.3.1).

A selection that is covered reads no events from the phase on in which that is decided, so the operators before it need
not produce them, nor those before these. The paper sends stop messages with the times of covered batches, down the
operator graph. Here operators are asked one after another, readers first:

    unneeded_us  from when on nobody reads the events of a selection: all that may read them are free
    stops        which covering selections stop: nobody needs what they are processed for, before they are processed
    free         from when on selections need no input: covered ones, once that is decided, and those that stop

A complex event lies in the time of the selection that it is made of, and is read by the selections of the next operator
in whose time it lies, first and last time included. A selection that was processed before anybody knew cannot stop.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situ.core.time import END
from situ.kernel.arrays import I64
from situ.kernel.matching.machine import jit
from situ.lab.quality.precision_recall import Mask

#: A time that does not come.


@dataclass(frozen=True, slots=True)
class OperatorSelections:
    """Selections of one operator: whose, from when to when, and from when on they need no input."""

    owner: I64
    begin_us: I64
    end_us: I64
    free_us: I64


def unneeded_us(owner: I64, begin_us: I64, end_us: I64, readers: OperatorSelections) -> I64:
    """From when on no selection of the same owner reads the events of these; END if one does, or if there is none:
    who may still come is not known.

    >>> one = np.zeros(1, np.int64)
    >>> readers = OperatorSelections(np.zeros(2, np.int64), np.array([0, 9]), np.array([5, 9]), np.array([3, END]))
    >>> unneeded_us(one, one, np.array([4]), readers).tolist()
    [3]
    >>> unneeded_us(one, one + 8, one + 9, readers).tolist() == [END]
    True
    """
    order = np.lexsort((readers.begin_us, readers.owner))
    count = max(int(owner.max(initial=-1)), int(readers.owner.max(initial=-1))) + 1
    offsets = np.concatenate([[0], np.cumsum(np.bincount(readers.owner, minlength=count))]).astype(np.int64)
    longest = int(np.max(readers.end_us - readers.begin_us, initial=0))
    latest_us = np.full(len(owner), -1, np.int64)
    columns = readers.begin_us[order], readers.end_us[order], readers.free_us[order]
    _latest_free(offsets, *columns, longest, owner, begin_us, end_us, latest_us)
    return np.where(latest_us < 0, END, latest_us)


def stops(by: I64, unneeded: I64, processed_us: I64) -> tuple[Mask, I64]:
    """Which selections stop, and since when everything that each is processed for is unneeded.

    >>> stops(np.array([0, 0, 2]), np.array([3, 5, 3]), np.array([9, 9, 2]))[0].tolist()  # the last came too late
    [True, False, False]
    """
    since = np.full(len(by), -1, np.int64)
    np.maximum.at(since, by, unneeded)
    stopped: Mask = (by == np.arange(len(by))) & (since < processed_us)
    return stopped, since


def free(by: I64, decided_us: I64, stopped: Mask, since: I64) -> I64:
    """From when on each selection needs no input.

    >>> free(np.array([0, 0, 2]), np.array([7, 7, 7]), np.array([True, False, False]), np.array([3, 9, 9]))[:2].tolist()
    [3, 7]
    """
    free_us: I64 = np.where(by != np.arange(len(by)), decided_us, np.where(stopped, since, END))
    return free_us


@jit
def _latest_free(
    offsets: I64, begins_us: I64, ends_us: I64, free_us: I64, longest: int, owner: I64, begin_us: I64, end_us: I64,
    latest_us: I64,
) -> None:  # fmt: skip
    """Readers of an owner are by begin; none lasts longer than `longest`."""
    for k in range(len(owner)):
        first, last = offsets[owner[k]], offsets[owner[k] + 1]
        at = first + np.searchsorted(begins_us[first:last], begin_us[k] - longest)
        while at < last and begins_us[at] <= end_us[k]:
            if ends_us[at] >= begin_us[k]:
                latest_us[k] = max(latest_us[k], free_us[at])
            at += 1
