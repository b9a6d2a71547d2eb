"""The operators of a stage as a flow: the same one for a batch, which is told the end, and for a stream."""

from __future__ import annotations

from dataclasses import dataclass, replace

from situ.core.functions import Functions
from situ.core.memory import MemoryBudget
from situ.flow.flow import Flow
from situ.flow.port import Port
from situ.kernel.compile import RuleProgram, compile_operator
from situ.kernel.operator import contexts_of
from situ.runtime.spark.plan.partitioning import Anywhere, BySlice, partitioning_of
from situ.runtime.spark.plan.plan import SparkPlan, Stage


@dataclass(frozen=True)
class StageFlow:
    """A flow with no state yet; `ports` say where events of a type come in for the operators of a route."""

    flow: Flow
    ports: dict[tuple[int, str], Port]

    @classmethod
    def of(cls, plan: SparkPlan, stage: Stage, functions: Functions, memory: MemoryBudget) -> StageFlow:
        ports = {}
        for number, route in enumerate(stage.routes):
            for type_ in route.reads:
                readers = tuple(operator.name for operator in route.operators if type_ in operator.inputs)
                read = plan.read(type_)
                ports[number, type_] = Port(type_, readers, read.stream if read else None)
        return cls(Flow(stage_programs(plan, stage, functions), list(ports.values()), memory=memory), ports)


def stage_programs(plan: SparkPlan, stage: Stage, functions: Functions) -> dict[str, RuleProgram]:
    """The programs of a stage's operators. Of what a route of slices finds, some operators may read every event, so
    each is compiled by its own partitioning, not by its route's."""
    contexts = contexts_of(plan.plain, functions, provenance=False)
    programs = {}
    for operator in (operator for route in stage.routes for operator in route.operators):
        partitioning = partitioning_of(operator)
        slice_us = partitioning.length_us if isinstance(partitioning, BySlice) else None
        ordered = not isinstance(partitioning, Anywhere)
        context = replace(contexts[operator.name], slice_us=slice_us, ordered=ordered)
        programs[operator.name] = compile_operator(context)
    return programs
