"""Solutions -> the plan that a mechanism answers with, within all limits; else the naive one, else an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from situ.placement.evaluate import Evaluation, evaluate, overloaded_sites, within_limits
from situ.placement.plan import Placed, Plan, pareto_front, pushed
from situ.placement.problem import PlacementError, Problem
from situ.placement.search import Solutions, placed_by, whole_plans

#: Points of plans are kept until they are so many, and then only their front.
MOST_POINTS = 10_000


def naive_placement(problem: Problem) -> tuple[Placed, ...]:
    """Everything is pushed to the root. No plan is faster: a way by another site is never shorter."""
    return tuple(Placed(problem.root, pushed(operator)) for operator in problem.operators)


def best_of(
    mechanism: str,
    problem: Problem,
    placements: Iterable[Sequence[Placed]],
    *,
    front: Iterable[tuple[float, float]] = (),
    lower_bound: float | None = None,
) -> Plan:
    """The cheapest placement within the limits; the naive one where none is better. `front`: further points known."""
    best: tuple[float, int, tuple[Placed, ...]] | None = None
    points = list(front)
    for placed in chain(placements, [naive_placement(problem)]):
        evaluation = evaluate(problem, placed)
        if not within_limits(problem, placed, evaluation):
            continue
        points.append((evaluation.cost, evaluation.latency_ns / 1e6))
        if best is None or (evaluation.cost, evaluation.latency_ns) < best[:2]:
            best = evaluation.cost, evaluation.latency_ns, tuple(placed)
        if len(points) > MOST_POINTS:
            points = [*pareto_front(points)]
    if best is None:
        raise no_plan(problem)
    cost, latency_ns, placed = best
    return Plan(mechanism, placed, cost, latency_ns / 1e6, pareto_front(points), lower_bound, problem)


def best_solution(
    mechanism: str,
    problem: Problem,
    searches: Sequence[Mapping[int, Solutions]],
    lower_bound: float | None = None,
) -> Plan:
    """The best plan of some searches. Where the costs of operators just add up, they know them already."""
    if problem.shares_events or problem.limits_sites:
        placements = [placed for solutions_of in searches for placed in placements_of(problem, solutions_of)]
        return best_of(mechanism, problem, placements, lower_bound=lower_bound)
    front: list[tuple[float, float]] = []
    cheapest: list[tuple[Placed, ...]] = []
    for solutions_of in searches:
        whole = whole_plans(problem, solutions_of)
        front += [(float(cost), int(latency) / 1e6) for cost, latency in zip(whole.cost, whole.latency_ns, strict=True)]
        cheapest += [placed_by(problem, solutions_of, row) for row in whole.solution[-1:]]
    return best_of(mechanism, problem, cheapest, front=front, lower_bound=lower_bound)


def placements_of(problem: Problem, solutions_of: Mapping[int, Solutions]) -> list[tuple[Placed, ...]]:
    """All plans on the front of a search."""
    return [placed_by(problem, solutions_of, row) for row in whole_plans(problem, solutions_of).solution]


def no_plan(problem: Problem) -> PlacementError:
    """Why there is none. The naive plan is the fastest, so what it takes is the best that is possible."""
    naive = naive_placement(problem)
    fastest = evaluate(problem, naive)
    for number in problem.outputs:
        limit_ns, best_ns = problem.latency_limit_ns(number), fastest.output_ns[number]
        if best_ns > limit_ns:
            return PlacementError(
                f"no plan gives {problem.operators[number].name} to {problem.network.names[problem.root]} "
                f"within {limit_ns / 1e6:g} ms: its events alone take {best_ns / 1e6:g} ms",
                remedy=f"Allow a latency of at least {best_ns / 1e6:g} ms, or choose a root nearer to the sources.",
            )
    return _crowded(problem, naive, fastest)


def _crowded(problem: Problem, naive: Sequence[Placed], fastest: Evaluation) -> PlacementError:
    sites = ", ".join(problem.network.names[site] for site in overloaded_sites(problem, naive))
    return PlacementError(
        f"no plan was found within the capacities of sites; the fastest one, of {fastest.latency_ns / 1e6:g} ms, "
        f"is too much for {sites}",
        remedy="Allow more operators or load there, a larger latency, or try --mechanism optimal.",
    )
