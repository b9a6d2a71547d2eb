"""A transition at simulated sites: when each operator has moved, what that sent, and when results came."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
import pyarrow as pa

from situ.graph.operators import OperatorGraph
from situ.io.rows.conform import Conformed, conform
from situ.kernel.arrays import F64
from situ.lab.tcep.scenario import CONSUMER, HIGHWAYS, PRODUCERS, Moving, TransitionSetting, moving_of, network
from situ.runtime.sites.carrying import done_us, graph_of
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace
from situ.runtime.sites.deployment import Deployment, concerned_sites
from situ.runtime.sites.finishing import cut_times
from situ.runtime.sites.messages import LogBatch, LogName, PeerMessage
from situ.runtime.sites.moved_bytes import bytes_to_move
from situ.runtime.sites.rows import read_rows
from situ.runtime.sites.settings import Settings
from situ.runtime.sites.simulation.world import Faults, SimulatedSite, SimulationError, World
from situ.runtime.sites.status import status_of
from situ.runtime.sites.transition import Order, StrategyWish, moves_between, placed_at, versions_of

#: Seconds of events before a transition, beyond a window, and after it.
BEFORE_S, AFTER_S = 3.0, 5.0
#: Between two looks at how far a transition is, and how long one may take.
_LOOK_S, _LONGEST_S = 0.02, 3_600.0
#: The simulated clock when a world begins.
_BEGIN_S = 1_000.0


@dataclass(frozen=True, slots=True)
class OperatorMove:
    """How long one operator took from the decision to move it: `wait_s` until its turn has come and what it must have
    read before has come, `move_s` from then on until it is where it should be, and what it left behind is finished.
    `moved_bytes`: of its state, and of inputs that both instances read."""

    operator: str
    wait_s: float
    move_s: float
    moved_bytes: int


@dataclass(frozen=True)
class TransitionRun:
    """A transition that began and ended at some times (seconds), the moves of its operators, and when each result was
    written."""

    began_s: float
    ended_s: float
    moves: tuple[OperatorMove, ...]
    result_times_s: F64

    @property
    def seconds(self) -> float:
        return self.ended_s - self.began_s

    @property
    def moved_bytes(self) -> int:
        return sum(move.moved_bytes for move in self.moves)

    def longest_pause_s(self) -> float:
        """The longest time without a result, from the beginning of the transition to some seconds after its end."""
        times = self.result_times_s
        during = times[(times >= self.began_s - 1.0) & (times <= self.ended_s + AFTER_S)]
        return float(np.diff(during).max(initial=0.0))

    def results_per_s(self, bin_s: float = 0.2) -> F64:
        """Results in each part of a second, from the beginning of the transition on until it has ended."""
        edges = np.arange(self.began_s, self.ended_s + bin_s, bin_s)
        return np.histogram(self.result_times_s, edges)[0] / bin_s


@dataclass
class LinkTraffic:
    """Bytes of logs that were sent, by version, kind, type and the site that gets them."""

    counted: dict[tuple[int, str, str, str], int] = field(default_factory=lambda: defaultdict(int))

    def hear(self, sender: str, to: str, message: PeerMessage) -> None:
        if isinstance(message, LogBatch):
            self.counted[message.log.version, message.log.kind, message.log.type, to] += len(message.rows)

    def moved(self, version: DeployedPlan, graph: OperatorGraph, operator: str) -> int:
        """Bytes that an operator's move took: its state, or the inputs that its old instance read beside the new."""
        place, number = version.operators[operator], version.version
        if place.finished_at is None:
            return sum(
                n for (v, kind, of, _), n in self.counted.items() if (v, kind, of) == (number, "state", operator)
            )
        inputs = next(o.inputs for o in graph.operators if o.name == operator)
        return sum(self.counted.get((number, "events", each, place.finished_at), 0) for each in inputs)


class TransitionWorld:
    """Sites in which a query runs for some seconds; `move` moves its operators meanwhile."""

    def __init__(self, setting: TransitionSetting, moving: Moving, seed: int, seconds: float) -> None:
        self.setting, self.moving, self.traffic, self.result_times = setting, moving, LinkTraffic(), list[float]()
        plan = DeployedPlan(
            1,
            moving.text,
            {stream: (site,) for stream, site in PRODUCERS.items()},
            {name: OperatorPlace(site) for name, site in moving.before.items()},
            (CONSUMER,),
        )
        self.graph, self.running, self._seen = graph_of(plan), plan, Counter[LogName]()
        pieces = dict(_pieces(setting, self.graph, seed, seconds))
        step_s = 1 / setting.pieces_per_s
        due = {key: [_BEGIN_S + 1.0 + n * step_s for n in range(len(of))] for key, of in pieces.items()}
        low, high = ((setting.latency_ms + sign * setting.jitter_ms) / 1000 for sign in (-1, 1))
        self.world = World(
            network(setting).names,
            pieces,
            seed,
            Faults(delay_s=(low, high)),
            Settings(snapshot=1 << 16),
            bounded=False,
            due=due,
            check=self._look_at_results,
            bytes_per_s=setting.bytes_per_s,
            on_link=self.traffic.hear,
        )
        self._deploy(plan, plan.sites)

    def _look_at_results(self, machine: SimulatedSite) -> None:
        if machine.name != CONSUMER:
            return
        for log, entries in machine.written.items():
            for rows in islice(entries.values(), self._seen[log], None):
                self.result_times += [self.world.now] * read_rows(rows).num_rows
            self._seen[log] = len(entries)

    def _deploy(self, plan: DeployedPlan, sites: tuple[str, ...]) -> Deployment:
        deployment = Deployment(plan, sites, f"version {plan.version}")
        self.world.deploy(deployment)
        while not deployment.is_over:
            self.world.run_for(_LOOK_S)
        return deployment

    def move(self, strategy: StrategyWish, order: Order) -> TransitionRun:
        """Moves all operators, and lets events flow for a while after."""
        setting, world = self.setting, self.world
        world.run_for(_BEGIN_S + 1.0 + setting.window_s + BEFORE_S - world.now)
        target, before = placed_at(self.running, self.moving.after), self.running
        reports = {name: status_of(machine.site) for name, machine in world.sites.items() if machine.site is not None}
        traffic = bytes_to_move(self.graph, before, reports)
        moves = moves_between(target, before, strategy, traffic, setting.lead_s)
        began_s, done = world.now, list[OperatorMove]()
        for version in versions_of(target, before, moves, order):
            done += self._carry_out(version, began_s)
        ended_s = world.now
        world.run_for(AFTER_S)
        return TransitionRun(began_s, ended_s, tuple(done), np.array(self.result_times))

    def _carry_out(self, version: DeployedPlan, began_s: float) -> list[OperatorMove]:
        """Deploys a version and waits until its operators have moved."""
        last, moving = self.running, [n for n, p in version.operators.items() if p.carried_from not in (None, p.site)]
        for attempt in range(1, 6):
            latest_us = round(self.world.now * 1e6)
            starts_us = max(latest_us + round(attempt * self.setting.lead_s * 1e6), done_us(last), last.starts_us + 1)
            now = replace(version, starts_us=starts_us)
            if self._deploy(now, concerned_sites(now, [last])).phase == "running":
                break
        else:
            raise SimulationError("a version always came too late")
        self.running, open_, done = now, {*moving}, list[OperatorMove]()
        until = self.world.now + _LONGEST_S
        while open_ and self.world.now < until:
            self.world.run_for(_LOOK_S)
            for name in sorted(open_ - self._unfinished(now)):
                open_.discard(name)
                ready_s = max(now.starts_us / 1e6 + self._reads_on_s(now, name), began_s)
                done.append(OperatorMove(name, ready_s - began_s, max(self.world.now - ready_s, 0.0), 0))
        return [replace(move, moved_bytes=self.traffic.moved(now, self.graph, move.operator)) for move in done]

    def _reads_on_s(self, plan: DeployedPlan, name: str) -> float:
        """How long after a version begins the old instance of an operator goes on, as its rule says."""
        if plan.operators[name].finished_at is None:
            return 0.0
        return (cut_times(plan, self.graph)[name].decided_us - plan.starts_us) / 1e6

    def _unfinished(self, plan: DeployedPlan) -> set[str]:
        """The operators of a version that are on their way, or finish what began before; all, until all have begun."""
        reports = {
            name: status_of(machine.site) for name, machine in self.world.sites.items() if machine.site is not None
        }
        unfinished: set[str] = set()
        for site in plan.sites:
            version = reports[site]["versions"].get(str(plan.version))
            if version is None:
                return {*plan.operators}
            unfinished |= {*version["finishing"], *version["states_missing"]}
        return unfinished


def run_transition(
    setting: TransitionSetting, strategy: StrategyWish, order: Order, seed: int, moving: Moving | None = None
) -> TransitionRun:
    """One transition, in a world of its own: of the query of Figure 8, or another."""
    moving = moving or moving_of(setting)
    each_s = 2.0 + (setting.window_s if strategy in ("sms", "auto") else 0.0)
    seconds = 10.0 + 3 * setting.window_s + (each_s * len(moving.before) if order == "sequential" else 0.0)
    return TransitionWorld(setting, moving, seed, seconds).move(strategy, order)


def _pieces(
    setting: TransitionSetting, graph: OperatorGraph, seed: int, seconds: float
) -> Iterator[tuple[tuple[str, str, str], list[Conformed]]]:
    """What each producer sends: rows of all highways and sections, at their times."""
    streams, rng = {stream.name: stream for stream in graph.streams}, np.random.default_rng(seed)
    per_piece = round(setting.rows_per_s / setting.pieces_per_s)
    for name, site in PRODUCERS.items():
        of_stream = []
        for n in range(round(seconds * setting.pieces_per_s)):
            times_s = _BEGIN_S + 1.0 + (n - np.arange(per_piece)[::-1] / per_piece) / setting.pieces_per_s
            rows = {
                "highway": rng.integers(0, HIGHWAYS, per_piece),
                "section": rng.integers(0, setting.queries, per_piece),
                "count": rng.integers(1, 20, per_piece),
                "ts": np.round(times_s * 1e6).astype(np.int64),
            }
            of_stream.append(conform(pa.table(rows), streams[name]))
        yield (site, name, "sensor"), of_stream
