"""`situ compare`: the plans of several mechanisms side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from situ.cli.plan import PlanResult, plan_by, question_of
from situ.cli.planning_options import CompareOptions
from situ.core.errors import SituError
from situ.placement.auto import GREEDY_PLUS_SITES, HEURISTIC_SITES, OPTIMAL_SITES
from situ.placement.measures import measures_of
from situ.placement.mechanisms import MECHANISMS, OBJECTIVES, mechanism
from situ.placement.overhead import packets_per_broker
from situ.placement.problem import Problem
from situ.placement.steps import possible_steps

#: Of more plans, `exhaustive` is left out unless it is asked for: they take more than some seconds.
FEW_PLANS = 50_000

#: On networks of more sites, so are these.
MOST_SITES = {
    "edgecep": 200,
    "edgecep-optimal": 100,
    "optimal": OPTIMAL_SITES,
    "heuristic": HEURISTIC_SITES,
    "heuristic+": HEURISTIC_SITES,
    "greedy+": GREEDY_PLUS_SITES,
}

#: Sites that a row names.
MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class PlanComparison:
    """What each mechanism answered, in the order in which they were asked: a plan, or why there is none."""

    plans: Mapping[str, PlanResult | None]
    errors: Mapping[str, SituError]
    warnings: tuple[str, ...]

    def to_json(self, error_to_json: Callable[[SituError], Any]) -> list[dict[str, Any]]:
        return [
            {"mechanism": name, "error": error_to_json(self.errors[name])} if planned is None else planned.to_json()
            for name, planned in self.plans.items()
        ]


def compare_file(options: CompareOptions) -> PlanComparison:
    """The plans of the named mechanisms; without names, of all that answer within seconds."""
    names = options.mechanism or []
    for name in names:
        mechanism(name)  # a wrong name is said before anything is read
    question = question_of(options.problem, options.functions)
    plans: dict[str, PlanResult | None] = {}
    errors: dict[str, SituError] = {}
    for name in dict.fromkeys(names or quick(question.problem)):
        try:
            plans[name] = plan_by(name, question)
        except SituError as error:
            plans[name], errors[name] = None, error
    return PlanComparison(plans, errors, question.warnings)


def quick(problem: Problem) -> list[str]:
    """The names of all mechanisms but `auto`, which chooses one of them, and those that would take long on this
    problem."""
    sites = len(problem.network.sites)
    plans = math.prod(sites * len(possible_steps(operator)) for operator in problem.operators)
    slow = {name for name, most in MOST_SITES.items() if sites > most}
    slow |= {"exhaustive"} if plans > FEW_PLANS else set()
    return [name for name in MECHANISMS if name != "auto" and name not in slow]


def show_comparison(compared: PlanComparison) -> None:
    console = Console()
    table = Table(box=box.SIMPLE)
    table.add_column("mechanism", no_wrap=True)
    for name in ("cost/s", "of naive", "latency, ms", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("operators at")
    for name, planned in compared.plans.items():
        table.add_row(Text(name), *(_no_figures(compared.errors[name]) if planned is None else _figures(planned)))
    console.print(table)
    console.print(objectives_table(compared))
    for warning in compared.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))


def objectives_table(compared: PlanComparison) -> Table:
    """What each mechanism serves, and what its plan means for that: the worst of all outputs."""
    table = Table(box=box.SIMPLE)
    table.add_column("mechanism", no_wrap=True)
    for name in ("hops", "load/s", "under way", "packets\n/broker"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("serves")
    for name, planned in compared.plans.items():
        if planned is None:
            continue
        measures = measures_of(planned.problem, planned.plan).values()
        row = (
            name,
            f"{max(each.hops for each in measures)}",
            f"{max(each.load_per_s for each in measures):,.4g}",
            f"{max(each.bandwidth_delay for each in measures):,.3g}",
            f"{packets_per_broker(planned.problem, planned.plan):,.4g}",
            ", ".join(OBJECTIVES[name]) or "-",
        )
        table.add_row(*map(Text, row))
    return table


def _figures(planned: PlanResult) -> list[Text]:
    plan, factor = planned.plan, planned.transmission_factor
    texts = (
        f"{plan.cost:,.4g}",
        "-" if factor is None else f"{factor:.1%}",
        f"{plan.latency_ms:,.4g}",
        f"{planned.seconds:.2f}",
        sites(planned) + " (links overloaded)" * bool(planned.overloaded),
    )
    return [Text(text) for text in texts]


def sites(planned: PlanResult) -> str:
    """The names of the sites where operators run, in the operators' order; of many, the first few."""
    names = [*dict.fromkeys(planned.problem.network.names[placed.site] for placed in planned.plan.placed)]
    return ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")


def _no_figures(error: SituError) -> list[Text]:
    return [*[Text("-")] * 4, Text(error.cause, style="red")]
