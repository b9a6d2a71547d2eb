"""From one placement to another while events flow (TCEP): which operators move, each by which strategy and why, and the
versions of the plan that do it. All of it is decided from plans and figures; nothing is asked or sent."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from situ.graph.cuts import Cut, cut_in
from situ.graph.operators import OperatorGraph, Schema
from situ.runtime.sites.carrying import carried_on, graph_of, reasons_to_begin_anew
from situ.runtime.sites.deployed_plan import DeployedPlan, PlanError, Strategy

#: What a person asks for: a strategy for all operators, or the one that moves fewer bytes for each.
StrategyWish = Literal["auto", "sms", "mfgs", "naive"]
#: One operator after another, each in a version of its own; or all of them in one.
Order = Literal["sequential", "concurrent"]


@dataclass(frozen=True, slots=True)
class BytesToMove:
    """What is known of an operator that may move: the bytes of its state, and those that it reads in a second."""

    state_bytes: float
    input_bytes_per_s: float


def event_bytes(schema: Schema) -> int:
    """About the bytes of an event in a log: some, and some more for each attribute."""
    return 24 + 9 * len(schema.attributes)


@dataclass(frozen=True, slots=True)
class Move:
    """An operator that moves, how and why. `bytes_by`: about how many bytes each strategy would move."""

    operator: str
    source: str
    target: str
    strategy: Strategy
    reason: str
    bytes_by: Mapping[Strategy, float]

    def __str__(self) -> str:
        """
        >>> print(Move("Jam", "north", "town", "sms", "a match has no event from before its first one", {}))
        Jam: north -> town by sms: a match has no event from before its first one
        """
        return f"{self.operator}: {self.source} -> {self.target} by {self.strategy}: {self.reason}"


def placed_at(before: DeployedPlan, sites: Mapping[str, str]) -> DeployedPlan:
    """The plan that runs, with operators at other sites, as the version after it. All inputs are pushed to them, and it
    has neither a beginning nor ways yet.

    Whoever moves operators, for whatever reason, begins with this.
    """
    unknown = sorted(sites.keys() - before.operators.keys())
    if unknown:
        raise PlanError(f"no operator {unknown[0]!r} runs", remedy=f"There are {', '.join(sorted(before.operators))}.")
    places = {
        name: replace(place, site=sites.get(name, place.site), steps=(), carried_from=None, strategy="naive")
        for name, place in before.operators.items()
    }
    return replace(before, version=before.version + 1, operators=places, ways={})


def moves_between(
    plan: DeployedPlan,
    before: DeployedPlan,
    wish: StrategyWish,
    traffic: Mapping[str, BytesToMove] | None = None,
    lead_s: float = 0.0,
    on_spark: Collection[str] = (),
) -> tuple[Move, ...]:
    """The operators that move from where they run to where a plan wants them, inputs before readers; PlanError if one
    of them would lose something. `lead_s` is how long before the new version begins operators hear of it."""
    graph, reasons = graph_of(plan), reasons_to_begin_anew(plan, before, on_spark)
    moves = []
    for operator in graph.operators:  # inputs come first
        if operator.name in reasons:
            raise PlanError(
                f"{operator.name} cannot be moved: {reasons[operator.name]}; what it would find around the beginning "
                "of the new version would be lost",
                remedy="Leave it where it runs and as it is, or deploy the plan with `situ deploy --anew`.",
            )
        source, target = before.operators[operator.name].site, plan.operators[operator.name].site
        if source != target:
            of_operator = (traffic or {}).get(operator.name, BytesToMove(0.0, 0.0))
            strategy, reason, costs = _strategy(graph, operator.name, wish, of_operator, lead_s)
            moves.append(Move(operator.name, source, target, strategy, reason, costs))
    return tuple(moves)


def _strategy(
    graph: OperatorGraph, name: str, wish: StrategyWish, traffic: BytesToMove, lead_s: float
) -> tuple[Strategy, str, dict[Strategy, float]]:
    """How an operator moves, why, and about how many bytes it would take by each strategy."""
    cut = cut_in(graph, name)
    costs: dict[Strategy, float] = {
        "naive": traffic.state_bytes,
        "mfgs": traffic.state_bytes + lead_s * traffic.input_bytes_per_s,
    }
    if isinstance(cut, Cut):
        # Both instances read what comes until the old one is done.
        costs["sms"] = (cut.back_us + cut.after_us) / 1e6 * traffic.input_bytes_per_s
    match wish, cut:
        case "sms", str(reason):
            raise PlanError(f"{name} cannot be moved by sms: {reason}", remedy="Say --strategy auto, or mfgs.")
        case "sms", Cut(reason=reason):
            return "sms", reason, costs
        case "mfgs", _:
            return "mfgs", "its state goes along, whatever it is", costs
        case "naive", _:
            return "naive", "it stops until its state is there", costs
        case "auto", str(reason):
            return "mfgs", reason, costs
        case _, Cut(reason=reason) if costs["sms"] < costs["mfgs"]:
            words = f"{reason}, and reading its inputs twice is about {costs['sms']:,.0f} bytes, its state and what "
            return "sms", f"{words}it reads meanwhile {costs['mfgs']:,.0f}", costs
        case _:
            words = f"its state and what it reads meanwhile are about {costs['mfgs']:,.0f} bytes, reading its inputs "
            return "mfgs", f"{words}twice {costs['sms']:,.0f}", costs


def versions_of(plan: DeployedPlan, before: DeployedPlan, moves: Collection[Move], order: Order) -> list[DeployedPlan]:
    """The versions, one after another, by which a plan comes to run: one that moves all operators, or one for each.
    When they begin, and the ways between sites, is still to be said."""
    strategies = {move.operator: move.strategy for move in moves}
    if order == "concurrent" or len(moves) <= 1:
        return [carried_on(replace(plan, version=before.version + 1), before, strategies=strategies)]
    versions: list[DeployedPlan] = []
    for move in moves:
        last = versions[-1] if versions else before
        moved = placed_at(last, {move.operator: move.target})
        versions.append(carried_on(moved, last, strategies=strategies))
    last = versions[-1]
    versions[-1] = replace(last, predicted=plan.predicted)
    return versions
