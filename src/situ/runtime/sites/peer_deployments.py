"""Deployments that a site carries out itself, by messages to other sites: those of brokers, and of a coordinator.

The site that deploys prepares and begins before all others, and aborts after them, so its journal knows of whatever
others wait for: killed before its own `go`, it aborts when it is back; killed after it, it tells the others again
(decision 0038).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from situ.core.errors import SituError
from situ.core.time import BEGINNING
from situ.runtime.sites.actions import Answer, Send, SiteAction
from situ.runtime.sites.deployed_plan import DeployedPlan, plan_of_json
from situ.runtime.sites.deployment import Deployment, concerned_sites
from situ.runtime.sites.messages import (
    Abort,
    BrokerAnswer,
    BrokerRequest,
    ControlAnswer,
    ControlMessage,
    Done,
    Go,
    MessageError,
    Prepare,
    Prepared,
    message_of,
    message_to_parts,
)

if TYPE_CHECKING:
    from situ.runtime.sites.site import SiteCore


class PeerDeployments:
    """The deployments of one site, one at a time, and its answers to those of others. Requests of other sites have
    numbers below 0, those of control above. `ended` is told of each deployment that is over."""

    def __init__(self, site: SiteCore, ended: Callable[[Deployment], None]) -> None:
        self._site, self._ended = site, ended
        self.current: Deployment | None = None
        self.began_at = 0.0
        self._epoch, self._words = site.commits, count(1)
        self._sent_at: dict[str, float] = {}
        self._asked: dict[int, tuple[str, int]] = {}
        self._requests = count(1)
        self._own: dict[int, str] = {}

    def word(self, version: int) -> str:
        """A word that no other deployment has."""
        return f"{self._site.name}/{version}/{self._epoch}/{next(self._words)}"

    def latest_us(self) -> int:
        """The largest event time that sources here have handed on."""
        times = self._site.admission.times.values()
        return max((source.latest_us for time in times for source in time.sources.values()), default=BEGINNING)

    # ---- what comes

    def asked_by(self, sender: str, request: BrokerRequest) -> None:
        """Another site, which has a right to, asks to prepare, begin or abort a plan that moves operators of the one
        that runs, and changes nothing else; MessageError if it asks for more."""
        control, by = _control_message(request.text), f"{sender}/"
        match control:
            case Prepare(plan, deployment):
                if not deployment.startswith(by) or not only_moves(_plan(plan), self._running()):
                    raise MessageError(f"{sender} wants another plan, and may only move operators")
            case Abort(deployment=deployment):
                if not deployment.startswith(by):
                    raise MessageError(f"{sender} aborts what others deploy")
            case Go(version=version):
                # What has begun already can be begun by anybody: a site that was killed tells it again.
                if version > self._site.controls.known.version and not self._site.controls.by.startswith(by):
                    raise MessageError(f"{sender} begins what others deploy")
        if isinstance(control, Prepare) and self.current is not None:
            busy = Prepared(0, False, f"{self._site.name} deploys a plan itself", self.latest_us())
            self._site.do(Send(sender, BrokerAnswer(request.number, _text(busy))))
            return
        own = -next(self._requests)
        self._asked[own] = sender, request.number
        self._site.controls.asked(own, control)

    def answered_by(self, sender: str, answer: BrokerAnswer) -> None:
        """Another site answers."""
        self._hear_answer(sender, answer.number, _control_answer(answer.text))

    def intercept(self, actions: list[SiteAction]) -> list[SiteAction]:
        """Answers to other sites go to these, and those to this one are heard; all else stays."""
        left: list[SiteAction] = []
        for action in actions:
            if not isinstance(action, Answer) or action.number >= 0:
                left.append(action)
                continue
            asker, number = self._asked.pop(action.number)
            if asker == self._site.name:
                self._hear_answer(asker, number, action.message)
            else:
                left.append(Send(asker, BrokerAnswer(number, _text(action.message))))
        return left

    def _running(self) -> DeployedPlan | None:
        return None if self._site.newest is None else self._site.newest.plan

    # ---- deployments of this site

    def begin(self, deployment: Deployment) -> None:
        self.current, self.began_at = deployment, 0.0
        self._sent_at.clear()
        self._own.clear()

    def give_up(self, reason: str) -> None:
        """Abort what is being prepared, because sites do not answer."""
        assert self.current is not None
        self.current.reasons |= dict.fromkeys(self.current.outbox(), reason)
        self.current.give_up()
        self._sent_at.clear()
        self._own.clear()

    def take_up(self, after_start: bool = False) -> None:
        """Abort what this site has prepared and does not deploy any more; after a start, tell again what began."""
        controls, newest, own = self._site.controls, self._site.newest, f"{self._site.name}/"
        if not controls.by.startswith(own):
            return
        if controls.prepared is not None:
            before = [] if newest is None else [newest.plan]
            plan, sites = controls.prepared, concerned_sites(controls.prepared, before)
            self.begin(Deployment(plan, sites, controls.by, "abort"))
        elif after_start and newest is not None and newest.number == controls.known.version > 1:
            before_plans = [version.plan for version in self._site.versions.values()]
            self.begin(Deployment(newest.plan, concerned_sites(newest.plan, before_plans), controls.by, "go"))

    def wakes(self) -> list[float]:
        """When there is something to say again, if nothing else happens."""
        repeat = self._site.settings.repeat
        return [self._sent_at.get(site, 0.0) + repeat for site in self._to_tell()]

    def work(self, now: float) -> None:
        """Say what is to be said, again where no answer has come."""
        deployment, own = self.current, self._site.name
        if deployment is None:
            return
        for site in self._to_tell():
            if now < self._sent_at.get(site, 0.0) + self._site.settings.repeat:
                continue
            self._sent_at[site] = now
            message = deployment.outbox()[site]
            number = next(self._requests)
            self._own[number] = site
            if site == own:
                self._asked[-number] = own, number
                self._site.controls.asked(-number, message)
            else:
                self._site.do(Send(site, BrokerRequest(number, _text(message))))

    def _to_tell(self) -> list[str]:
        """The sites that are to be told something now: this one before all others, but that a plan is aborted, after
        them."""
        if self.current is None:
            return []
        sites, own = list(self.current.outbox()), self._site.name
        if self.current.phase == "abort":
            return [site for site in sites if site != own] or sites
        return [own] if own in sites else sites

    def _hear_answer(self, site: str, number: int, answer: ControlAnswer) -> None:
        """An answer has come. Those to what was asked in another phase, or for another deployment, are not waited for
        any more."""
        if self._own.pop(number, None) == site and self.current is not None:
            self._answered(self.current, site, answer)

    def _answered(self, deployment: Deployment, site: str, answer: ControlAnswer) -> None:
        phase = deployment.phase
        deployment.hear(site, answer)
        if phase == "prepare" and site == self._site.name and deployment.reasons:
            self.current = None  # nobody else has heard of it
            self._ended(deployment)
            return
        if phase == "go" and site == self._site.name and isinstance(answer, Done) and not answer.done:
            deployment.give_up()  # control has aborted it; nobody else was told to begin
        if deployment.phase != phase:
            self._sent_at.clear()
            self._own.clear()
        if deployment.is_over:
            self.current = None
            self._ended(deployment)


def only_moves(plan: DeployedPlan, running: DeployedPlan | None) -> bool:
    """Whether a plan is the one that runs, but for where operators run and how they are reached."""
    if running is None:
        return True
    now = running
    same = replace(plan, version=now.version, operators=now.operators, ways=now.ways, starts_us=now.starts_us)
    return same == now


def _plan(text: str) -> DeployedPlan:
    try:
        return plan_of_json(text)
    except SituError as error:
        raise MessageError(error.cause) from None


def came_too_late(deployment: Deployment) -> bool:
    """Whether a plan was refused only because events were faster."""
    return bool(deployment.reasons) and all("handed on" in reason for reason in deployment.reasons.values())


def _text(message: ControlMessage | ControlAnswer) -> str:
    return json.dumps(message_to_parts(message)[0])


def _control_message(text: str) -> Prepare | Go | Abort:
    message = _message(text)
    if not isinstance(message, Prepare | Go | Abort):
        raise MessageError("sites ask each other to prepare, begin and abort plans, and for nothing else")
    return message


def _control_answer(text: str) -> ControlAnswer:
    message = _message(text)
    if not isinstance(message, Prepared | Done):
        raise MessageError("this is no answer about a plan")
    return message


def _message(text: str) -> object:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise MessageError("what a site says is no JSON") from None
    if not isinstance(header, dict):
        raise MessageError("what a site says is no message")
    try:
        return message_of(header)
    except SituError as error:
        raise MessageError(error.cause) from None
