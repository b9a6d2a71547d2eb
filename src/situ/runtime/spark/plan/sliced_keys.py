"""Keys that are divided by slices of time: for data in which one key has most of the events."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from situ.runtime.spark.plan.partitioning import (
    Anywhere,
    ByKey,
    ByKeyAndSlice,
    partitioning_of,
    reach_us,
    slices_of,
)
from situ.runtime.spark.plan.plan import SparkPlan
from situ.runtime.spark.plan.routes import Route

#: A slice of a key is this many times as long as what it has to read of the next one: an eighth is read twice.
SLICE_PER_WINDOW = 8


def with_sliced_keys(plan: SparkPlan, per_window: int = SLICE_PER_WINDOW) -> SparkPlan:
    """The plan with keys divided by slices of time, where rules find in these what they find in all of a key's events:
    they have windows and no policy that reaches further, and read streams, not what others find."""
    if len(plan.stages) != 1:
        return plan
    (stage,) = plan.stages
    streams = {read.stream.name for read in plan.reads}
    routes = tuple(_sliced(route, streams, per_window) for route in stage.routes)
    return replace(plan, stages=(replace(stage, routes=routes),))


def _sliced(route: Route, streams: Collection[str], per_window: int) -> Route:
    if not isinstance(route.partitioning, ByKey):
        return route
    reaches = []
    for operator in route.operators:
        reach = reach_us(operator.rule)
        reads_streams = {*operator.inputs} <= {*streams}
        if isinstance(reach, str) or isinstance(partitioning_of(operator), Anywhere) or not reads_streams:
            return route
        reaches.append(reach)
    slices = slices_of(max(reaches), per_window)
    return replace(route, partitioning=ByKeyAndSlice(route.partitioning.keys, slices))
