"""From what a mechanism says to what sites run: where each operator runs, and in which steps it takes its inputs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from situ.network.network import SPARK
from situ.placement.one_by_one import can_decide_one_by_one
from situ.placement.plan import Placed
from situ.placement.problem import Problem
from situ.runtime.sites.deployed_plan import OperatorPlace


def operator_places(problem: Problem, placed: Sequence[Placed], live: Collection[str] = ()) -> dict[str, OperatorPlace]:
    """The place of each operator. One that pulls has its steps. One to which everything is pushed has a step if it is
    made of `live` streams and little is in its window: then its matches are decided one by one, and it asks nobody how
    far time has come. Operators at sites on Spark have none."""
    places: dict[str, OperatorPlace] = {}
    happens_now = set(live)
    for operator, where in zip(problem.operators, placed, strict=True):  # inputs come first
        site = problem.network.sites[where.site]
        if happens_now.issuperset(operator.events):
            happens_now.add(operator.name)
        one_by_one = operator.name in happens_now and can_decide_one_by_one(problem, operator)
        has_steps = site.engine != SPARK and (len(where.steps) > 1 or one_by_one)
        steps = tuple(tuple(operator.inputs[number].event for number in step) for step in where.steps)
        places[operator.name] = OperatorPlace(site.name, steps if has_steps else ())
    return places
