"""`situ plan`: where the operators of a query run in a network, what is pushed to them and what they pull."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from situ.cli.planning_options import PlanOptions, ProblemOptions
from situ.cli.query_file import import_functions, read_query
from situ.cli.spark_progress import waiting
from situ.core.errors import InputError, SituError
from situ.graph.operators import OperatorGraph
from situ.graph.query import Demand
from situ.lang.demands import JudgedDemand
from situ.lang.resolve import resolve, warnings
from situ.network.load import load_network
from situ.network.statistics import Statistics, read_statistics, with_measured_latencies
from situ.placement.cost_models import COST_MODELS
from situ.placement.demands import demands_of, judged
from situ.placement.evaluate import evaluate, overloaded_sites
from situ.placement.finish import naive_placement
from situ.placement.from_graph import problem_of
from situ.placement.link_load import LinkLoad, overloaded_links
from situ.placement.measures import measures_of
from situ.placement.mechanisms import mechanism
from situ.placement.overhead import control_packets
from situ.placement.picture import plan_to_svg
from situ.placement.plan import Plan, plan_to_json
from situ.placement.problem import Limits, Problem
from situ.placement.typical_latency import typical_latency_ms
from situ.runtime.sites.actors import actors_of


@dataclass(frozen=True, slots=True)
class PlanningProblem:
    """A problem, what subscriptions demand, and what a person should know about the query."""

    problem: Problem
    warnings: tuple[str, ...]
    demands: tuple[tuple[str, Demand], ...] = ()


@dataclass(frozen=True, slots=True)
class PlanResult:
    """A plan beside the naive one, and how long it took to find."""

    problem: Problem
    plan: Plan
    naive_cost: float
    seconds: float
    overloaded: tuple[LinkLoad, ...]
    warnings: tuple[str, ...] = ()
    demands: tuple[JudgedDemand, ...] = ()

    @property
    def transmission_factor(self) -> float | None:
        """Cost over that of the naive plan (PaNORAMA, section 7); None where the naive plan costs nothing."""
        return self.plan.cost / self.naive_cost if self.naive_cost else None

    def to_json(self) -> dict[str, Any]:
        plan = plan_to_json(self.problem, self.plan)
        return {
            "mechanism": plan["mechanism"],
            "cost": plan["cost"],
            "naive_cost": self.naive_cost,
            "transmission_factor": self.transmission_factor,
            "latency_ms": plan["latency_ms"],
            "median_latency_ms": typical_latency_ms(self.problem, self.plan.placed),
            "seconds": self.seconds,
            "root": self.problem.network.names[self.problem.root],
            "operators": plan["operators"],
            "pareto": plan["pareto"],
            "lower_bound": plan["lower_bound"],
            "packets": control_packets(self.problem, self.plan),
            "outputs": {name: asdict(each) for name, each in measures_of(self.problem, self.plan).items()},
            "overloaded_links": [overloaded_to_json(load) for load in self.overloaded],
            "demands": [demand.to_json() for demand in self.demands],
            "warnings": list(self.warnings),
        }


def overloaded_to_json(load: LinkLoad) -> dict[str, Any]:
    link = load.link
    return {"a": link.a, "b": link.b, "messages_per_s": load.messages_per_s, "capacity_per_s": link.capacity_per_s}


def plan_file(options: PlanOptions) -> PlanResult:
    """The plan of one mechanism; its picture goes to the file that --svg names."""
    svg = options.svg
    mechanism(options.mechanism)  # a wrong name is said before anything is read
    question = question_of(options.problem, options.functions)
    planned = plan_by(options.mechanism, question)
    if options.mechanism == "auto" and not all(demand.kept for demand in planned.demands):
        planned = _keeping_more(planned, question)
    if svg is not None:
        try:
            svg.write_text(plan_to_svg(planned.problem, planned.plan), encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write the picture: {error.strerror}", place=str(svg)) from error
    if options.out is not None:
        from situ.cli.site_plans import write_placed_plan

        write_placed_plan(options.problem.file, planned.problem, planned.plan, options.out)
    return planned


def question_of(options: ProblemOptions, functions: str | None) -> PlanningProblem:
    """The problem that the files and options pose."""
    import_functions(functions)
    graph = resolve(read_query(options.file))
    limits = Limits(_limit_ms("--latency", options.latency), _limits_of_outputs(graph, options.latency_of or []))
    statistics, root, silent = _statistics(graph, options)
    network = with_measured_latencies(load_network(options.network), statistics)
    problem = problem_of(
        graph,
        network,
        statistics,
        COST_MODELS[options.cost],
        root=root,
        weight="price" if options.price else "hops",
        limits=limits,
    )
    sites = {actor.name: network.number(actor.site) for actor in network.actors}
    delivered = {name: sites[actor] for name, actor in actors_of(graph.query).items() if actor in sites}
    problem = replace(problem, seed=options.seed, radius=options.radius, destinations=delivered)
    told = (*warnings(without_demands(graph)), *standing_still(graph), *silent)
    return PlanningProblem(problem, told, demands_of(graph))


def _statistics(graph: OperatorGraph, options: ProblemOptions) -> tuple[Statistics, str | None, tuple[str, ...]]:
    """Statistics of a file or of running sites, the root, and what a person should know about them."""
    if (options.rates is None) != options.running.from_running:
        raise InputError(
            "a plan needs rates of events, of a file or of running sites",
            remedy="Give either --rates RATES or --from-running.",
        )
    if options.rates is not None:
        return read_statistics(options.rates), options.root, ()
    from situ.cli.running_statistics import running_of

    learned = running_of(graph, options)
    silent = tuple(f"site {site} does not answer; what occurs there is not counted." for site in learned.silent)
    return learned.statistics, options.root or learned.root, silent


def plan_by(name: str, question: PlanningProblem) -> PlanResult:
    """What a mechanism answers. Before its time is taken, what all of them use is known: ways and gathered events."""
    chosen, problem = mechanism(name), question.problem
    with waiting(f"{name} plans"):
        naive_cost = evaluate(problem, naive_placement(problem)).cost
        begin = time.perf_counter()
        plan = chosen(problem)
        seconds = time.perf_counter() - begin
    links, demands = overloaded_links(problem, plan.placed), judged(problem, plan, question.demands)
    crowded = overloaded_sites(problem, plan.placed) if problem.limits_sites else ()
    told = (*question.warnings, *(f"site {problem.network.names[site]} has more than it may have." for site in crowded))
    return PlanResult(problem, plan, naive_cost, seconds, links, told, demands)


def _keeping_more(planned: PlanResult, question: PlanningProblem) -> PlanResult:
    """Of all mechanisms that answer within seconds, the plan that keeps most demands; of several, the cheapest."""
    from situ.cli.compare import quick

    plans = [planned]
    for name in quick(question.problem):
        with suppress(SituError):  # another one has answered
            plans.append(plan_by(name, question))
    return min(plans, key=lambda each: (sum(not demand.kept for demand in each.demands), each.plan.cost))


# ---- latency limits


def _limits_of_outputs(graph: OperatorGraph, options: Sequence[str]) -> dict[str, float]:
    """What subscriptions demand, and what the command line asks for: the stricter of both."""
    limits = demanded_ms(graph)
    for text in options:
        name, equals, number = text.partition("=")
        try:
            limit = _limit_ms("--latency-of", float(number))
        except ValueError:
            limit = None
        if not equals or not name or limit is None:
            raise InputError(
                f"--latency-of '{text}' is no limit", remedy="Write it as OUTPUT=MS: --latency-of Alarm=50"
            )
        limits[name] = min(limit, limits.get(name, math.inf))
    return limits


def demanded_ms(graph: OperatorGraph) -> dict[str, float]:
    """`demand latency < 100 ms` of subscriptions. It is less than that by a nanosecond at least.

    >>> from situ.lang.parse import parse
    >>> text = "stream A(t timestamp) time t subscribe Alarm detect A as a assign t = a.t demand latency < 100 ms"
    >>> demanded_ms(resolve(parse(text)))
    {'Alarm': 99.999999}
    """
    return {
        operator.name: min(limits) / 1e6
        for operator in graph.subscriptions
        if operator.subscription
        and (limits := [int(d.limit) * 1000 - 1 for d in operator.subscription.demands if d.metric == "latency"])
    }


def _limit_ms(option: str, limit: float | None) -> float | None:
    if limit is not None and not 0 <= limit < 1e12:
        raise InputError(f"{option} is {limit}", remedy="Give milliseconds, 0 or more.")
    return limit


def without_demands(graph: OperatorGraph) -> OperatorGraph:
    """The query without demands, of which the resolver warns that they have no effect: in a plan they have one."""
    subscriptions = tuple(replace(subscription, demands=()) for subscription in graph.query.subscriptions)
    return replace(graph, query=replace(graph.query, subscriptions=subscriptions))


def standing_still(graph: OperatorGraph) -> tuple[str, ...]:
    """One sentence for each subscription that moves: a plan is for operators that stay, and that read everything.

    >>> from situ.lang.parse import parse
    >>> text = "stream A(id int, x double, y double, t timestamp) time t at (x, y) subscribe Near for A(id) "
    >>> standing_still(resolve(parse(text + "detect A as a assign n = a.id around A square 50 m")))[0][:46]
    'subscription Near moves with A, and is planned'
    """
    return tuple(
        f"subscription {subscription.name} moves with {subscription.around.focal}, and is planned as if it stood "
        "still: one set of operators, which reads the events of all places, at the rates that are given. For operators "
        "that move there is `migcep` (docs/mobility-migration.md)."
        for subscription in graph.query.subscriptions
        if subscription.around is not None
    )
