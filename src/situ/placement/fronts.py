"""All plans of one operator at one site that are neither slower nor dearer than another: its Pareto front.

PaNORAMA's dynamic programming (section 5.1) tries every combination of its inputs' plans. But a cost is a sum over
inputs, and within a step they meet in a maximum of latencies only. So each input is reduced to its own front first, and
fronts are merged; and what a step costs depends on the set of inputs taken before it, not on their order, so that a set
of taken inputs is the state, not a sequence of steps. Both keep every plan that matters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situ.kernel.arrays import F64, I64
from situ.placement.front_kernel import Bounds, OfferColumns, StepColumns, front


@dataclass(frozen=True, slots=True)
class Offers:
    """The ways in which inputs can be had at a site: those of input i are from offset[i] to offset[i + 1].

    An offer's event takes `way_ns` to the site, after `own_ns` until it was detected. It costs `base`, and `data` for
    each fraction of its events that is sent, and `ask` for each request per second.
    """

    offset: I64
    way_ns: I64
    own_ns: I64
    base: F64
    data: F64
    ask: F64


@dataclass(frozen=True, slots=True)
class StepTable:
    """The steps that an operator may take. `sets` are inputs that can have been taken, as bits, in growing order: first
    none, last all. The steps after set i are from offset[i] to offset[i + 1]: the inputs that they take, the number of
    the set that they lead to, the fraction of the inputs' events that is sent, and the requests for them per second.
    """

    sets: I64
    offset: I64
    taken: I64
    target: I64
    fraction: F64
    requests: F64


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Whole plans that are known, by growing latency and falling cost. A plan at this site whose cost and `to_go`
    are more than a known plan costs that takes no longer than it and `way_ns` is not worth keeping."""

    known_ns: I64
    known_cost: F64
    to_go: float
    way_ns: int


NO_CEILING = Ceiling(np.empty(0, np.int64), np.empty(0), 0.0, 0)


@dataclass(frozen=True, slots=True)
class Front:
    """Plans by growing latency and falling cost. `chosen`: the offer of each input; `step`: the step it comes in."""

    latency_ns: I64
    cost: F64
    chosen: I64
    step: I64

    def __len__(self) -> int:
        return len(self.cost)


def front_of(offers: Offers, steps: StepTable, limit_ns: int, ceiling: Ceiling = NO_CEILING) -> Front:
    """Every plan that no other beats in latency and cost, within a limit and below a ceiling.

    >>> one = Offers(np.array([0, 1]), np.array([5]), np.array([0]), np.zeros(1), np.array([3.0]), np.zeros(1))
    >>> front = front_of(one, pushed_at_once(1, 1.0), 1 << 60)
    >>> front.latency_ns.tolist(), front.cost.tolist(), front.step.tolist()
    ([5], [3.0], [[0]])
    """
    columns = OfferColumns(offers.offset, offers.way_ns, offers.own_ns, offers.base, offers.data, offers.ask)
    table = StepColumns(steps.sets, steps.offset, steps.taken, steps.target, steps.fraction, steps.requests)
    known_ns, known_cost = ceiling.known_ns - ceiling.way_ns, ceiling.known_cost * (1 + ROUNDING) - ceiling.to_go
    return Front(*front(columns, table, Bounds(limit_ns, known_ns, known_cost)))


#: Costs of known plans are sums in another order.
ROUNDING = 1e-9


def pushed_at_once(inputs: int, fraction: float) -> StepTable:
    """One step, which takes all inputs."""
    one = np.array([1.0])
    full = np.array([(1 << inputs) - 1])
    return StepTable(np.array([0, full[0]]), np.array([0, 1, 1]), full, np.array([1]), fraction * one, 0 * one)
