"""How much of the time pull windows cover, and how often requests for them are sent, if events are Poisson processes.

The protocol is PaNORAMA's, section 6 (situ.runtime.sites.protocol). A request is sent when a combination of earlier
events opens a window that no request under way covers; what else is needed until it ends is asked for by one extension.
All times are windows: a rate is events per window.

Checked by counting (`python -m situ.bench.prediction`, tests/placement/test_pull_requests.py): everything is exact for
one and two earlier inputs, and for all of a SEQ, except for the extensions of two inputs and more: some 5% too few.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from situ.placement.coverage import exponential

Rates = tuple[float, ...]


@lru_cache(maxsize=65_536)
def row_fits(rates: Rates) -> float:
    """The probability that events of these rates, each the first after the one before it, come within a window.

    >>> round(row_fits((1.5,)), 6) == round(1 - math.exp(-1.5), 6), row_fits(())
    (True, 1.0)
    """
    if not rates:
        return 1.0
    matrix = np.diag([-rate for rate in (*rates, 0.0)])
    matrix[np.arange(len(rates)), np.arange(1, len(rates) + 1)] = rates
    return min(1.0, max(0.0, float(exponential(matrix)[0, -1])))


# ---- coverage


def covered_by_seq(earlier: Rates) -> float:
    """Wherever the pulled event stands in the text: the nearest events before it and after it must come within a
    window, one after the other."""
    return row_fits(tuple(sorted(earlier)))


def covered_by_and(earlier: Rates) -> float:
    """The probability that some window around an event has one event of each input. For one input it is 1 - exp(-2
    rate).

    Of two, a and b being the probabilities of an event within a window: both come before it, or both after it, or one
    before and one after it, not further apart than a window. A third input and more are taken as independent, with
    windows of 1 + 1/j.

    >>> round(covered_by_and((0.3,)), 6) == round(1 - math.exp(-0.6), 6)
    True
    """
    first, *faster = sorted(earlier)
    if not faster:
        return -math.expm1(-2 * first)
    a, b = -math.expm1(-first), -math.expm1(-faster[0])
    covered = a * b * (2 - a * b) + 2 * (1 - a) * (1 - b) * row_fits((first, faster[0]))
    for order, rate in enumerate(faster[1:], start=3):
        covered *= -math.expm1(-rate * (1 + 1 / order))
    return covered


# ---- requests, per window


@lru_cache(maxsize=65_536)
def requests_of_and(earlier: Rates) -> float:
    """A request begins with an event that comes when all other inputs have had one within a window, and its own not."""
    there = [-math.expm1(-rate) for rate in earlier]
    begins = [rate * (1 - there[n]) * math.prod(there[:n] + there[n + 1 :]) for n, rate in enumerate(earlier)]
    if len(earlier) == 1:
        extended = begins[0] * there[0]
    else:  # the request ends a window after the last event of another input, which must have come again
        again = [_comes_again(rate) for rate in earlier]
        extended = sum(begin * min(again[:n] + again[n + 1 :]) for n, begin in enumerate(begins))
    return sum(begins) + extended * _extensions(math.prod(there))


@lru_cache(maxsize=65_536)
def requests_of_seq(before: Rates, after: Rates) -> float:
    """Earlier inputs before and after the pulled one in the text.

    With inputs after it, windows have passed when they become known, and nothing can be extended: each combination that
    reaches further than all so far makes a request. Without, a request begins where the inputs but the last have come
    within a window, and all of them not.
    """
    if after:
        return after[0] * _reaches_further(before, after)
    prefix_fits, covered = row_fits(before[:-1]), row_fits(before)
    if prefix_fits == 0:
        return 0.0
    begins = before[-1] * (prefix_fits - covered)
    return begins * (1 + row_fits(before[:-1] + before) / prefix_fits * _extensions(covered))


def _comes_again(rate: float) -> float:
    """Whether an input whose last event is no older than a window has another one before it gets so old."""
    return 1 - rate / math.expm1(rate) if rate > 1e-6 else rate / 2


def _reaches_further(before: Rates, after: Rates) -> float:
    """The probability that a row of `after` from an event on ends before one that begins later has caught up with it,
    and that all of it, with a row of `before` in front, takes no longer than a window.

    States: events of `before` so far; then (i, j), where the row has i events and the one that pursues it j < i.
    """
    states: list[object] = [("before", n) for n in range(len(before))]
    states += [(i, j) for i in range(1, len(after)) for j in range(i)] + ["end"]
    number = {state: n for n, state in enumerate(states)}
    matrix = np.zeros((len(states), len(states)))

    def moves(start: object, to: object, rate: float) -> None:
        matrix[number[start], number[start]] -= rate
        if to in number:
            matrix[number[start], number[to]] += rate

    begin: object = (1, 0) if len(after) > 1 else "end"
    for n, rate in enumerate(before):
        moves(("before", n), ("before", n + 1) if n + 1 < len(before) else begin, rate)
    for i in range(1, len(after)):
        for j in range(i):
            moves((i, j), (i + 1, j) if i + 1 < len(after) else "end", after[i])
            moves((i, j), (i, j + 1), after[j])  # (i, i) is no state: it is caught
    return min(1.0, max(0.0, float(exponential(matrix)[0, -1])))


@lru_cache(maxsize=65_536)
def _extensions(covered: float) -> float:
    """Extensions of a request, if there is one at all.

    Of windows that Poisson events of rate z open and close after one window: an extension comes with probability
    1 - exp(-y), where y is the time for which the request was extended before (1 at first); the next y is 1 - v, where
    v is the age of the last event. The mean number g(y) of requests from then on has g'(y) = z exp(-zy) g(1 - y) and
    g(0) = 1, so that g'' + z g' + z^2 exp(-z) g = 0. Here z = -ln(1 - covered), as covered = 1 - exp(-z) of one input.
    """
    if covered < 1e-9:
        return 1.0
    z = -math.log1p(-min(covered, 1 - 1e-12))
    root = cmath.sqrt(1 - 4 * math.exp(-z))
    if abs(root) < 1e-6:
        root = complex(1e-6)
    first_root, second_root = z * (root - 1) / 2, -z * (root + 1) / 2
    left, right = first_root - z * cmath.exp(first_root), second_root - z * cmath.exp(second_root)
    requests = (left * cmath.exp(second_root) - right * cmath.exp(first_root)) / (left - right)
    return (requests.real - 1) / covered


# ---- bursts


def bursts_of(inputs: Sequence[tuple[float, float]], selectivity: float, reach: Sequence[float]) -> float:
    """How often bursts of output begin, per window: complex events that share events come together, and many of them
    open no more windows than one.

    `inputs` are (bursts, events) per window. A burst of the rarest input gives output if a burst of the next one is in
    reach, and one of the next, and if one of the combinations passes. `reach` are the lengths of the windows of the
    second, third, ... input.

    >>> round(bursts_of([(0.1, 0.1), (20.0, 20.0)], 1.0, [1.0]), 3)  # each of the rare events meets many
    0.1
    """
    ordered = sorted(inputs)
    combinations = math.prod(events / bursts_ if bursts_ else 1.0 for bursts_, events in ordered)
    passes = 1.0 if selectivity >= 1 else -math.expm1(combinations * math.log1p(-selectivity))
    for (rate, _), length in zip(reversed(ordered[1:]), reversed(reach), strict=True):
        passes = -math.expm1(-rate * length * passes)
    return ordered[0][0] * passes
