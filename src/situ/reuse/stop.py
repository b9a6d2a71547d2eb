"""Recursive stop: which selections of preceding operators nobody needs (RECEP, section 4.3.1).

A selection that is covered reads no events, so the operators before it need not produce them, nor those before these.
The paper sends stop messages with the times of covered batches. Here the whole is seen at once, and asked the other way
round: from the selections whose results are delivered back to what is read for them. What is not met stops. That is the
same where intervals of covered and processed selections do not overlap, and safe where they do.

An event that is produced for a selection carries its last time, and is read by the selections of the next operator
in whose time it lies, first and last time included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situ.kernel.arrays import I64, U8
from situ.kernel.machine import jit
from situ.quality.precision_recall import Mask
from situ.reuse.waiting import Neighbours


@dataclass(frozen=True, slots=True)
class Needs:
    """Of all selections: whose results are read, and which are processed. The others stop."""

    read: Mask
    processed: Mask

    @property
    def stopped(self) -> Mask:
        """Neither processed nor read."""
        return ~(self.read | self.processed)


def needs(feeds: Neighbours, owner: I64, begin_us: I64, end_us: I64, by: I64, delivered: Mask) -> Needs:
    """From the covering of all operators' selections.

    `feeds` says which operators read the events of operator k, `delivered` which operators' results go to consumers.
    A selection of any operator whose results are read is processed by the selection that covers it.

    >>> feeds = Neighbours.of(np.array([0, 2]), np.array([1, 3]), 4)  # 0 -> 1 and 2 -> 3
    >>> times = np.zeros(4, np.int64)
    >>> delivered = np.array([False, True, False, True])
    >>> needs(feeds, np.arange(4), times, times, np.array([0, 1, 2, 1]), delivered).processed.tolist()
    [True, True, False, False]
    """
    order = np.lexsort((end_us, owner))
    sizes = np.bincount(owner, minlength=len(delivered))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    read, processed = delivered[owner].astype(np.uint8), np.zeros(len(owner), np.uint8)
    before = feeds.turned()
    stack = np.empty(len(owner), np.int64)
    _follow(
        before.offsets,
        before.others,
        owner,
        begin_us,
        end_us,
        by,
        order,
        end_us[order],
        offsets,
        read,
        processed,
        stack,
    )
    return Needs(read.astype(np.bool_), processed.astype(np.bool_))


@jit
def _follow(
    before_offsets: I64,
    before: I64,
    owner: I64,
    begin_us: I64,
    end_us: I64,
    by: I64,
    order: I64,
    ends_us: I64,
    offsets: I64,
    read: U8,
    processed: U8,
    stack: I64,
) -> None:
    """From what is read to what is processed for it to what that reads. `order` has an operator's selections by end."""
    top = 0
    for s in range(len(owner)):
        if read[s] and not processed[by[s]]:
            processed[by[s]] = 1
            stack[top] = by[s]
            top += 1
    while top > 0:
        top -= 1
        reader = stack[top]
        for k in range(before_offsets[owner[reader]], before_offsets[owner[reader] + 1]):
            feeder = before[k]
            begin, end = offsets[feeder], offsets[feeder + 1]
            at = begin + np.searchsorted(ends_us[begin:end], begin_us[reader])
            while at < end and ends_us[at] <= end_us[reader]:
                s = order[at]
                at += 1
                read[s] = 1
                if not processed[by[s]]:
                    processed[by[s]] = 1
                    stack[top] = by[s]
                    top += 1
