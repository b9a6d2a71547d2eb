"""The operators of a stage as a flow: the same one for a batch, which is told the end, and for a stream."""

from __future__ import annotations

from dataclasses import dataclass, replace

from situ.core.functions import Functions
from situ.core.memory import MemoryBudget
from situ.flow.flow import Flow
from situ.flow.port import Port
from situ.kernel.compile import Programs
from situ.kernel.operator import contexts_of
from situ.runtime.spark.plan.partitioning import Anywhere, ByKeyAndSlice, BySlice, partitioning_of
from situ.runtime.spark.plan.plan import SparkPlan, Stage


@dataclass(frozen=True)
class StageFlow:
    """A flow with no state yet; `ports` say where events of a type come in for the operators of a route."""

    flow: Flow
    ports: dict[tuple[int, str], Port]

    @classmethod
    def of(cls, plan: SparkPlan, stage: Stage, programs: Programs, memory: MemoryBudget) -> StageFlow:
        """The flow of a task."""
        ports = {}
        for number, route in enumerate(stage.routes):
            for type_ in route.reads:
                readers = tuple(operator.name for operator in route.operators if type_ in operator.inputs)
                read = plan.read(type_)
                ports[number, type_] = Port(type_, readers, read.stream if read else None)
        return cls(Flow(programs, list(ports.values()), memory=memory), ports)


def stage_programs(
    plan: SparkPlan,
    stage: Stage,
    functions: Functions,
    owns: bool,
    own_us: tuple[int, int] | None = None,
    in_order: bool = True,
) -> Programs:
    """The programs of a stage's operators; those of one shape run as one. Of what a route of slices finds, some
    operators may read every event, so each is compiled by its own partitioning, not by its route's. `owns`: they are
    those of the task that owns rules which run in one task, and what begins at the start of the query does so there.
    `own_us`, `in_order`: see `Context`; a batch hands complex events to Spark, which keeps no order."""
    contexts = contexts_of(plan.plain, functions, provenance=False)
    of_stage = {}
    for operator, of_route in ((o, route.partitioning) for route in stage.routes for o in route.operators):
        partitioning = partitioning_of(operator)
        slices = of_route.slices if isinstance(of_route, ByKeyAndSlice) else partitioning
        slice_us = slices.length_us if isinstance(slices, BySlice) and own_us is None else None
        ordered = not isinstance(partitioning, Anywhere)
        context = contexts[operator.name]
        start_us = context.start_us if owns else None
        own = own_us if ordered else None
        of_stage[operator.name] = replace(
            context, slice_us=slice_us, ordered=ordered, start_us=start_us, own_us=own, in_order=in_order
        )
    return Programs(of_stage)
