"""The coordinator of a broker (EdgeCEP, section III-C.3): it measures, floods, decides, and has its decisions deployed.

Part of the pure core of a site: it is told messages and times, and says what is to be sent. A decision is the next
version of the plan, given to all brokers in two phases by the one that decided. That one prepares and begins before all
others, and aborts after them, so its journal knows of whatever others wait for: killed before its own `go`, it aborts
when it is back; killed after it, it tells the others again (decision 0038).
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from situ.core.errors import SituError
from situ.core.time import BEGINNING, END
from situ.network.network import SPARK, Network
from situ.placement.edgecep import Sites
from situ.runtime.sites.actions import Answer, Send, SiteAction
from situ.runtime.sites.brokers.deciding import Damping, decision, local_problem
from situ.runtime.sites.brokers.flooding import Flooding
from situ.runtime.sites.brokers.records import BrokerRecord, CountedEvents, Meter
from situ.runtime.sites.carrying import carried_on, pulls
from situ.runtime.sites.compiled_plan import compiled_plan
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace, plan_of_json, plan_to_json
from situ.runtime.sites.deployment import Deployment, concerned_sites
from situ.runtime.sites.messages import (
    Abort,
    BrokerAnswer,
    BrokerRequest,
    ControlAnswer,
    ControlMessage,
    Done,
    Flood,
    Go,
    MessageError,
    Prepare,
    Prepared,
    message_of,
    message_to_parts,
)
from situ.runtime.sites.ways import with_ways

if TYPE_CHECKING:
    from situ.runtime.sites.running_version import RunningVersion
    from situ.runtime.sites.site import SiteCore

#: A broker whose record was not renewed for so many periods is away.
_PERIODS = 3.5
#: A plan that began too late is proposed again, later, so many times.
_ATTEMPTS = 6


class Coordinator:
    """One broker's part in the decisions of all. Requests of brokers have numbers below 0, those of control above."""

    def __init__(self, site: SiteCore, network: Network) -> None:
        assert network.brokers is not None
        self._site, self.network, self.settings = site, network, network.brokers
        number = network.number(site.name)
        neighbours = [network.names[each] for each in network.neighbours(number).tolist()]
        period = self.settings.period_s
        self.flooding = Flooding(site.name, neighbours, self.settings.radius, _PERIODS * period)
        self.damping = Damping(self.settings.margin)
        self._meter = Meter()
        self._epoch, self._numbers = site.commits, count(1)
        # Brokers do not all decide at the same moment: each has its own place within the period.
        self._ticks_at: float | None = None
        self._offset = period * (number + 1) / (len(network.sites) + 1)
        self._deployment: Deployment | None = None
        self._attempts = 0
        self._sent_at: dict[str, float] = {}
        self._asked: dict[int, tuple[str, int]] = {}
        self._requests = count(1)
        self._own: dict[int, str] = {}
        self._last: tuple[int, Sites] | None = None
        self.decisions = 0
        self._take_up(after_start=True)

    # ---- what comes

    def hear(self, sender: str, message: Flood | BrokerRequest | BrokerAnswer, now: float) -> None:
        """Another broker has said something; MessageError if it has no right to."""
        if sender not in self.network.names:
            raise MessageError(f"{sender} is no broker of this network")
        match message:
            case Flood():
                for to, flood in self.flooding.hear(sender, message, now):
                    self._site.do(Send(to, flood))
            case BrokerRequest(number, request):
                control = self._request(sender, request)
                if isinstance(control, Prepare) and self._deployment is not None:
                    busy = Prepared(0, False, f"{self._site.name} deploys a plan itself", self._latest_us())
                    self._site.do(Send(sender, BrokerAnswer(number, json.dumps(message_to_parts(busy)[0]))))
                    return
                own = -next(self._requests)
                self._asked[own] = sender, number
                self._site.controls.asked(own, control)
            case BrokerAnswer(number, answer):
                self._hear_answer(sender, number, _control_answer(answer))

    def _request(self, sender: str, text: str) -> ControlMessage:
        """What a broker asks for: to prepare, begin or abort a plan that moves tasks of the one that runs, and changes
        nothing else."""
        message, by, running = _control_message(text), f"{sender}/", self._site.newest
        match message:
            case Prepare(plan, deployment):
                if not deployment.startswith(by) or not _only_moves(plan_of_json(plan), running):
                    raise MessageError(f"{sender} wants another plan, and brokers only move tasks")
            case Abort(deployment=deployment):
                if not deployment.startswith(by):
                    raise MessageError(f"{sender} aborts what others deploy")
            case Go():
                if not self._site.controls.by.startswith(by):
                    raise MessageError(f"{sender} begins what others deploy")
        return message

    def intercept(self, actions: list[SiteAction]) -> list[SiteAction]:
        """Answers to brokers go to these, and those to this one are heard; all else stays."""
        left: list[SiteAction] = []
        for action in actions:
            if not isinstance(action, Answer) or action.number >= 0:
                left.append(action)
                continue
            asker, number = self._asked.pop(action.number)
            if asker == self._site.name:
                self._hear_answer(asker, number, action.message)
            else:
                left.append(Send(asker, BrokerAnswer(number, json.dumps(message_to_parts(action.message)[0]))))
        return left

    # ---- what it does by itself

    def work(self, now: float) -> None:
        """Measure, flood and decide once in a period; go on with what is being deployed."""
        if self._ticks_at is None:
            self._ticks_at = now + self._offset
        if now >= self._ticks_at:
            period = self.settings.period_s
            self._ticks_at += period * max(1, -(-(now - self._ticks_at) // period))
            self._tick(now)
        self._deploy(now)

    def wakes(self) -> list[float]:
        """When there is something to do, if nothing else happens."""
        repeat = self._site.settings.repeat
        waits = [] if self._deployment is None else [self._sent_at.get(s, 0.0) + repeat for s in self._to_tell()]
        return [*waits, *([] if self._ticks_at is None else [self._ticks_at])]

    def _tick(self, now: float) -> None:
        newest = self._site.newest
        if self._deployment is None:
            self._take_up()
        has_new = newest is not None and self._meter.add(sample_of(newest))
        record = BrokerRecord(
            self._site.name,
            self._epoch,
            next(self._numbers),
            self._site.durable_known.version,
            self._latest_us(),
            self._meter.volumes,
        )
        for to, flood in self.flooding.tell(record):
            self._site.do(Send(to, flood))
        if has_new and newest is not None and self._deployment is None and self._may_decide(newest):
            self._decide(newest, record, now)

    def _latest_us(self) -> int:
        times = self._site.admission.times.values()
        return max((source.latest_us for time in times for source in time.sources.values()), default=BEGINNING)

    def _may_decide(self, newest: RunningVersion) -> bool:
        """Whether this broker runs tasks of the newest version, and nobody deploys another one."""
        plan, controls = newest.plan, self._site.controls
        engines = {site.name: site.engine for site in self.network.sites}
        return (
            newest.number == controls.known.version == self._site.durable_known.version
            and controls.prepared is None
            and newest.ends_us == END
            and bool(newest.operators_here())
            and not any(pulls(plan, name) or engines[plan.operators[name].site] == SPARK for name in plan.operators)
        )

    def _decide(self, newest: RunningVersion, own: BrokerRecord, now: float) -> None:
        plan = newest.plan
        records = {own.broker: own} | self.flooding.records(now)
        of_version = {name: r for name, r in records.items() if r.version == plan.version}
        known = {name: record.volumes for name, record in of_version.items() if record.volumes is not None}
        graph = compiled_plan(plan_to_json(plan)).graph
        problem = local_problem(graph, self.network, plan, known)
        members = frozenset(self.network.number(name) for name in records)
        found = decision(problem, plan, members, self.network.number(own.broker))
        self.decisions += 1
        if self._last is not None and self._last[0] != plan.version:
            self.damping.leave(self._last[1], now)  # whoever has decided it
        self._last = plan.version, found.now
        if self.damping.allows(found, now):
            names = self.network.names
            sites = {o.name: names[site] for o, site in zip(problem.operators, found.then, strict=True)}
            latest_us = max(record.latest_us for record in records.values())
            self._attempts = 0
            self._propose(plan, sites, max(latest_us, plan.starts_us))

    def _propose(self, plan: DeployedPlan, sites: dict[str, str], after_us: int) -> None:
        """Begin to deploy the plan with tasks at these sites, from some time after `after_us` on."""
        operators = {name: OperatorPlace(site) for name, site in sites.items()}
        lead_us = int(self.settings.lead_s * 1e6) << self._attempts
        moved = replace(plan, version=plan.version + 1, operators=operators, starts_us=after_us + lead_us)
        moved = carried_on(moved, plan)
        if any(place.carried_from is None for place in moved.operators.values()):
            return  # what begins without state would lose matches over the change
        moved = with_ways(moved, self.network)
        word = f"{self._site.name}/{moved.version}/{self._epoch}/{next(self._numbers)}"
        self._begin(Deployment(moved, concerned_sites(moved, [plan]), word))

    # ---- deployments of this broker

    def _take_up(self, after_start: bool = False) -> None:
        """Abort what this broker has prepared and does not deploy any more; after a start, tell again what began."""
        controls, newest, own = self._site.controls, self._site.newest, f"{self._site.name}/"
        if not controls.by.startswith(own):
            return
        if controls.prepared is not None:
            before = [] if newest is None else [newest.plan]
            plan, sites = controls.prepared, concerned_sites(controls.prepared, before)
            self._begin(Deployment(plan, sites, controls.by, "abort"))
        elif after_start and newest is not None and newest.number == controls.known.version > 1:
            before_plans = [version.plan for version in self._site.versions.values()]
            self._begin(Deployment(newest.plan, concerned_sites(newest.plan, before_plans), controls.by, "go"))

    def _begin(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._sent_at.clear()
        self._own.clear()

    def _to_tell(self) -> list[str]:
        """The sites that are to be told something now: this one before all others, but that a plan is aborted, after
        them."""
        if self._deployment is None:
            return []
        sites, own = list(self._deployment.outbox()), self._site.name
        if self._deployment.phase == "abort":
            return [site for site in sites if site != own] or sites
        return [own] if own in sites else sites

    def _deploy(self, now: float) -> None:
        """Say what is to be said, again where no answer has come."""
        deployment, own = self._deployment, self._site.name
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
                self._site.do(Send(site, BrokerRequest(number, json.dumps(message_to_parts(message)[0]))))

    def _hear_answer(self, site: str, number: int, answer: ControlAnswer) -> None:
        """An answer has come. Those to what was asked in another phase, or for another deployment, are not waited for
        any more."""
        if self._own.pop(number, None) == site and self._deployment is not None:
            self._answered(self._deployment, site, answer)

    def _answered(self, deployment: Deployment, site: str, answer: ControlAnswer) -> None:
        phase = deployment.phase
        deployment.hear(site, answer)
        if phase == "prepare" and site == self._site.name and deployment.reasons:
            self._deployment = None  # nobody else has heard of it
            self._again_later(deployment)
            return
        if phase == "go" and site == self._site.name and isinstance(answer, Done) and not answer.done:
            deployment.give_up()  # control has aborted it; nobody else was told to begin
        if deployment.phase != phase:
            self._sent_at.clear()
            self._own.clear()
        if deployment.is_over:
            self._deployment = None
            if deployment.phase == "refused":
                self._again_later(deployment)

    def _again_later(self, deployment: Deployment) -> None:
        """A plan that came too late for a source is proposed once more, to begin later."""
        newest = self._site.newest
        is_late = deployment.reasons and all("handed on" in reason for reason in deployment.reasons.values())
        if not is_late or newest is None or newest.number + 1 != deployment.plan.version or self._attempts >= _ATTEMPTS:
            return
        self._attempts += 1
        sites = {name: place.site for name, place in deployment.plan.operators.items()}
        self._propose(newest.plan, sites, max(deployment.latest_us, newest.plan.starts_us))


def sample_of(version: RunningVersion) -> CountedEvents:
    """What a version has counted by now, up to the latest event time that it knows of."""
    counted = version.event_counts.to_json()
    made = {log.type: made.end for log, made in version.made.items() if log.kind == "events" and not log.selection}
    passing = {(type_, alias): n for type_, count in counted.items() for alias, n in count["passing"].items()}
    read: dict[tuple[str, str], int] = {}
    for log, of_log in version.read.items():
        if log.kind == "events":
            read[log.type, log.origin] = read.get((log.type, log.origin), 0) + of_log.taken
    times = [count["latest_us"] for count in counted.values() if count["latest_us"] is not None]
    times += [of_log.taken_us for of_log in version.read.values() if of_log.taken_us < END]
    return CountedEvents(version.number, max(times, default=BEGINNING), made, passing, read)


def _only_moves(plan: DeployedPlan, running: RunningVersion | None) -> bool:
    """Whether a plan is the one that runs, but for where operators run and how they are reached."""
    if running is None:
        return True
    now = running.plan
    same = replace(plan, version=now.version, operators=now.operators, ways=now.ways, starts_us=now.starts_us)
    return same == now


def _control_message(text: str) -> ControlMessage:
    message = _message(text)
    if not isinstance(message, Prepare | Go | Abort):
        raise MessageError("brokers ask each other to prepare, begin and abort plans, and for nothing else")
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
        raise MessageError("what a broker says is no JSON") from None
    if not isinstance(header, dict):
        raise MessageError("what a broker says is no message")
    try:
        return message_of(header)
    except SituError as error:
        raise MessageError(error.cause) from None
