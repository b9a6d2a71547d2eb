"""A plan: for every operator its site and the steps in which it takes its inputs; its cost and its latency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from situ.graph.html import table_to_html
from situ.placement.problem import PlannedOperator, Problem

#: Ordered steps of one operator: numbers of its inputs.
Steps = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """An operator's part of a plan, in numbers of sites and inputs."""

    site: int
    steps: Steps


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """What a mechanism answers. `placed` follows the order of the problem's operators, which has their names.

    `pareto`: plans that the mechanism knows of which none is both cheaper and faster, as (cost, latency in ms), by
    cost. `lower_bound`: no plan within the limits costs less (None where the mechanism does not know). `packets`: what
    brokers sent one another until all operators were at their sites; None for a mechanism that one site runs, to which
    all others report (overhead.py).
    """

    mechanism: str
    placed: tuple[Placed, ...]
    cost: float
    latency_ms: float
    pareto: tuple[tuple[float, float], ...] = ()
    lower_bound: float | None = None
    problem: Problem | None = field(default=None, compare=False)
    packets: int | None = None

    def __repr__(self) -> str:
        return f"Plan({self.mechanism}: {len(self.placed)} operators, cost {self.cost:,.4g}, {self.latency_ms:,.4g} ms)"

    def _repr_html_(self) -> str:
        """A row for each operator, as far as names are known."""
        if self.problem is None:
            return table_to_html(repr(self), ("site", "steps"), ((p.site, p.steps) for p in self.placed))
        rows = []
        for operator, placed in zip(self.problem.operators, self.placed, strict=True):
            first, *later = steps_as_text(operator, placed)
            rows.append((operator.name, self.problem.network.names[placed.site], first, ", then ".join(later)))
        return table_to_html(repr(self), ("operator", "site", "pushed to it", "then pulled by it"), rows)


def pushed(operator: PlannedOperator) -> Steps:
    """One step: all inputs are pushed."""
    return (tuple(range(len(operator.inputs))),)


def steps_as_text(operator: PlannedOperator, placed: Placed) -> list[str]:
    """The events of each step.

    >>> from situ.placement.problem import Input, Kind
    >>> steps_as_text(PlannedOperator("C", Kind.AND, (Input("A"), Input("B"), Input("D"))), Placed(0, ((1,), (0, 2))))
    ['B', 'A and D']
    """
    steps = [dict.fromkeys(operator.inputs[number].event for number in step) for step in placed.steps]
    return [" and ".join(step) for step in steps]


def plan_to_json(problem: Problem, plan: Plan) -> dict[str, Any]:
    """What programs read of a plan."""
    operators = [
        {
            "name": operator.name,
            "site": problem.network.names[placed.site],
            "steps": [[operator.inputs[number].event for number in step] for step in placed.steps],
        }
        for operator, placed in zip(problem.operators, plan.placed, strict=True)
    ]
    return {
        "mechanism": plan.mechanism,
        "cost": plan.cost,
        "latency_ms": plan.latency_ms,
        "operators": operators,
        "pareto": [list(point) for point in plan.pareto],
        "lower_bound": plan.lower_bound,
    }


def pareto_front(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """The points that no other is better than in both, by the first.

    >>> pareto_front([(3.0, 1.0), (1.0, 5.0), (2.0, 6.0), (3.0, 1.0)])
    ((1.0, 5.0), (3.0, 1.0))
    """
    front: list[tuple[float, float]] = []
    for point in sorted(points):
        if not front or point[1] < front[-1][1]:
            front.append(point)
    return tuple(front)
