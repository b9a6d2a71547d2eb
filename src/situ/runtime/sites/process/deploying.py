"""Gives plans to sites over the wire, and asks them how they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from situ.core.errors import InputError, SituError
from situ.runtime.sites.deployed_plan import DeployedPlan, plan_of_json
from situ.runtime.sites.deployment import Deployment
from situ.runtime.sites.messages import (
    Adapt,
    ChangeDemands,
    ControlAnswer,
    ControlMessage,
    Done,
    PlanQuestion,
    Prepared,
    StatusQuestion,
    Transit,
    message_of,
    message_to_parts,
)
from situ.runtime.sites.process.site_process import MESSAGE, ROUND_TRIPS, STOP
from situ.runtime.sites.wire.identity import Identities
from situ.runtime.sites.wire.outgoing import SiteAddress, ask

#: Sites that are asked at once.
_AT_ONCE = 16


class DeployError(SituError):
    """A plan was refused as a whole; nothing has changed."""


@dataclass(frozen=True, slots=True)
class Control:
    """Whoever has a certificate for control, and knows where sites are."""

    identities: Identities
    addresses: Mapping[str, SiteAddress]

    def tell(self, site: str, message: ControlMessage) -> ControlAnswer:
        """What a site answers."""
        header = self._ask(site, MESSAGE, message_to_parts(message)[0])
        answer = message_of({name: value for name, value in header.items() if name != "process"})
        if not isinstance(answer, Prepared | Done):
            raise SituError(f"site {site} answers {header.get('kind')!r}")
        return answer

    def tell_coordinator(self, message: Transit | ChangeDemands | Adapt) -> str:
        """Has the site that coordinates do something, and says which one it is; SituError if it will not."""
        site = self.coordinator()
        answer = self.tell(site, message)
        assert isinstance(answer, Done)
        if not answer.done:
            cause, _, remedy = answer.reason.partition("\n")
            raise InputError(cause, remedy=remedy.strip())
        return site

    def coordinator(self) -> str:
        """The site that coordinates the plan that runs; InputError if none does."""
        reports = self.of_all(self.status, list(self.addresses))
        running = {site: r for site, r in reports.items() if not isinstance(r, SituError) and r["versions"]}
        for site, report in running.items():
            if report["coordinator"] is not None:
                return site
        if not running:
            raise InputError("no site runs a plan", remedy="Give them one with `situ deploy`.")
        raise InputError(
            "no site that answers coordinates the plan that runs",
            remedy='It is the one that `"coordinator"` in the network file names, or the first to which results go.',
        )

    def status(self, site: str) -> dict[str, Any]:
        """How a site is: what its core reports, and under `process` what its process counts."""
        header = self._ask(site, MESSAGE, message_to_parts(StatusQuestion())[0])
        return {**json.loads(header["report"]), "process": header["process"]}

    def running_plan(self, site: str) -> DeployedPlan | None:
        """The newest plan in which a site has a part."""
        header = self._ask(site, MESSAGE, message_to_parts(PlanQuestion())[0])
        return plan_of_json(header["plan"], f"the plan of {site}") if header["plan"] else None

    def round_trips_s(self, site: str) -> dict[str, float]:
        """How long a word from a site to each that it is joined to, and back, takes now."""
        return {to: float(seconds) for to, seconds in self._ask(site, ROUND_TRIPS, {})["seconds"].items()}

    def stop(self, site: str) -> None:
        self._ask(site, STOP, {})

    def of_all(self, work: Callable[[str], Any], sites: list[str]) -> dict[str, Any]:
        """What becomes of something at each site, at the same time: a result, or the SituError."""

        def result(site: str) -> Any:
            try:
                return work(site)
            except SituError as error:
                return error

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return dict(zip(sites, pool.map(result, sites), strict=True))

    def deploy(self, plan: DeployedPlan, sites: tuple[str, ...]) -> Deployment:
        """Gives a plan to sites, in two phases; DeployError if one of them refuses."""
        deployment = Deployment(plan, sites)
        while outbox := deployment.outbox():
            answers = self.of_all(lambda site: self.tell(site, outbox[site]), list(outbox))
            for site, answer in answers.items():
                if isinstance(answer, SituError):
                    deployment.unreachable(site, str(answer))
                else:
                    deployment.hear(site, answer)
        if deployment.phase != "running":
            raise DeployError(deployment.words())
        return deployment

    def _ask(self, site: str, name: str, request: dict[str, Any]) -> dict[str, Any]:
        if site not in self.addresses:
            raise InputError(
                f"nobody said where site {site!r} is", remedy="Give it an `address`, HOST:PORT, in the network file."
            )
        return ask(self.identities, site, self.addresses[site], name, request)
