"""`situ deploy` and `situ stop`: plans for sites that run, and their end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from situ.cli.controlling import control_of, network_of
from situ.cli.run_options import time_given
from situ.cli.site_options import AFTER, DeployOptions, StopOptions
from situ.cli.site_plans import plan_in_file, with_live
from situ.core.errors import InputError, QueryError, QuerySyntaxError, SituError
from situ.core.time import BEGINNING, parse_duration
from situ.network.network import SPARK
from situ.runtime.sites.deployed_plan import DeployedPlan

if TYPE_CHECKING:
    from situ.runtime.sites.process.deploying import Control


def deploy_file(options: DeployOptions) -> dict[str, Any]:
    """Gives the plan in a file to all sites that it concerns; says what became of it."""
    from situ.runtime.sites.carrying import carried_on, reasons_to_begin_anew
    from situ.runtime.sites.deployment import concerned_sites
    from situ.runtime.sites.ways import with_ways

    plan, control = with_live(plan_in_file(options.plan), options.live or []), control_of(options.control)
    unknown = sorted({*plan.sites} - {*control.addresses})
    if unknown:
        raise InputError(
            f"the plan speaks of site {unknown[0]!r}, and nobody said where it is",
            place=str(options.plan),
            remedy="Give it an `address`, HOST:PORT, in the network file.",
        )
    reports = {
        site: report
        for site, report in control.of_all(control.status, list(control.addresses)).items()
        if not isinstance(report, SituError)
    }
    plan = _as_next_version(plan, reports, options.at)
    before = None if options.anew else _running_plan(control, reports)
    reasons: dict[str, str] = {}
    if before is not None:
        try:
            network = network_of(options.control)
            on_spark = {site.name for site in network.sites if site.engine == SPARK}
            reasons = reasons_to_begin_anew(plan, before, on_spark)
            plan = carried_on(plan, before, on_spark)
            plan = with_ways(plan, network) if plan.ways else plan
        except (QueryError, QuerySyntaxError) as error:  # sites refuse such a query, each with its reason
            reasons = dict.fromkeys(plan.operators, error.cause)
    runs_at = {site for site, report in reports.items() if report["versions"]}
    deployment = control.deploy(plan, tuple(sorted({*concerned_sites(plan), *runs_at})))
    words = [deployment.words(), *(f"{name} begins without state: {why}" for name, why in sorted(reasons.items()))]
    return {"version": plan.version, "sites": list(deployment.sites), "anew": reasons, "words": "\n".join(words)}


def _running_plan(control: Control, reports: dict[str, dict[str, Any]]) -> DeployedPlan | None:
    """The newest plan that runs."""
    running = max((report["version"] for report in reports.values()), default=0)
    site = next((site for site, report in reports.items() if str(running) in report["versions"]), None)
    return None if site is None else control.running_plan(site)


def _as_next_version(plan: DeployedPlan, reports: dict[str, dict[str, Any]], at: str | None) -> DeployedPlan:
    """The plan as the version after the one that runs. The first one holds from the beginning."""
    running = max((report["version"] for report in reports.values()), default=0)
    if running == 0:
        return replace(plan, version=1, starts_us=BEGINNING)
    if at is not None:
        return replace(plan, version=running + 1, starts_us=time_given("--at", at))
    latest = [
        source["latest_us"]
        for report in reports.values()
        for source in report["sources"].values()
        if isinstance(source["latest_us"], int)
    ]
    if not latest:
        raise InputError(
            "no source has read anything, so there is no telling when the new version should begin",
            remedy="Say it: --at 2026-03-01T10:00:00.",
        )
    return replace(plan, version=running + 1, starts_us=max(latest) + parse_duration(AFTER))


def stop_sites(options: StopOptions) -> dict[str, str]:
    """Asks sites to end; by site, what became of that."""
    control = control_of(options.control)
    answers = control.of_all(control.stop, options.sites or list(control.addresses))
    return {site: answer.cause if isinstance(answer, SituError) else "stops" for site, answer in answers.items()}
