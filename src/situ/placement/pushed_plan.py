"""Sites of operators -> the plan in which everything is pushed to them, for mechanisms that choose sites alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from situ.placement.evaluate import evaluate, within_limits
from situ.placement.naive import naive
from situ.placement.plan import Placed, Plan, pushed
from situ.placement.problem import PlacementError, Problem


def pushed_plan(
    mechanism: str, problem: Problem, sites: Sequence[int], packets: int | None = None, *, crowded: bool = False
) -> Plan:
    """The plan with operators at these sites. Where it is not within the limits, the naive one takes its place.

    `packets`: what was sent until all operators were there (see `Plan`). `crowded`: where the naive plan is not within
    the limits either, a plan that is too much for some sites is better than none, if it is fast enough.
    """
    placed = tuple(Placed(int(site), pushed(o)) for site, o in zip(sites, problem.operators, strict=True))
    evaluation = evaluate(problem, placed)
    if not within_limits(problem, placed, evaluation):
        try:
            return replace(naive(problem), mechanism=mechanism, packets=packets)
        except PlacementError:
            fast = all(evaluation.output_ns[n] <= problem.latency_limit_ns(n) for n in problem.outputs)
            if not (crowded and fast):
                raise
    latency_ms = evaluation.latency_ns / 1e6
    point = evaluation.cost, latency_ms
    return Plan(mechanism, placed, *point, (point,), None, problem, packets)


class Room:
    """How much room sites have left, while operators find their places one after another."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._operators: defaultdict[int, int] = defaultdict(int)
        self._load_per_s: defaultdict[int, float] = defaultdict(float)

    def take(self, operator: int, preferred: Iterable[int]) -> int:
        """The first of these sites that has room for an operator, which then takes it; without any, the first."""
        load_per_s = float(self._problem.input_rates(self._problem.operators[operator]).sum())
        sites = [int(site) for site in preferred]
        chosen = next((site for site in sites if self._has_room(site, load_per_s)), sites[0])
        self._operators[chosen] += 1
        self._load_per_s[chosen] += load_per_s
        return chosen

    def _has_room(self, site: int, load_per_s: float) -> bool:
        limits = self._problem.network.sites[site]
        few = limits.operators is None or self._operators[site] < limits.operators
        return few and (limits.load_per_s is None or self._load_per_s[site] + load_per_s <= limits.load_per_s)
