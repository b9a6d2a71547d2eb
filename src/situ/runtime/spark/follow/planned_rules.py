"""The rules of a query that runs on, with their plans: those that it begins with, and those after a change."""

from __future__ import annotations

from dataclasses import dataclass

from situ.core.errors import Place, QueryError
from situ.core.functions import Functions
from situ.core.functions import default as default_functions
from situ.graph.query import Query
from situ.kernel.compile import refuse_unbounded_state
from situ.lang.resolve import resolve
from situ.runtime.spark.follow.rule_change import change_of
from situ.runtime.spark.plan.plan import SparkPlan, plan_on_spark
from situ.runtime.spark.sinks.sink_limits import require_held
from situ.service.rules import Change, Rules, Texts, query_of, rules_of


def plan_of(query: Query, functions: Functions = default_functions, out: str | None = None) -> SparkPlan:
    """How a query runs on; QueryError where it cannot, or where the sink of address `out` cannot hold its results."""
    if not rules_of(query):
        raise QueryError("there is no rule", remedy="Write a `subscribe` into the query file, or keep one.")
    graph = resolve(query, functions)
    refuse_unbounded_state(graph)
    plan = plan_on_spark(graph, functions)
    require_held(plan, out, functions)
    return plan


@dataclass(frozen=True)
class PlannedRules:
    """Rules with their plan."""

    rules: Rules
    plan: SparkPlan


def first_rules(
    texts: Texts, now: str, functions: Functions = default_functions, out: str | None = None
) -> PlannedRules:
    """The rules that a query begins with."""
    plan = plan_of(query_of(texts), functions, out)
    names = tuple(operator.name for operator in plan.graph.operators)
    return PlannedRules(Rules(0, texts, _order(plan), (), Change(added=names), now), plan)


def planned(rules: Rules, functions: Functions = default_functions) -> PlannedRules:
    """Rules that are in force."""
    return PlannedRules(rules, plan_of(query_of(rules.texts, rules.order), functions))


def next_rules(
    before: PlannedRules,
    texts: Texts,
    levels: int,
    now: str,
    functions: Functions = default_functions,
    out: str | None = None,
) -> PlannedRules | None:
    """The rules after those in force, if the texts say others; None if they say the same in other words.

    QueryError where they are wrong, where unchanged rules would lose their state, or where the sink of address `out`
    cannot hold what they give.
    """
    query = query_of(texts, before.rules.order)
    if query == before.plan.graph.query:
        return None
    if query.streams != before.plan.graph.streams:
        raise QueryError(
            "the streams are not those of the checkpoint",
            place=_place(query),
            remedy="Declare them as before, or begin with a new --checkpoint.",
        )
    plan = plan_of(query, functions, out)
    change = change_of(before.plan, plan, levels, functions)
    changed = sorted({*before.rules.changed, *change.replaced, *change.removed})
    return PlannedRules(Rules(before.rules.number + 1, texts, _order(plan), tuple(changed), change, now), plan)


def _order(plan: SparkPlan) -> tuple[str, ...]:
    return tuple(item.name for item in rules_of(plan.graph.query))


def _place(query: Query) -> Place | None:
    return query.streams[0].place if query.streams else None
