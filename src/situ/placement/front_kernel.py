"""The compiled part of fronts.py: bare arrays in, bare arrays out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.kernel.matching.machine import jit_with_memory


class OfferColumns(NamedTuple):
    """`Offers` of fronts.py, as the kernel takes them: those of input i are from offset[i] to offset[i + 1]."""

    offset: I64
    way_ns: I64
    own_ns: I64
    base: F64
    data: F64
    ask: F64


class StepColumns(NamedTuple):
    """`StepTable` of fronts.py, as the kernel takes it: the steps after set i are from offset[i] to offset[i + 1]."""

    sets: I64
    offset: I64
    taken: I64  # the inputs that a step takes, as bits
    target: I64
    fraction: F64
    requests: F64


class Bounds(NamedTuple):
    """What a plan must keep: a limit, and the ceiling of plans that are known, by growing latency and falling cost."""

    limit_ns: int
    known_ns: I64
    known_cost: F64


class _Plans(NamedTuple):
    """A table of plans for sets of inputs, with room for more of them."""

    latency_ns: I64
    cost: F64
    before: I64  # the entry that the plan goes on from; -1: none
    step: I64  # the inputs that its last step takes, as bits
    chosen: I64  # (plans, inputs): the offers in that step
    following: I64  # of plans that wait for the same set: the next one; -1: none


class _InputFronts(NamedTuple):
    """The fronts of single inputs, by growing latency, each for a fraction sent and a number of requests."""

    latency_ns: I64  # (inputs, offers)
    cost: F64
    offer: I64
    size: I64  # by input
    sent: F64  # (inputs, 2): the fraction and the requests for which the front was made; -1: it was not


@jit_with_memory
def front(all_offers: OfferColumns, steps: StepColumns, bounds: Bounds) -> tuple[I64, F64, I64, I64]:
    """The front of the plans that take all inputs: latency, cost, the offers and the steps of inputs.

    Sets of inputs come in growing order. An entry is a plan for a set; those of a set lie together. `waiting` has plans
    of sets that are still to come, in a chain for each set.
    """
    least = _least_costs(all_offers, steps)
    kept, offers = _below(all_offers, steps, least, bounds)
    inputs, sets = len(least), len(steps.offset) - 1
    entries, waiting = _table(64, inputs), _table(256, inputs)
    entries.latency_ns[0], entries.cost[0], entries.before[0], entries.step[0] = 0, 0.0, -1, 0
    begin, end, waits = 0, 1, 0
    chains = np.full(sets, -1, np.int64)
    fronts = _input_fronts(inputs, len(kept))
    for number in range(sets):
        if number:
            begin = end
            for at in _best(chains[number], waits, waiting):
                if end == len(entries.cost):
                    entries = _grown(entries)
                _copy(waiting, at, entries, end)
                end += 1
        to_come = 0.0  # what the inputs that are not taken yet cost at least
        for k in range(inputs):
            to_come += 0.0 if steps.sets[number] >> k & 1 else least[k]
        for entry in range(begin, end):
            fronts.sent[:] = -1.0
            reached_ns, cost = entries.latency_ns[entry] if number else -1, entries.cost[entry]
            for step in range(steps.offset[number], steps.offset[number + 1]):
                if not _find_input_fronts(step, reached_ns, cost + to_come, least, offers, steps, bounds, fronts):
                    continue
                bits, target, later = steps.taken[step], steps.target[step], to_come
                for k in range(inputs):
                    later -= least[k] if bits >> k & 1 else 0.0
                merged_ns, merged_cost, merged_chosen = _merged(bits, fronts)
                for k in range(len(merged_ns)):
                    if _above(merged_ns[k], cost + merged_cost[k] + later, bounds):
                        continue
                    if waits == len(waiting.cost):
                        waiting = _grown(waiting)
                    waiting.latency_ns[waits], waiting.cost[waits] = merged_ns[k], cost + merged_cost[k]
                    waiting.before[waits], waiting.step[waits] = entry, bits
                    waiting.chosen[waits] = merged_chosen[k]
                    waiting.following[waits], chains[target] = chains[target], waits
                    waits += 1
    return _written_out(kept, begin, end, entries)


@jit_with_memory
def _least_sent(number: int, steps: StepColumns) -> float:
    """The smallest fraction of an input that any step sends."""
    least = np.inf
    for step in range(len(steps.taken)):
        if steps.taken[step] >> number & 1:
            least = min(least, steps.fraction[step])
    return least


@jit_with_memory
def _least_costs(offers: OfferColumns, steps: StepColumns) -> F64:
    """What each input costs at least."""
    least = np.full(len(offers.offset) - 1, np.inf)
    for number in range(len(least)):
        sent = _least_sent(number, steps)
        for k in range(offers.offset[number], offers.offset[number + 1]):
            least[number] = min(least[number], offers.base[k] + sent * offers.data[k])
    return least


@jit_with_memory
def _below(offers: OfferColumns, steps: StepColumns, least: F64, bounds: Bounds) -> tuple[I64, OfferColumns]:
    """The offers that can be part of a plan below the ceiling: their numbers, and their columns.

    All others are looked at this once.
    """
    offset, way, own, base, data = offers.offset, offers.way_ns, offers.own_ns, offers.base, offers.data
    kept, new_offset = np.empty(len(way), np.int64), np.zeros(len(offset), np.int64)
    soonest = np.int64(0)
    for number in range(len(least)):
        first = np.int64(1) << 61
        for k in range(offset[number], offset[number + 1]):
            first = min(first, way[k] + own[k])
        soonest = max(soonest, first)
    size = 0
    for number in range(len(least)):
        sent, others = _least_sent(number, steps), least.sum() - least[number]
        for k in range(offset[number], offset[number + 1]):
            if not _above(max(soonest, way[k] + own[k]), base[k] + sent * data[k] + others, bounds):
                kept[size] = k
                size += 1
        new_offset[number + 1] = size
    kept = kept[:size]
    return kept, OfferColumns(new_offset, way[kept], own[kept], base[kept], data[kept], offers.ask[kept])


@jit_with_memory
def _above(latency_ns: int | np.int64, cost: float, bounds: Bounds) -> bool:
    """Whether a known plan takes no longer and costs less."""
    known_ns, known_cost = bounds.known_ns, bounds.known_cost
    if len(known_ns) == 0 or cost <= known_cost[-1] or latency_ns < known_ns[0]:
        return False
    return bool(cost > known_cost[0] or cost > known_cost[np.searchsorted(known_ns, latency_ns, side="right") - 1])


@jit_with_memory
def _best(first: int, most: int, plans: _Plans) -> I64:
    """The plans of a chain that none of them beats, by growing latency."""
    latency_ns, cost, following = plans.latency_ns, plans.cost, plans.following
    chain = np.empty(most, np.int64)
    size, at = 0, first
    while at >= 0:
        chain[size] = at
        size, at = size + 1, following[at]
    order = chain[:size][np.argsort(cost[chain[:size]])]
    order = order[np.argsort(latency_ns[order], kind="mergesort")]
    least, kept = np.inf, 0
    for at in order:
        if cost[at] < least:
            least = cost[at]
            order[kept] = at
            kept += 1
    return order[:kept]


@jit_with_memory
def _table(size: int, inputs: int) -> _Plans:
    """A table with room for so many plans."""
    return _Plans(
        np.empty(size, np.int64),
        np.empty(size),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty((size, inputs), np.int64),
        np.empty(size, np.int64),
    )


@jit_with_memory
def _input_fronts(inputs: int, most: int) -> _InputFronts:
    """Room for the fronts of single inputs, none of which is made yet."""
    return _InputFronts(
        np.empty((inputs, most), np.int64),
        np.empty((inputs, most)),
        np.empty((inputs, most), np.int64),
        np.zeros(inputs, np.int64),
        np.full((inputs, 2), -1.0),
    )


@jit_with_memory
def _grown(plans: _Plans) -> _Plans:
    """The same plans in a table with room for twice as many."""
    size = len(plans.cost)
    larger = _table(2 * size, plans.chosen.shape[1])
    larger.latency_ns[:size], larger.cost[:size] = plans.latency_ns, plans.cost
    larger.before[:size], larger.step[:size] = plans.before, plans.step
    larger.chosen[:size], larger.following[:size] = plans.chosen, plans.following
    return larger


@jit_with_memory
def _copy(plans: _Plans, at: int, to: _Plans, place: int) -> None:
    """Write a plan into another table."""
    to.latency_ns[place], to.cost[place] = plans.latency_ns[at], plans.cost[at]
    to.before[place], to.step[place] = plans.before[at], plans.step[at]
    to.chosen[place] = plans.chosen[at]


@jit_with_memory
def _find_input_fronts(step: int, reached_ns: int, cost: float, least: F64, offers: OfferColumns, steps: StepColumns,
                       bounds: Bounds, fronts: _InputFronts) -> bool:  # fmt: skip
    """Make the fronts of the inputs of a step where they are not made yet. Returns whether all of them have offers.

    `cost` is that of the plan so far and, at least, of all inputs that it does not have yet.
    """
    bits, fraction, requests = steps.taken[step], steps.fraction[step], steps.requests[step]
    possible = True
    for k in range(len(least)):
        if bits >> k & 1 and (fronts.sent[k, 0] != fraction or fronts.sent[k, 1] != requests):
            fronts.sent[k, 0], fronts.sent[k, 1] = fraction, requests
            fronts.size[k] = _input_front(k, reached_ns, cost - least[k], offers, bounds, fronts)
        possible &= not (bits >> k & 1 and fronts.size[k] == 0)
    return possible


@jit_with_memory
def _input_front(
    number: int, reached_ns: int, others: float, offers: OfferColumns, bounds: Bounds, fronts: _InputFronts
) -> int:
    """Write the front of one input in a step. Returns its size.

    `reached_ns` is when the step before was, -1 for the first; `others` is what the rest of the plan costs at least.
    """
    way, own, base, data, ask = offers.way_ns, offers.own_ns, offers.base, offers.data, offers.ask
    begin, end = offers.offset[number], offers.offset[number + 1]
    fraction, requests = fronts.sent[number, 0], fronts.sent[number, 1]
    front_ns, front_cost, front_offer = fronts.latency_ns[number], fronts.cost[number], fronts.offer[number]
    # First the cheapest offer is found, because no slower one matters.
    cheapest, slowest, best = np.inf, np.int64(bounds.limit_ns), -1
    for k in range(begin, end):
        latency_ns = way[k] + max(own[k], way[k] + reached_ns if reached_ns >= 0 else 0)
        cost = base[k] + fraction * data[k] + requests * ask[k]
        if latency_ns <= bounds.limit_ns and (cost < cheapest or (cost == cheapest and latency_ns < slowest)):
            cheapest, slowest, best = cost, latency_ns, k
    if best < 0:
        return 0
    size = 0
    for k in range(begin, end):
        latency_ns = way[k] + max(own[k], way[k] + reached_ns if reached_ns >= 0 else 0)
        cost = base[k] + fraction * data[k] + requests * ask[k]
        if latency_ns < slowest and not _above(latency_ns, cost + others, bounds):
            front_ns[size], front_cost[size], front_offer[size] = latency_ns, cost, k
            size += 1
    size = _keep_front(front_ns, front_cost, front_offer, size)
    if not _above(slowest, cheapest + others, bounds):
        front_ns[size], front_cost[size], front_offer[size] = slowest, cheapest, best
        size += 1
    return size


@jit_with_memory
def _keep_front(latency_ns: I64, cost: F64, offer: I64, size: int) -> int:
    """Keep those of the first so many offers that no other beats, by growing latency. Returns how many they are."""
    if size == 0:
        return 0
    order = np.argsort(latency_ns[:size])
    sorted_ns, sorted_cost, sorted_offer = latency_ns[:size][order], cost[:size][order], offer[:size][order]
    least, kept = np.inf, 0
    for k in range(size):
        if sorted_cost[k] < least:
            least = sorted_cost[k]
            if kept and latency_ns[kept - 1] == sorted_ns[k]:
                kept -= 1
            latency_ns[kept], cost[kept], offer[kept] = sorted_ns[k], sorted_cost[k], sorted_offer[k]
            kept += 1
    return kept


@jit_with_memory
def _merged(step: int, fronts: _InputFronts) -> tuple[I64, F64, I64]:
    """The front of the inputs of a step together: the largest of their latencies, the sum of their costs, offers."""
    own_ns, own_cost, own_offer, own_size = fronts.latency_ns, fronts.cost, fronts.offer, fronts.size
    inputs = len(own_size)
    total = 0
    for number in range(inputs):
        if step >> number & 1:
            total += own_size[number]
    merged_ns, merged_cost = np.empty(total, np.int64), np.empty(total)
    chosen = np.full((total, inputs), -1, np.int64)
    at = np.zeros(inputs, np.int64)
    latency_ns = np.int64(0)
    for number in range(inputs):
        if step >> number & 1:
            latency_ns = max(latency_ns, own_ns[number, 0])
    size = 0
    while True:
        cost = 0.0
        following = np.int64(-1)
        for number in range(inputs):
            if step >> number & 1:
                while at[number] + 1 < own_size[number] and own_ns[number, at[number] + 1] <= latency_ns:
                    at[number] += 1
                cost += own_cost[number, at[number]]
                chosen[size, number] = own_offer[number, at[number]]
                if at[number] + 1 < own_size[number]:
                    later = own_ns[number, at[number] + 1]
                    following = later if following < 0 else min(following, later)
        merged_ns[size], merged_cost[size] = latency_ns, cost
        size += 1
        if following < 0:
            break
        latency_ns = following
    return merged_ns[:size], merged_cost[:size], chosen[:size]


@jit_with_memory
def _written_out(kept: I64, begin: int, end: int, entries: _Plans) -> tuple[I64, F64, I64, I64]:
    """The plans of the full set: offers and steps of all inputs, gathered from entry to entry."""
    inputs = entries.chosen.shape[1]
    size = end - begin
    chosen, steps = np.empty((size, inputs), np.int64), np.empty((size, inputs), np.int64)
    for k in range(size):
        depth, at = 0, begin + k
        while entries.before[at] >= 0:
            depth, at = depth + 1, entries.before[at]
        at = begin + k
        while entries.before[at] >= 0:
            depth -= 1
            for number in range(inputs):
                if entries.step[at] >> number & 1:
                    chosen[k, number], steps[k, number] = kept[entries.chosen[at, number]], depth
            at = entries.before[at]
    return entries.latency_ns[begin:end].copy(), entries.cost[begin:end].copy(), chosen, steps
