"""The coordinator of a broker (EdgeCEP, section III-C.3): it measures, floods, decides, and has its decisions deployed.

Part of the pure core of a site: it is told messages and times, and says what is to be sent. A decision is the next
version of the plan, given to all brokers in two phases by the one that decided (peer_deployments.py).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from situ.core.time import END
from situ.network.network import SPARK, Network
from situ.placement.edgecep import Sites
from situ.runtime.sites.actions import Send, SiteAction
from situ.runtime.sites.brokers.deciding import Damping, decision, local_problem
from situ.runtime.sites.brokers.flooding import Flooding
from situ.runtime.sites.brokers.records import BrokerRecord, Meter, sample_of
from situ.runtime.sites.carrying import carried_on, pulls
from situ.runtime.sites.compiled_plan import compiled_plan
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace, plan_to_json
from situ.runtime.sites.deployment import Deployment, concerned_sites
from situ.runtime.sites.messages import (
    Adapt,
    BrokerAnswer,
    BrokerRequest,
    ChangeDemands,
    Done,
    Flood,
    MessageError,
    PeerMessage,
    Transit,
)
from situ.runtime.sites.peer_deployments import PeerDeployments, came_too_late
from situ.runtime.sites.ways import with_ways

if TYPE_CHECKING:
    from situ.runtime.sites.running_version import RunningVersion
    from situ.runtime.sites.site import SiteCore

#: A broker whose record was not renewed for so many periods is away.
_PERIODS = 3.5
#: A plan that began too late is proposed again, later, so many times.
_ATTEMPTS = 6


class Coordinator:
    """One broker's part in the decisions of all."""

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
        self.deployments = PeerDeployments(site, self._ended)
        self._attempts = 0
        self._last: tuple[int, Sites] | None = None
        self.decisions = 0
        self.news: list[str] = []
        self.deployments.take_up(after_start=True)

    # ---- what comes

    def hear(self, sender: str, message: PeerMessage, now: float) -> None:
        """Another broker has said something; MessageError if it has no right to."""
        if sender not in self.network.names:
            raise MessageError(f"{sender} is no broker of this network")
        match message:
            case Flood():
                for to, flood in self.flooding.hear(sender, message, now):
                    self._site.do(Send(to, flood))
            case BrokerRequest():
                self.deployments.asked_by(sender, message)
            case BrokerAnswer():
                self.deployments.answered_by(sender, message)
            case _:
                raise MessageError(f"brokers do not say {type(message).__name__}")

    def intercept(self, actions: list[SiteAction]) -> list[SiteAction]:
        """Answers to brokers go to these, and those to this one are heard; all else stays."""
        return self.deployments.intercept(actions)

    def asked(self, message: Transit | ChangeDemands | Adapt) -> Done:
        """Control wants operators to move as one site decides."""
        return Done(False, f"the brokers of this network decide among themselves, and {self._site.name} is one of them")

    def status(self) -> dict[str, Any] | None:
        """What `situ status` shows of one site that coordinates: there is none."""
        return None

    # ---- what it does by itself

    def work(self, now: float) -> None:
        """Measure, flood and decide once in a period; go on with what is being deployed."""
        if self._ticks_at is None:
            self._ticks_at = now + self._offset
        if now >= self._ticks_at:
            period = self.settings.period_s
            self._ticks_at += period * max(1, -(-(now - self._ticks_at) // period))
            self._tick(now)
        self.deployments.work(now)

    def wakes(self) -> list[float]:
        """When there is something to do, if nothing else happens."""
        return [*self.deployments.wakes(), *([] if self._ticks_at is None else [self._ticks_at])]

    def _tick(self, now: float) -> None:
        newest = self._site.newest
        if self.deployments.current is None:
            self.deployments.take_up()
        has_new = newest is not None and self._meter.add(sample_of(newest))
        record = BrokerRecord(
            self._site.name,
            self._epoch,
            next(self._numbers),
            self._site.durable_known.version,
            self.deployments.latest_us(),
            self._meter.volumes,
        )
        for to, flood in self.flooding.tell(record):
            self._site.do(Send(to, flood))
        if has_new and newest is not None and self.deployments.current is None and self._may_decide(newest):
            self._decide(newest, record, now)

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
        word = self.deployments.word(moved.version)
        self.deployments.begin(Deployment(moved, concerned_sites(moved, [plan]), word))

    def _ended(self, deployment: Deployment) -> None:
        """A plan that came too late for a source is proposed once more, to begin later."""
        newest = self._site.newest
        is_refused = deployment.phase != "running" and came_too_late(deployment)
        if (
            not is_refused
            or newest is None
            or newest.number + 1 != deployment.plan.version
            or self._attempts >= _ATTEMPTS
        ):
            return
        self._attempts += 1
        sites = {name: place.site for name, place in deployment.plan.operators.items()}
        self._propose(newest.plan, sites, max(deployment.latest_us, newest.plan.starts_us))
