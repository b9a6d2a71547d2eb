"""Migration plans while predictions change (MCEP, section 5.5; Figure 4, lines 10 to 14).

At regular times there is a new prediction. Plans are generated again if it deviates from the one that they were made
for. What has been initiated by then is completed, everything later is planned anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from situ.kernel.arrays import F64
from situ.lab.mcep.migration.migcep import migcep
from situ.lab.mcep.migration.migcep_plan import ExpectedPlacement, MigrationPlan
from situ.lab.mcep.migration.migcep_problem import MigrationProblem, MovableOperator, Transfer
from situ.placement.problem import PlacementError

#: A prediction deviates if more than this share of it is new.
THRESHOLD = 0.1


@dataclass(frozen=True, slots=True)
class Followed:
    """Plans as they were carried out, and how often plans were generated."""

    plans: tuple[MigrationPlan, ...]
    generated: int


def follow(predictions: Iterable[MigrationProblem], threshold: float = THRESHOLD) -> Followed:
    """`predictions` in the order of their start, each a problem from then on. Where operators run is what the first one
    says; the others' hosts are replaced by what became of it."""
    plans: tuple[MigrationPlan, ...] = ()
    planned_for: MigrationProblem | None = None
    generated = 0
    for prediction in predictions:
        if planned_for is None:
            planned_for, plans = prediction, migcep(prediction).plans
        elif deviation(planned_for, prediction) > threshold:
            begun = [_begun(plan, prediction.start_us) for plan in plans]
            operators = zip(prediction.operators, begun, strict=True)
            now = replace(prediction, operators=tuple(_at(*pair, prediction) for pair in operators))
            planned_for, fresh = now, migcep(now).plans
            plans = tuple(_joined(*parts) for parts in zip(begun, fresh, now.operators, strict=True))
        else:
            continue
        generated += 1
    if planned_for is None:
        raise PlacementError("there is no prediction", remedy="Give one at least.")
    return Followed(plans, generated)


def deviation(planned: MigrationProblem, fresh: MigrationProblem) -> float:
    """Which share of a prediction an earlier one did not have: bytes that come from elsewhere, or at other times; steps
    in which the consumer is elsewhere; latencies. All of it, if the earlier one covers less than half of its steps.

    >>> from situ.network.generate import broker_tree
    >>> network = broker_tree(2, 2, np.random.default_rng(1))
    >>> def consumer_at(*brokers):
    ...     return MigrationProblem(network, 0, 1_000_000, {}, (), np.array(brokers), 1e6)
    >>> deviation(consumer_at(1, 1, 1, 1), consumer_at(1, 1, 1, 2))
    0.25
    """
    ahead = (fresh.start_us - planned.start_us) // fresh.step_us
    common = min(planned.steps - ahead, fresh.steps)
    if common < (fresh.steps + 1) // 2:
        return 1.0
    pairs = [
        *((planned.range_queries[name], stream) for name, stream in fresh.range_queries.items()),
        *((a.bytes_per_s, b.bytes_per_s) for a, b in zip(planned.operators, fresh.operators, strict=True)),
    ]
    shares = [_share_apart(a[ahead : ahead + common], b[:common]) for a, b in pairs]
    elsewhere = float((planned.consumer[ahead : ahead + common] != fresh.consumer[:common]).mean())
    return max(*shares, elsewhere, _share_apart(planned.latency_s, fresh.latency_s), 0.0)


def _share_apart(a: F64, b: F64) -> float:
    """
    >>> _share_apart(np.array([3.0, 1.0]), np.array([1.0, 3.0]))
    0.5
    """
    volume = max(float(a.sum()), float(b.sum()))
    return float(np.abs(a - b).sum()) / 2 / volume if volume else 0.0


def _begun(plan: MigrationPlan, now_us: int) -> list[ExpectedPlacement]:
    """The placements whose migrations have been initiated before now."""
    return [plan.placements[0], *(placement for placement in plan.placements[1:] if placement.initiate_us < now_us)]


def _at(operator: MovableOperator, begun: list[ExpectedPlacement], prediction: MigrationProblem) -> MovableOperator:
    """The operator where it runs now, with the migration that is under way."""
    arrived = [placement for placement in begun if placement.deadline_us <= prediction.start_us]
    if len(arrived) == len(begun):
        return replace(operator, host=begun[-1].host, transfer=None)
    left = -((prediction.start_us - begun[-1].deadline_us) // prediction.step_us)
    return replace(operator, host=arrived[-1].host, transfer=Transfer(begun[-1].host, left))


def _joined(begun: list[ExpectedPlacement], fresh: MigrationPlan, operator: MovableOperator) -> MigrationPlan:
    """What has begun, then what is new: not where the operator is, nor what is under way."""
    already_begun = 2 if operator.transfer else int(fresh.placements[0].host == operator.host)
    return replace(fresh, placements=(*begun, *fresh.placements[already_begun:]))
