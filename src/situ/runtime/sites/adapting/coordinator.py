"""The coordinator of transitions (TCEP, section 5): the role of one site, which looks at all others, holds the demands
of subscriptions against what it sees, and moves operators: because somebody says so, or, if it may, by itself.

Part of the pure core of a site. Every site of a network has this object: those that do not have the role answer the
one that has. What the coordinator has decided is in its journal before anybody hears of it; a version is deployed as
brokers do it (peer_deployments.py). So when it is killed it goes on where it was, and there is never half a plan.
"""

from __future__ import annotations

import json
import math
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from situ.core.errors import SituError
from situ.core.time import BEGINNING, END
from situ.graph.cuts import cut_in
from situ.graph.query import Demand
from situ.network.network import SPARK, Coordination, Network
from situ.runtime.sites.actions import Send, SiteAction
from situ.runtime.sites.adapting.fitness import Fitness, order_of_trial
from situ.runtime.sites.adapting.looks import MOST_TIMES, KnownSite, Look, latencies_us, look_at
from situ.runtime.sites.adapting.tasks import TransitionTask, task_of
from situ.runtime.sites.carrying import done_us, graph_of
from situ.runtime.sites.deployed_plan import DeployedPlan
from situ.runtime.sites.deployment import Deployment, concerned_sites
from situ.runtime.sites.messages import (
    Adapt,
    BrokerAnswer,
    BrokerRequest,
    ChangeDemands,
    Done,
    Echo,
    MessageError,
    MonitorAnswer,
    MonitorQuestion,
    PeerMessage,
    Transit,
)
from situ.runtime.sites.peer_deployments import PeerDeployments, came_too_late
from situ.runtime.sites.transition import moves_between, placed_at
from situ.runtime.sites.ways import with_ways

if TYPE_CHECKING:
    from situ.lang.demands import JudgedDemand
    from situ.runtime.sites.adapting.analysis import BrokenDemands
    from situ.runtime.sites.adapting.measuring import Situation
    from situ.runtime.sites.site import SiteCore

#: A site that has not answered for so many periods is away.
_PERIODS = 3.5
#: A version that came too late, or in the way of another one, is tried again so many times.
_ATTEMPTS = 6
#: The last decisions, which `situ status` shows, and the last round trips to a neighbour, of which the shortest counts.
_DECISIONS, _ROUND_TRIPS = 10, 2
#: While operators move, sites are looked at so often, in seconds.
_LOOK_S = 0.5
#: What a plan is called that no mechanism of the loop has made.
AS_DEPLOYED = "as deployed"


@dataclass(frozen=True, slots=True)
class EndedTransition:
    """The last transition that is over: how many were done and given up by then; why it was given up, if it was; what
    it was for, the versions that did it, and how long it took, as far as this life of the site knows."""

    done: int = 0
    reason: str = ""
    why: str = ""
    versions: tuple[int, ...] = ()
    seconds: float = 0.0
    given_up: int = 0


@dataclass(frozen=True, slots=True)
class CoordinatorState:
    """What is in the journal: whether the coordinator may move operators by itself; demands that were changed, as
    texts; what is known of mechanisms; the one in charge; how often was decided; the transition under way."""

    on: bool = False
    query: str = ""
    demands: Mapping[str, str] = field(default_factory=dict)
    fitness: Fitness = field(default_factory=Fitness)
    mechanism: str = AS_DEPLOYED
    turn: int = 0
    task: TransitionTask | None = None
    last: EndedTransition = field(default_factory=EndedTransition)

    def to_json(self) -> str:
        task = None if self.task is None else self.task.to_json()
        said = [self.on, self.query, dict(self.demands), self.fitness.to_json(), self.mechanism, self.turn, task]
        last = self.last
        return json.dumps([*said, [last.done, last.reason, last.why, list(last.versions), last.seconds, last.given_up]])

    @classmethod
    def of_json(cls, text: str) -> CoordinatorState:
        """
        >>> CoordinatorState.of_json(CoordinatorState(True, "q", {"S": "hops < 2"}, turn=3).to_json()).demands
        {'S': 'hops < 2'}
        """
        on, query, demands, fitness, mechanism, turn, task, (done, reason, why, versions, *took) = json.loads(text)
        of_task = None if task is None else TransitionTask.of_json(task)
        last = EndedTransition(done, reason, why, tuple(versions), *took)
        return cls(on, query, demands, Fitness.of_json(fitness), mechanism, turn, of_task, last)


class TransitionCoordinator:
    """One site's part: it answers, and if it has the role, it looks, decides and deploys. `news` are words for the log,
    for whoever takes them out."""

    def __init__(self, site: SiteCore, network: Network, journalled: str | None) -> None:
        self._site, self.network = site, network
        self.settings = network.coordinator or Coordination("")
        self.decided = CoordinatorState() if journalled is None else CoordinatorState.of_json(journalled)
        self.deployments = PeerDeployments(site, self._ended)
        self.news: list[str] = []
        self.decisions: deque[dict[str, Any]] = deque(maxlen=_DECISIONS)
        self.measured: tuple[JudgedDemand, ...] = ()
        self._measured_of, self._was_changed = 0, False
        #: What is demanded, of a plan and with what was changed.
        self._demands: tuple[DeployedPlan, Mapping[str, str], dict[str, tuple[Demand, ...]]] | None = None
        self._known: dict[str, KnownSite] = {}
        self._broken: BrokenDemands | None = None
        self._questions: dict[int, tuple[str, float]] = {}
        self._number = 0
        self._times: frozenset[int] = frozenset()
        self._round_trips: dict[str, deque[int]] = {}
        self._ticks_at: float | None = None
        self._now, self._settles_at, self._judges_at = -math.inf, -math.inf, -math.inf
        self._began_at, self._looked_at = -math.inf, math.inf
        # Before a version is proposed, sites have been looked at.
        self._proposes_at = math.inf
        self._attempts, self._latest_us = 0, BEGINNING
        self.deployments.take_up(after_start=True)

    # ---- who it is

    @property
    def role(self) -> str:
        """The site that coordinates the plan that runs here; nothing, if nobody knows."""
        if self.network.coordinator is not None:
            return self.network.coordinator.site
        return "" if self._plan is None else self._plan.results[0]

    @property
    def _plan(self) -> DeployedPlan | None:
        return None if self._site.newest is None else self._site.newest.plan

    @property
    def _has_role(self) -> bool:
        return self.role == self._site.name and self._plan is not None

    def _may_be_asked(self) -> set[str]:
        """The sites that take plans of this one: all that know its role."""
        if self.network.coordinator is not None:
            return {*self.network.names}
        return set() if self._plan is None else {*self._plan.sites}

    def demands(self) -> dict[str, tuple[Demand, ...]]:
        """What subscriptions of the plan that runs demand: as its text says, or as somebody has said since."""
        plan, decided = self._plan, self.decided
        if plan is None:
            return {}
        if self._demands is None or self._demands[0] is not plan or self._demands[1] is not decided.demands:
            self._demands = plan, decided.demands, _demands_of(plan, decided)
        return self._demands[2]

    # ---- what comes

    def hear(self, sender: str, message: PeerMessage, now: float) -> None:
        """Another site has said something; MessageError if it has no right to."""
        if sender not in self.network.names:
            raise MessageError(f"{sender} is no site of this network")
        match message:
            case MonitorQuestion(number, text):
                self._echo(now)
                look = look_at(self._site, now, self.deployments.latest_us(), _times_of(text), self._trips())
                self._site.do(Send(sender, MonitorAnswer(number, look.to_json())))
            case MonitorAnswer(number, record):
                self._heard(sender, number, Look.of_json(record), now)
            case Echo(at_us, False):
                self._site.do(Send(sender, Echo(at_us, answer=True)))
            case Echo(at_us, True):
                trip_us = round(now * 1e6) - at_us
                if 0 <= trip_us < 60_000_000:
                    self._round_trips.setdefault(sender, deque(maxlen=_ROUND_TRIPS)).append(trip_us)
            case BrokerRequest():
                if sender != self.role:
                    raise MessageError(f"{sender} does not coordinate what {self._site.name} runs")
                self.deployments.asked_by(sender, message)
            case BrokerAnswer():
                self.deployments.answered_by(sender, message)
            case _:
                raise MessageError(f"{self._site.name} is no broker")

    def intercept(self, actions: list[SiteAction]) -> list[SiteAction]:
        """Answers to the coordinator go to it, and those to this one are heard; all else stays."""
        return self.deployments.intercept(actions)

    def asked(self, message: Transit | ChangeDemands | Adapt) -> Done:
        """Control wants something of the coordinator; the answer goes out when it is durable."""
        if not self._has_role:
            whose = f"{self.role} does" if self.role not in ("", self._site.name) else "it runs no plan"
            return Done(False, f"{self._site.name} does not coordinate: {whose}")
        try:
            match message:
                case Transit(text):
                    self._begin(TransitionTask.of_text(text))
                case ChangeDemands(subscription, text):
                    self._change(subscription, text)
                case Adapt(on):
                    self._decide_that(replace(self.decided, on=on))
                    self._say(f"moves operators by itself{'' if on else ' no longer'}")
        except SituError as error:
            return Done(False, str(error))
        return Done(True)

    def _begin(self, task: TransitionTask) -> None:
        """Take a transition; SituError if it cannot be, and nothing changes."""
        plan = self._plan
        assert plan is not None
        if self.decided.task is not None:
            raise SituError(
                f"a transition is under way: {self.decided.task.why}",
                remedy="Wait until it is over; `situ status` shows how far it is.",
            )
        if self.deployments.current is not None:
            raise SituError("a plan is being deployed", remedy="Wait until it is.")
        on_spark = {site.name for site in self.network.sites if site.engine == SPARK}
        last = plan
        for step in task.steps:
            for site in step.sites.values():
                self.network.number(site)
                if site not in self._may_be_asked():
                    raise SituError(
                        f"{site} has no part in the plan that runs, and knows nobody who may move operators to it",
                        remedy=f'Write "coordinator": {{"site": "{self._site.name}"}} into the network file.',
                    )
            moves_between(placed_at(last, step.sites), last, "auto", on_spark=on_spark)
            for name in (name for name in step.sites if step.strategies.get(name) == "sms"):
                if isinstance(reason := cut_in(graph_of(last), name), str):
                    raise SituError(f"{name} cannot be moved by sms: {reason}", remedy="Say --strategy auto, or mfgs.")
            last = step.version_after(last)
        self._attempts, self._latest_us, self._began_at = 0, BEGINNING, self._now
        self._ticks_at = None  # sites are looked at now
        self._decide_that(replace(self.decided, task=task))
        self._say(f"begins a transition: {task.why}")

    def _change(self, subscription: str, text: str) -> None:
        from situ.core.errors import did_you_mean
        from situ.lang.demands import parse_demands

        plan, known = self._plan, self.demands()
        assert plan is not None
        if subscription not in known:
            raise SituError(f"no subscription {subscription!r} runs", remedy=did_you_mean(subscription, known))
        demands = parse_demands(text, subscription)
        before = self.decided.demands if self.decided.query == plan.query else {}
        self._decide_that(replace(self.decided, query=plan.query, demands={**before, subscription: text.strip()}))
        # Nobody need have patience with what somebody has just asked for.
        self._broken, self._was_changed, self._settles_at = None, True, -math.inf
        self.measured = tuple(each for each in self.measured if each.subscription != subscription)
        self._say(
            f"{subscription} demands {text.strip() or 'nothing'}" if demands else f"{subscription} demands nothing"
        )

    def _decide_that(self, decided: CoordinatorState) -> None:
        self.decided = decided
        self._site.open.values["adapting"] = decided.to_json()

    def _say(self, words: str) -> None:
        self.news.append(words)

    # ---- what it does by itself

    def work(self, now: float) -> None:
        """Look at sites and decide once in a period; go on with what is under way."""
        self._now = now
        if self._has_role:
            if self._ticks_at is None and self._wants_looks():
                self._ticks_at = now
            if self._ticks_at is not None and now >= self._ticks_at:
                self._tick(now)
        else:
            self._ticks_at = None
        deployment = self.deployments.current
        if deployment is not None and deployment.phase == "prepare" and now >= self._gives_up_at():
            self.deployments.give_up("it did not answer in time")
        self.deployments.work(now)
        if self._has_role:
            self._go_on(now)
        if self.deployments.current is not None and self.deployments.began_at == 0.0:
            self.deployments.began_at = now

    def wakes(self) -> list[float]:
        """When there is something to do, if nothing else happens."""
        wakes = [*self.deployments.wakes(), *([] if self._ticks_at is None else [self._ticks_at])]
        if self.deployments.current is not None and self.deployments.current.phase == "prepare":
            wakes.append(self._gives_up_at())
        if self._ticks_at is not None and self._now < self._proposes_at:
            wakes.append(self._proposes_at)
        return [moment for moment in wakes if moment < math.inf]

    def _gives_up_at(self) -> float:
        began_at = self.deployments.began_at
        return math.inf if began_at == 0.0 else began_at + self.settings.timeout_s

    def _wants_looks(self) -> bool:
        return self.decided.on or self.decided.task is not None or any(self.demands().values())

    def _tick(self, now: float) -> None:
        if self.deployments.current is None:
            self.deployments.take_up()
        if now >= self._judges_at:
            self._judges_at = now + self.settings.period_s
            self._judge(now)
        if not self._wants_looks():
            self._ticks_at = None
            return
        self._look(now)
        self._ticks_at = self._judges_at
        if self.decided.task is not None:
            self._ticks_at = min(now + _LOOK_S, self._judges_at)
            self._proposes_at = min(self._proposes_at, now + _LOOK_S)

    def _look(self, now: float) -> None:
        """Look at this site, and ask all others how they are."""
        self._echo(now)
        own = look_at(self._site, now, self.deployments.latest_us(), (), self._trips())
        looks = [own, *(known.look for name, known in self._known.items() if name != self._site.name)]
        since_us = round((min(now, self._looked_at + self.settings.period_s) - 2 * self.settings.period_s) * 1e6)
        self._looked_at = now
        times = [r.time_us for look in looks for of in look.results.values() for r in of if r.at_us >= since_us]
        self._times = frozenset(sorted(times)[-MOST_TIMES:])
        own = replace(own, reached={t: tuple(at) for t, at in self._site.monitor.reached.at(self._times).items() if at})
        self._known[self._site.name] = KnownSite.of(own, now, now, self._known.get(self._site.name))
        self._questions = {n: asked for n, asked in self._questions.items() if now < asked[1] + self._patience}
        for name in self.network.names:
            if name != self._site.name:
                self._number += 1
                self._questions[self._number] = name, now
                self._site.do(Send(name, MonitorQuestion(self._number, json.dumps(sorted(self._times)))))

    def _heard(self, sender: str, number: int, look: Look, now: float) -> None:
        name, asked_at = self._questions.pop(number, ("", 0.0))
        if name != sender or look.site != sender:
            return  # it comes too late, or twice
        self._known[sender] = KnownSite.of(look, asked_at, now, self._known.get(sender))

    @property
    def _patience(self) -> float:
        return _PERIODS * self.settings.period_s

    def _in_view(self, now: float) -> dict[str, KnownSite]:
        return {name: known for name, known in self._known.items() if now < known.heard_at + self._patience}

    def _echo(self, now: float) -> None:
        """Have the ways to neighbours timed."""
        for number in self.network.neighbours(self.network.number(self._site.name)).tolist():
            self._site.do(Send(self.network.names[number], Echo(round(now * 1e6), answer=False)))

    def _trips(self) -> dict[str, int]:
        return {site: min(trips) for site, trips in self._round_trips.items()}

    # ---- the loop: analysis, selection, planning

    def _judge(self, now: float) -> None:
        """Hold demands against the last looks; if some have been broken for long, look for something better."""
        from situ.runtime.sites.adapting.analysis import BrokenDemands
        from situ.runtime.sites.adapting.measuring import judged_demands

        demands, plan = self.demands(), self._plan
        if plan is None or not any(demands.values()) or not self._known:
            return
        situation = self._situation(plan, now)
        if self._measured_of != plan.version:
            self.measured, self._measured_of = (), plan.version
        before = {(each.subscription, each.demand): each for each in self.measured}
        fresh = judged_demands(situation, demands)
        self._broken = (self._broken or BrokenDemands({})).looked(fresh, now)
        fitness = self.decided.fitness
        for each in fresh:
            known = before.get((each.subscription, each.demand))
            if each.kept is not None:
                fitness = fitness.looked(self.decided.mechanism, each.demand.metric, each.kept)
                if known is None or known.kept is not each.kept:
                    self._say(str(each))
        # Where there was nothing to measure it by, what was measured last is shown.
        self.measured = tuple(
            before.get((each.subscription, each.demand), each) if each.measured is None else each for each in fresh
        )
        self.decided = replace(self.decided, fitness=fitness)  # journalled with the next decision
        if self.decided.on and situation is not None and now >= self._settles_at and self._may_deploy():
            broken = self._broken.for_long(0.0 if self._was_changed else self.settings.patience_s)
            if broken:
                self._decide(plan, situation, sorted({metric for _, metric in broken}), now)
        self._was_changed = self._was_changed and any(each.measured is None for each in self.measured)

    def _situation(self, plan: DeployedPlan, now: float) -> Situation | None:
        from situ.runtime.sites.adapting.measuring import situation_of

        known = self._in_view(now)
        if not any(site.volumes is not None for site in known.values()):
            return None
        try:
            return situation_of(graph_of(plan), self.network, plan, known, latencies_us(known, self._times))
        except SituError as error:
            self._say(f"cannot say what the plan means for demands: {error.cause}")
            return None

    def _decide(self, plan: DeployedPlan, situation: Situation, metrics: Sequence[str], now: float) -> None:
        from situ.runtime.sites.adapting.planning import LIBRARY, Candidate, candidate, suited_to

        settings, turn = self.settings, self.decided.turn
        fitness = self.decided.fitness.updated(settings.decay)
        others = [name for name in LIBRARY if name != self.decided.mechanism]
        rng = random.Random(f"{self._site.name}/{turn}")
        suited = [name for name in suited_to(metrics) if name in others]
        order = order_of_trial(others, suited, fitness, metrics, turn, settings.worst, rng)
        view = self._in_view(now)
        states = {name: size for known in view.values() for name, size in known.look.state_bytes.items()}
        reachable = frozenset({*view} & self._may_be_asked())
        looked_at: list[Candidate] = []
        for name in order:
            looked_at.append(candidate(name, graph_of(plan), plan, situation, self.measured, settings, states,
                                       reachable))  # fmt: skip
            if looked_at[-1].pays:
                break
        chosen = looked_at[-1] if looked_at and looked_at[-1].pays else None
        since = "since it was asked for" if self._was_changed else f"for {settings.patience_s:g} s"
        why = f"{', '.join(metrics)} broken {since}"
        decision = {"at_us": round(now * 1e6), "why": why, "chosen": None if chosen is None else chosen.mechanism}
        self.decisions.append({**decision, "candidates": [each.to_json() for each in looked_at]})
        self._settles_at = now + settings.settle_s
        decided = replace(self.decided, fitness=fitness, turn=turn + 1)
        if chosen is None:
            self._decide_that(decided)
            reasons = "; ".join(f"{each.mechanism}: {each.reason}" for each in looked_at)
            self._say(f"{why}, and no transition pays: {reasons}")
            return
        words = f"{why}: {chosen.mechanism}, {chosen.reason}"
        task = task_of(chosen.moves, "concurrent", words, round(settings.lead_s * 1e6), chosen.mechanism)
        self._attempts, self._latest_us, self._began_at = 0, BEGINNING, now
        self._decide_that(replace(decided, task=task))
        self._say(f"begins a transition: {words}")

    # ---- execution

    def _may_deploy(self) -> bool:
        """Whether a version could be deployed now."""
        newest, controls = self._site.newest, self._site.controls
        return (
            newest is not None
            and self.deployments.current is None
            and self.decided.task is None
            and newest.number == controls.known.version == self._site.durable_known.version
            and controls.prepared is None
            and newest.ends_us == END
        )

    def _go_on(self, now: float) -> None:
        """The next thing that the transition under way needs."""
        task, newest, controls = self.decided.task, self._site.newest, self._site.controls
        if task is None or newest is None or self.deployments.current is not None or controls.prepared is not None:
            return
        if newest.number != controls.known.version:
            return
        if not task.steps:
            self._end("")
        elif not task.steps[0].is_done(newest.plan):
            if now >= self._proposes_at:
                self._propose(task, newest.plan)
        elif newest.number == self._site.durable_known.version and self._is_finished(newest.plan):
            self._attempts, self._latest_us, self._proposes_at = 0, BEGINNING, math.inf
            self._decide_that(replace(self.decided, task=task.after_step()))
        elif newest.number not in task.versions:
            self._decide_that(replace(self.decided, task=task.begun(newest.number)))

    def _is_finished(self, plan: DeployedPlan) -> bool:
        """Whether all sites have begun a version, and nothing of it is on its way any more."""
        looks = [self._known[site].look if site in self._known else None for site in plan.sites]
        return all(look is not None and look.version == plan.version and not look.unfinished for look in looks)

    def _propose(self, task: TransitionTask, plan: DeployedPlan) -> None:
        latest_us = max(
            [self.deployments.latest_us(), self._latest_us, *(k.look.latest_us for k in self._known.values())]
        )
        if latest_us == BEGINNING:
            self._end("no source has read anything, so there is no telling when operators should move")
            return
        lead_us = max(task.lead_us, 1) << self._attempts
        try:
            moved = task.steps[0].version_after(plan)
            starts_us = max(latest_us + lead_us, done_us(plan), plan.starts_us + 1)
            moved = moved.starting_at(starts_us)
            moved = with_ways(moved, self.network) if plan.ways else moved
        except SituError as error:
            self._end(str(error))
            return
        running = {name for name, known in self._known.items() if known.look.counted is not None}
        sites = tuple(sorted({*concerned_sites(moved, [plan]), *running}))
        self.deployments.begin(Deployment(moved, sites, self.deployments.word(moved.version)))

    def _ended(self, deployment: Deployment) -> None:
        """A version runs, or was refused: then it is tried again, later, if events were faster."""
        task = self.decided.task
        if task is None or deployment.phase == "running":
            return
        self._latest_us = max(self._latest_us, deployment.latest_us, deployment.plan.starts_us)
        may_try = not deployment.reasons or came_too_late(deployment) or _is_in_the_way(deployment)
        self._proposes_at = math.inf  # until sites have been looked at again
        if may_try and self._attempts < _ATTEMPTS:
            self._attempts += 1
            return
        self._end("; ".join(f"{site}: {reason}" for site, reason in sorted(deployment.reasons.items())))

    def _end(self, reason: str) -> None:
        """The transition is over: all of it is done, or the rest of it is given up, for a reason."""
        task = self.decided.task
        assert task is not None
        mechanism = task.mechanism or AS_DEPLOYED if not reason else self.decided.mechanism
        took = round(self._now - self._began_at, 3) if self._began_at > -math.inf else 0.0
        before, is_done = self.decided.last, not reason
        done, given_up = before.done + is_done, before.given_up + (not is_done)
        last = EndedTransition(done, reason, task.why, task.versions, took, given_up)
        self._began_at = -math.inf
        self._decide_that(replace(self.decided, task=None, mechanism=mechanism, last=last))
        self._settles_at, self._proposes_at = self._now + self.settings.settle_s, math.inf
        self._broken = None
        ended = f"has moved all operators in {took:.1f} s"
        self._say(f"gives a transition up, and nothing more has changed: {reason}" if reason else ended)

    # ---- how it is

    def status(self) -> dict[str, Any] | None:
        """What `situ status` shows of the role; None where another site has it."""
        if not self._has_role:
            return None
        task, last, known = self.decided.task, self.decided.last, self._known
        origins = {site for sites in self._plan.sources.values() for site in sites} if self._plan is not None else ()
        unfinished = sorted({name for known in self._known.values() for name in known.look.unfinished})
        return {
            "adapts": self.decided.on,
            "mechanism": self.decided.mechanism,
            "demands": [{**each.to_json(), "words": str(each)} for each in self._shown()],
            "transition": None if task is None else {**task.to_json(), "unfinished": unfinished},
            "deployment": None if self.deployments.current is None else self.deployments.current.words(),
            "transitions": last.done,
            "given_up": last.given_up,
            "last": {
                "why": last.why,
                "given_up": last.reason or None,
                "versions": list(last.versions),
                "seconds": last.seconds,
            },
            "decisions": list(self.decisions),
            "monitored": {
                "rates_per_s": {name: dict(k.volumes.made) for name, k in known.items() if k.volumes is not None},
                "round_trips_us": {name: dict(k.look.round_trips_us) for name, k in known.items()},
                "state_bytes": {name: dict(k.look.state_bytes) for name, k in known.items()},
                "latencies_us": {
                    site: {name: round(fmean(of)) for name, of in latencies_us(known, self._times, {site}).items()}
                    for site in sorted(origins)
                },
            },
            "fitness": self.decided.fitness.to_json(),
        }

    def _shown(self) -> list[JudgedDemand]:
        from situ.lang.demands import JudgedDemand

        measured = {(each.subscription, each.demand): each for each in self.measured}
        return [
            measured.get((name, demand), JudgedDemand(name, demand, None))
            for name, of in self.demands().items()
            for demand in of
        ]


def _demands_of(plan: DeployedPlan, decided: CoordinatorState) -> dict[str, tuple[Demand, ...]]:
    """What subscriptions demand: as somebody has said since the query was deployed, or as its text says."""
    from situ.lang.demands import parse_demands

    of_text = {o.name: o.subscription.demands for o in graph_of(plan).subscriptions if o.subscription is not None}
    changed = decided.demands if decided.query == plan.query else {}
    return {name: parse_demands(changed[name], name) if name in changed else of for name, of in of_text.items()}


def _is_in_the_way(deployment: Deployment) -> bool:
    """Whether a plan was refused only because sites deal with another one."""
    words = ("waits for the decision", "deploys a plan itself", "still finishes what began", "handed on")
    return all(any(word in reason for word in words) for reason in deployment.reasons.values())


def _times_of(text: str) -> tuple[int, ...]:
    try:
        times = json.loads(text)
    except (ValueError, RecursionError):
        times = None
    if not isinstance(times, list) or len(times) > MOST_TIMES or not all(type(time_us) is int for time_us in times):
        raise MessageError("a question about event times has none")
    return tuple(times)
