"""Versions that move operators, given to sites that run, and how far they have come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from situ.core.errors import InputError, SituError
from situ.network.network import Network
from situ.runtime.sites.carrying import done_us
from situ.runtime.sites.deployed_plan import DeployedPlan
from situ.runtime.sites.deployment import concerned_sites
from situ.runtime.sites.process.deploying import Control, DeployError
from situ.runtime.sites.ways import with_ways

#: A version that came too late is tried again, so many times.
_TRIES = 5

#: What sites say of themselves (status.py), by their names.
Reports: TypeAlias = Mapping[str, Mapping[str, Any]]


def reports_of(control: Control) -> dict[str, dict[str, Any]]:
    """What the sites that answer say of themselves."""
    answers = control.of_all(control.status, list(control.addresses))
    return {site: report for site, report in answers.items() if not isinstance(report, SituError)}


def deploy_version(
    control: Control, network: Network | None, plan: DeployedPlan, last: DeployedPlan, lead_us: int
) -> DeployedPlan:
    """Gives a version to the sites; again, with a later beginning, where events were faster."""
    for attempt in range(_TRIES):
        reports = reports_of(control)
        latest = [s["latest_us"] for report in reports.values() for s in report["sources"].values()]
        times = [each for each in latest if isinstance(each, int)]
        if not times:
            raise InputError(
                "no source has read anything, so there is no telling when operators should move",
                remedy="Try again when events flow.",
            )
        starts_us = max(max(times) + lead_us * (attempt + 1), done_us(last), last.starts_us + 1)
        version = replace(plan, starts_us=starts_us)
        version = version if network is None else with_ways(version, network)
        sites = {site for site, report in reports.items() if report["versions"]}
        try:
            control.deploy(version, tuple(sorted({*concerned_sites(version), *sites})))
        except DeployError as error:
            if "Let the plan begin later" not in str(error) or attempt == _TRIES - 1:
                raise
        else:
            return version
    raise AssertionError("the last attempt has raised")


def unfinished_operators(reports: Reports, plan: DeployedPlan) -> set[str]:
    """The operators of a version that are still on their way, or finish what began before; all, if some site has not
    begun it, or still runs the version before."""
    unfinished: set[str] = set()
    for site in plan.sites:
        versions = reports.get(site, {}).get("versions", {})
        version = versions.get(str(plan.version))
        if version is None or any(int(number) < plan.version and not v["over"] for number, v in versions.items()):
            return {*plan.operators}
        unfinished |= {*version["finishing"], *version["states_missing"]}
    return unfinished
