"""`situ transition`: operators move to other sites while events flow (TCEP)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from situ.cli.controlling import control_of, network_of
from situ.cli.plan import demanded_ms
from situ.cli.running_statistics import learned_from
from situ.cli.site_options import TransitionOptions
from situ.cli.site_plans import plan_in_file
from situ.core.errors import InputError, SituError
from situ.core.time import parse_duration
from situ.graph.operators import OperatorGraph
from situ.network.network import SPARK, Network
from situ.network.statistics import Statistics, with_measured_latencies
from situ.placement.cost_models import COST_MODELS
from situ.placement.from_graph import problem_of
from situ.placement.mechanisms import mechanism
from situ.placement.problem import Limits
from situ.runtime.sites.adapting.coordinator import AS_DEPLOYED
from situ.runtime.sites.adapting.tasks import TransitionTask, task_of
from situ.runtime.sites.carrying import graph_of
from situ.runtime.sites.deployed_plan import DeployedPlan
from situ.runtime.sites.messages import Transit
from situ.runtime.sites.moved_bytes import bytes_to_move
from situ.runtime.sites.process.deploying import Control, DeployError
from situ.runtime.sites.process.transitioning import Reports, reports_of
from situ.runtime.sites.transition import Move, moves_between, placed_at

#: Between two looks at how far sites are.
_PERIOD_S = 0.3

Tell = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class TransitionResult:
    """The operators that moved, or would, and the versions that did it."""

    moves: tuple[Move, ...]
    versions: tuple[int, ...]
    seconds: float

    def __str__(self) -> str:
        if not self.moves:
            return "every operator is where it should be already; nothing has changed"
        lines = [str(move) for move in self.moves]
        if self.versions:
            names = ", ".join(map(str, self.versions))
            lines.append(f"{len(self.moves)} operators have moved within {self.seconds:.1f} s: version {names}")
        else:
            lines.append("nothing has changed: this was said with --dry-run")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return {
            "moves": [asdict(move) for move in self.moves],
            "versions": list(self.versions),
            "seconds": self.seconds,
        }


def transition_of(options: TransitionOptions) -> TransitionResult:
    """Moves operators to where a mechanism or a plan wants them, and waits until they are there."""
    if (options.to is None) == (options.plan is None):
        raise InputError("where to?", remedy="Give --to MECHANISM or --plan PLAN.")
    if options.to is not None:
        mechanism(options.to)  # a wrong name is said before anything is asked
    lead_us = parse_duration(options.after)
    control, network = control_of(options.control), network_of(options.control)
    reports = reports_of(control)
    before = _running(control, reports)
    wanted = _wanted_sites(options, before, network)
    plan = placed_at(before, wanted)
    on_spark = {site.name for site in network.sites if site.engine == SPARK}
    traffic = bytes_to_move(graph_of(before), before, reports)
    moves = moves_between(plan, before, options.strategy, traffic, lead_us / 1e6, on_spark)
    if options.dry_run or not moves:
        return TransitionResult(moves, (), 0.0)
    began = time.monotonic()
    mechanism_name = options.to or AS_DEPLOYED
    why = f"`situ transition` to {mechanism_name if options.plan is None else options.plan}"
    task = task_of(moves, options.order, why, lead_us, mechanism_name)
    site = control.tell_coordinator(Transit(json.dumps(task.to_json())))
    with _progress() as tell:
        versions = _wait(control, site, task, options.timeout, tell)
    return TransitionResult(moves, versions, time.monotonic() - began)


def _running(control: Control, reports: Reports) -> DeployedPlan:
    """The newest plan that runs."""
    newest = max((report["version"] for report in reports.values()), default=0)
    site = next((site for site, report in reports.items() if str(newest) in report["versions"]), None)
    plan = None if site is None else control.running_plan(site)
    if plan is None:
        raise InputError("no site runs a plan", remedy="Give them one with `situ deploy`.")
    return plan


def _wanted_sites(options: TransitionOptions, before: DeployedPlan, network: Network) -> dict[str, str]:
    """Where each operator is to run."""
    if options.plan is not None:
        plan = plan_in_file(options.plan)
        if plan.query != before.query:
            raise InputError(
                "the plan is for another query than the one that runs",
                place=str(options.plan),
                remedy="Give sites another query with `situ deploy`.",
            )
        return {name: place.site for name, place in plan.operators.items()}
    assert options.to is not None
    graph = graph_of(before)
    learned = learned_from(graph, options.control)
    return _placed_by(options.to, graph, network, learned.statistics, before.results[0])


def _placed_by(name: str, graph: OperatorGraph, network: Network, statistics: Statistics, root: str) -> dict[str, str]:
    """Where a mechanism lets operators run, with what sites have counted."""
    measured = with_measured_latencies(network, statistics)
    limits = Limits(None, demanded_ms(graph))
    problem = problem_of(graph, measured, statistics, COST_MODELS["coverage"], root=root, weight="hops", limits=limits)
    plan = mechanism(name)(problem)
    names = problem.network.names
    return {o.name: names[placed.site] for o, placed in zip(problem.operators, plan.placed, strict=True)}


def _wait(control: Control, site: str, task: TransitionTask, timeout_s: float, tell: Tell) -> tuple[int, ...]:
    """Until the coordinator has moved all operators; the versions that did it. It goes on if nobody waits."""
    give_up_at, total, versions = time.monotonic() + timeout_s, len(task.steps), tuple[int, ...]()
    operators = sum(len(step.sites) for step in task.steps)
    while True:
        try:
            report = control.status(site)["coordinator"]
        except SituError:  # it may be killed, and goes on when it is back
            report = None
        if report is not None and (under_way := report["transition"]) is None:
            if (reason := report["last"]["given_up"]) is not None:
                raise DeployError(f"the transition was given up, and nothing more has changed: {reason}")
            return tuple(report["last"]["versions"])
        if report is not None:
            left = sum(len(step["sites"]) for step in under_way["steps"])
            versions = tuple(under_way["versions"])
            tell(f"version {min(len(versions) + 1, total)} of {total}", operators - left, operators)
        if time.monotonic() > give_up_at:
            raise InputError(
                f"operators have not moved within {timeout_s:g} s; {site} goes on with it",
                remedy="`situ status` says who waits for whom; without events, time does not pass.",
            )
        time.sleep(_PERIOD_S)


@contextmanager
def _progress() -> Iterator[Tell]:
    """A bar on standard error, if a person is watching."""
    if not sys.stderr.isatty():
        yield lambda activity, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("operators move", total=None)

        def tell(activity: str, done: int, total: int) -> None:
            progress.update(task, description=f"{activity}: {done} of {total} operators", completed=done, total=total)

        yield tell
