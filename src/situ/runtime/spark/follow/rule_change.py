"""What a change of rules means for the state that a checkpoint holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from situ.core.errors import Place, QueryError
from situ.core.functions import Functions
from situ.core.identity_cache import IdentityCache
from situ.graph.operators import Operator, Schema
from situ.kernel.compile import compile_operator
from situ.kernel.operator import Context, contexts_of
from situ.mobility.moving_program import MovingProgram
from situ.runtime.spark.plan.partitioning import Anywhere, BySlice, OneTask, Partitioning, partitioning_of
from situ.runtime.spark.plan.plan import SparkPlan
from situ.runtime.spark.plan.routes import Route
from situ.service.rules import Change, Rule, rules_of


@dataclass(frozen=True)
class _Held:
    """Where the state of an operator lies, and what it must fit."""

    operator: Operator
    stage: int
    route: Route
    context: Context
    inputs: tuple[tuple[str, Schema], ...]

    def fits(self, other: _Held) -> bool:
        """Whether a state of the one is a state of the other. Of thousands of rules that stay as they are, none is
        compiled to find that out."""
        same = self.operator is other.operator and self.context.inputs == other.context.inputs
        return same or compile_operator(self.context).digests() == compile_operator(other.context).digests()

    @property
    def place(self) -> str:
        return f"in stage {self.stage + 1} {_shown(self.route.partitioning)}"


def change_of(before: SparkPlan, after: SparkPlan, levels: int, functions: Functions) -> Change:
    """What a change adds, replaces and removes; QueryError if rules that stay could not go on with their state."""
    old, new = _rules(before), _rules(after)
    _require_levels(after, levels, new)
    held, holds = _held(before, functions), _held(after, functions)
    moved, moves = _moving(before, functions), _moving(after, functions)
    both = [name for name in new if name in old]
    # A rule may be there for moving subscriptions alone, which hold its state with theirs.
    keeps = {name for name in both if name in held and name in holds and held[name].fits(holds[name])}
    keeps |= {name for name in both if name in moved and moved[name] == moves.get(name)}
    with_state = {*held, *holds, *moved, *moves}
    keeps |= {name for name in both if name not in with_state}
    for name in both:
        if name in keeps and name in held:
            _require_that_state_fits(held[name], holds[name], after, new[name].place)
    # The text of a rule may be as before, and yet its program another one: it reads something that has changed.
    replaced = tuple(name for name in both if new[name] != old[name] or name not in keeps)
    return Change(
        added=tuple(name for name in new if name not in old),
        replaced=replaced,
        removed=tuple(name for name in old if name not in new),
        kept=tuple(name for name in replaced if name in keeps),
    )


def _rules(plan: SparkPlan) -> dict[str, Rule]:
    return {rule.name: rule for rule in rules_of(plan.graph.query)}


def _held(plan: SparkPlan, functions: Functions) -> dict[str, _Held]:
    return _HELD.get(plan, functions, lambda: _held_by(plan, functions))


#: Of the last plans: the one after a change is the one before the next.
_HELD: IdentityCache[SparkPlan, Functions, dict[str, _Held]] = IdentityCache(most=2)


def _held_by(plan: SparkPlan, functions: Functions) -> dict[str, _Held]:
    contexts = contexts_of(plan.plain, functions, provenance=False)
    held = {}
    for operator, stage, route in _places(plan):
        own = partitioning_of(operator)
        context = contexts[operator.name]
        if isinstance(own, BySlice):
            context = replace(context, slice_us=own.length_us)
        inputs = tuple((name, plan.plain.schemas[name]) for name in context.inputs)
        held[operator.name] = _Held(operator, stage, route, context, inputs)
    return held


def _moving(plan: SparkPlan, functions: Functions) -> dict[str, str]:
    """What the state of each moving subscription must fit."""
    return {query.name: MovingProgram.of(query, functions).digest for query in plan.moving}


def _places(plan: SparkPlan) -> Iterator[tuple[Operator, int, Route]]:
    for stage in plan.stages:
        for route in stage.routes:
            for operator in route.operators:
                yield operator, stage.number, route


def _require_levels(plan: SparkPlan, levels: int, rules: Mapping[str, Rule]) -> None:
    needed = len(plan.stages)
    if needed > levels:
        last = plan.stages[-1].routes[0].operators[0].name  # what moves is in the first stage
        raise QueryError(
            f"{last} regroups complex events and so needs level {needed}, and the checkpoint has {levels}",
            place=rules[last].place,
            remedy=f"Do without it, or begin with a new --checkpoint and --levels {needed}.",
        )


def _require_that_state_fits(old: _Held, new: _Held, plan: SparkPlan, place: Place | None) -> None:
    name = new.operator.name
    if old.inputs != new.inputs:
        given = dict(old.inputs)
        read = next((type_ for type_, schema in new.inputs if given.get(type_) != schema), new.inputs[0][0])
        raise QueryError(
            f"{name} reads {read}, whose attributes or place in the order of events change, and would go on with "
            "state of the old ones",
            place=place,
            remedy=f"Give the new {read} another name, or {name}, which then starts afresh.",
        )
    moved = old.stage != new.stage or _shown(old.route.partitioning) != _shown(new.route.partitioning)
    if moved and not _may_move(old, new, plan):
        raise QueryError(
            f"{name} would run {new.place} from now on, and its state lies {old.place}",
            place=place,
            remedy=f"Give {name} another name: it then starts afresh. Or let rules that read it read a copy of it.",
        )


def _may_move(old: _Held, new: _Held, plan: SparkPlan) -> bool:
    """What judges events one by one has no state but events that wait for their time, and may wait for it anywhere;
    unless others of the same tasks read what it makes of them, or they wait there for their duplicates."""
    makes = [new.operator]
    for operator in new.route.operators:
        if any(made.name in operator.inputs for made in makes):
            makes.append(operator)
    streams = {read.stream.name: read.stream for read in plan.reads}
    return (
        old.stage == new.stage
        and all(isinstance(partitioning_of(operator), Anywhere) for operator in makes)
        and all(streams[name].unique is None for name in new.operator.inputs if name in streams)
    )


def _shown(partitioning: Partitioning) -> str:
    """One task is one task, whatever the reason."""
    return "in one task" if isinstance(partitioning, OneTask) else str(partitioning)
