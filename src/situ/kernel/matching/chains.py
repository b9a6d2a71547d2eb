"""How many chains of events fit the steps of a pattern, and what is summed over them, without making one of them.

What is said of an interval of events is a triangle: for steps i < j, how many chains take steps i to j - 1 in it. Two
neighbouring intervals give that of both: the chains from i to j are those from i to m in the first one and from m to j
in the second, over all m. A window that moves on over the events of a group has its later events in one triangle, to
which events are appended, and of its earlier ones the first rows of triangles for each beginning; when the window has
left these, the later events become earlier ones. So an event is looked at twice, however long windows are (the "two
stacks" of Tangwongsan et al., VLDB 2015), and the cost is by events, not by chains.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from situ.kernel.arrays import F64, I64, U64
from situ.kernel.matching.machine import jit

#: Numbers beyond this are not told: whole numbers are kept modulo 2 to the 64th, and beside them about how large they
#: are.
LARGEST = 2.0**62
#: What is kept beside the number of chains: nothing, a sum over their events at a step, or the least rank there.
NOTHING, SUM, LEAST = 0, 1, 2
#: The rank of what has none.
NO_RANK = np.iinfo(np.int64).max


class Chains(NamedTuple):
    """By event: how many chains it completes, and what is kept beside; with `sizes`, about how large both may be. Only
    those of events of the last step mean anything."""

    counts: I64
    count_sizes: F64
    values: I64
    value_sizes: F64


class _StepEvents(NamedTuple):
    """The events of all groups, and which steps each of them fits."""

    group: I64
    time: I64
    steps: U64
    last: npt.NDArray[np.bool_]
    values: I64


class _Triangles(NamedTuple):
    """Numbers, and about how large they are: of the later events and of the beginning of earlier ones, each with what
    is kept beside; and by earlier event, the first row of the triangle that begins with it."""

    whole: I64
    sizes: F64
    earlier: I64
    earlier_sizes: F64


def chains_of(
    group: I64, time: I64, steps: U64, last: npt.NDArray[np.bool_], count: int, window_us: int,
    kept: int = NOTHING, at: int = 0, values: I64 | None = None,
) -> Chains:  # fmt: skip
    """The chains that events complete. Events come group by group, each in its order; bit i of `steps` says that an
    event fits step i of `count` steps, and `last` that it fits the one after these. A chain lasts `window_us` at most.

    `kept` beside their number: a SUM of `values` over the events that chains have at step `at`, or the LEAST of them.

    >>> time, fits, ends = np.arange(4), np.array([1, 1, 0, 1], np.uint64), np.array([False, False, True, True])
    >>> chains_of(np.zeros(4, np.int64), time, fits, ends, 1, 2).counts[ends].tolist()
    [2, 1]
    """
    rows, width = len(time), count + 1
    given = np.zeros(rows, np.int64) if values is None else values
    triangles = _Triangles(
        np.zeros((4, width, width), np.int64),
        np.zeros((4, width, width)),
        np.zeros((rows, 2, width), np.int64),
        np.zeros((rows, 2, width)),
    )
    chains = Chains(np.zeros(rows, np.int64), np.zeros(rows), np.zeros(rows, np.int64), np.zeros(rows))
    with np.errstate(over="ignore"):  # numbers wrap; compiled code does not say so
        _walk(_StepEvents(group, time, steps, last, given), window_us, kept, at, triangles, chains)
    return chains


@jit
def _reset(whole: I64, sizes: F64, kept: int) -> None:
    """The triangle of no events, in the first two places: one chain of no steps."""
    width = whole.shape[1]
    for i in range(width):
        for j in range(width):
            whole[0, i, j] = 1 if i == j else 0
            sizes[0, i, j] = 1.0 if i == j else 0.0
            whole[1, i, j] = NO_RANK if kept == LEAST else 0
            sizes[1, i, j] = 0.0


@jit
def _append(whole: I64, sizes: F64, bits: int, kept: int, at: int, value: int) -> None:
    """One more event at the end of an interval."""
    for j in range(whole.shape[1] - 2, -1, -1):  # the last steps first: an event is one step of a chain
        if bits >> np.uint64(j) & np.uint64(1):
            for i in range(j + 1):
                if kept == SUM:
                    if at == j:
                        whole[1, i, j + 1] += whole[0, i, j] * value
                        sizes[1, i, j + 1] += sizes[0, i, j] * abs(float(value))
                    elif i <= at < j:
                        whole[1, i, j + 1] += whole[1, i, j]
                        sizes[1, i, j + 1] += sizes[1, i, j]
                elif kept == LEAST:
                    if at == j and sizes[0, i, j] > 0:
                        whole[1, i, j + 1] = min(whole[1, i, j + 1], value)
                    elif i <= at < j:
                        whole[1, i, j + 1] = min(whole[1, i, j + 1], whole[1, i, j])
                whole[0, i, j + 1] += whole[0, i, j]
                sizes[0, i, j + 1] += sizes[0, i, j]


@jit
def _prepend(whole: I64, sizes: F64, bits: int, kept: int, at: int, value: int) -> None:
    """One more event at the beginning of an interval."""
    width = whole.shape[1]
    for j in range(width - 1):  # the first steps first
        if bits >> np.uint64(j) & np.uint64(1):
            for m in range(j + 1, width):
                if kept == SUM:
                    if at == j:
                        whole[1, j, m] += whole[0, j + 1, m] * value
                        sizes[1, j, m] += sizes[0, j + 1, m] * abs(float(value))
                    elif j < at < m:
                        whole[1, j, m] += whole[1, j + 1, m]
                        sizes[1, j, m] += sizes[1, j + 1, m]
                elif kept == LEAST:
                    if at == j and sizes[0, j + 1, m] > 0:
                        whole[1, j, m] = min(whole[1, j, m], value)
                    elif j < at < m:
                        whole[1, j, m] = min(whole[1, j, m], whole[1, j + 1, m])
                whole[0, j, m] += whole[0, j + 1, m]
                sizes[0, j, m] += sizes[0, j + 1, m]


@jit
def _walk(events: _StepEvents, window_us: int, kept: int, at: int, triangles: _Triangles, chains: Chains) -> None:
    group, time, steps, last, values = events
    whole, sizes, earlier, earlier_sizes = triangles
    counts, count_sizes, kept_values, value_sizes = chains
    width = whole.shape[1]
    later, later_sizes = whole[:2], sizes[:2]
    begun, begun_sizes = whole[2:], sizes[2:]
    low = middle = 0  # events from `low` on are in the window; from `middle` on, they are later ones
    for now in range(len(time)):
        if now == 0 or group[now] != group[now - 1]:
            low = middle = now
            _reset(later, later_sizes, kept)
        if last[now]:
            while low < now and time[low] < time[now] - window_us:
                low += 1
            if low > middle:
                _reset(begun, begun_sizes, kept)
                for event in range(now - 1, low - 1, -1):
                    _prepend(begun, begun_sizes, steps[event], kept, at, values[event])
                    for of in range(2):
                        for m in range(width):
                            earlier[event, of, m] = begun[of, 0, m]
                            earlier_sizes[event, of, m] = begun_sizes[of, 0, m]
                middle = now
                _reset(later, later_sizes, kept)
            if low == middle:  # there are no earlier ones
                counts[now], count_sizes[now] = later[0, 0, width - 1], later_sizes[0, 0, width - 1]
                kept_values[now], value_sizes[now] = later[1, 0, width - 1], later_sizes[1, 0, width - 1]
            else:
                kept_values[now] = NO_RANK if kept == LEAST else 0
                for m in range(width):
                    before, after = earlier[low, 0, m], later[0, m, width - 1]
                    before_size, after_size = earlier_sizes[low, 0, m], later_sizes[0, m, width - 1]
                    counts[now] += before * after
                    count_sizes[now] += before_size * after_size
                    if kept == SUM and at < m:
                        kept_values[now] += earlier[low, 1, m] * after
                        value_sizes[now] += earlier_sizes[low, 1, m] * after_size
                    elif kept == SUM:
                        kept_values[now] += before * later[1, m, width - 1]
                        value_sizes[now] += before_size * later_sizes[1, m, width - 1]
                    elif kept == LEAST and at < m and after_size > 0:
                        kept_values[now] = min(kept_values[now], earlier[low, 1, m])
                    elif kept == LEAST and at >= m and before_size > 0:
                        kept_values[now] = min(kept_values[now], later[1, m, width - 1])
        if steps[now]:
            _append(later, later_sizes, steps[now], kept, at, values[now])
