"""A plan whose query is resolved and compiled: the same at all sites."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import attrgetter

import pyarrow as pa

from situ.core.errors import QueryError, did_you_mean
from situ.core.functions import Functions
from situ.core.types import TIMESTAMP_ARROW, to_arrow
from situ.graph.cuts import lags_in
from situ.graph.operators import OperatorGraph
from situ.graph.query import Stream
from situ.io.rows.conform import REJECTED
from situ.kernel.batch import EXTENT, Batch, as_timestamps
from situ.kernel.compile import Programs, RuleProgram, compile_operator, refuse_unbounded_state
from situ.kernel.operator import contexts_of, tie_attributes
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.embedded.pieces import StreamReader
from situ.runtime.sites.actors import require_actors
from situ.runtime.sites.deployed_plan import DeployedPlan, NamedFunction, PlanError, plan_of_json
from situ.runtime.sites.finishing import CutTimes, cut_times
from situ.runtime.sites.host import STATES
from situ.runtime.sites.messages import LogKind
from situ.runtime.sites.plan_logs import PlanLogs
from situ.runtime.sites.pulled_operator import decides_one_by_one, steps_in_numbers
from situ.runtime.sites.rows import TIME
from situ.runtime.sites.selections import Selection, selections_of


@dataclass(frozen=True)
class CompiledPlan:
    """A plan whose names are known: the same at all sites, so it is made once in a process."""

    plan: DeployedPlan
    graph: OperatorGraph
    programs: Programs
    #: Those of operators that decide their matches one by one, with provenance.
    pulling: Mapping[str, RuleProgram]
    functions: Functions

    @cached_property
    def logs(self) -> PlanLogs:
        return PlanLogs.of(self.plan, self.graph, self.selections)

    @cached_property
    def cuts(self) -> dict[str, CutTimes]:
        """By operator that is cut in time, where."""
        return cut_times(self.plan, self.graph)

    @cached_property
    def lags_us(self) -> dict[str, int | None]:
        """By type, how far its time may lag behind that of the streams."""
        return lags_in(self.graph)

    @cached_property
    def selections(self) -> dict[str, dict[str, Selection]]:
        return selections_of(self.plan, self.graph, self.programs)

    @cached_property
    def schemas(self) -> dict[tuple[LogKind, str], pa.Schema]:
        """The columns of all logs, by what they have and its type."""
        schemas: dict[tuple[LogKind, str], pa.Schema] = {}
        for stream in self.graph.streams:
            declared = {a.name: to_arrow(a.type) for a in stream.attributes}
            travelling = [(name, declared[name]) for name in self._travelling(stream)]
            schemas["events", stream.name] = pa.schema([*travelling, (TIME, TIMESTAMP_ARROW)])
            schemas["late", stream.name] = pa.schema([*declared.items(), ("_lateness", pa.duration("us"))])
            schemas["rejected", stream.name] = REJECTED
        for name, context in self.programs.contexts.items():
            columns = [(attribute, to_arrow(type_)) for attribute, type_ in context.operator.schema.attributes]
            extent = [(column, pa.float64()) for column in EXTENT] if context.located else []
            schemas["events", name] = schemas["timed out", name] = pa.schema(
                [*columns, (TIME, TIMESTAMP_ARROW), *extent]
            )
            schemas["state", name] = STATES
        return schemas

    def rows(self, kind: LogKind, name: str, batch: Batch | None) -> pa.RecordBatch:
        """What an operator made, as rows of a log."""
        schema = self.schemas[kind, name]
        if batch is None:
            return pa.RecordBatch.from_pylist([], schema)
        columns = [
            as_timestamps(batch.times) if field_.name == TIME else batch.columns[field_.name] for field_ in schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _travelling(self, stream: Stream) -> list[str]:
        """The attributes that readers of a stream need: what rules read, and what orders events of equal time."""
        if not any(stream.name in operator.inputs for operator in self.graph.operators):
            return []
        read = {*self.reader(stream).needed, *tie_attributes(stream)}
        return [a.name for a in stream.attributes if a.name in read]

    def reader(self, stream: Stream) -> StreamReader:
        read: frozenset[str] = frozenset()
        for name in self.programs:
            read |= self.programs.columns_read(name).get(stream.name, frozenset())
        return StreamReader(stream, read, provenance=False)


def compile_plan(plan: DeployedPlan) -> CompiledPlan:
    """The plan with its query resolved and compiled; PlanError or QueryError if it means nothing here."""
    functions = _functions_of(plan.functions)
    graph = resolve(parse(plan.query), functions)
    if plan.silent_since_us is not None:
        graph = replace(graph, start_us=plan.silent_since_us)
    _check_places(plan, graph)
    graph = graph.active()
    if not plan.bounded:
        refuse_unbounded_state(graph)
    programs = Programs(contexts_of(graph, functions, provenance=False))
    for name in programs:
        programs.template(name)  # what cannot be compiled is said now
    traced = contexts_of(graph, functions, provenance=True, selections=False)
    pulling = {
        operator.name: compile_operator(traced[operator.name])
        for operator in graph.operators
        if operator.name in traced and decides_one_by_one(operator, plan.operators[operator.name])
    }
    compiled = CompiledPlan(plan, graph, programs, pulling, functions)
    for name in compiled.cuts.keys() & pulling.keys():
        raise PlanError(
            f"{name} is cut in time, and its matches are decided one by one", remedy=f"Leave out the steps of {name}."
        )
    return compiled


@lru_cache(maxsize=16)
def compiled_plan(plan: str) -> CompiledPlan:
    """The same of a plan that is given as JSON, made once."""
    return compile_plan(plan_of_json(plan))


def _functions_of(named: Iterable[NamedFunction]) -> Functions:
    """Users' functions, imported; QueryError if one cannot be."""
    functions = Functions()
    for function in named:
        module, _, qualname = function.path.partition(":")
        try:
            callable_ = attrgetter(qualname)(importlib.import_module(module))
        except (ImportError, AttributeError, ValueError) as error:
            raise QueryError(
                f"function {function.path!r} cannot be imported here: {error}",
                remedy="Install its module at this site, or put it on the Python path there.",
            ) from error
        functions.register(callable_, returns=function.returns, name=function.name)
    return functions


def _check_places(plan: DeployedPlan, graph: OperatorGraph) -> None:
    """PlanError unless the plan has a place for every operator of its query that somebody needs, and for every stream,
    and for nothing else."""
    for operator in graph.subscriptions:
        assert operator.subscription is not None
        if operator.subscription.around is not None:
            raise PlanError(
                f"{operator.name} is around a consumer who moves, which sites do not run yet",
                remedy="Run it in one process (`situ run`) or on Spark.",
            )
    streams = {stream.name for stream in graph.streams}
    active = {operator.name for operator in graph.active().operators}
    for kind, planned, known, needed in (
        ("operator", {*plan.operators}, {operator.name for operator in graph.operators}, active),
        ("stream", {*plan.sources}, streams, streams),
    ):
        for name in sorted(planned - known):
            raise PlanError(f"the plan has a place for {kind} {name!r}, which the query does not have",
                            remedy=did_you_mean(name, known))  # fmt: skip
        for name in sorted(needed - planned):
            raise PlanError(f"the plan has no place for {kind} {name!r}", remedy="Make the plan for this query.")
    for operator in graph.operators:
        if operator.name in plan.operators and (steps := plan.operators[operator.name].steps):
            steps_in_numbers(operator, steps)
    for name, sites in plan.sources.items():
        if not sites:
            raise PlanError(f"stream {name} has no source", remedy="Name the sites that have one.")
    require_actors(plan, graph.query)
    for name in sorted(plan.live - streams):
        raise PlanError(f"{name!r} is live, and no stream", remedy=did_you_mean(name, streams))
    if not plan.results:
        raise PlanError("nobody wants the results", remedy="Name a site under `results`.")
