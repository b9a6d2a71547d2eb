"""A plan for people: who runs where, what flows, what it costs beside the naive plan."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from situ.cli.plan import PlanResult
from situ.placement.link_load import LinkFlow, LinkLoad, flows_of
from situ.placement.plan import steps_as_text
from situ.placement.typical_latency import typical_latency_ms

#: Rows that a table shows at most of what there may be many of.
MOST_ROWS = 8


def show_plan(planned: PlanResult) -> None:
    console = Console()
    console.print(operator_table(planned))
    console.print(flow_table(planned))
    if len(planned.plan.pareto) > 1:
        console.print(front_table(planned.plan.pareto))
    for text in summary(planned):
        console.print(Text(text))
    for demand in planned.demands:
        console.print(Text(str(demand), style="" if demand.kept else "red"))
    for warning in (*planned.warnings, *map(overload, planned.overloaded)):
        console.print(Text(f"warning: {warning}", style="yellow"))


def operator_table(planned: PlanResult) -> Table:
    """One row for each operator."""
    table = _table(f"Plan of {planned.plan.mechanism}", ("operator", "site", "pushed to it", "then pulled by it"))
    for operator, placed in zip(planned.problem.operators, planned.plan.placed, strict=True):
        first, *later = steps_as_text(operator, placed)
        table.add_row(
            *map(Text, (operator.name, planned.problem.network.names[placed.site], first, ", then ".join(later)))
        )
    return table


def flow_table(planned: PlanResult) -> Table:
    """One row for each event type and site that it goes to, the largest first; events that stay are left out."""
    problem, names = planned.problem, planned.problem.network.names
    table = _table("What flows", ("event", "from", "to", ""), ("messages/s", "requests/s", "cost/s"))
    rows = []
    for (event, to), group in groupby(flows_of(problem, planned.plan.placed), lambda flow: (flow.event, flow.to)):
        moving = [flow for flow in group if flow.start != to]
        if not moving:
            continue
        costs = problem.costs_from(to)
        cost = sum(flow.load_per_s * float(costs[flow.start]) for flow in moving)
        rows.append(
            (cost, (event, _starts(moving, names), names[to], "pulled" if moving[0].pulled else "pushed"), moving)
        )
    rows.sort(key=lambda row: -row[0])
    for cost, texts, moving in rows[:MOST_ROWS]:
        sent = sum(flow.messages_per_s for flow in moving), sum(flow.requests_per_s for flow in moving)
        table.add_row(*map(Text, (*texts, *(f"{number:,.3g}" for number in (*sent, cost)))))
    if hidden_rows := rows[MOST_ROWS:]:
        table.add_row(
            Text(f"{len(hidden_rows)} more"), *[""] * 5, Text(f"{sum(cost for cost, _, _ in hidden_rows):,.3g}")
        )
    return table


def _starts(flows: Sequence[LinkFlow], names: Sequence[str]) -> str:
    return names[flows[0].start] if len(flows) == 1 else f"{len(flows)} sites"


def front_table(pareto: Sequence[tuple[float, float]]) -> Table:
    """Other plans, of which none is both cheaper and faster; some of them, if they are many."""
    shown = spread(pareto, MOST_ROWS)
    more = f", {len(shown)} of {len(pareto)}" if len(shown) < len(pareto) else ""
    table = _table(f"Cost or latency{more}", (), ("cost/s", "latency, ms"))
    for cost, latency_ms in shown:
        table.add_row(f"{cost:,.4g}", f"{latency_ms:,.4g}")
    return table


def spread(points: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """The first, the last and some between.

    >>> spread([(float(n), 0.0) for n in range(10)], 4)
    [(0.0, 0.0), (3.0, 0.0), (6.0, 0.0), (9.0, 0.0)]
    """
    if len(points) <= most:
        return list(points)
    return [points[round(k * (len(points) - 1) / (most - 1))] for k in range(most)]


def summary(planned: PlanResult) -> list[str]:
    """Cost, latency and how far from the optimum the plan can be."""
    problem, plan = planned.problem, planned.plan
    unit = "price of messages" if problem.weight == "price" else "messages x hops"
    unit = "by the paper's formulas," if problem.model.name == "paper" else f"{unit} per s,"
    factor = planned.transmission_factor
    share = "" if factor is None else f"{factor:.1%} of "
    return [
        f"cost      {plan.cost:,.4g} {unit} {share}the naive plan's {planned.naive_cost:,.4g}",
        f"optimum   {distance_from_optimum(plan.cost, plan.lower_bound)}",
        f"latency   {plan.latency_ms:,.4g} ms until {problem.network.names[problem.root]} has the results, at most; "
        f"{typical_latency_ms(problem, plan.placed):,.4g} ms in the median",
    ]


def distance_from_optimum(cost: float, lower_bound: float | None) -> str:
    """
    >>> distance_from_optimum(12.0, 10.0)
    'no plan costs less than 10, so this one is at most 20.0% above the cheapest'
    """
    if lower_bound is None:
        return "not known by this mechanism; optimal gives a lower bound"
    if cost <= lower_bound * (1 + 1e-9):
        return "this is it: no plan costs less"
    above = f"so this one is at most {cost / lower_bound - 1:.1%} above the cheapest" if lower_bound else "of any plan"
    return f"no plan costs less than {lower_bound:,.4g}, {above}"


def overload(load: LinkLoad) -> str:
    link = load.link
    return (
        f"link {link.a} - {link.b} would carry {load.messages_per_s:,.4g} messages per s, and can carry "
        f"{link.capacity_per_s:,g}."
    )


def _table(title: str, texts: Sequence[str], numbers: Sequence[str] = ()) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE)
    for name in texts:
        table.add_column(name)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table
