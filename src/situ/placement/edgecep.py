"""`edgecep`: brokers decide among themselves, from what they know of others within some hops (EdgeCEP, section IV).

A broker that runs tasks decides for all that run within its view, the brokers at most `radius` links away: Problem
Definition 2, by tabu search with greedy moves (Algorithms 1 to 3 of the appendix). Of brokers in view it knows what
they flood: their neighbours, hops to where events come from and go to, free capacities, and their last plans; beyond,
neither free capacities nor tasks. A decision that exceeds no limit in view beats all that do; of those that do, the
least violation wins; of the others, the least flow volume.

In situ a task has one executor, and decisions are versions of the plan, one after another (decision 0031). So the
paper's rule against loops, not to forward a task to a broker that has just forwarded it here, is this: a plan that was
left is not taken again. Brokers decide in turns until a whole round of them changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np

from situ.placement.plan import Plan
from situ.placement.problem import Problem
from situ.placement.pushed_plan import pushed_plan
from situ.placement.task_flows import TaskFlows

#: A site for each task.
Sites: TypeAlias = tuple[int, ...]

#: Violation within the view, then flow volume: smaller is better.
Worth: TypeAlias = tuple[float, float]

#: A search ends after so many moves for each task that have not found a better plan.
PATIENCE = 12

#: Candidates of each task that a move looks at: the first of the sorted list that are not tabu. The paper looks at one.
LOOKED_AT = 8

#: Of the plans with all tasks at one member, so many are starts of a search: tasks that exchange much have to move
#: together, which single moves do not find.
TOGETHER = 3

#: Rounds of decisions; on networks with hundreds of brokers, ten have been enough.
MOST_ROUNDS = 50


def edgecep(problem: Problem) -> Plan:
    sites, packets = decided(TaskFlows.of(problem), problem.radius)
    return pushed_plan("edgecep", problem, sites, packets, crowded=True)


def decided(tasks: TaskFlows, radius: int | None) -> tuple[Sites, int]:
    """Where tasks run when no broker changes its mind any more, and the packets that it took: floods, one in every
    round, and tasks that were handed over."""
    *_, (sites, packets) = rounds(tasks, radius)
    return sites, packets


def rounds(tasks: TaskFlows, radius: int | None) -> Iterator[tuple[Sites, int]]:
    """Where tasks run at first, and after each round of decisions, and the packets until then; the last one changes
    nothing."""
    members = views_within(tasks.problem, radius)
    views = {each: View(tasks, each) for each in set(members)}
    flooded = flooding_packets(tasks.problem, radius)
    sites, packets = first_sites(tasks), 0
    yield sites, packets
    versions = {sites}
    for _ in range(MOST_ROUNDS):
        before, packets = sites, packets + flooded
        for broker in sorted(set(sites)):
            if broker not in sites:
                continue  # another one has taken over what it had
            decision = decide(views[members[broker]], sites, broker)
            if decision not in versions:
                packets += sum(a != b for a, b in zip(sites, decision, strict=True))
                sites = decision
                versions.add(sites)
        yield sites, packets
        if sites == before:
            return


def first_sites(tasks: TaskFlows) -> Sites:
    """At first a task runs where most of its input is, as pseudo-source of its contents."""
    problem, sites = tasks.problem, list[int]()
    for reads in tasks.reads:
        volumes = np.zeros(len(problem.network.sites))
        for read in reads:
            if read.event in problem.number:
                volumes[sites[problem.number[read.event]]] += read.share * problem.rates[read.event]
            else:
                sources = problem.sources[read.event]
                volumes[sources.sites] += read.share * sources.rates_per_s
        sites.append(int(np.argmax(volumes)))
    return tuple(sites)


# ---- knowledge


def views_within(problem: Problem, radius: int | None) -> list[frozenset[int]]:
    """The brokers that each one knows: those that are at most so many links away, and itself."""
    sites = range(len(problem.network.sites))
    if radius is None:
        return [frozenset(sites)] * len(sites)
    return [_within(problem, site, radius) for site in sites]


def flooding_packets(problem: Problem, radius: int | None) -> int:
    """What one flood takes: each broker's record is sent by itself, and by all that are less than the radius away."""
    sites = len(problem.network.sites)
    if radius is None:
        return sites * sites
    return sum(len(_within(problem, site, radius - 1)) for site in range(sites)) if radius > 0 else 0


def _within(problem: Problem, site: int, radius: int) -> frozenset[int]:
    reached = last = {site}
    for _ in range(radius):
        last = {int(other) for each in last for other in problem.network.neighbours(each)} - reached
        if not last:
            break
        reached = reached | last
    return frozenset(reached)


# ---- Problem Definition 2


class View:
    """What a broker knows, and what it thinks of plans; each plan is looked at once."""

    def __init__(self, tasks: TaskFlows, members: frozenset[int]) -> None:
        self.tasks, self.members = tasks, members
        self.candidates = np.array(sorted(members))
        self._worths: dict[Sites, Worth] = {}

    def worth(self, sites: Sites) -> Worth:
        value = self._worths.get(sites)
        if value is None:
            value = self._worths[sites] = self.tasks.violation(sites, self.members), self.tasks.volume(sites)
        return value

    def sorted_candidates(self, task: int, sites: Sequence[int]) -> list[int]:
        """Algorithm 1: the members by what would flow if a task were there."""
        order: list[int] = self.candidates[
            np.argsort(self.tasks.volumes_at(task, sites)[self.candidates], kind="stable")
        ].tolist()
        return order


def decide(view: View, sites: Sites, broker: int) -> Sites:
    """The best plan that a broker finds for all tasks in its view; `sites` itself where it finds none that is better.

    The search begins with the last plan, with the first candidate of every task, with all tasks here, and with all
    tasks at each of the members where that is best.
    """
    own = [task for task, site in enumerate(sites) if site in view.members]
    together = [tuple(m if site in view.members else site for site in sites) for m in (broker, *sorted(view.members))]
    best = sites
    starts = sorted(together[1:], key=view.worth)[:TOGETHER]
    for start in dict.fromkeys((sites, _first_candidates(view, sites, own), together[0], *starts)):
        ending = minimized(view, start, own)
        if is_better(view.worth(ending), view.worth(best)):
            best = ending
    return best


def _first_candidates(view: View, sites: Sites, own: Sequence[int]) -> Sites:
    """`sortedT.get(0)` of Algorithm 2: each task, one after another, where the estimate is the least."""
    chosen = list(sites)
    for task in own:
        chosen[task] = view.sorted_candidates(task, chosen)[0]
    return tuple(chosen)


def is_better(one: Worth, other: Worth) -> bool:
    """Whether a plan is better than another, and not by rounding only."""
    if abs(one[0] - other[0]) > 1e-9 * max(one[0], other[0]):
        return one[0] < other[0]
    return one[1] < other[1] * (1 - 1e-12)


def minimized(view: View, start: Sites, own: Sequence[int]) -> Sites:
    """Algorithm 2: the best plan on a walk that never comes back to one that it has left."""
    current = best = start
    tabu = {start}
    waited = 0
    while waited < PATIENCE * len(own):
        moved = _greedy_move(view, current, own, tabu)
        if moved is None:
            break
        current = moved
        tabu.add(current)
        waited += 1
        if is_better(view.worth(current), view.worth(best)):
            best, waited = current, 0
    return best


def _moved(sites: Sites, tasks: Sequence[int], to: int) -> Sites:
    return tuple(to if task in tasks else site for task, site in enumerate(sites))


def _greedy_move(view: View, sites: Sites, own: Sequence[int], tabu: Collection[Sites]) -> Sites | None:
    """Algorithm 3: of each task the first candidates that are not tabu, by the sorted estimates of Algorithm 1; of all
    these plans the best. Beyond the paper, a task may take along one that it exchanges events with."""
    best: Sites | None = None
    for task in own:
        joined = [other for other in own if other in view.tasks.joined[task]]
        for others in ((), *((other,) for other in joined)):
            plans = (_moved(sites, (task, *others), site) for site in view.sorted_candidates(task, sites))
            for moved in islice((plan for plan in plans if plan not in tabu), LOOKED_AT):
                if best is None or is_better(view.worth(moved), view.worth(best)):
                    best = moved
    return best
