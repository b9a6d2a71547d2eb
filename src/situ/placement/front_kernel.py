"""The compiled part of fronts.py: bare arrays in, bare arrays out. y is a latency, c a cost."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.kernel.matching.machine import jit_with_memory

#: Plans in a kernel: latency, cost, the plan that they go on from, their last step, the offer of each input in it.
_Plans: TypeAlias = tuple[I64, F64, I64, I64, I64]


@jit_with_memory
def front(
    offset: I64,
    way: I64,
    own: I64,
    base: F64,
    data: F64,
    ask: F64,
    step_sets: I64,
    step_offset: I64,
    step_taken: I64,
    step_target: I64,
    step_fraction: F64,
    step_requests: F64,
    limit: int,
    known_y: I64,
    known_c: F64,
) -> tuple[I64, F64, I64, I64]:
    """Sets of inputs in growing order. An entry is a plan for a set: (latency, cost), the entry before it, its step."""
    least = _least_costs(offset, base, data, step_taken, step_fraction)
    kept, offset = _below(offset, way, own, base, data, step_taken, step_fraction, least, known_y, known_c)
    way, own, base, data, ask = way[kept], own[kept], base[kept], data[kept], ask[kept]
    inputs, sets, most = len(offset) - 1, len(step_offset) - 1, len(way)
    # Entries of all sets; those of a set lie together. `wait` are plans of sets that are still to come.
    entry_y, entry_c, entry_before, entry_step, entry_chosen = _table(64, inputs)
    wait_y, wait_c, wait_before, wait_step, wait_chosen = _table(256, inputs)
    wait_next = np.empty(256, np.int64)
    head = np.full(sets, -1, np.int64)
    begin, entries, waiting = 0, 1, 0
    entry_y[0], entry_c[0], entry_before[0], entry_step[0] = 0, 0.0, -1, 0
    # The fronts of single inputs, for a fraction and a number of requests.
    own_y, own_c = np.empty((inputs, most), np.int64), np.empty((inputs, most))
    own_offer, own_size = np.empty((inputs, most), np.int64), np.zeros(inputs, np.int64)
    built = np.empty((inputs, 2))
    for number in range(sets):
        if number:
            begin = entries
            for at in _best(head[number], waiting, wait_y, wait_c, wait_next):
                if entries == len(entry_y):
                    entry_y, entry_c, entry_before, entry_step, entry_chosen = _grown(
                        entry_y, entry_c, entry_before, entry_step, entry_chosen
                    )
                entry_y[entries], entry_c[entries] = wait_y[at], wait_c[at]
                entry_before[entries], entry_step[entries] = wait_before[at], wait_step[at]
                entry_chosen[entries] = wait_chosen[at]
                entries += 1
        for entry in range(begin, entries):
            built[:] = -1.0
            to_come = 0.0  # of the inputs that are not taken yet, what they cost at least
            for k in range(inputs):
                to_come += 0.0 if step_sets[number] >> k & 1 else least[k]
            for step in range(step_offset[number], step_offset[number + 1]):
                bits, share, asked = step_taken[step], step_fraction[step], step_requests[step]
                possible = True
                for k in range(inputs):
                    if bits >> k & 1 and (built[k, 0] != share or built[k, 1] != asked):
                        built[k, 0], built[k, 1] = share, asked
                        own_size[k] = _input_front(
                            offset[k], offset[k + 1], way, own, base, data, ask, share, asked,
                            entry_y[entry] if number else -1, limit, known_y, known_c,
                            entry_c[entry] + to_come - least[k], own_y[k], own_c[k], own_offer[k],
                        )  # fmt: skip
                    possible &= not (bits >> k & 1 and own_size[k] == 0)
                if not possible:
                    continue
                target = step_target[step]
                later = to_come
                for k in range(inputs):
                    later -= least[k] if bits >> k & 1 else 0.0
                merged_y, merged_c, merged_chosen = _merged(bits, own_y, own_c, own_offer, own_size)
                for k in range(len(merged_y)):
                    if _above(merged_y[k], entry_c[entry] + merged_c[k] + later, known_y, known_c):
                        continue
                    if waiting == len(wait_y):
                        wait_y, wait_c, wait_before, wait_step, wait_chosen = _grown(
                            wait_y, wait_c, wait_before, wait_step, wait_chosen
                        )
                        wait_next = np.concatenate((wait_next, np.empty(len(wait_next), np.int64)))
                    wait_y[waiting], wait_c[waiting] = merged_y[k], entry_c[entry] + merged_c[k]
                    wait_before[waiting], wait_step[waiting] = entry, bits
                    wait_chosen[waiting] = merged_chosen[k]
                    wait_next[waiting], head[target] = head[target], waiting
                    waiting += 1
    return _written_out(kept, begin, entries, entry_y, entry_c, entry_before, entry_step, entry_chosen)


@jit_with_memory
def _least_sent(number: int, taken: I64, fraction: F64) -> float:
    """The smallest fraction of an input that any step sends."""
    least = np.inf
    for step in range(len(taken)):
        if taken[step] >> number & 1:
            least = min(least, fraction[step])
    return least


@jit_with_memory
def _least_costs(offset: I64, base: F64, data: F64, taken: I64, fraction: F64) -> F64:
    """What each input costs at least."""
    least = np.full(len(offset) - 1, np.inf)
    for number in range(len(least)):
        sent = _least_sent(number, taken, fraction)
        for k in range(offset[number], offset[number + 1]):
            least[number] = min(least[number], base[k] + sent * data[k])
    return least


@jit_with_memory
def _below(
    offset: I64,
    way: I64,
    own: I64,
    base: F64,
    data: F64,
    taken: I64,
    fraction: F64,
    least: F64,
    known_y: I64,
    known_c: F64,
) -> tuple[I64, I64]:
    """The offers that can be part of a plan below the ceiling, and their new offsets. All others are looked at once."""
    kept, new_offset = np.empty(len(way), np.int64), np.zeros(len(offset), np.int64)
    soonest = np.int64(0)
    for number in range(len(least)):
        first = np.int64(1) << 61
        for k in range(offset[number], offset[number + 1]):
            first = min(first, way[k] + own[k])
        soonest = max(soonest, first)
    size = 0
    for number in range(len(least)):
        sent, others = _least_sent(number, taken, fraction), least.sum() - least[number]
        for k in range(offset[number], offset[number + 1]):
            if not _above(max(soonest, way[k] + own[k]), base[k] + sent * data[k] + others, known_y, known_c):
                kept[size] = k
                size += 1
        new_offset[number + 1] = size
    return kept[:size], new_offset


@jit_with_memory
def _above(y: int | np.int64, c: float, known_y: I64, known_c: F64) -> bool:
    """Whether a known plan takes no longer and costs less."""
    if len(known_y) == 0 or c <= known_c[-1] or y < known_y[0]:
        return False
    return bool(c > known_c[0] or c > known_c[np.searchsorted(known_y, y, side="right") - 1])


@jit_with_memory
def _best(first: int, most: int, y: I64, c: F64, following: I64) -> I64:
    """Of the plans in a chain, those that none beats, by growing latency."""
    chain = np.empty(most, np.int64)
    size, at = 0, first
    while at >= 0:
        chain[size] = at
        size, at = size + 1, following[at]
    order = chain[:size][np.argsort(c[chain[:size]])]
    order = order[np.argsort(y[order], kind="mergesort")]
    least, kept = np.inf, 0
    for at in order:
        if c[at] < least:
            least = c[at]
            order[kept] = at
            kept += 1
    return order[:kept]


@jit_with_memory
def _table(size: int, inputs: int) -> _Plans:
    return (
        np.empty(size, np.int64),
        np.empty(size),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty((size, inputs), np.int64),
    )


@jit_with_memory
def _grown(y: I64, c: F64, before: I64, step: I64, chosen: I64) -> _Plans:
    """A table with room for twice as many."""
    new_y, new_c, new_before, new_step, new_chosen = _table(2 * len(y), chosen.shape[1])
    size = len(y)
    new_y[:size], new_c[:size], new_before[:size], new_step[:size], new_chosen[:size] = y, c, before, step, chosen
    return new_y, new_c, new_before, new_step, new_chosen


@jit_with_memory
def _input_front(
    begin: int,
    end: int,
    way: I64,
    own: I64,
    base: F64,
    data: F64,
    ask: F64,
    share: float,
    asked: float,
    reached: int,
    limit: int,
    known_y: I64,
    known_c: F64,
    others: float,
    front_y: I64,
    front_c: F64,
    front_offer: I64,
) -> int:
    """The front of one input in a step, by growing latency; `reached` is when the step before was, -1 for the first.
    Returns its size. First the cheapest offer is found, because no slower one matters."""
    cheapest, slowest, best = np.inf, np.int64(limit), -1
    for k in range(begin, end):
        y = way[k] + max(own[k], way[k] + reached if reached >= 0 else 0)
        c = base[k] + share * data[k] + asked * ask[k]
        if y <= limit and (c < cheapest or (c == cheapest and y < slowest)):
            cheapest, slowest, best = c, y, k
    if best < 0:
        return 0
    size = 0
    for k in range(begin, end):
        y = way[k] + max(own[k], way[k] + reached if reached >= 0 else 0)
        c = base[k] + share * data[k] + asked * ask[k]
        if y < slowest and not _above(y, c + others, known_y, known_c):
            front_y[size], front_c[size], front_offer[size] = y, c, k
            size += 1
    kept = 0
    if size:
        order = np.argsort(front_y[:size])
        y_, c_, offer_ = front_y[:size][order], front_c[:size][order], front_offer[:size][order]
        least = np.inf
        for k in range(size):
            if c_[k] < least:
                least = c_[k]
                if kept and front_y[kept - 1] == y_[k]:
                    kept -= 1
                front_y[kept], front_c[kept], front_offer[kept] = y_[k], c_[k], offer_[k]
                kept += 1
    if not _above(slowest, cheapest + others, known_y, known_c):
        front_y[kept], front_c[kept], front_offer[kept] = slowest, cheapest, best
        kept += 1
    return kept


@jit_with_memory
def _merged(step: int, own_y: I64, own_c: F64, own_offer: I64, own_size: I64) -> tuple[I64, F64, I64]:
    """The inputs of a step together: the largest of their latencies, the sum of their costs."""
    inputs = len(own_size)
    total = 0
    for number in range(inputs):
        if step >> number & 1:
            total += own_size[number]
    result_y, result_c = np.empty(total, np.int64), np.empty(total)
    chosen = np.full((total, inputs), -1, np.int64)
    at = np.zeros(inputs, np.int64)
    y = np.int64(0)
    for number in range(inputs):
        if step >> number & 1:
            y = max(y, own_y[number, 0])
    size = 0
    while True:
        c = 0.0
        following = np.int64(-1)
        for number in range(inputs):
            if step >> number & 1:
                while at[number] + 1 < own_size[number] and own_y[number, at[number] + 1] <= y:
                    at[number] += 1
                c += own_c[number, at[number]]
                chosen[size, number] = own_offer[number, at[number]]
                if at[number] + 1 < own_size[number]:
                    later = own_y[number, at[number] + 1]
                    following = later if following < 0 else min(following, later)
        result_y[size], result_c[size] = y, c
        size += 1
        if following < 0:
            break
        y = following
    return result_y[:size], result_c[:size], chosen[:size]


@jit_with_memory
def _written_out(
    kept: I64, begin: int, end: int, entry_y: I64, entry_c: F64, entry_before: I64, entry_step: I64, entry_chosen: I64
) -> tuple[I64, F64, I64, I64]:
    """The plans of the full set: offers and steps of all inputs, gathered from entry to entry."""
    inputs = entry_chosen.shape[1]
    size = end - begin
    chosen, steps = np.empty((size, inputs), np.int64), np.empty((size, inputs), np.int64)
    for k in range(size):
        depth, at = 0, begin + k
        while entry_before[at] >= 0:
            depth, at = depth + 1, entry_before[at]
        at = begin + k
        while entry_before[at] >= 0:
            depth -= 1
            for number in range(inputs):
                if entry_step[at] >> number & 1:
                    chosen[k, number], steps[k, number] = kept[entry_chosen[at, number]], depth
            at = entry_before[at]
    return entry_y[begin:end].copy(), entry_c[begin:end].copy(), chosen, steps
