"""Which operators a new version of a plan carries on: those that are what they were, with all that they are made of.

An operator that is carried on goes on with its state, wherever it runs: of it, the new version finds what one process
that nobody touched would find. The others begin without state when the new version begins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from situ.core.errors import SituError
from situ.core.functions import Functions
from situ.core.time import BEGINNING
from situ.graph.operators import Operator, OperatorGraph
from situ.graph.query import Stream
from situ.kernel.operator import Context, contexts_of
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.sites.deployed_plan import DeployedPlan, NamedFunction, PlanError, Strategy
from situ.runtime.sites.finishing import cut_times


def carried_on(
    plan: DeployedPlan,
    before: DeployedPlan,
    on_spark: Collection[str] = (),
    strategies: Mapping[str, Strategy] | None = None,
) -> DeployedPlan:
    """The plan as the version after another one: each operator that can be is carried on from where it runs, and those
    that move do so by their strategies."""
    anew = reasons_to_begin_anew(plan, before, on_spark).keys() | (plan.operators.keys() - before.operators.keys())
    places = {}
    for name, place in plan.operators.items():
        old = None if name in anew else before.operators[name].site
        moves = old not in (None, place.site)
        strategy = (strategies or {}).get(name, "naive") if moves else "naive"
        places[name] = replace(place, carried_from=old, strategy=strategy)
    return replace(plan, operators=places)


def done_us(plan: DeployedPlan) -> int:
    """When all is decided that began before the cuts of a version: none after it may begin earlier."""
    if all(place.finished_at is None for place in plan.operators.values()):
        return BEGINNING
    cuts = cut_times(plan, graph_of(plan))
    return max((cut.done_us for cut in cuts.values()), default=BEGINNING)


def reasons_to_begin_anew(plan: DeployedPlan, before: DeployedPlan, on_spark: Collection[str] = ()) -> dict[str, str]:
    """By operator of a plan that cannot be carried on from the version before: why not. `on_spark` are the sites whose
    operators Spark runs, which neither gives nor takes their state."""
    old, new = _known(before.query, before.functions), _known(plan.query, plan.functions)
    functions = {f.name: f for f in before.functions}
    other = [f.name for f in plan.functions if functions.get(f.name, f) != f]
    reasons: dict[str, str] = {}
    for operator in new.graph.operators:  # inputs come first
        name = operator.name
        reason = new.reason_to_differ(name, old)
        if not reason and other:
            reason = f"function {other[0]} is another one"
        if not reason and plan.silent_since_us != before.silent_since_us:
            reason = "silences begin at another time"
        if not reason and (pulls(plan, name) or pulls(before, name)):
            reason = "it pulls, or its matches are decided one by one"
        if not reason and any(site_of(version, name) in on_spark for version in (plan, before)):
            reason = "Spark runs it"
        made_of = [event for event in operator.inputs if event in reasons]
        if not reason and made_of:
            reason = f"it reads {made_of[0]}, which begins anew"
        if reason:
            reasons[name] = reason
    return reasons


def graph_of(plan: DeployedPlan) -> OperatorGraph:
    """The operators of a plan's query that run. Its functions need not be here."""
    return _known(plan.query, plan.functions).graph.active()


def pulls(plan: DeployedPlan, name: str) -> bool:
    """Whether a plan lets an operator pull some of its inputs, or decide its matches one by one as those do."""
    return name in plan.operators and bool(plan.operators[name].steps)


def site_of(plan: DeployedPlan, name: str) -> str | None:
    """Where a plan lets an operator run, if it says so."""
    return plan.operators[name].site if name in plan.operators else None


def require_carried(plan: DeployedPlan, before: DeployedPlan | None, site: str) -> None:
    """PlanError unless a site can give the states that a plan wants of it, after the version `before`."""
    wanted = [name for name, place in plan.operators.items() if place.carried_from == site]
    if not wanted:
        return
    reasons = dict.fromkeys(wanted, "it runs no plan") if before is None else reasons_to_begin_anew(plan, before)
    for name in wanted:
        if before is not None and name in before.operators and before.operators[name].site != site:
            reasons[name] = f"it runs at {before.operators[name].site}"
        if name in reasons:
            raise PlanError(
                f"{name} cannot be carried on from {site}: {reasons[name]}",
                remedy="Leave out its `from`: then it begins without state.",
            )


@dataclass(frozen=True)
class _KnownQuery:
    """A query whose names are known."""

    graph: OperatorGraph
    contexts: Mapping[str, Context]

    @cached_property
    def operators(self) -> dict[str, Operator]:
        return {operator.name: operator for operator in self.graph.operators}

    @cached_property
    def active(self) -> frozenset[str]:
        return frozenset(operator.name for operator in self.graph.active().operators)

    @cached_property
    def streams(self) -> dict[str, Stream]:
        return {stream.name: stream for stream in self.graph.streams}

    def reason_to_differ(self, name: str, old: _KnownQuery) -> str:
        """Why an operator is by itself not what it was; nothing, if it is."""
        now, then = self.operators[name], old.operators.get(name)
        if then is None:
            return "it is new"
        if name not in self.active or name not in old.active:
            return "no subscription needs it" if name not in self.active else "no subscription needed it"
        if (now.rule, now.schema, now.inputs) != (then.rule, then.schema, then.inputs):
            return "its rule has changed"
        for event in now.inputs:
            if self.streams.get(event) != old.streams.get(event):
                return f"stream {event} is declared otherwise"
        if self.contexts[name].inputs != old.contexts[name].inputs:
            return "the order of what it reads has changed"
        return ""


@lru_cache(maxsize=4)
def _known(query: str, functions: tuple[NamedFunction, ...]) -> _KnownQuery:
    known = _declared(functions)
    graph = resolve(parse(query), known)
    return _KnownQuery(graph, contexts_of(graph, known, provenance=False))


def _declared(functions: tuple[NamedFunction, ...]) -> Functions:
    """Functions by name and type. They are not imported: whoever compares plans need not have their modules."""
    declared = Functions()
    for function in functions:
        declared.register(_not_here, returns=function.returns, name=function.name)
    return declared


def _not_here(*_: object) -> object:
    raise SituError("functions of a plan run at its sites, and nowhere else")
