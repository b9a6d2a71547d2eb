"""Plans and versions at one site: prepare, go, abort.

`prepare`: the site parses, checks and compiles the plan, and its sources promise to hand on no event from `starts_us`
on before it is decided. `go` comes when all sites are ready. A site that missed it hears of it in another site's hello.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from situ.core.errors import SituError
from situ.core.time import BEGINNING, END, format_time
from situ.runtime.sites.actions import Answer
from situ.runtime.sites.carrying import done_us, require_carried
from situ.runtime.sites.deployed_plan import DeployedPlan, PlanError, plan_of_json, plan_to_json
from situ.runtime.sites.messages import (
    Abort,
    Adapt,
    ChangeDemands,
    ControlAnswer,
    ControlMessage,
    Done,
    Go,
    PlanQuestion,
    Prepare,
    Prepared,
    RunningPlan,
    StatusQuestion,
    StatusReport,
    Transit,
)
from situ.runtime.sites.running_version import RunningVersion

if TYPE_CHECKING:
    from situ.runtime.sites.site import SiteCore


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """The newest version that a site has heard has begun, whether it has a part in it or not."""

    version: int = 0
    digest: str = ""
    starts_us: int = BEGINNING

    def to_json(self) -> str:
        return json.dumps([self.version, self.digest, self.starts_us])

    @classmethod
    def of_json(cls, text: str) -> KnownVersion:
        return cls(*json.loads(text))


#: Words of deployments that were aborted; older ones are on their way no more.
_REMEMBERED = 100


class Controls:
    """What a site does when it is told of plans. `prepared` is the plan that it waits for a decision about, `by` the
    word of its deployment; `aborted` are those of deployments that have ended."""

    def __init__(self, site: SiteCore, known: KnownVersion, prepared: DeployedPlan | None, words: list[str]) -> None:
        self._site, self.known, self.prepared = site, known, prepared
        self.by, self.aborted = (words[0], words[1:]) if words else ("", [])
        self._limit()

    def asked(self, number: int, message: ControlMessage) -> None:
        """Do what is asked; the answer follows when it is durable."""
        answer: ControlAnswer
        match message:
            case Prepare(text, deployment):
                answer = self._prepare(text, deployment)
            case Go(version, digest):
                answer = self._go(version, digest)
            case Abort(version, digest, deployment):
                answer = self._abort(version, digest, deployment)
            case Transit() | ChangeDemands() | Adapt():
                coordinator = self._site.coordinator
                reason = f"{self._site.name} knows no network, and coordinates nothing"
                answer = Done(False, reason) if coordinator is None else coordinator.asked(message)
            case StatusQuestion():
                answer = StatusReport(json.dumps(self._site.status()))
            case PlanQuestion():
                newest = self._site.newest
                answer = RunningPlan("" if newest is None else plan_to_json(newest.plan))
            case _:
                assert_never(message)
        if isinstance(answer, StatusReport | RunningPlan):
            self._site.do(Answer(number, answer))
        else:
            self._site.open.after.append(Answer(number, answer))

    def _latest_us(self) -> int:
        times = self._site.admission.times.values()
        return max((source.latest_us for time in times for source in time.sources.values()), default=BEGINNING)

    def _prepare(self, text: str, deployment: str) -> Prepared:
        version = 0
        try:
            if deployment in self.aborted:
                raise PlanError("this deployment was aborted", remedy="Deploy the plan again.")
            plan = plan_of_json(text)
            version = plan.version
            self._require_fit(plan)
        except SituError as error:
            return Prepared(version, False, str(error), self._latest_us())
        if plan.digest not in (self.known.digest, self.prepared.digest if self.prepared else ""):
            self.prepared = plan
            self._site.open.values["prepared"] = plan_to_json(plan)
            self._limit()
        if self.prepared is not None:
            self._remember(deployment, self.aborted)
        return Prepared(version, True, "", self._latest_us())

    def _require_fit(self, plan: DeployedPlan) -> None:
        """PlanError, or whatever the host says, if the plan cannot run here."""
        name, known, prepared = self._site.name, self.known, self.prepared
        if plan.digest in (known.digest, prepared.digest if prepared else None):
            return
        if prepared is not None:
            raise PlanError(
                f"{name} waits for the decision about another plan, version {prepared.version}",
                remedy="Deploy that one, or abort it.",
            )
        if plan.version <= known.version:
            raise PlanError(f"{name} runs version {known.version} already", remedy=f"Deploy it as {known.version + 1}.")
        if known.version and plan.starts_us <= max(known.starts_us, self._latest_us()):
            raise PlanError(
                f"{name} has handed on events up to {format_time(self._latest_us())}"
                if self._latest_us() > known.starts_us
                else f"{name} runs a version that begins at {_begin_in_words(known.starts_us)}",
                remedy="Let the plan begin later.",
            )
        if (newest := self._site.newest) is not None and plan.starts_us < (finished_us := done_us(newest.plan)):
            raise PlanError(
                f"{name} runs version {newest.number}, which still finishes what began before it: it ends no earlier "
                f"than {format_time(finished_us)}",
                remedy="Let the plan begin later.",
            )
        if name not in plan.sites:
            return
        host = self._site.make_host(plan_to_json(plan), name)
        is_running = newest is not None and newest.number == known.version
        carried = {operator: p for operator, p in plan.operators.items() if p.carried_from is not None}
        states = [operator for operator, p in carried.items() if name in (p.carried_from, p.site)]
        if host.driven and states:
            raise PlanError(
                f"{name} runs operators on Spark, which neither gives nor takes the state of {states[0]}",
                remedy="Deploy with --anew: operators then begin without state.",
            )
        require_carried(plan, newest.plan if newest is not None and is_running else None, name)
        for stream, sites in plan.sources.items():
            if name in sites and not (
                stream in self._site.admission.times and self._site.admission.times[stream].sources
            ):
                raise PlanError(
                    f"{name} has no source of stream {stream}",
                    remedy=f"Start it with --source {stream}=..., or leave it out of the plan's sources.",
                )
            for version in self._site.versions.values():
                if stream in version.plan.sources and version.host.stream(stream) != host.stream(stream):
                    raise PlanError(
                        f"stream {stream} is declared otherwise than in version {version.number}",
                        remedy="Declare it as it was: its sources run on.",
                    )

    def _go(self, version: int, digest: str) -> Done:
        if (version, digest) == (self.known.version, self.known.digest):
            return Done(True)
        if self.prepared is None or (version, digest) != (self.prepared.version, self.prepared.digest):
            return Done(False, f"{self._site.name} has not prepared this plan, version {version}")
        self._begin(self.prepared)
        return Done(True)

    def _remember(self, by: str, aborted: list[str]) -> None:
        self.by, self.aborted = by, aborted[-_REMEMBERED:]
        self._site.open.values["deployments"] = json.dumps([self.by, *self.aborted])

    def _abort(self, version: int, digest: str, deployment: str) -> Done:
        if (version, digest) == (self.known.version, self.known.digest):
            return Done(False, f"{self._site.name} runs version {version} already")
        if self.prepared is not None and (digest, deployment) == (self.prepared.digest, self.by):
            self.prepared = None
            self._site.open.values["prepared"] = None
            self._limit()
        if deployment and deployment not in self.aborted:
            self._remember(self.by, [*self.aborted, deployment])
        return Done(True)

    def heard_version(self, version: int, digest: str, starts_us: int) -> None:
        """Another site runs a version: if it is the prepared one, it has begun; if it is a newer one, it left this site
        out."""
        if version <= self.known.version:
            return
        prepared = self.prepared
        if prepared is not None and (version, digest) == (prepared.version, prepared.digest):
            self._begin(prepared)
        elif self.known.version:
            self._end_at(starts_us)
            self._know(KnownVersion(version, digest, starts_us))

    def _begin(self, plan: DeployedPlan) -> None:
        site = self._site
        self._end_at(plan.starts_us)
        self.prepared = None
        site.open.values["prepared"] = None
        if site.name in plan.sites:
            begun = RunningVersion(site.name, plan, site.make_host(plan_to_json(plan), site.name))
            if (before := site.newest) is not None:
                before.successor = begun
            site.versions[plan.version] = begun
            site.open.values[f"plan/{plan.version}"] = plan_to_json(plan)
            site.conversation.meet()
        self._know(KnownVersion(plan.version, plan.digest, plan.starts_us))
        self._limit()

    def _end_at(self, ends_us: int) -> None:
        if (newest := self._site.newest) is not None and newest.ends_us == END:
            newest.ends_us = ends_us
            self._site.open.values[f"ends/{newest.number}"] = str(ends_us)

    def _know(self, known: KnownVersion) -> None:
        self.known = known
        self._site.open.values["known"] = known.to_json()

    def _limit(self) -> None:
        """No source promises, or hands on, anything from the beginning of a prepared plan on."""
        limit_us = self.prepared.starts_us if self.prepared is not None and self._site.versions else END
        for time in self._site.admission.times.values():
            time.limit_us = limit_us


def _begin_in_words(starts_us: int) -> str:
    return "the beginning" if starts_us == BEGINNING else format_time(starts_us)
